#include <fmt/format.h>

#include <algorithm>
#include <charconv>
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
      : plan_(plan), text_(text), flush_(std::move(flush)) {}

  void write() {
    write_head();
    write_layout();
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
  template <class Int>
  void field(std::string_view key_with_comma, Int n) {  // ,"key":n
    text_ += key_with_comma;
    number(n);
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
  void region(std::string_view key_with_comma, Region r) {
    field(key_with_comma, r.first.value);
    field(",", r.count);
    text_ += ']';
  }
  void flush_if_long() {
    if (flush_ && text_.size() > (std::size_t{1} << 20)) flush_(text_);
  }

  void write_head() {
    text_ += "{\"format\":";
    string(kFormat);
    field(",\"version\":", kPlanFileVersion);
    if (!plan_.schedule.empty()) {
      text_ += ",\"schedule\":";
      string(plan_.schedule);
    }
    const Problem& p = plan_.problem;
    field(",\n \"problem\":{\"workers\":", p.workers);
    field(",\"tokens\":", p.tokens.value);
    field(",\"heads\":", p.heads);
    field(",\"kv_heads\":", p.kv_heads);
    field(",\"head_dim\":", p.head_dim);
    text_ += ",\"dtype\":";
    string(to_text(p.dtype));
    text_ += ",\"mask\":";
    string(to_text(p.mask));
    text_ += ",\"pass\":";
    string(to_text(p.pass));
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

  void write_task(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    text_ += "  {\"do\":\"";
    text_ += to_text(task.kind);
    field("\",\"worker\":", task.worker_index);
    field(",\"step\":", task.step);
    write_inputs(task);
    write_transfer(task);
    write_regions(task);
    if (task.lane != default_lane(plan_, task)) {
      text_ += ",\"lane\":";
      string(to_text(task.lane));
    }
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
      for (const InitialName& n : kInitialNames)
        if (n.value == plan_.piece(t).value) {
          text_ += '"';
          text_ += n.name;
          number(t.worker.value);
          text_ += '"';
        }
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
      text_ += ",\"tensor\":";
      string(plan_.name(plan_.value(task)));
    }
    const Region rows = plan_.regions[plan_.rows(task).value];
    if (!complete || rows != default_rows(plan_, task)) region(",\"rows\":[", rows);
    if (!is_attend(task.kind)) return;
    const Region keys = plan_.regions[task.keys.value];
    if (!complete || keys != default_keys(plan_, task)) region(",\"keys\":[", keys);
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
