#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <functional>
#include <iterator>
#include <string>

#include "plan_defaults.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/plan_file.hpp"

namespace ringsched {

namespace {

using namespace plan_file;

class Writer {
 public:
  // `flush` takes the text written so far whenever a good deal has gathered.
  Writer(const Plan& plan, std::string& text, std::function<void(std::string&)> flush)
      : plan_(plan),
        text_(text),
        flush_(std::move(flush)),
        given_(plan),
        completes_(default_completes(plan)) {}

  void write() {
    write_head();
    write_layout();
    write_lanes();
    write_given();
    text_ += " \"tasks\":[";
    for (std::uint32_t t = 0; t < plan_.tasks.size(); ++t) {
      text_ += t == 0 ? "\n" : ",\n";
      write_task(TaskId{t});
      flush_if_long();
    }
    text_ += "\n ]}\n";
  }

 private:
  template <class Int>
  void number(Int n) {
    char digits[24];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, n).ptr);
  }
  template <std::integral Int>
  void field(std::string_view key_with_comma, Int n) {  // ,"key":n
    text_ += key_with_comma;
    number(n);
  }
  void field(std::string_view key_with_comma, std::string_view s) {
    text_ += key_with_comma;
    string(s);
  }
  void string(std::string_view s) {
    text_ += '"';
    for (const char c : s) {
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        fmt::format_to(std::back_inserter(text_), "\\u{:04x}", static_cast<unsigned>(c));
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }
  void range(std::string_view key_with_comma, std::uint32_t first, std::uint32_t count) {
    field(key_with_comma, first);
    field(",", count);
    text_ += ']';
  }
  void region(std::string_view key_with_comma, Region r) {
    range(key_with_comma, r.first.value, r.count);
  }
  void heads(ColumnRange c) { range(",\"heads\":[", c.first, c.count); }
  void flush_if_long() {
    if (flush_ && text_.size() > (std::size_t{1} << 20)) flush_(text_);
  }

  void write_head() {
    field("{\"format\":", kFormat);
    field(",\"version\":", kPlanFileVersion);
    if (!plan_.schedule.empty()) field(",\"schedule\":", plan_.schedule);
    const Problem& p = plan_.problem;
    field(",\n \"problem\":{\"workers\":", p.workers);
    field(",\"tokens\":", p.tokens.value);
    field(",\"heads\":", p.heads);
    field(",\"kv_heads\":", p.kv_heads);
    field(",\"head_dim\":", p.head_dim);
    field(",\"dtype\":", to_text(p.dtype));
    field(",\"mask\":", to_text(p.mask));
    field(",\"pass\":", to_text(p.pass));
    text_ += "},\n";
  }

  bool layout_has_a_name() const {
    for (const std::string_view name : layout_names())
      if (name == plan_.layout.name)
        return plan_.layout == make_layout(name, plan_.problem.workers, plan_.problem.tokens);
    return false;
  }

  void write_layout() {
    text_ += " \"layout\":";
    if (layout_has_a_name()) {
      string(plan_.layout.name);
    } else {
      text_ += "{\"chunks\":[";
      bool first = true;
      for (std::uint32_t w = 0; w < plan_.layout.workers(); ++w)
        for (const TokenRange& chunk : plan_.layout.ranges(plan_.layout.share(WorkerId{w}))) {
          field(first ? "\n  {\"worker\":" : ",\n  {\"worker\":", w);
          field(",\"start\":", chunk.start);
          field(",\"count\":", chunk.count);
          if (chunk.stride != 1) field(",\"stride\":", chunk.stride);
          text_ += '}';
          first = false;
          flush_if_long();
        }
      text_ += "\n ]}";
    }
    text_ += ",\n";
    // A reader adds the outputs to a plan that has none, unless it is told that this one is so.
    const auto is_output = [](const Task& t) { return t.kind == TaskKind::Output; };
    if (std::none_of(plan_.tasks.begin(), plan_.tasks.end(), is_output))
      text_ += " \"add_outputs\":false,\n";
  }

  void write_lanes() {
    if (plan_.lanes.size() == kBasicLanes.size()) return;
    text_ += " \"lanes\":";
    for (std::size_t i = 0; i < plan_.lanes.size(); ++i)
      field(i == 0 ? "[" : ",", std::string_view(plan_.lanes[i]));
    text_ += "],\n";
  }

  void write_given() {
    std::vector<Given> given;
    for (const InitialTensor& t : plan_.initial) {
      const Piece& p = plan_.piece(t);
      given.push_back({p.value, t.worker, plan_.regions[p.rows.value], p.columns});
    }
    if (given == default_given(plan_)) return;
    text_ += " \"given\":[";
    bool first = true;
    for (const Given& g : given) {
      field(first ? "\n  {\"tensor\":" : ",\n  {\"tensor\":", plan_.name(g.value));
      field(",\"worker\":", g.worker.value);
      if (g.rows != plan_.layout.share(g.worker)) region(",\"rows\":[", g.rows);
      if (g.heads != plan_.program[g.value].all_columns()) heads(g.heads);
      text_ += '}';
      first = false;
      flush_if_long();
    }
    text_ += "\n ],\n";
  }

  void write_task(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    text_ += "  {\"do\":\"";
    text_ += to_text(task.kind);
    field("\",\"worker\":", task.worker_index);
    field(",\"step\":", task.step);
    write_inputs(task);
    write_transfer(task);
    write_regions(task);
    write_heads(task);
    write_completion(id);
    if (task.lane != default_lane(plan_, task)) field(",\"lane\":", plan_.name(task.lane));
    if (task.with_previous) text_ += ",\"with_previous\":true";
    write_controls(id);
    if (next_slot_ < plan_.slots.size() && plan_.slots[next_slot_].receive == id)
      field(",\"slot\":", plan_.slots[next_slot_++].slot);
    text_ += '}';
  }

  void write_inputs(const Task& task) {
    if (operation(task.kind).inputs == 0) return;
    text_ += ",\"in\":[";
    for (std::size_t i = 0; i < task.inputs.size() && task.inputs[i].valid(); ++i) {
      if (i > 0) text_ += ',';
      reference(task.inputs[i]);
    }
    text_ += ']';
  }

  void reference(TensorId id) {
    const auto initial = static_cast<std::uint32_t>(plan_.initial.size());
    if (id.value < initial) {
      const InitialTensor& t = plan_.initial[id.value];
      const ValueId value = plan_.piece(t).value;
      const auto same = given_.of(value, t.worker);
      text_ += '"';
      text_ += initial_name(value);
      number(t.worker.value);
      if (id != same[0]) field(".", std::lower_bound(same.begin(), same.end(), id) - same.begin());
      text_ += '"';
    } else if ((id.value - initial) % 2 == 0) {
      number((id.value - initial) / 2);
    } else {
      field("\"", (id.value - initial) / 2);
      text_ += ".1\"";
    }
  }

  void write_transfer(const Task& task) {
    if (task.kind == TaskKind::Send && task.peer.valid())
      field(",\"to\":", plan_.tasks[task.peer.value].worker_index);
    if (task.kind == TaskKind::Receive) {
      text_ += ",\"from\":";
      if (task.peer.valid()) {
        number(task.peer.value);
      } else {
        text_ += "null";
      }
    }
  }

  void write_regions(const Task& task) {
    // A plan that lacks an input has no defaults to leave out.
    bool complete = task.kind != TaskKind::Receive || task.peer.valid();
    for (std::size_t i = 0; i < operation(task.kind).inputs; ++i)
      complete = complete && task.inputs[i].valid();
    if (is_transfer(task.kind) && (!complete || plan_.value(task) != default_value(plan_, task))) {
      field(",\"tensor\":", plan_.name(plan_.value(task)));
    }
    const Region rows = plan_.regions[plan_.rows(task).value];
    if (!complete || rows != default_rows(plan_, task)) region(",\"rows\":[", rows);
    if (!is_attend(task.kind)) return;
    const Region keys = plan_.regions[task.keys.value];
    if (!complete || keys != default_keys(plan_, task)) region(",\"keys\":[", keys);
  }

  void write_heads(const Task& task) {
    const Piece& piece = plan_.piece(task);
    if (piece.columns != default_heads(plan_, task, piece.value)) heads(piece.columns);
  }

  void write_completion(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    if (task.completes == completes_[id.value]) return;
    const std::uint32_t outputs = outputs_of(task.kind);
    for (std::uint32_t i = 0; i < outputs; ++i) {
      text_ += i > 0 ? "," : outputs > 1 ? ",\"complete\":[" : ",\"complete\":";
      text_ += task.completes_output(i) ? "true" : "false";
    }
    if (outputs > 1) text_ += ']';
  }

  void write_controls(TaskId id) {
    bool first = true;
    for (; next_control_ < plan_.controls.size() && plan_.controls[next_control_].after == id;
         ++next_control_) {
      field(first ? ",\"after\":[" : ",", plan_.controls[next_control_].before.value);
      first = false;
    }
    if (!first) text_ += ']';
  }

  const Plan& plan_;
  std::string& text_;
  std::function<void(std::string&)> flush_;
  const GivenTensors given_;
  const std::vector<std::uint8_t> completes_;  // by task: what is left out
  std::size_t next_control_ = 0;
  std::size_t next_slot_ = 0;
};

}  // namespace

std::string write_plan(const Plan& plan) {
  std::string text;
  text.reserve(1024 + 64 * plan.tasks.size());
  Writer(plan, text, {}).write();
  return text;
}

void write_plan_file(const Plan& plan, const std::string& path) {
  NewFile file(path);
  std::size_t written = 0;
  std::string text;
  const auto flush = [&](std::string& gathered) {
    written += gathered.size();
    if (written > kMaxBytes) fail("cannot write {}: a plan file may have at most 4 GiB", path);
    file.append(gathered);
    gathered.clear();
  };
  Writer(plan, text, flush).write();
  flush(text);
  file.finish();
}

}  // namespace ringsched
