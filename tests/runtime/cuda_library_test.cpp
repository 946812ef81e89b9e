// What cuDNN makes of this backend's graphs, for GPUs that are only described to it. It builds
// whole plans, with the code of their kernels, using a driver that runs nothing
// (tests/support/image_driver). Skipped if its libraries or CUDA's are missing.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <set>

#include "backends/cuda/memory_need.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "runtime/described_gpus.hpp"
#include "runtime/plans_to_run.hpp"
#include "support/image_driver/image_driver.hpp"

namespace ringsched::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string text_of(const Shape& s) {
  return fmt::format("{} {}{} {}/{} heads x {}, {} x {}", s.dtype == Dtype::Bf16 ? "bf16" : "fp16",
                     s.backward ? "backward" : "forward", s.causal ? " causal" : "", s.heads,
                     s.kv_heads, s.head_dim, s.rows, s.keys);
}

class Cudnn : public testing::Test {
 protected:
  void SetUp() override {
    void* const module = ::dlopen("libringsched_cuda.so", RTLD_NOW);
    if (!module) GTEST_SKIP() << ::dlerror();
    for (const char* library : {"libcudnn.so.9", "libcudart.so.13", "libcuda.so.1"})
      if (!::dlopen(library, RTLD_NOW)) GTEST_SKIP() << ::dlerror();
    loaded_ = reinterpret_cast<LoadedCodeFunction*>(
        ::dlsym(::dlopen("libcuda.so.1", RTLD_NOW), "ringsched_loaded_code"));
    if (!loaded_) GTEST_SKIP() << "libcuda.so.1 is not that of tests/support/image_driver";
    ask_ = reinterpret_cast<Ask*>(::dlsym(module, "ringsched_ask_cudnn"));
    ASSERT_TRUE(ask_);
  }
  LibraryAnswers ask(const std::vector<Shape>& shapes, const DescribedGpu& gpu, bool builds) {
    LibraryAnswers out;
    ask_(shapes, gpu.description(), gpu.capability, builds, out);
    return out;
  }
  std::string refusal(const Shape& s, const DescribedGpu& gpu) {
    return ask({s}, gpu, false).refusals[0];
  }
  // Expects that the plan is built, with code that this GPU runs.
  LibraryAnswers built(const Shape& s, const DescribedGpu& gpu) {
    LoadedCode code;
    loaded_(&code);
    const LibraryAnswers out = ask({s}, gpu, true);
    loaded_(&code);
    const std::string what = fmt::format("{}: {}", gpu.name, text_of(s));
    EXPECT_EQ(out.refusals[0], "") << what;
    EXPECT_GT(code.images, 0) << what;
    EXPECT_EQ(code.lowest_sm, gpu.capability) << what;
    EXPECT_EQ(code.highest_sm, gpu.capability) << what;
    EXPECT_GT(code.kernels, 0) << what;
    EXPECT_EQ(code.absent, 0) << what;
    // Backward: at the most three numbers in fp32 for each of the gradient of the queries or, if
    // they are more, of the keys.
    const std::int64_t numbers =
        s.heads * (std::max(s.rows, s.keys) + 128) * std::max(64u, s.head_dim);
    EXPECT_LE(out.workspace_bytes, (s.backward ? 12 * numbers : 0) + (1 << 20)) << what;
    return out;
  }

 private:
  using Ask = void(const std::vector<Shape>&, const std::string&, int, bool, LibraryAnswers&);
  Ask* ask_ = nullptr;
  LoadedCodeFunction* loaded_ = nullptr;
};

const DescribedGpu& gpu_of(int capability) {
  for (const DescribedGpu& g : kDescribedGpus)
    if (g.capability == capability) return g;
  throw std::invalid_argument("no such GPU is described");
}

// One of each graph that differs by more than numbers, at sizes that no kernel's tile divides.
TEST_F(Cudnn, BuildsPlansForEveryArchitecture) {
  for (const DescribedGpu& gpu : kDescribedGpus)
    for (const bool backward : {false, true})
      for (const bool causal : {false, true}) {
        const Dtype dtype = causal ? Dtype::Fp16 : Dtype::Bf16;
        const std::int64_t keys = causal ? 333 : 600;
        built({dtype, backward, causal, 32, 8, 128, 333, keys}, gpu);
      }
}

// Those of all schedules, on tiles as a run has them and on odd ones.
TEST_F(Cudnn, TakesEveryTileThatSchedulesMakeOfACausalProblem) {
  std::set<Shape> asked;
  for (const std::string& schedule : gpu_schedule_names())
    for (const std::uint32_t w : {1u, 2u, 3u, 8u})
      for (const std::int64_t tokens : {std::int64_t{1024} * w, std::int64_t{333} * w + 1}) {
        const Plan plan =
            plan_of(problem(w, tokens, 32, 8, 128, Dtype::Bf16, Pass::Both), schedule);
        for (const Task& t : plan.tasks) {
          if (!is_attend(t.kind)) continue;
          const Work& work = plan.works[t.work.value];
          const auto tile = library_tile(plan.problem, work.form, work.rows, work.keys,
                                         t.kind == TaskKind::AttendBackward);
          ASSERT_TRUE(tile);
          asked.insert(tile->shape);
        }
      }
  EXPECT_GT(asked.size(), 10u);
  // Each for two of the GPUs; in scripts/nightly for all six.
  const std::size_t apart = std::getenv("RINGSCHED_WHOLE") ? 1 : 3;
  std::size_t first = 0;
  for (const DescribedGpu& gpu : kDescribedGpus) {
    std::size_t n = first++;
    for (const Shape& s : asked)
      if (n++ % apart == 0) {
        EXPECT_EQ(refusal(s, gpu), "") << gpu.name << ": " << text_of(s);
      }
  }
}

