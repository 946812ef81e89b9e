// Timelines as JSON text; docs/timeline-format.md describes it.
#include <fmt/ranges.h>
#include <algorithm>

#include <functional>

#include "json_fault.hpp"
#include "plan_file_json.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/timeline.hpp"

namespace ringsched {

namespace {

using namespace plan_file;

constexpr std::uint64_t kMostBytes = 0xffffffff - 64;
constexpr std::size_t kDepth = 8;
constexpr std::size_t kColumns = 9;
constexpr const char* kColumnNames[kColumns] = {
    "kind", "makes", "worker", "lane", "step", "queries", "other", "start_ps", "duration_ps"};

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

template <class Enum>
std::string names(std::uint32_t count) {
  std::string out;
  for (std::uint32_t i = 0; i < count; ++i)
    out += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", to_text(static_cast<Enum>(i)));
  return "[" + out + "]";
}

void write(const Timeline& t, std::string& text, const std::function<void(std::string&)>& flush) {
  const Problem& p = t.problem;
  text += "{\n\"format\": \"ringsched-timeline\",\n";
  text +=
      fmt::format("\"version\": {},\n\"source\": \"{}\",\n", kTimelineVersion, to_text(t.source));
  text += fmt::format("\"program\": {},\n\"machine\": {},\n\"schedule\": {},\n\"plan_hash\": {},\n",
                      json_string(t.program), json_string(t.machine), json_string(t.schedule),
                      json_string(t.plan_hash));
  text += fmt::format(
      "\"problem\": {{\"workers\": {}, \"tokens\": {}, \"heads\": {}, \"kv_heads\": {}, "
      "\"head_dim\": {}, \"dtype\": \"{}\", \"mask\": \"{}\", \"pass\": \"{}\"}},\n",
      p.workers, p.tokens.value, p.heads, p.kv_heads, p.head_dim, to_text(p.dtype), to_text(p.mask),
      to_text(p.pass));
  text +=
      fmt::format("\"kinds\": {},\n\"tensors\": {},\n\"lanes\": {},\n", names<TaskKind>(kTaskKinds),
                  names<TensorKind>(kTensorKinds), names<Lane>(kLanes));
  text += "\"columns\": [";
  for (std::size_t c = 0; c < kColumns; ++c)
    text += fmt::format("{}\"{}\"", c == 0 ? "" : ", ", kColumnNames[c]);
  text += "],\n\"tasks\": [";
  const char* before = "\n";
  for (const TimelineTask& x : t.tasks) {
    fmt::format_to(std::back_inserter(text), "{}[{},{},{},{},{},{},{},{},{}]", before,
                   static_cast<int>(x.kind), static_cast<int>(x.makes), x.worker,
                   static_cast<int>(x.lane), x.step, x.queries, x.other, x.start_ps,
                   x.end_ps - x.start_ps);
    before = ",\n";
    if (flush && text.size() > (1 << 20)) flush(text);
  }
  text += "\n]\n}\n";
}

// A list of names in the file: what its numbers stand for here.
template <class Enum>
std::vector<Enum> meanings(const Where& where, const char* field, dom::object o,
                           std::uint32_t count) {
  dom::element list;
  if (o[field].get(list) != simdjson::SUCCESS) where.fail("\"{}\" is missing", field);
  std::vector<Enum> out;
  for (const dom::element e : array(where, field, list)) {
    const std::string_view name = string(where, field, e);
    std::uint32_t i = 0;
    while (i < count && to_text(static_cast<Enum>(i)) != name) ++i;
    if (i == count) where.fail("\"{}\": there is no '{}'", field, printable(name));
    out.push_back(static_cast<Enum>(i));
  }
  return out;
}

std::string text_field(const Where& where, dom::object o, const char* field) {
  dom::element e;
  if (o[field].get(e) != simdjson::SUCCESS) where.fail("\"{}\" is missing", field);
  return std::string(string(where, field, e));
}

std::int64_t number_field(const Where& where, dom::object o, const char* field, std::int64_t least,
                          std::int64_t most) {
  dom::element e;
  if (o[field].get(e) != simdjson::SUCCESS) where.fail("\"{}\" is missing", field);
  return whole_number(where, field, e, least, most);
}

Problem problem_of(const Where& where, dom::object o) {
  Problem p;
  const auto count = [&](const char* field) {
    return static_cast<std::uint32_t>(number_field(where, o, field, 1, kMaxWorkers));
  };
  p.workers = count("workers");
  p.tokens = {number_field(where, o, "tokens", 1, kMaxTokens)};
  p.heads = count("heads");
  p.kv_heads = count("kv_heads");
  p.head_dim = count("head_dim");
  const std::string dtype = text_field(where, o, "dtype"), mask = text_field(where, o, "mask"),
                    pass = text_field(where, o, "pass");
  where.of([&] {
    p.dtype = parse_dtype(dtype);
    p.mask = parse_mask(mask);
    p.pass = parse_pass(pass);
    check(p);
    return 0;
  });
  return p;
}

TimelineTask task_of(const Where& where, dom::element row, const Timeline& t,
                     const std::vector<TaskKind>& kinds, const std::vector<TensorKind>& tensors,
                     const std::vector<Lane>& lanes) {
  dom::array cells;
  if (row.get(cells) != simdjson::SUCCESS || cells.size() != kColumns)
    where.fail("must be a list of {} numbers", kColumns);
  std::array<std::int64_t, kColumns> n{};
  constexpr std::int64_t most_ps = (std::int64_t{1} << 62) - 1;  // so that ends can be counted
  const auto below = [](std::size_t count) { return static_cast<std::int64_t>(count) - 1; };
  const std::int64_t most[kColumns] = {below(kinds.size()),
                                       below(tensors.size()),
                                       std::int64_t{t.problem.workers} - 1,
                                       below(lanes.size()),
                                       0xffffffff,
                                       std::int64_t{t.problem.workers} - 1,
                                       std::int64_t{t.problem.workers} - 1,
                                       most_ps,
                                       most_ps};
  std::size_t c = 0;
  for (const dom::element cell : cells) {
    n[c] = whole_number(where, kColumnNames[c], cell, 0, most[c]);
    ++c;
  }
  TimelineTask x;
  x.kind = kinds[static_cast<std::size_t>(n[0])];
  x.makes = tensors[static_cast<std::size_t>(n[1])];
  x.worker = static_cast<std::uint16_t>(n[2]);
  x.lane = lanes[static_cast<std::size_t>(n[3])];
  x.step = static_cast<Step>(n[4]);
  x.queries = static_cast<std::uint16_t>(n[5]);
  x.other = static_cast<std::uint16_t>(n[6]);
  x.start_ps = n[7];
  x.end_ps = n[7] + n[8];
  return x;
}

Timeline timeline_in(dom::element document, std::string_view file) {
  const Where where{file};
  const dom::object o = object(where, "timeline", document);
  if (const std::string format = text_field(where, o, "format"); format != "ringsched-timeline")
    where.fail("\"format\" must be \"ringsched-timeline\", not \"{}\"", printable(format));
  if (number_field(where, o, "version", 0, 1'000'000) != kTimelineVersion)
    where.fail("\"version\" must be {}", kTimelineVersion);
  Timeline t;
  const std::string source = text_field(where, o, "source");
  if (source == "measured") {
    t.source = TimelineSource::Measured;
  } else if (source != "predicted") {
    where.fail("\"source\" must be \"predicted\" or \"measured\", not \"{}\"", printable(source));
  }
  t.program = text_field(where, o, "program");
  t.machine = text_field(where, o, "machine");
  t.schedule = text_field(where, o, "schedule");
  t.plan_hash = text_field(where, o, "plan_hash");
  dom::element part;
  if (o["problem"].get(part) != simdjson::SUCCESS) where.fail("\"problem\" is missing");
  t.problem = problem_of(where, object(where, "problem", part));
  const auto kinds = meanings<TaskKind>(where, "kinds", o, kTaskKinds);
  const auto tensors = meanings<TensorKind>(where, "tensors", o, kTensorKinds);
  const auto lanes = meanings<Lane>(where, "lanes", o, kLanes);
  if (o["columns"].get(part) != simdjson::SUCCESS) where.fail("\"columns\" is missing");
  std::size_t c = 0;
  for (const dom::element e : array(where, "columns", part))
    if (c == kColumns || string(where, "columns", e) != kColumnNames[c++])
      where.fail("\"columns\" must be: {}", fmt::join(kColumnNames, ", "));
  if (c != kColumns) where.fail("\"columns\" must be: {}", fmt::join(kColumnNames, ", "));
  if (o["tasks"].get(part) != simdjson::SUCCESS) where.fail("\"tasks\" is missing");
  std::int64_t number = 0;
  for (const dom::element row : array(where, "tasks", part))
    t.tasks.push_back(task_of(Where{file, "task", number++}, row, t, kinds, tensors, lanes));
  return t;
}

Timeline read_padded(const std::string& buffer, std::string_view file) {
  const std::size_t length = buffer.size() - simdjson::SIMDJSON_PADDING;
  const std::string_view text = std::string_view(buffer).substr(0, length);
  if (text.starts_with("\xef\xbb\xbf"))
    fail("{}: the text begins with a byte order mark; write it as UTF-8 without one", file);
  dom::parser parser;
  dom::element document;
  auto error = parser.allocate(std::max<std::size_t>(length, 64), kDepth);
  if (error == simdjson::SUCCESS) error = parser.parse(buffer.data(), length, false).get(document);
  if (error != simdjson::SUCCESS) {
    if (const auto fault = find_json_fault(text, kDepth))
      fail("{}:{}:{}: {}", file, fault->line, fault->column, fault->what);
    fail("{}: not JSON: {}", file, simdjson::error_message(error));
  }
  return timeline_in(document, file);
}

}  // namespace

std::string write_timeline(const Timeline& t) {
  std::string text;
  write(t, text, {});
  return text;
}

void write_timeline_file(const Timeline& t, const std::string& path) {
  NewFile file(path);
  std::string text;
  const auto flush = [&file](std::string& gathered) {
    file.append(gathered);
    gathered.clear();
  };
  write(t, text, flush);
  flush(text);
  file.finish();
}

Timeline read_timeline(std::string_view json, std::string_view name) {
  std::string buffer;
  buffer.reserve(json.size() + simdjson::SIMDJSON_PADDING);
  buffer.append(json).append(simdjson::SIMDJSON_PADDING, '\0');
  return read_padded(buffer, name);
}

Timeline read_timeline_file(const std::string& path) {
  return read_padded(read_whole(path, kMostBytes, simdjson::SIMDJSON_PADDING), shown_path(path));
}

}  // namespace ringsched
