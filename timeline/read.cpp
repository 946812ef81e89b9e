// Timelines from JSON text; docs/timeline-format.md describes it.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/timeline/timeline.hpp"
#include "scheduler/files/plan_json.hpp"
#include "timeline_file.hpp"

namespace ringsched {

namespace {

using namespace plan_file;
using namespace timeline_file;

constexpr std::uint64_t kMostBytes = 0xffffffff - 64;
constexpr std::int64_t kMostChunk = 0xfffffffe;
constexpr std::int64_t kMostPs = (std::int64_t{1} << 62) - 1;  // so that ends can be counted

// A list of names in the file: what its numbers stand for here.
template <class NameOf>
std::vector<std::uint32_t> meanings(const Where& where, const char* field, dom::object o,
                                    std::size_t count, NameOf name_of) {
  dom::element list;
  if (o[field].get(list) != simdjson::SUCCESS) where.fail("\"{}\" is missing", field);
  std::vector<std::uint32_t> out;
  for (const dom::element e : array({where, field, list})) {
    const std::string_view name = string({where, field, e});
    std::uint32_t i = 0;
    while (i < count && name_of(i) != name) ++i;
    if (i == count) where.fail("\"{}\": unknown name '{}'", field, printable(name));
    out.push_back(i);
  }
  return out;
}
template <class Enum>
std::vector<Enum> meanings(const Where& where, const char* field, dom::object o,
                           std::uint32_t count) {
  std::vector<Enum> out;
  for (const std::uint32_t i : meanings(
           where, field, o, count, [](std::uint32_t n) { return to_text(static_cast<Enum>(n)); }))
    out.push_back(static_cast<Enum>(i));
  return out;
}

std::string text_field(const Where& where, dom::object o, const char* field) {
  dom::element e;
  if (o[field].get(e) != simdjson::SUCCESS) where.fail("\"{}\" is missing", field);
  return std::string(string({where, field, e}));
}

std::string name_field(const Where& where, dom::object o, const char* field) {
  return std::string(short_enough(where, field, text_field(where, o, field)));
}

std::int64_t number_field(const Where& where, dom::object o, const char* field, std::int64_t least,
                          std::int64_t most) {
  dom::element e;
  if (o[field].get(e) != simdjson::SUCCESS) where.fail("\"{}\" is missing", field);
  return whole_number({where, field, e}, least, most);
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
  if (o["new_tokens"].error() == simdjson::SUCCESS)
    p.new_tokens = {number_field(where, o, "new_tokens", 1, kMaxTokens)};
  const std::string dtype = text_field(where, o, "dtype"), mask = text_field(where, o, "mask"),
                    pass = text_field(where, o, "pass");
  where.of([&] {
    p.dtype = parse_dtype(dtype);
    p.mask = parse_mask(mask);
    p.pass = parse_pass(pass);
    require_valid(p);
    return 0;
  });
  return p;
}

// What the numbers of a row stand for, and how large they may be.
struct Meanings {
  std::vector<TaskKind> kinds;
  std::vector<std::uint32_t> tensors;
  std::vector<Lane> lanes;
  std::vector<StartedBy> causes;
  std::int64_t workers = 0, tasks = 0;
  bool detailed = false;
};

TaskDetail detail_of(const Where& where, const dom::element* cells, const Meanings& m) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto number = [&](std::size_t column, std::int64_t least, std::int64_t limit) {
    return whole_number({where, kColumnNames[column], cells[column - kColumns]}, least, limit);
  };
  const auto task = [](std::int64_t n) {
    return n < 0 ? TaskId{} : TaskId{static_cast<std::uint32_t>(n)};
  };
  TaskDetail d;
  d.pairs = {number(9, 0, most)};
  d.bytes = {number(10, 0, most)};
  d.cause = m.causes[static_cast<std::size_t>(
      number(11, 0, static_cast<std::int64_t>(m.causes.size()) - 1))];
  d.because = task(number(12, -1, m.tasks - 1));
  const dom::array needs = array({where, kColumnNames[13], cells[13 - kColumns]});
  if (needs.size() > d.needs.size())
    where.fail("\"needs\" has {} tasks; at most {} are allowed", needs.size(), d.needs.size());
  std::size_t n = 0;
  for (const dom::element e : needs)
    d.needs[n++] = task(whole_number({where, kColumnNames[13], e}, 0, m.tasks - 1));
  return d;
}

void read_row(const Where& where, dom::element row, const Meanings& m, Timeline& t) {
  const std::size_t columns = m.detailed ? kAllColumns : kColumns;
  dom::array cells;
  if (row.get(cells) != simdjson::SUCCESS || cells.size() != columns)
    where.fail("must be a list of {} numbers", columns);
  const auto below = [](std::size_t count) { return static_cast<std::int64_t>(count) - 1; };
  const std::int64_t most[kColumns] = {below(m.kinds.size()),
                                       below(m.tensors.size()),
                                       m.workers - 1,
                                       below(m.lanes.size()),
                                       0xffffffff,
                                       m.workers - 1,
                                       m.workers - 1,
                                       kMostPs,
                                       kMostPs};
  std::array<std::int64_t, kColumns> n{};
  std::array<dom::element, kAllColumns - kColumns> rest;
  std::size_t c = 0;
  for (const dom::element cell : cells) {
    if (c < kColumns) {
      n[c] = whole_number({where, kColumnNames[c], cell}, 0, most[c]);
    } else {
      rest[c - kColumns] = cell;
    }
    ++c;
  }
  TimelineTask x;
  x.kind = m.kinds[static_cast<std::size_t>(n[0])];
  x.makes = {m.tensors[static_cast<std::size_t>(n[1])]};
  x.worker = static_cast<std::uint16_t>(n[2]);
  x.lane = m.lanes[static_cast<std::size_t>(n[3])];
  x.step = static_cast<Step>(n[4]);
  x.queries = static_cast<std::uint16_t>(n[5]);
  x.other = static_cast<std::uint16_t>(n[6]);
  x.start_ps = n[7];
  x.end_ps = n[7] + n[8];
  t.tasks.push_back(x);
  if (m.detailed) t.details.push_back(detail_of(where, rest.data(), m));
}

// Whether there are columns with details.
bool columns_of(const Where& where, dom::element list) {
  std::vector<std::string_view> found;
  for (const dom::element e : array({where, "columns", list}))
    found.push_back(string({where, "columns", e}));
  const bool known = found.size() <= kAllColumns &&
                     std::equal(found.begin(), found.end(), std::begin(kColumnNames));
  if (!known || (found.size() != kColumns && found.size() != kAllColumns))
    where.fail("\"columns\" must be: {}; optionally followed by: {}",
               fmt::join(kColumnNames, kColumnNames + kColumns, ", "),
               fmt::join(kColumnNames + kColumns, kColumnNames + kAllColumns, ", "));
  return found.size() == kAllColumns;
}

// A timeline has the lanes that every plan has, and those that its file adds.
std::vector<Lane> read_lanes(const Where& where, dom::object o, Timeline& t) {
  dom::element list;
  if (o["lanes"].get(list) != simdjson::SUCCESS) where.fail("\"lanes\" is missing");
  std::vector<Lane> out;
  for (const dom::element e : array({where, "lanes", list})) {
    if (t.lanes.size() > kMostLanes) break;  // refused below
    const std::string_view name = string({where, "lanes", e});
    const auto at = std::find(t.lanes.begin(), t.lanes.end(), name);
    out.push_back(static_cast<Lane>(at - t.lanes.begin()));
    if (at == t.lanes.end()) t.lanes.emplace_back(name);
  }
  if (const std::string why = refusal_of_lanes(t.lanes); !why.empty())
    where.fail("\"lanes\": {}", why);
  return out;
}

void read_initial(const Where& where, dom::object o, Timeline& t) {
  dom::element list;
  if (o["initial_bytes"].get(list) != simdjson::SUCCESS) return;
  const dom::array bytes = array({where, "initial_bytes", list});
  if (bytes.size() != t.problem.workers)
    where.fail("\"initial_bytes\" has {} numbers for {} workers", bytes.size(), t.problem.workers);
  for (const dom::element e : bytes)
    t.initial.push_back(
        {whole_number({where, "initial_bytes", e}, 0, std::numeric_limits<std::int64_t>::max())});
}

void read_interval(const Where& where, dom::object o, Timeline& t) {
  dom::element given;
  if (o["interval_80_ps"].get(given) != simdjson::SUCCESS) return;
  const dom::array ends = array({where, "interval_80_ps", given});
  if (ends.size() != 2) where.fail("\"interval_80_ps\" must be a list of two times");
  const auto end = [&](std::size_t i, std::int64_t least) {
    return whole_number({where, "interval_80_ps", ends.at(i).value()}, least, kMostPs);
  };
  const std::int64_t low = end(0, 0);
  t.interval = {Picoseconds{low}, Picoseconds{end(1, low)}};
}

void read_bound(const Where& where, dom::object o, Timeline& t) {
  dom::element given;
  if (o["lower_bound_ps"].get(given) == simdjson::SUCCESS)
    t.bound = Picoseconds{whole_number({where, "lower_bound_ps", given}, 0, kMostPs)};
}

void read_path(const Where& file, dom::object o, std::int64_t tasks, Timeline& t) {
  dom::element list;
  if (o["critical_path"].get(list) != simdjson::SUCCESS) return;
  std::int64_t number = 0;
  for (const dom::element e : array({file, "critical_path", list})) {
    const Where where{file.file, "critical path step", number++};
    dom::array cells;
    if (e.get(cells) != simdjson::SUCCESS || cells.size() != 3)
      where.fail("must be a list of task, start_ps and duration_ps");
    const std::int64_t task = whole_number({where, "task", cells.at(0).value()}, 0, tasks - 1);
    const std::int64_t start = whole_number({where, "start_ps", cells.at(1).value()}, 0, kMostPs);
    const std::int64_t took = whole_number({where, "duration_ps", cells.at(2).value()}, 0, kMostPs);
    t.critical_path.push_back({{static_cast<std::uint32_t>(task)}, {start}, {start + took}});
  }
}

ExchangeForm form_named(const Where& where, dom::element name) {
  std::array<std::string_view, kExchangeForms> forms;
  for (std::size_t f = 0; f < forms.size(); ++f) forms[f] = to_text(static_cast<ExchangeForm>(f));
  return static_cast<ExchangeForm>(
      place_of(Found{where, "form", name}, "form", forms, std::identity()));
}

// The tasks of each exchange follow one another; every task of that kind is in one.
void read_exchanges(const Where& file, dom::object o, Timeline& t) {
  std::uint32_t at = 0;  // all before this are done
  const auto pass_over = [&](std::uint32_t end) {
    for (; at < end; ++at)
      if (is_exchange(t.tasks[at].kind))
        file.fail("task {} is an exchange that \"exchanges\" does not list", at);
  };
  const auto tasks = static_cast<std::uint32_t>(t.tasks.size());
  dom::element list;
  if (o["exchanges"].get(list) == simdjson::SUCCESS) {
    std::int64_t number = 0;
    for (const dom::element e : array({file, "exchanges", list})) {
      const Where where{file.file, "exchange", number++};
      dom::array cells;
      if (e.get(cells) != simdjson::SUCCESS || cells.size() != 3)
        where.fail("must be a list of its first task, the number of members and its form");
      const std::int64_t first =
          whole_number({where, "first task", cells.at(0).value()}, at, std::int64_t{tasks} - 1);
      const std::int64_t members =
          whole_number({where, "members", cells.at(1).value()}, 1, tasks - first);
      pass_over(static_cast<std::uint32_t>(first));
      t.exchanges.push_back(
          {{at}, static_cast<std::uint32_t>(members), form_named(where, cells.at(2).value())});
      for (; at < t.exchanges.back().end(); ++at)
        if (!is_exchange(t.tasks[at].kind))
          where.fail("task {} is {}, not exchange", at, to_text(t.tasks[at].kind));
    }
  }
  pass_over(tasks);
}

void read_spans(const Where& file, dom::object o, Timeline& t) {
  dom::element list;
  if (o["spans"].get(list) != simdjson::SUCCESS) return;
  std::int64_t number = 0, least = 0;
  for (const dom::element e : array({file, "spans", list})) {
    const Where where{file.file, "span", number++};
    dom::array cells;
    if (e.get(cells) != simdjson::SUCCESS || (cells.size() != 7 && cells.size() != 9))
      where.fail(
          "must be [task, first and last owner of its queries, first and last owner of its keys, "
          "first head, heads], optionally with two distances between owners");
    const auto cell = [&](std::size_t n, const char* name, std::int64_t low, std::int64_t most) {
      return whole_number({where, name, cells.at(n).value()}, low, most);
    };
    const auto tasks = static_cast<std::int64_t>(t.tasks.size());
    TaskSpan s;
    s.task = {static_cast<std::uint32_t>(cell(0, "task", least, tasks - 1))};
    least = std::int64_t{s.task.value} + 1;
    const std::int64_t last = std::int64_t{t.problem.workers} - 1;
    for (const std::size_t end : {0u, 1u}) {
      s.queries[end] =
          static_cast<std::uint16_t>(cell(1 + end, "owner", end == 0 ? 0 : s.queries[0], last));
      s.other[end] =
          static_cast<std::uint16_t>(cell(3 + end, "owner", end == 0 ? 0 : s.other[0], last));
    }
    const std::int64_t heads = t.value(t.tasks[s.task.value]).columns.count;
    s.heads.first = static_cast<std::uint32_t>(cell(5, "first head", 0, heads - 1));
    s.heads.count =
        static_cast<std::uint32_t>(cell(6, "heads", 1, heads - std::int64_t{s.heads.first}));
    for (std::size_t n = 0; n < 2 && cells.size() == 9; ++n) {
      const auto& ends = n == 0 ? s.queries : s.other;
      const std::int64_t wide = ends[1] - ends[0];
      s.every[n] =
          static_cast<std::uint16_t>(cell(7 + n, "distance", 0, std::max<std::int64_t>(wide, 1)));
      if (s.every[n] > 0 && wide % s.every[n] != 0)
        where.fail("owners {} apart do not lead from {} to {}", s.every[n], ends[0], ends[1]);
    }
    t.spans.push_back(s);
  }
}

void read_parts(const Where& file, dom::object o, Timeline& t) {
  dom::element list;
  if (o["parts"].get(list) != simdjson::SUCCESS) return;
  std::int64_t number = 0, least = 0;
  for (const dom::element e : array({file, "parts", list})) {
    const Where where{file.file, "part", number++};
    dom::array cells;
    if (e.get(cells) != simdjson::SUCCESS || cells.size() != 5)
      where.fail(
          "must be a list of a task, the first and the last chunk of the queries, and the same of "
          "the keys");
    const auto cell = [&](std::size_t i, const char* what, std::int64_t from, std::int64_t to) {
      return whole_number({where, what, cells.at(i).value()}, from, to);
    };
    const auto chunks = [&](std::size_t at) {
      const std::int64_t first = cell(at, "first chunk", -1, kMostChunk),
                         last = cell(at + 1, "last chunk", first, first < 0 ? -1 : kMostChunk);
      return first < 0 ? ChunksOfShare{}
                       : ChunksOfShare{static_cast<std::uint32_t>(first),
                                       static_cast<std::uint32_t>(last)};
    };
    TaskPart p;
    p.task = {static_cast<std::uint32_t>(
        cell(0, "task", least, static_cast<std::int64_t>(t.tasks.size()) - 1))};
    least = std::int64_t{p.task.value} + 1;
    p.queries = chunks(1);
    p.keys = chunks(3);
    if (!p.keys.are_all() && !is_attend(t.tasks[p.task.value].kind))
      where.fail("task {} attends no keys", p.task.value);
    if (p.queries.are_all() && p.keys.are_all()) where.fail("has all chunks");
    t.parts.push_back(p);
  }
}

void read_gradients(const Where& file, dom::object o, Timeline& t) {
  dom::element list;
  if (o["gradients"].get(list) != simdjson::SUCCESS) return;
  if (t.details.empty()) file.fail("\"gradients\" needs the columns of details");
  std::int64_t number = 0, least = 0;
  for (const dom::element e : array({file, "gradients", list})) {
    const Where where{file.file, "gradients", number++};
    dom::array cells;
    if (e.get(cells) != simdjson::SUCCESS || cells.size() != 2)
      where.fail("must be a list of a backward attend and the bytes of its gradients of keys");
    const auto task =
        static_cast<std::uint32_t>(whole_number({where, "task", cells.at(0).value()}, least,
                                                static_cast<std::int64_t>(t.tasks.size()) - 1));
    least = std::int64_t{task} + 1;
    if (outputs_of(t.tasks[task].kind) < 2) where.fail("task {} makes one tensor", task);
    t.gradients.push_back(
        {{task},
         {whole_number({where, "bytes", cells.at(1).value()}, 0, t.details[task].bytes.value)}});
  }
}

void read_incomplete(const Where& where, dom::object o, std::int64_t tasks, Timeline& t) {
  if (dom::element given; o["incomplete"].get(given) == simdjson::SUCCESS) {
    t.incomplete = text_field(where, o, "incomplete");
    if (t.incomplete.empty()) where.fail("\"incomplete\" must give a reason");
  }
  dom::element list;
  if (o["unfinished"].get(list) != simdjson::SUCCESS) return;
  if (t.incomplete.empty()) where.fail("\"unfinished\" needs \"incomplete\"");
  std::int64_t least = 0;
  for (const dom::element e : array({where, "unfinished", list})) {
    const std::int64_t task = whole_number({where, "unfinished", e}, least, tasks - 1);
    t.unfinished.push_back({static_cast<std::uint32_t>(task)});
    least = task + 1;
  }
}

TimeUnit unit_of(const Where& where, dom::object o) {
  dom::element given;
  if (o["unit"].get(given) != simdjson::SUCCESS) return TimeUnit::Seconds;
  if (const std::string unit = text_field(where, o, "unit"); unit != "blocks")
    where.fail("\"unit\" must be \"blocks\" or absent, not \"{}\"", printable(unit));
  return TimeUnit::Blocks;
}

Timeline timeline_in(dom::object o, std::string_view file) {
  const Where where{file};
  if (const std::string format = text_field(where, o, "format"); format != "ringsched-timeline")
    where.fail("\"format\" must be \"ringsched-timeline\", not \"{}\"", printable(format));
  if (number_field(where, o, "version", 0, 1'000'000) != kTimelineVersion)
    where.fail("\"version\" must be {}", kTimelineVersion);
  Timeline t;
  const std::string source = text_field(where, o, "source");
  if (source == "measured") {
    t.source = TimelineSource::Measured;
  } else if (source == "emulated") {
    t.source = TimelineSource::Emulated;
  } else if (source != "predicted") {
    where.fail("\"source\" must be \"predicted\", \"measured\" or \"emulated\", not \"{}\"",
               printable(source));
  }
  t.program = name_field(where, o, "program");
  t.machine = name_field(where, o, "machine");
  t.unit = unit_of(where, o);
  if (dom::element given; o["conditions"].get(given) == simdjson::SUCCESS)
    t.conditions = text_field(where, o, "conditions");
  read_interval(where, o, t);
  read_bound(where, o, t);
  t.schedule = name_field(where, o, "schedule");
  t.plan_hash = name_field(where, o, "plan_hash");
  dom::element part;
  if (o["problem"].get(part) != simdjson::SUCCESS) where.fail("\"problem\" is missing");
  t.problem = problem_of(where, object({where, "problem", part}));
  Meanings m;
  m.kinds = meanings<TaskKind>(where, "kinds", o, kTaskKinds);
  t.values = program_of(t.problem).values;
  m.tensors = meanings(where, "tensors", o, t.values.size(),
                       [&](std::uint32_t n) -> std::string_view { return t.values[n].name; });
  m.lanes = read_lanes(where, o, t);
  if (o["columns"].get(part) != simdjson::SUCCESS) where.fail("\"columns\" is missing");
  m.detailed = columns_of(where, part);
  if (m.detailed) m.causes = meanings<StartedBy>(where, "causes", o, kStartedBy);
  if (o["tasks"].get(part) != simdjson::SUCCESS) where.fail("\"tasks\" is missing");
  const dom::array rows = array({where, "tasks", part});
  std::int64_t number = 0;
  for ([[maybe_unused]] const dom::element row : rows) ++m.tasks;  // size() stops at 2^24
  m.workers = t.problem.workers;
  t.tasks.reserve(static_cast<std::size_t>(m.tasks));
  if (m.detailed) t.details.reserve(static_cast<std::size_t>(m.tasks));
  for (const dom::element row : rows) read_row(Where{file, "task", number++}, row, m, t);
  read_initial(where, o, t);
  read_path(where, o, m.tasks, t);
  read_exchanges(where, o, t);
  read_spans(where, o, t);
  read_parts(where, o, t);
  read_gradients(where, o, t);
  read_incomplete(where, o, m.tasks, t);
  return t;
}

Timeline read_padded(const std::string& buffer, std::string_view file) {
  dom::parser parser;
  return timeline_in(parse(parser, buffer, file), file);
}

}  // namespace

Timeline read_timeline(std::string_view json, std::string_view name) {
  return read_padded(padded(json), name);
}

Timeline read_timeline_file(const std::string& path) {
  return read_padded(read_json(path, kMostBytes, simdjson::SIMDJSON_PADDING), shown_path(path));
}

}  // namespace ringsched