TEST_F(Cudnn, RefusesWhatItDoesNotHave) {
  Shape s{Dtype::Bf16, false, false, 8, 2, 128, 1024, 1024};
  EXPECT_EQ(refusal(s, gpu_of(90)), "");
  s.head_dim = 100;
  EXPECT_NE(refusal(s, gpu_of(90)), "");
  s.head_dim = 128;
  s.kv_heads = 3;
  EXPECT_NE(refusal(s, gpu_of(90)), "");
}

// docs/gpu.md says so of this version of cuDNN and its frontend.
TEST_F(Cudnn, ARunSaysWhichPassCudnnRefusesAndWhere) {
  for (const DescribedGpu& gpu : kDescribedGpus)
    for (const std::uint32_t dim : {136u, 192u, 256u}) {
      const Plan plan = plan_of(problem(1, 128, 4, 2, dim, Dtype::Bf16, Pass::Both), "ring");
      const Lowering lowering(plan, all_workers(plan),
                              [&](const Shape& s) { return refusal(s, gpu); });
      if (gpu.capability == 90) {
        EXPECT_EQ(lowering.summary(), "2 attends by cuDNN");
        continue;
      }
      const std::string why = fmt::format(
          "cuDNN refuses the backward pass with head dimension {} on sm_{}: ", dim, gpu.capability);
      EXPECT_THAT(lowering.summary(),
                  StartsWith("1 attend by cuDNN, 1 by the kernel for any tile (" + why));
    }
}

TEST_F(Cudnn, WorkspaceEntersTheMemoryCheck) {
  const DescribedGpu& gpu = gpu_of(90);
  const Plan plan = plan_of(problem(4, 4096, 32, 8, 128, Dtype::Bf16, Pass::Both), "ring");
  std::vector<Shape> asked;
  const Lowering lowering(plan, all_workers(plan), [&](const Shape& s) {
    asked.push_back(s);
    return std::string();
  });
  const std::int64_t all = ask(asked, gpu, true).workspace_bytes;
  // At least the gradient of the queries in fp32, which cuDNN adds up there.
  EXPECT_GE(all, 32 * 1024 * 128 * 4);
  const MemoryPlan memory = plan_memory(plan);
  const std::int64_t needed = memory_needed(plan, memory, lowering, all_workers(plan), all);
  EXPECT_EQ(needed, memory_needed(plan, memory, lowering, all_workers(plan), 0) + 4 * all);
  EXPECT_THROW(require_memory(plan.problem, 0, needed, needed - 1), RunFailed);
}

TEST_F(Cudnn, WorkspaceIsThatOfTheLargestShape) {
  const Shape forward{Dtype::Bf16, false, true, 32, 8, 128, 512, 512};
  Shape backward = forward;
  backward.backward = true;
  Shape refused = backward;
  refused.kv_heads = 3;
  const LibraryAnswers one = ask({backward}, gpu_of(80), true);
  const LibraryAnswers all = ask({forward, backward, refused}, gpu_of(80), true);
  EXPECT_GT(all.workspace_bytes, 0);
  EXPECT_EQ(all.workspace_bytes, one.workspace_bytes);
  EXPECT_NE(all.refusals[2], "");
}

// What scripts/cudnn-plans runs: all kinds of graphs with all kinds of sizes, half an hour of two
// cores.
class CudnnGrid : public Cudnn, public testing::WithParamInterface<DescribedGpu> {
 protected:
  void add(const Shape& s) {
    if (s.causal && (s.keys > s.rows || s.keys < 2)) return;  // library_tile never asks for it
    if (s.backward && s.rows < 2) return;                     // nor does Library
    if (s.backward && s.head_dim > 128 && GetParam().capability != 90) {
      EXPECT_THAT(refusal(s, GetParam()),
                  AllOf(HasSubstr("refuses the backward pass"), HasSubstr("128")));
      ++refused_;
      return;
    }
    const LibraryAnswers answers = built(s, GetParam());
    ++built_;
    if (answers.workspace_bytes > most_) {
      most_ = answers.workspace_bytes;
      of_most_ = text_of(s);
    }
  }
  void TearDown() override {
    fmt::print(
        "{} (sm_{}): {} plans built, {} refused (backward, head dimension above 128), workspace at "
        "most "
        "{:.1f} MiB ({})\n",
        GetParam().name, GetParam().capability, built_, refused_,
        static_cast<double>(most_) / (1 << 20), of_most_);
    std::fflush(stdout);
  }

 private:
  int built_ = 0, refused_ = 0;
  std::int64_t most_ = 0;
  std::string of_most_;
};

TEST_P(CudnnGrid, DISABLED_BuildsEveryPlan) {
  constexpr std::pair<std::uint32_t, std::uint32_t> heads[] = {{3, 1}, {8, 8}, {32, 8}};
  constexpr std::pair<std::int64_t, std::int64_t> tiles[] = {
      {1, 1}, {2, 1}, {2, 2}, {127, 129}, {333, 333}, {666, 333}, {1024, 1024}};
  for (const Dtype dtype : {Dtype::Bf16, Dtype::Fp16})
    for (const bool backward : {false, true})
      for (const bool causal : {false, true})
        for (const auto& [all, kv] : heads)
          for (const std::uint32_t dim : {8u, 64u, 72u, 128u, 192u, 256u})
            for (const auto& [rows, keys] : tiles)
              add({dtype, backward, causal, all, kv, dim, rows, keys});
}

INSTANTIATE_TEST_SUITE_P(Described, CudnnGrid, testing::ValuesIn(kDescribedGpus),
                         [](const auto& gpu) {
                           return fmt::format("sm_{}", gpu.param.capability);
                         });

}  // namespace
}  // namespace ringsched::cuda
