#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <utility>

#include "plan_defaults.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/plan_file.hpp"

namespace ringsched {

namespace {

using namespace plan_file;

class Writer {
 public:
  // `flush` takes the text written so far whenever enough has gathered.
  explicit Writer(const Plan& plan, std::function<void(std::string&)> flush = {})
      : plan_(plan), flush_(std::move(flush)) {}

  // Returns the text if nothing takes it.
  std::string write() {
    if (!flush_) text_.reserve(1024 + 64 * plan_.tasks.size());
    write_head();
    write_layout();
    write_lanes();
    write_given();
    text_ += " \"tasks\":[";
    std::uint32_t id = 0;
    list("\n", ",\n", plan_.tasks, [&](const Task&) { write_task({id++}); });
    text_ += "\n ]}\n";
    if (flush_) flush_(text_);
    return std::move(text_);
  }

 private:
  void value(std::integral auto n) {
    char digits[24];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, n).ptr);
  }
  void value(std::string_view s) {
    text_ += '"';
    for (const char c : s)
      if (static_cast<unsigned char>(c) < 0x20) {
        fmt::format_to(std::back_inserter(text_), "\\u{:04x}", static_cast<unsigned>(c));
      } else {
        if (c == '"' || c == '\\') text_ += '\\';
        text_ += c;
      }
    text_ += '"';
  }
  void field(std::string_view key, const auto& of) {  // the key with all that stands before `of`
    text_ += key;
    value(of);
  }
  void range(std::string_view key, std::uint32_t first, std::uint32_t count) {
    list(key, ",", std::array{first, count}, [&](std::uint32_t n) { value(n); });
    text_ += ']';
  }
  void region(std::string_view key, Region r) { range(key, r.first.value, r.count); }
  void heads(ColumnRange c) { range(",\"heads\":[", c.first, c.count); }
  // Writes each of `things`, with `first` before the first one and `other` before the rest.
  template <class Things, class Write>
  void list(std::string_view first, std::string_view other, const Things& things, Write write) {
    for (const auto& thing : things) {
      text_ += std::exchange(first, other);
      write(thing);
      if (flush_ && text_.size() > (std::size_t{1} << 20)) flush_(text_);
    }
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
    if (p.decodes()) field(",\"new_tokens\":", p.new_tokens.value);
    text_ += "},\n";
    if (plan_.dummy_heads == 0) return;
    range(" \"dummy_heads\":[", plan_.dummy_heads, plan_.dummy_kv_heads);
    text_ += ",\n";
  }

  void write_layout() {
    const Layout& layout = plan_.layout;
    text_ += " \"layout\":";
    if (std::ranges::count(layout_names(), layout.name) > 0 &&
        layout == make_layout(layout.name, plan_.problem)) {
      value(layout.name);
    } else {
      text_ += "{\"chunks\":[";
      std::uint32_t id = 0;
      list("\n  {\"worker\":", ",\n  {\"worker\":", layout.chunks, [&](const TokenRange& chunk) {
        value(layout.owner({id++}).value);
        field(",\"start\":", chunk.start);
        field(",\"count\":", chunk.count);
        if (chunk.stride != 1) field(",\"stride\":", chunk.stride);
        text_ += '}';
      });
      text_ += "\n ]}";
    }
    text_ += ",\n";
    // A reader adds outputs to a plan without any, unless the file says not to.
    if (!has_outputs(plan_)) text_ += " \"add_outputs\":false,\n";
  }

  void write_lanes() {
    if (plan_.lanes.size() == kBasicLanes.size()) return;
    list(" \"lanes\":[", ",", plan_.lanes, [&](std::string_view name) { value(name); });
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
    list("\n  {\"tensor\":", ",\n  {\"tensor\":", given, [&](const Given& g) {
      value(plan_.name(g.value));
      field(",\"worker\":", g.worker.value);
      if (g.rows != given_rows(plan_, g.value, g.worker)) region(",\"rows\":[", g.rows);
      if (g.heads != plan_.program[g.value].all_columns()) heads(g.heads);
      text_ += '}';
    });
    text_ += "\n ],\n";
  }

