#include "ringsched/viz/html.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

#include "gantt/internal.hpp"
#include "html_parts.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/share_label.hpp"
#include "ringsched/scheduler/words.hpp"
#include "xml.hpp"

namespace ringsched {

namespace {

// Safe inside a script element too: no '<' stands in it.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : printable(text, 200)) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '<' || c == '>' || c == '&') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

class Json {
 public:
  explicit Json(std::string& out) : out_(out) {}
  void text(const char* key, std::string_view value) { add("\"{}\":{},", key, quoted(value)); }
  template <class Number>
  void number(const char* key, Number value) {
    add("\"{}\":{},", key, value);
  }
  // A list of what `get` says of 0, 1, ..., n - 1.
  template <class Get>
  void column(const char* key, std::size_t n, Get&& get) {
    add("\"{}\":[", key);
    for (std::size_t i = 0; i < n; ++i) add("{}{}", i == 0 ? "" : ",", get(i));
    out_ += "],\n";
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), text, std::forward<Args>(args)...);
  }
  std::string& out_;
};

void add_details(const Timeline& t, Json& json) {
  const std::size_t n = t.details.size();
  if (n == 0) return;
  json.column("pairs", n, [&](std::size_t i) { return t.details[i].pairs.value; });
  json.column("bytes", n, [&](std::size_t i) { return t.details[i].bytes.value; });
  json.column("cause", n, [&](std::size_t i) { return static_cast<int>(t.details[i].cause); });
  json.column("because", n, [&](std::size_t i) {
    const TaskId b = t.details[i].because;
    return b.valid() ? std::int64_t{b.value} : std::int64_t{-1};
  });
}

// What the viewer must know of an operation.
std::string_view role(TaskKind kind) {
  if (is_attend(kind)) return is_backward(kind) ? "backward" : "attend";
  if (is_exchange(kind)) return "exchange";
  return is_send(kind) ? "send" : is_receive(kind) ? "receive" : "other";
}

