// What the cuda backend decides before it calls CUDA: streams, events, steps, memory. Plans are
// executed by loops in place of a GPU, in any order that streams allow, and checked against
// attention in double precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/memory_need.hpp"
#include "backends/cuda/narrow_outputs.hpp"
#include "backends/cuda/partitions.hpp"
#include "ringsched/runtime/check.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "runtime/cuda_emulation.hpp"

namespace ringsched::cuda {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const Lowering::Refusal kTakesAll = [](const Shape&) { return std::string(); };
const Lowering::Refusal kTakesNone = [](const Shape&) { return std::string("not today"); };
const Lowering::Refusal kTakesSome = [](const Shape& s) {
  return std::string((s.rows + s.keys) % 3 == 0 ? "a multiple of three" : "");
};

Problem problem(std::uint32_t workers, std::int64_t tokens, std::uint32_t heads,
                std::uint32_t kv_heads, std::uint32_t dim, Dtype dtype, Pass pass,
                const Mask& mask = Mask::causal()) {
  Problem p;
  p.workers = workers;
  p.tokens = {tokens};
  p.heads = heads;
  p.kv_heads = kv_heads;
  p.head_dim = dim;
  p.dtype = dtype;
  p.pass = pass;
  p.mask = mask;
  return p;
}

Plan plan_of(const Problem& p, std::string_view schedule, Overlap overlap = Overlap::Prefetch) {
  return limit_communication(build_plan(p, find_schedule(std::string(schedule))), {overlap, 0});
}

std::string described(const Plan& plan) {
  const Problem& p = plan.problem;
  return fmt::format("{} W={} tokens {} heads {}/{} x {} {} {} {}", plan.schedule, p.workers,
                     p.tokens.value, p.heads, p.kv_heads, p.head_dim, to_text(p.dtype),
                     to_text(p.mask), to_text(p.pass));
}

std::vector<WorkerId> all_workers(const Plan& plan) {
  std::vector<WorkerId> out;
  for (std::uint32_t w = 0; w < plan.problem.workers; ++w) out.push_back({w});
  return out;
}

std::unique_ptr<Execution> execution_of(const Plan& plan, Emulation& gpu, Control& control,
                                        const Inputs& inputs) {
  return std::make_unique<Execution>(
      plan, all_workers(plan), [&](WorkerId w) { return gpu.device(w); }, gpu.transport(), control,
      [&](const InitialTensor& t, std::span<std::byte> out) {
        if (t.kind == TensorKind::Partial)
          fill_forward_result(plan, inputs, t, out);
        else
          inputs.fill(t.kind, plan.layout, plan.regions[t.region.value], out);
      });
}

// Again and again on the same streams, as a run is repeated.
void expect_right(const Plan& plan, const Lowering::Refusal& refuses, std::uint64_t seed,
                  InputKind kind = InputKind::Normal, int repeats = 1) {
  Control control;
  const Inputs inputs(plan.problem, seed, kind);
  Emulation gpu(plan, refuses, seed, true);
  const auto run = execution_of(plan, gpu, control, inputs);
  for (int i = 0; i < repeats; ++i) {
    run->run(Clock::now(), 60s, [](const std::string& why) { FAIL() << why; });
    const auto checked = check_results(plan, inputs, run->results(), {0, 3}, {});
    ASSERT_FALSE(checked.empty());
    for (const CheckedResults& c : checked)
      EXPECT_TRUE(c.holds() && c.rows > 0)
          << described(plan) << " seed " << seed << ": " << c.name << " is off by "
          << c.largest_error << ", " << c.of_bound << " of what is allowed, at " << c.worst;
  }
  EXPECT_EQ(gpu.not_finite(), ~0u) << described(plan);
}

class EverySchedule : public testing::TestWithParam<std::string> {};

TEST_P(EverySchedule, ComputesTheRightNumbersInAnyOrderThatStreamsAllow) {
  // Head ratios, dimensions, dtypes, masks, overlaps and what the library takes take turns.
  constexpr std::pair<std::uint32_t, std::uint32_t> heads[] = {
      {4, 1}, {2, 2}, {6, 3}, {1, 1}, {3, 1}};
  constexpr std::uint32_t dims[] = {16, 8, 5, 24};
  constexpr Dtype dtypes[] = {Dtype::Bf16, Dtype::Fp16, Dtype::Fp32, Dtype::Bf16, Dtype::Fp16};
  std::uint32_t turn = 0;
  for (std::uint32_t w = 1; w <= 9; ++w)
    for (const Pass pass : {Pass::Forward, Pass::Both, Pass::Backward})
      for (const std::int64_t tokens : {std::int64_t{4} * w + 3, std::int64_t{48}}) {
        ++turn;
        const Mask masks[] = {Mask::causal(),
                              Mask::full(),
                              Mask::causal(),
                              Mask::window({9}),
                              Mask::prefix_window({3}, {7}),
                              Mask::documents({{5}, {tokens - 5}})};
        const auto [h, kv] = heads[turn % 5];
        const Problem p = problem(w, tokens, h, kv, dims[turn / 2 % 4], dtypes[turn / 3 % 5], pass,
                                  masks[turn % 6]);
        const Plan plan = plan_of(p, GetParam(), static_cast<Overlap>(turn % 3));
        const Lowering::Refusal* refusals[] = {&kTakesAll, &kTakesAll, &kTakesSome, &kTakesNone};
        expect_right(plan, *refusals[turn / 2 % 4], turn, InputKind::Normal, 2);
        if (HasFailure()) return;
      }
}

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
          add(operands.inputs[n], plan.bytes(t.kind, t.region).value, false, {lane, i});
        }
      for (std::uint32_t n = 0; n < outputs_of(task.kind); ++n) {
        const Tensor t = plan.tensor(plan.output(op.task, n));
        add(operands.outputs[n], plan.bytes(t.kind, t.region).value, true, {lane, i});
      }
    }
  return out;
}

