// The streams and events of a run: whatever touches the same memory is ordered, and everything can
// be submitted.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/stream_plan.hpp"
#include "runtime/cuda_emulation.hpp"
#include "runtime/plans_to_run.hpp"
#include "support/more_lanes.hpp"

namespace ringsched::cuda {
namespace {

class EveryScheduleOnStreams : public testing::TestWithParam<std::string> {};

// Which ops happen before which, by clocks that count the ops of each lane.
class Clocks {
 public:
  explicit Clocks(const StreamPlan& streams) : lanes_(streams.lanes().size()) {
    std::vector<std::vector<std::uint32_t>> recorded(streams.events());
    std::vector<std::vector<std::uint32_t>> now(lanes_, std::vector<std::uint32_t>(lanes_, 0));
    std::vector<std::size_t> at(lanes_, 0);
    times_.resize(lanes_);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t lane = 0; lane < lanes_; ++lane)
        while (at[lane] < streams.lanes()[lane].size()) {
          const Op& op = streams.lanes()[lane][at[lane]];
          if (op.kind == Op::Kind::Wait) {
            if (recorded[op.event].empty()) break;
            for (std::size_t l = 0; l < lanes_; ++l)
              now[lane][l] = std::max(now[lane][l], recorded[op.event][l]);
          }
          now[lane][lane] = static_cast<std::uint32_t>(++at[lane]);
          if (op.kind == Op::Kind::Record || op.kind == Op::Kind::End)
            recorded[op.event] = now[lane];
          times_[lane].push_back(now[lane]);
          moved = true;
        }
    }
    for (std::size_t lane = 0; lane < lanes_; ++lane)
      complete_ = complete_ && at[lane] == streams.lanes()[lane].size();
  }
  bool complete() const { return complete_; }
  bool before(Submitted a, Submitted b) const {
    return times_[b.lane][b.op][a.lane] >= times_[a.lane][a.op][a.lane] &&
           (a.lane != b.lane || a.op < b.op);
  }

 private:
  std::size_t lanes_;
  bool complete_ = true;
  std::vector<std::vector<std::vector<std::uint32_t>>> times_;
};

struct Access {
  const std::byte *from, *to;
  bool writes;
  Submitted op;
};

// What each op reads and writes, whole tensors and copied pieces.
std::vector<Access> accesses(const Plan& plan, const StreamPlan& streams) {
  std::vector<Access> out;
  const auto add = [&](const std::byte* at, std::int64_t bytes, bool writes, Submitted op) {
    if (at && bytes > 0) out.push_back({at, at + bytes, writes, op});
  };
  for (std::uint32_t lane = 0; lane < streams.lanes().size(); ++lane)
    for (std::uint32_t i = 0; i < streams.lanes()[lane].size(); ++i) {
      const Op& op = streams.lanes()[lane][i];
      if (op.kind == Op::Kind::Copy)
        for (const CopiedPiece& p : pieces(streams.delivery(op))) {
          add(p.from, p.bytes, false, {lane, i});
          add(p.to, p.bytes, true, {lane, i});
        }
      if (op.kind != Op::Kind::Compute) continue;
      const Task& task = plan.tasks[op.task.value];
      const Operands& operands = streams.operands(op);
      for (std::size_t n = 0; n < task.inputs.size(); ++n)
        if (task.inputs[n].valid()) {
          const Tensor t = plan.tensor(task.inputs[n]);
          add(operands.inputs[n], plan.bytes(t.value, t.rows).value, false, {lane, i});
        }
      for (std::uint32_t n = 0; n < outputs_of(task.kind); ++n) {
        const Tensor t = plan.tensor(plan.output(op.task, n));
        add(operands.outputs[n], plan.bytes(t.value, t.rows).value, true, {lane, i});
      }
    }
  return out;
}

