// Chakra execution traces by hand: protobuf is a list of fields, each a number and a value, and
// these messages need three kinds of value. Field numbers: mlcommons/chakra,
// schema/protobuf/et_def.proto.
#include <cmath>
#include <cstring>

#include "common.hpp"
#include "kernel_time.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/simulator/export.hpp"

namespace ringsched {

namespace {

class Message3 {  // of proto3
 public:
  void number(std::uint32_t field, std::uint64_t value) {
    key(field, 0);
    varint(value);
  }
  void text(std::uint32_t field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
  }
  void packed(std::uint32_t field, const std::vector<std::uint32_t>& values) {
    if (values.empty()) return;
    Message3 inner;
    for (const std::uint32_t v : values) inner.varint(v);
    text(field, inner.bytes_);
  }
  const std::string& bytes() const { return bytes_; }
  // As streams of messages have them: the length first.
  std::string delimited() const {
    Message3 out;
    out.varint(bytes_.size());
    return out.bytes_ + bytes_;
  }

 private:
  void key(std::uint32_t field, std::uint32_t type) { varint(field << 3 | type); }
  void varint(std::uint64_t v) {
    for (; v >= 0x80; v >>= 7) bytes_ += static_cast<char>(v | 0x80);
    bytes_ += static_cast<char>(v);
  }
  std::string bytes_;
};

constexpr std::uint32_t kInt32 = 7, kInt64 = 9, kBool = 27;  // of AttributeProto's values
constexpr std::uint32_t kComp = 4, kSend = 5, kReceive = 6;  // node types

void attribute(Message3& node, std::string_view name, std::uint32_t type, std::uint64_t value) {
  Message3 a;
  a.text(1, name);
  a.number(type, value);
  node.text(10, a.bytes());
}

std::uint64_t whole_us(std::int64_t ps) {
  return static_cast<std::uint64_t>((ps + 500'000) / 1'000'000);
}

void check_loss(const Plan& plan, const Costs& costs) {
  double all = 0, lost = 0;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    if (is_transfer(plan.tasks[id].kind)) continue;
    const auto ps = static_cast<double>(costs.compute(id, plan.tasks[id]));
    all += ps;
    lost += std::abs(ps - 1e6 * static_cast<double>(whole_us(costs.compute(id, plan.tasks[id]))));
  }
  if (lost > 0.01 * all)
    fail(
        "a Chakra trace has whole microseconds only, which would lose {:.1f} % of the computing "
        "of this plan; more tokens for each worker lose less, and --format goal has nanoseconds",
        100 * lost / all);
}

}  // namespace

std::vector<std::string> chakra(const Workload& w) {
  const Plan& plan = *w.plan;
  const Costs costs(w, {});
  check_loss(plan, costs);
  const LaneUnits lanes = lane_units(plan);
  std::vector<std::size_t> place(plan.tasks.size());
  for (const auto& lane : lanes.tasks)
    for (std::size_t at = 0; at < lane.size(); ++at) place[lane[at]] = at;

  Message3 metadata;
  metadata.text(1, "0.0.4");
  std::vector<std::string> traces(plan.problem.workers, metadata.delimited());
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    Message3 node;
    node.number(1, id);
    node.text(2, fmt::format("{} step {}", to_text(task.kind), task.step));
    node.number(3, task.kind == TaskKind::Send      ? kSend
                   : task.kind == TaskKind::Receive ? kReceive
                                                    : kComp);
    node.packed(4, unit_before(plan, lanes.tasks[lane_of(task)], place[id]));
    std::vector<std::uint32_t> needs = dependencies(plan, id);
    std::erase_if(needs, [&](std::uint32_t before) {
      return plan.tasks[before].worker_index != task.worker_index;
    });
    node.packed(5, needs);
    attribute(node, "is_cpu_op", kBool, 0);
    if (is_transfer(task.kind)) {
      const std::uint32_t send = task.kind == TaskKind::Send ? id : task.peer.value;
      attribute(node, "comm_src", kInt32, plan.tasks[send].worker_index);
      attribute(node, "comm_dst", kInt32, plan.tasks[plan.tasks[send].peer.value].worker_index);
      attribute(node, "comm_tag", kInt32, send);
      attribute(node, "comm_size", kInt64,
                static_cast<std::uint64_t>(wire_of(w, costs, send).message.bytes));
    } else {
      const Work& work = plan.works[task.work.value];
      node.number(7, whole_us(costs.compute(id, task)));
      attribute(node, "num_ops", kInt64,
                is_attend(task.kind)
                    ? static_cast<std::uint64_t>(attention_flops(
                          plan.problem, work.pairs, task.kind == TaskKind::AttendBackward))
                    : 0);
      attribute(node, "tensor_size", kInt64, static_cast<std::uint64_t>(work.bytes.value));
    }
    traces[task.worker_index] += node.delimited();
  }
  return traces;
}

}  // namespace ringsched