TEST_P(EverySchedule, OrdersWhateverTouchesTheSameMemory) {
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

TEST_P(EverySchedule, IsSubmittedSoThatEventsAreRecordedBeforeTheyAreWaitedFor) {
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

TEST_P(EverySchedule, KeepsNarrowOnlyWhatIsMergedWhereItWasMade) {
  for (std::uint32_t w = 1; w <= 9; ++w) {
    const Plan plan = plan_of(problem(w, 4 * w, 2, 1, 8, Dtype::Bf16, Pass::Both), GetParam());
    const std::vector<bool> narrow =
        narrow_outputs(plan, std::vector<bool>(plan.tasks.size(), true));
    std::int64_t count = std::count(narrow.begin(), narrow.end(), true);
    for (const Task& task : plan.tasks)
      for (std::size_t i = 0; i < 3; ++i) {
        const TensorId t = task.inputs[i];
        if (!t.valid() || !plan.producer(t).valid()) continue;
        if (!narrow[t.value - plan.initial.size()]) continue;
        EXPECT_TRUE((task.kind == TaskKind::Merge || task.kind == TaskKind::Reduce) && i == 1)
            << described(plan) << ": " << to_text(task.kind);
      }
    // The first tile of a share is what the others are merged into.
    EXPECT_EQ(count > 0, w > 1) << described(plan);
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, EverySchedule, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const Schedule& s : schedules()) names.emplace_back(s.name);
                           return names;
                         }()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(CudaPlan, LargeAndEqualScoresStayRight) {
  for (const InputKind kind : {InputKind::Large, InputKind::Equal})
    for (const char* name : {"ring", "striped", "balanced-split"})
      for (const Dtype dtype : {Dtype::Fp32, Dtype::Bf16})
        expect_right(plan_of(problem(4, 70, 2, 1, 24, dtype, Pass::Both), name), kTakesAll, 5,
                     kind);
}

TEST(CudaPlan, ANumberThatIsNoneIsSeenAndItsTaskNamed) {
  const Plan plan = plan_of(problem(3, 30, 2, 1, 8, Dtype::Bf16, Pass::Forward), "ring");
  for (const auto* refusal : {&kTakesAll, &kTakesNone}) {
    Control control;
    const Inputs inputs(plan.problem, 1, InputKind::NotANumber);
    Emulation gpu(plan, *refusal, 1, true);
    const auto run = execution_of(plan, gpu, control, inputs);
    run->run(Clock::now(), 60s, [](const std::string& why) { FAIL() << why; });
    ASSERT_LT(gpu.not_finite(), plan.tasks.size());
    EXPECT_EQ(plan.tasks[gpu.not_finite()].worker_index, 2);
  }
}

TEST(CudaPlan, AStreamThatWaitsForAnotherProcessIsRefused) {
  const Plan plan = plan_of(problem(2, 30, 2, 1, 8, Dtype::Bf16, Pass::Forward), "ring");
  StreamPlan streams(plan);
  StreamTransport transport(streams);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    if (plan.tasks[id].kind != TaskKind::Receive) continue;
    Message m;
    m.task = plan.tasks[id].peer;
    streams.exchange({1}, Lane::Fetch, {m});
  }
  EXPECT_THROW(submission_order(streams), RunFailed);
}

// What a tile's form says, pair by pair, against what the library is given.
TEST(CudaPlan, TilesForTheLibraryHaveThePairsOfTheTile) {
  for (const TileForm form : {TileForm::Full, TileForm::Causal, TileForm::StrictlyCausal})
    for (std::int64_t rows = 1; rows <= 9; ++rows)
      for (std::int64_t keys = 1; keys <= 9; ++keys) {
        if (form == TileForm::StrictlyCausal && rows == 1) continue;  // sees nothing
        const auto tile = library_tile(Problem{}, form, rows, keys, false);
        ASSERT_TRUE(tile);
        EXPECT_GT(tile->shape.rows, 0);
        EXPECT_GT(tile->shape.keys, 0);
        for (std::int64_t a = 0; a < rows; ++a)
          for (std::int64_t b = 0; b < keys; ++b) {
            const bool sees = form == TileForm::Full || (form == TileForm::Causal ? b <= a : b < a);
            const std::int64_t i = a - tile->dropped_rows;
            const bool given = i >= 0 && i < tile->shape.rows && b < tile->shape.keys &&
                               (!tile->shape.causal || b <= i);
            EXPECT_EQ(sees, given) << rows << " x " << keys << " row " << a << " key " << b;
          }
      }
  EXPECT_FALSE(library_tile(Problem{}, TileForm::Other, 8, 8, false));
}

TEST(CudaPlan, SaysWhichAttendsTheLibraryDoesNotTakeAndWhy) {
  const std::vector<WorkerId> all{{0}, {1}, {2}};
  const auto summary = [&](const Problem& p, const Lowering::Refusal& refuses) {
    const Plan plan = plan_of(p, "ring");
    return Lowering(plan, all, refuses).summary();
  };
  const Problem p = problem(3, 30, 2, 1, 8, Dtype::Bf16, Pass::Forward);
  EXPECT_EQ(summary(p, kTakesAll), "6 attends by cuDNN");
  EXPECT_EQ(summary(p, kTakesNone), "0 attends by cuDNN, 6 by the kernel for any tile (not today)");
  Problem fp32 = p;
  fp32.dtype = Dtype::Fp32;
  EXPECT_THAT(summary(fp32, kTakesAll), HasSubstr("cuDNN has no fp32"));
  Problem window = p;
  window.mask = Mask::window({15});
  EXPECT_THAT(summary(window, kTakesAll), HasSubstr("no such mask"));
  EXPECT_THAT(summary(window, kTakesAll), HasSubstr(" attends by cuDNN, "));
  Problem wide = p;
  wide.head_dim = 512;
  EXPECT_THROW(check_for_gpu(wide), Error);
}

TEST(CudaPlan, APartitionIsAsLargeAsItMayBe) {
  for (std::uint32_t sms = 1; sms <= 160; ++sms)
    for (const std::uint32_t step : {1u, 2u, 8u})
      for (const std::uint32_t least : {2u, 4u, 8u})
        for (std::uint32_t workers = 1; workers <= 33; ++workers) {
          std::uint32_t best = 0;  // found by trying
          for (std::uint32_t each = step; each * workers <= sms; each += step)
            if (each >= least) best = each;
          const Partition p = part({sms, least, step}, workers);
          ASSERT_EQ(p.each, best) << sms << " " << step << " " << least << " " << workers;
          ASSERT_TRUE(best == 0 || p.each * workers + p.left == sms);
        }
  // An H100 or H200, as its driver describes it.
  EXPECT_EQ(part({132, 8, 8}, 8).each, 16u);
  EXPECT_EQ(part({132, 8, 8}, 8).left, 4u);
}

TEST(CudaPlan, WorkersAreSpreadOverGpusEvenlyAndInOrder) {
  EXPECT_EQ(gpu_of_each(8, 1), std::vector<std::uint32_t>(8, 0));
  EXPECT_EQ(gpu_of_each(8, 4), (std::vector<std::uint32_t>{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(gpu_of_each(5, 4), (std::vector<std::uint32_t>{0, 0, 1, 1, 2}));
  EXPECT_EQ(gpu_of_each(3, 8), (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST(CudaPlan, TooLittleMemoryIsSaidWithWhatWouldFit) {
  const Plan plan = plan_of(problem(4, 4096, 32, 8, 128, Dtype::Bf16, Pass::Both), "ring");
  const Lowering lowering(plan, all_workers(plan), kTakesAll);
  const MemoryPlan memory = plan_memory(plan);
  const std::int64_t needed = memory_needed(plan, memory, lowering, all_workers(plan), 1000);
  std::int64_t tensors = 0;
  for (const Bytes b : memory.size) tensors += b.value;
  EXPECT_GT(needed, tensors + 4000);
  EXPECT_LT(needed, 2 * tensors);
  EXPECT_NO_THROW(require_memory(plan.problem, 0, needed, needed));
  try {
    require_memory(plan.problem, 3, needed, needed / 2);
    FAIL();
  } catch (const RunFailed& e) {
    EXPECT_THAT(e.what(), HasSubstr("GPU 3 has "));
    EXPECT_THAT(e.what(), HasSubstr("2 007 tokens would fit"));
  }
  // What is said to fit does.
  const Plan less = plan_of(problem(4, 2007, 32, 8, 128, Dtype::Bf16, Pass::Both), "ring");
  const Lowering lower(less, all_workers(less), kTakesAll);
  EXPECT_LE(memory_needed(less, plan_memory(less), lower, all_workers(less), 1000), needed / 2);
}

}  // namespace
}  // namespace ringsched::cuda