void add_run(const Timeline& t, std::string& out) {
  const std::vector<std::int64_t> from = moving_from(t), until = moving_until(t);
  const RunTimes times = run_times(t);
  out += "{";
  Json json(out);
  json.text("title", fmt::format("{}, {}", named(t), counted(t.problem.workers, "worker")));
  json.text("name", fmt::format("{} {}", named(t), to_text(t.source)));
  json.text("problem",
            fmt::format("{}; {}{}", described(t.problem), to_text(t.source), conditions_of(t)));
  json.text("facts", facts(t, times));
  json.number("workers", t.problem.workers);
  json.number("decodes", t.problem.decodes());
  json.number("makespan", times.makespan.value);
  if (t.unit == TimeUnit::Blocks) json.text("unit", "blocks");
  json.column("colours", t.problem.workers, [&](std::size_t w) {
    return quoted(hex(worker_colour(static_cast<std::uint32_t>(w), t.problem.workers)));
  });
  json.column("cargo", t.values.size(),
              [&](std::size_t v) { return quoted(hex(cargo_colour(t.values[v]))); });
  json.column("loads", t.values.size(),
              [&](std::size_t v) { return quoted(cargo_name(t.values[v])); });
  json.column("symbols", t.values.size(),
              [&](std::size_t v) { return quoted(t.values[v].symbol); });
  json.column("kinds", kTaskKinds,
              [](std::size_t k) { return quoted(to_text(static_cast<TaskKind>(k))); });
  json.column("roles", kTaskKinds,
              [](std::size_t k) { return quoted(role(static_cast<TaskKind>(k))); });
  json.column("causes", kStartedBy,
              [](std::size_t c) { return quoted(to_text(static_cast<StartedBy>(c))); });
  const auto& x = t.tasks;
  json.column("kind", x.size(), [&](std::size_t i) { return static_cast<int>(x[i].kind); });
  json.column("makes", x.size(), [&](std::size_t i) { return x[i].makes.value; });
  json.column("worker", x.size(), [&](std::size_t i) { return x[i].worker; });
  json.column("step", x.size(), [&](std::size_t i) { return x[i].step; });
  json.column("queries", x.size(), [&](std::size_t i) { return x[i].queries; });
  json.column("other", x.size(), [&](std::size_t i) { return x[i].other; });
  json.column("start", x.size(), [&](std::size_t i) { return x[i].start_ps; });
  json.column("took", x.size(), [&](std::size_t i) { return x[i].end_ps - x[i].start_ps; });
  json.column("from", x.size(), [&](std::size_t i) { return from[i]; });
  json.column("until", x.size(), [&](std::size_t i) { return until[i]; });
  add_details(t, json);
  json.column("needs", t.details.size(), [&](std::size_t i) {
    std::vector<std::uint32_t> ids;
    for (const TaskId id : t.details[i].needs)
      if (id.valid()) ids.push_back(id.value);
    return fmt::format("[{}]", fmt::join(ids, ","));
  });
  json.column("exchanges", t.exchanges.size(), [&](std::size_t i) {
    const TimelineExchange& e = t.exchanges[i];
    return fmt::format("[{},{},{}]", e.first.value, e.members, quoted(to_text(e.form)));
  });
  // A task, the names of its queries and keys, and its heads, if it does not have all.
  json.column("spans", t.spans.size(), [&](std::size_t i) {
    const TaskSpan& s = t.spans[i];
    const bool all = s.heads == t.value(t.tasks[s.task.value]).all_columns();
    return fmt::format("[{},\"{}\",\"{}\",\"{}\"]", s.task.value, homes_text(s.queries, s.every[0]),
                       homes_text(s.other, s.every[1]),
                       all ? "" : range_text(s.heads.first, s.heads.end() - 1));
  });
  // A task, and what to add to the names of its queries and keys if it has not all of a share.
  json.column("parts", t.parts.size(), [&](std::size_t i) {
    const TaskPart& p = t.parts[i];
    const auto chunks = [](ChunksOfShare c) {
      return c.are_all() ? "" : chunks_label(c.first, c.last);
    };
    return fmt::format("[{},\"{}\",\"{}\"]", p.task.value, chunks(p.queries), chunks(p.keys));
  });
  json.column("path", t.critical_path.size(), [&](std::size_t i) {
    const CriticalStep& s = t.critical_path[i];
    return fmt::format("[{},{},{}]", s.task.value, s.start.value, s.end.value);
  });
  const DrawnPath path = drawn_path(SortedRun(t));
  json.column("hops", path.jump.empty() ? path.hops.size() : 0, [&](std::size_t i) {
    const Hop& h = path.hops[i];
    return fmt::format("[{},{},{},{}]", h.leaves, h.arrives, h.start_ps, h.end_ps);
  });
  out.erase(out.size() - 2);  // the last comma
  out += "}";
}

// The template with each @name@ replaced; the replacement may be any text.
std::string filled(std::string_view page,
                   std::initializer_list<std::pair<std::string_view, std::string_view>> with) {
  std::string out;
  while (true) {
    std::size_t first = page.size(), length = 0;
    std::string_view text;
    for (const auto& [name, replacement] : with) {
      const std::size_t at = page.find(fmt::format("@{}@", name));
      if (at >= first) continue;
      first = at;
      length = name.size() + 2;
      text = replacement;
    }
    out += page.substr(0, first);
    if (length == 0) return out;
    out += text;
    page.remove_prefix(first + length);
  }
}

}  // namespace

std::string html_page(std::span<const Timeline> timelines) {
  if (timelines.empty()) fail("no timeline to draw");
  std::string data = "[";
  std::string title;
  for (const Timeline& t : timelines) {
    refuse_empty(t);
    if (timelines.size() > 1) refuse_incomplete(t);
    if (data.size() > 1) data += ",\n";
    add_run(t, data);
    title += (title.empty() ? "" : ", ") + named(t);
  }
  data += "]";
  const std::string escaped_title = escaped_xml(title);
  return filled(html_parts::page, {{"title", escaped_title},
                                   {"style", html_parts::style},
                                   {"script", html_parts::script},
                                   {"data", data}});
}

}  // namespace ringsched