  void write_task(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    field("  {\"do\":", to_text(task.kind));
    field(",\"worker\":", task.worker_index);
    field(",\"step\":", task.step);
    write_inputs(task);
    write_partners(id);
    write_piece(task);
    write_completion(id);
    if (task.lane != default_lane(plan_, task)) field(",\"lane\":", plan_.name(task.lane));
    if (task.with_previous && !is_repack(task.kind)) text_ += ",\"with_previous\":true";
    write_controls(id);
    if (next_slot_ < plan_.slots.size() && plan_.slots[next_slot_].receive == id)
      field(",\"slot\":", plan_.slots[next_slot_++].slot);
    text_ += '}';
  }

  void write_inputs(const Task& task) {
    if (operation(task.kind).inputs == 0) return;
    text_ += ",\"in\":[";
    const auto end = std::ranges::find_if_not(task.inputs, &TensorId::valid);
    list("", ",", std::span(task.inputs.begin(), end), [&](TensorId t) { reference(t); });
    text_ += ']';
  }

  void reference(TensorId id) {
    const TaskId maker = plan_.producer(id);
    if (!maker.valid()) {
      value(given_.name(plan_, id));
    } else if (id == plan_.output(maker)) {
      value(maker.value);
    } else {
      field("\"", maker.value);
      text_ += ".1\"";
    }
  }

  void write_partners(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    if (is_member(task.kind) && plan_.exchange(task).first == id)
      field(",\"members\":", plan_.exchange(task).members);
    const bool receives = task.kind == TaskKind::Receive;
    if (task.kind == TaskKind::Send && task.peer.valid())
      field(",\"to\":", plan_.tasks[task.peer.value].worker_index);
    if (receives && task.peer.valid()) field(",\"from\":", task.peer.value);
    if (receives && !task.peer.valid()) text_ += ",\"from\":null";
  }

  void write_piece(const Task& task) {
    // A plan that lacks an input has no defaults to leave out.
    const auto inputs = std::span(task.inputs).first(operation(task.kind).inputs);
    const bool complete = (task.kind != TaskKind::Receive || task.peer.valid()) &&
                          std::ranges::all_of(inputs, &TensorId::valid);
    const Piece& piece = plan_.piece(task);
    const bool moves = communicates(task.kind) || is_repack(task.kind);
    if (moves && (!complete || piece.value != default_value(plan_, task)))
      field(",\"tensor\":", plan_.name(piece.value));
    const Region rows = plan_.regions[piece.rows.value];
    if (rows.count == 0)
      text_ += ",\"rows\":[]";  // a member that gets nothing
    else if (!complete || is_member(task.kind) || rows != default_rows(plan_, task))
      region(",\"rows\":[", rows);
    if (is_attend(task.kind)) {
      const Region keys = plan_.regions[task.keys.value];
      if (!complete || keys != default_keys(plan_, task)) region(",\"keys\":[", keys);
    }
    if (piece.columns != default_heads(plan_, task, piece.value)) heads(piece.columns);
  }

  void write_completion(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    if (task.completes == completes_[id.value]) return;
    const std::uint32_t outputs = outputs_of(task.kind);
    const auto said = [&](std::uint32_t i) { return task.completes_output(i) ? "true" : "false"; };
    if (outputs > 1)
      text_ += fmt::format(",\"complete\":[{},{}]", said(0), said(1));
    else
      text_ += fmt::format(",\"complete\":{}", said(0));
  }

  void write_controls(TaskId id) {
    const auto first = next_control_;
    while (next_control_ != plan_.controls.end() && next_control_->after == id) ++next_control_;
    list(",\"after\":[", ",", std::span(first, next_control_),
         [&](const ControlEdge& edge) { value(edge.before.value); });
    if (first != next_control_) text_ += ']';
  }

  const Plan& plan_;
  std::function<void(std::string&)> flush_;
  std::string text_;
  const GivenTensors given_{plan_};
  const std::vector<std::uint8_t> completes_ = default_completes(plan_);  // what is left out
  std::vector<ControlEdge>::const_iterator next_control_ = plan_.controls.begin();
  std::size_t next_slot_ = 0;
};

}  // namespace

std::string write_plan(const Plan& plan) { return Writer(plan).write(); }

void write_plan_file(const Plan& plan, const std::string& path) {
  NewFile file(path);
  std::size_t written = 0;
  const auto flush = [&](std::string& text) {
    written += text.size();
    if (written > kMaxBytes) fail("cannot write {}: a plan file may have at most 4 GiB", path);
    file.append(text);
    text.clear();
  };
  Writer(plan, flush).write();
  file.finish();
}

}  // namespace ringsched
