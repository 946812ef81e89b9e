// What the cuda backend decides before it calls CUDA: steps, partitions, memory. Loops replace the
// GPU and execute plans in any order that streams allow; the results are compared with attention in
// double precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/memory_need.hpp"
#include "backends/cuda/narrow_outputs.hpp"
#include "backends/cuda/partitions.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "runtime/cuda_emulation.hpp"
#include "runtime/plans_to_run.hpp"
#include "support/hidden_plan.hpp"

namespace ringsched::cuda {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const Lowering::Refusal kTakesNone = [](const Shape&) { return std::string("not today"); };
const Lowering::Refusal kTakesSome = [](const Shape& s) {
  return std::string((s.rows + s.keys) % 3 == 0 ? "a multiple of three" : "");
};

// Again and again on the same streams, as a run is repeated.
void expect_right(const Plan& plan, const Lowering::Refusal& refuses, std::uint64_t seed,
                  InputKind kind = InputKind::Normal, int repeats = 1) {
  Control control;
  const Inputs inputs(plan.problem, seed, kind);
  Emulation gpu(plan, refuses, seed, true);
  const auto run = execution_of(plan, gpu, control, inputs);
  for (int i = 0; i < repeats; ++i) {
    run->run(Clock::now(), 60s, [](const std::string& why) { FAIL() << why; });
    ringsched::expect_right(check_results(plan, inputs, run->results(), {0, 3}, {}),
                            fmt::format("{} seed {}", described(plan), seed));
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
    const bool merges = std::ranges::any_of(
        plan.tasks, [](const Task& task) { return task.kind == TaskKind::Merge; });
    EXPECT_EQ(count > 0, merges) << described(plan);
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, EverySchedule, testing::ValuesIn(gpu_schedule_names()),
                         name_of_test);

TEST(CudaPlan, AttendsWithoutAVisiblePairChangeNothing) {
  for (const auto* refusal : {&kTakesAll, &kTakesNone})
    for (const std::uint64_t seed : {1u, 2u, 3u})
      expect_right(read_plan(kHiddenPlan, "hidden"), *refusal, seed);
}

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
  // One whose driver makes fewer of these than there should be.
  EXPECT_EQ(smaller({132, 8, 8}, {16, 4}, 8).each, 8u);
  EXPECT_EQ(smaller({132, 8, 8}, {16, 4}, 8).left, 68u);
  EXPECT_EQ(smaller({132, 8, 8}, {8, 68}, 8).each, 0u);
  EXPECT_EQ(smaller({108, 4, 2}, {6, 0}, 18).each, 4u);
  EXPECT_EQ(smaller({7, 1, 0}, {1, 0}, 7).each, 0u);
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
    EXPECT_THAT(e.what(), HasSubstr("2,007 tokens would fit"));
  }
  // What is said to fit does.
  const Plan less = plan_of(problem(4, 2007, 32, 8, 128, Dtype::Bf16, Pass::Both), "ring");
  const Lowering lower(less, all_workers(less), kTakesAll);
  EXPECT_LE(memory_needed(less, plan_memory(less), lower, all_workers(less), 1000), needed / 2);
}

}  // namespace
}  // namespace ringsched::cuda