TEST_P(EveryScheduleOnStreams, OrdersWhateverTouchesTheSameMemory) {
  for (std::uint32_t w = 1; w <= 9; ++w)
    for (const Pass pass : {Pass::Forward, Pass::Both, Pass::Backward})
      for (const Overlap overlap : {Overlap::None, Overlap::Prefetch, Overlap::Unbounded}) {
        const Plan plan =
            plan_of(problem(w, 3 * w + 1, 2, 1, 8, Dtype::Bf16, pass), GetParam(), overlap);
        Control control;
        const Inputs inputs(plan.problem, 1);
        Emulation gpu(plan, kTakesAll, 1);
        const auto run = execution_of(plan, gpu, control, inputs);
        const Clocks clocks(gpu.streams());
        ASSERT_TRUE(clocks.complete()) << described(plan);
        const std::vector<Access> all = accesses(plan, gpu.streams());
        for (std::size_t i = 0; i < all.size(); ++i)
          for (std::size_t j = 0; j < i; ++j) {
            const Access &a = all[i], &b = all[j];
            if (!(a.writes || b.writes) || !(a.from < b.to && b.from < a.to)) continue;
            if (a.op.lane == b.op.lane && a.op.op == b.op.op) continue;
            ASSERT_TRUE(clocks.before(a.op, b.op) || clocks.before(b.op, a.op))
                << described(plan) << ": ops " << a.op.op << " of lane " << a.op.lane << " and "
                << b.op.op << " of lane " << b.op.lane;
          }
      }
}

TEST_P(EveryScheduleOnStreams, IsSubmittedSoThatEventsAreRecordedBeforeTheyAreWaitedFor) {
  for (std::uint32_t w = 1; w <= 9; ++w)
    for (const Pass pass : {Pass::Forward, Pass::Both}) {
      const Plan plan = plan_of(problem(w, 4 * w + 1, 2, 1, 8, Dtype::Bf16, pass), GetParam());
      Control control;
      const Inputs inputs(plan.problem, 1);
      Emulation gpu(plan, kTakesAll, 1);
      const auto run = execution_of(plan, gpu, control, inputs);
      const auto& lanes = gpu.streams().lanes();
      std::vector<bool> recorded(gpu.streams().events(), false);
      std::vector<std::uint32_t> next(lanes.size(), 0);
      for (const Submitted s : submission_order(gpu.streams())) {
        ASSERT_EQ(s.op, next[s.lane]++) << "each lane in its order";
        const Op& op = lanes[s.lane][s.op];
        ASSERT_TRUE(op.kind != Op::Kind::Wait || recorded[op.event]) << described(plan);
        if (op.kind == Op::Kind::Record || op.kind == Op::Kind::End) recorded[op.event] = true;
      }
      for (std::size_t lane = 0; lane < lanes.size(); ++lane)
        ASSERT_EQ(next[lane], lanes[lane].size());
    }
}

INSTANTIATE_TEST_SUITE_P(Cuda, EveryScheduleOnStreams, testing::ValuesIn(gpu_schedule_names()),
                         name_of_test);

TEST(CudaStreams, AreAsManyAsThePlanHasLanes) {
  for (const std::string& name : gpu_schedule_names()) {
    const Plan plan =
        on_more_lanes(plan_of(problem(4, 70, 2, 1, 8, Dtype::Bf16, Pass::Both), name));
    Control control;
    const Inputs inputs(plan.problem, 1);
    Emulation gpu(plan, kTakesAll, 1);
    const auto run = execution_of(plan, gpu, control, inputs);
    EXPECT_EQ(gpu.streams().lanes().size(), 4u * 8);
    EXPECT_TRUE(Clocks(gpu.streams()).complete()) << name;
    run->run(Clock::now(), std::chrono::seconds(20), [](const std::string& why) { FAIL() << why; });
    expect_right(check_results(plan, inputs, run->results(), {0, 3}, {}), described(plan));
  }
}

TEST(CudaStreams, AStreamThatWaitsForAnotherProcessIsRefused) {
  const Plan plan = plan_of(problem(2, 30, 2, 1, 8, Dtype::Bf16, Pass::Forward), "ring");
  StreamPlan streams(plan);
  StreamTransport transport(streams);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    if (plan.tasks[id].kind != TaskKind::Receive) continue;
    MessageEnd m;
    m.task = plan.tasks[id].peer;
    streams.exchange({1}, Lane::Fetch, {m});
  }
  EXPECT_THROW(submission_order(streams), RunFailed);
}

}  // namespace
}  // namespace ringsched::cuda
