// Timelines to JSON text; docs/timeline-format.md describes it.
#include <fmt/format.h>

#include <functional>
#include <iterator>

#include "ringsched/scheduler/file.hpp"
#include "ringsched/timeline/timeline.hpp"
#include "timeline_file.hpp"

namespace ringsched {

namespace {

using namespace timeline_file;

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

std::string names(const std::vector<Value>& values) {
  std::string out;
  for (const Value& v : values) out += fmt::format("{}\"{}\"", out.empty() ? "" : ", ", v.name);
  return "[" + out + "]";
}

std::string names(const std::vector<std::string>& lanes) {
  std::string out;
  for (const std::string& lane : lanes) out += (out.empty() ? "" : ", ") + json_string(lane);
  return "[" + out + "]";
}

void write_detail(const TaskDetail& d, std::string& text) {
  fmt::format_to(std::back_inserter(text), ",{},{},{},{},[", d.pairs.value, d.bytes.value,
                 static_cast<int>(d.cause),
                 d.because.valid() ? std::int64_t{d.because.value} : std::int64_t{-1});
  const char* before = "";
  for (const TaskId id : d.needs)
    if (id.valid()) {
      fmt::format_to(std::back_inserter(text), "{}{}", before, id.value);
      before = ",";
    }
  text += ']';
}

// A field with a list, if there is one.
template <class List, class Format>
void write_list(std::string& text, const char* field, const List& list, Format&& format) {
  if (list.empty()) return;
  text += fmt::format("\"{}\": [", field);
  const char* before = "";
  for (const auto& x : list) {
    text += before + format(x);
    before = ", ";
  }
  text += "],\n";
}

void write(const Timeline& t, std::string& text, const std::function<void(std::string&)>& flush) {
  const Problem& p = t.problem;
  text += "{\n\"format\": \"ringsched-timeline\",\n";
  text +=
      fmt::format("\"version\": {},\n\"source\": \"{}\",\n", kTimelineVersion, to_text(t.source));
  text += fmt::format("\"program\": {},\n\"machine\": {},\n\"schedule\": {},\n\"plan_hash\": {},\n",
                      json_string(t.program), json_string(t.machine), json_string(t.schedule),
                      json_string(t.plan_hash));
  if (t.unit == TimeUnit::Blocks) text += "\"unit\": \"blocks\",\n";
  if (!t.conditions.empty())
    text += fmt::format("\"conditions\": {},\n", json_string(t.conditions));
  if (!t.incomplete.empty())
    text += fmt::format("\"incomplete\": {},\n", json_string(t.incomplete));
  if (t.interval)
    text += fmt::format("\"interval_80_ps\": [{},{}],\n", (*t.interval)[0].value,
                        (*t.interval)[1].value);
  if (t.bound) text += fmt::format("\"lower_bound_ps\": {},\n", t.bound->value);
  write_list(text, "unfinished", t.unfinished,
             [](TaskId id) { return fmt::format("{}", id.value); });
  text += fmt::format(
      "\"problem\": {{\"workers\": {}, \"tokens\": {}, \"heads\": {}, \"kv_heads\": {}, "
      "\"head_dim\": {}, \"dtype\": \"{}\", \"mask\": \"{}\", \"pass\": \"{}\"{}}},\n",
      p.workers, p.tokens.value, p.heads, p.kv_heads, p.head_dim, to_text(p.dtype), to_text(p.mask),
      to_text(p.pass), p.decodes() ? fmt::format(", \"new_tokens\": {}", p.new_tokens.value) : "");
  text += fmt::format("\"kinds\": {},\n\"tensors\": {},\n\"lanes\": {},\n",
                      names<TaskKind>(kTaskKinds), names(t.values), names(t.lanes));
  const bool detailed = !t.details.empty();
  if (detailed) text += fmt::format("\"causes\": {},\n", names<StartedBy>(kStartedBy));
  write_list(text, "initial_bytes", t.initial, [](Bytes b) { return fmt::format("{}", b.value); });
  write_list(text, "critical_path", t.critical_path, [](const CriticalStep& step) {
    return fmt::format("[{},{},{}]", step.task.value, step.start.value,
                       (step.end - step.start).value);
  });
  write_list(text, "exchanges", t.exchanges, [](const TimelineExchange& e) {
    return fmt::format("[{},{},\"{}\"]", e.first.value, e.members, to_text(e.form));
  });
  write_list(text, "spans", t.spans, [](const TaskSpan& s) {
    const bool apart = s.every[0] != 1 || s.every[1] != 1;
    return fmt::format("[{},{},{},{},{},{},{}{}]", s.task.value, s.queries[0], s.queries[1],
                       s.other[0], s.other[1], s.heads.first, s.heads.count,
                       apart ? fmt::format(",{},{}", s.every[0], s.every[1]) : "");
  });
  write_list(text, "parts", t.parts, [](const TaskPart& x) {
    const auto chunks = [](ChunksOfShare c) {
      return c.are_all() ? std::string("-1,-1") : fmt::format("{},{}", c.first, c.last);
    };
    return fmt::format("[{},{},{}]", x.task.value, chunks(x.queries), chunks(x.keys));
  });
  write_list(text, "gradients", t.gradients, [](const TaskGradients& g) {
    return fmt::format("[{},{}]", g.task.value, g.keys.value);
  });
  text += "\"columns\": [";
  for (std::size_t c = 0; c < (detailed ? kAllColumns : kColumns); ++c)
    text += fmt::format("{}\"{}\"", c == 0 ? "" : ", ", kColumnNames[c]);
  text += "],\n\"tasks\": [";
  const char* before = "\n";
  for (std::size_t i = 0; i < t.tasks.size(); ++i) {
    const TimelineTask& x = t.tasks[i];
    fmt::format_to(std::back_inserter(text), "{}[{},{},{},{},{},{},{},{},{}", before,
                   static_cast<int>(x.kind), x.makes.value, x.worker, static_cast<int>(x.lane),
                   x.step, x.queries, x.other, x.start_ps, x.end_ps - x.start_ps);
    if (detailed) write_detail(t.details[i], text);
    text += ']';
    before = ",\n";
    if (flush && text.size() > (1 << 20)) flush(text);
  }
  text += "\n]\n}\n";
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

}  // namespace ringsched
