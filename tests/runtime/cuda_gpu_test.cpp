// The cuda backend on a GPU, or on an emulated one (tests/support/emulated_cuda). Skipped, with the
// reason, if there is none.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "ringsched/runtime/cuda_backend.hpp"
#include "ringsched/runtime/numbers.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/timeline/timeline.hpp"
#include "runtime/plans_to_run.hpp"
#include "support/more_lanes.hpp"

namespace ringsched {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    module_ = ::dlopen("libringsched_cuda.so", RTLD_NOW);
    if (!module_) GTEST_SKIP() << ::dlerror();
    const Plan plan = plan_of(problem(1, 8, 1, 1, 8, Dtype::Bf16, Pass::Forward), "ring");
    try {
      Control control;
      emulated_ = make(plan, control, {})->where().find("emulated") != std::string::npos;
      if (emulated_) {
        spoil_ = function<void (*)(bool)>("emulated_cuda_spoil");
        pending_ = function<std::uint64_t (*)()>("emulated_cuda_pending");
        ASSERT_TRUE(spoil_ && pending_);
      }
    } catch (const RunFailed& e) {
      // A GPU that is there and does not do is no reason to be silent.
      const std::string why = e.what();
      for (const char* none : {"no GPU", "driver is too old", "compute capability"})
        if (why.find(none) != why.npos) GTEST_SKIP() << why;
      FAIL() << why;
    }
  }

  template <class Function>
  Function function(const char* name) {
    return reinterpret_cast<Function>(::dlsym(module_, name));
  }
  std::unique_ptr<CudaBackend> make(const Plan& plan, Control& control,
                                    const CudaOptions& options) {
    const auto f = function<MakeCudaBackend>("ringsched_make_cuda_backend");
    return std::unique_ptr<CudaBackend>(f(plan, all_workers(plan), control, options));
  }

  // A plan on the GPU, and what came of it.
  struct Ran {
    std::vector<CheckedResults> checked;
    std::vector<std::vector<float>> results;
    Timeline timeline;
    std::string kernels;
  };
  Ran run(const Plan& plan, CudaOptions options = {}, int repeats = 1) {
    Control control;
    options.seed = 7;
    const Inputs inputs(plan.problem, options.seed, options.inputs);
    const auto backend = make(plan, control, options);
    const auto transport = backend->transport();
    Execution e(
        plan, all_workers(plan),
        [&](WorkerId w, std::span<const TaskId>) { return backend->device(w); }, *transport,
        control, fill_from(plan, inputs));
    const auto hung = [](const std::string& why) { FAIL() << why; };
    e.rehearse(60s, hung);
    for (int i = 0; i < repeats; ++i) {
      if (spoil_) spoil_(false);  // each run has to do all of its work
      e.run(Clock::now() + e.lead(), 60s, hung);
      if (pending_) {
        EXPECT_EQ(pending_(), 0u) << "the run is said to be over";
      }
    }
    e.fetch_results();
    Ran out;
    out.checked = check_results(plan, inputs, e.results(), {0, 3}, {});
    for (const Result& r : e.results()) {
      const auto bytes =
          static_cast<std::size_t>(plan.program.bytes(r.value, plan.layout.rows(r.region)).value);
      out.results.emplace_back(bytes / 4);
      std::memcpy(out.results.back().data(), r.data, bytes);
    }
    out.timeline = timeline_of(plan, TimelineSource::Measured, "here");
    e.add_times(out.timeline);
    out.kernels = backend->kernels();
    return out;
  }

  static void expect_right(const Plan& plan, const Ran& r) {
    ringsched::expect_right(r.checked, described(plan) + " (" + r.kernels + ")");
  }

  // Of a problem: a CPU that stands in for a GPU has a smaller one.
  std::int64_t size(std::int64_t on_gpu, std::int64_t emulated) const {
    return emulated_ ? emulated : on_gpu;
  }
  std::uint32_t number(std::uint32_t on_gpu, std::uint32_t emulated) const {
    return emulated_ ? emulated : on_gpu;
  }

  void* module_ = nullptr;
  bool emulated_ = false;
  void (*spoil_)(bool) = nullptr;
  std::uint64_t (*pending_)() = nullptr;
};

class EveryScheduleOnAGpu : public Gpu, public testing::WithParamInterface<std::string> {};

TEST_P(EveryScheduleOnAGpu, ComputesTheRightNumbersByTheLibrary) {
  for (std::uint32_t w = 1; w <= 8; ++w)
    for (const Pass pass : {Pass::Forward, Pass::Both}) {
      const Dtype dtype = w % 2 == 0 ? Dtype::Bf16 : Dtype::Fp16;
      const Plan plan = plan_of(problem(w, size(64, 16) * w, number(8, 4), 2,
                                        w % 3 == 0 ? number(64, 24) : number(128, 64), dtype, pass),
                                GetParam());
      expect_right(plan, run(plan, {}, w % 3 == 0 ? 2 : 1));
    }
}

TEST_P(EveryScheduleOnAGpu, ComputesTheRightNumbersByTheKernelForAnyTile) {
  const std::int64_t tokens = size(203, 31);
  const Mask masks[] = {
      Mask::causal(), Mask::window({size(31, 9)}), Mask::prefix_window({5}, {size(40, 11)}),
      Mask::documents({{size(50, 10)}, {size(100, 14)}, {size(53, 7)}}),
      Mask::documents({{size(50, 10)}, {size(100, 14)}, {size(53, 7)}}, {size(40, 6)})};
  std::uint32_t turn = 0;
  for (const std::uint32_t w : {1u, 3u, 4u, 7u})
    for (const Pass pass : {Pass::Forward, Pass::Both, Pass::Backward}) {
      ++turn;
      constexpr std::uint32_t dims[] = {5, 64, 100, 256};
      const Plan plan =
          plan_of(problem(w, tokens, 6, 3, dims[turn % 4],
                          turn % 3 == 0 ? Dtype::Bf16 : Dtype::Fp32, pass, masks[turn % 4]),
                  GetParam());
      CudaOptions options;
      options.check_finite = true;
      expect_right(plan, run(plan, options));
    }
}

TEST_P(EveryScheduleOnAGpu, UnevenSharesAndOddLengthsAreRight) {
  for (const std::uint32_t w : {2u, 3u, 8u})
    for (const std::int64_t tokens : {std::int64_t{w} * size(33, 5) + 1, size(777, 77)}) {
      const Plan plan = plan_of(problem(w, tokens, 3, 1, 128, Dtype::Bf16, Pass::Both), GetParam());
      expect_right(plan, run(plan));
    }
}

TEST_P(EveryScheduleOnAGpu, IsTheSameAsAGraph) {
  const Plan plan =
      plan_of(problem(4, size(512, 96), 4, 2, 128, Dtype::Bf16, Pass::Both), GetParam());
  CudaOptions graph;
  graph.graph = true;
  graph.gpu = 0;  // a graph is of one
  const Ran ran = run(plan, graph, 3);
  expect_right(plan, ran);
  EXPECT_GT(ran.timeline.makespan().value, 0);
}

// What needs something begins after it has ended, by the times of the events.
TEST_P(EveryScheduleOnAGpu, TimesAreInTheOrderOfThePlan) {
  const Plan plan = plan_of(
      problem(8, size(4096, 128), number(8, 2), 2, 128, Dtype::Bf16, Pass::Both), GetParam());
  const Timeline t = run(plan, {}, 2).timeline;
  constexpr std::int64_t tick = 2'000'000;  // events resolve half a microsecond
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    EXPECT_LE(t.tasks[id].start_ps, t.tasks[id].end_ps);
    for (const TensorId input : plan.tasks[id].inputs) {
      if (!input.valid() || !plan.producer(input).valid()) continue;
      EXPECT_LE(t.tasks[plan.producer(input).value].end_ps, t.tasks[id].start_ps + tick);
    }
  }
  EXPECT_GT(t.makespan().value, 0);
}

INSTANTIATE_TEST_SUITE_P(Cuda, EveryScheduleOnAGpu, testing::ValuesIn(gpu_schedule_names()),
                         name_of_test);

TEST_F(Gpu, MakesTheInputsOfTheCpuBitForBit) {
  const Plan plan = plan_of(problem(3, 100, 4, 2, 24, Dtype::Bf16, Pass::Both), "zigzag");
  for (const InputKind kind :
       {InputKind::Normal, InputKind::Large, InputKind::Equal, InputKind::NotANumber}) {
    Control control;
    CudaOptions options;
    options.inputs = kind;
    const Inputs inputs(plan.problem, options.seed, kind);
    const auto backend = make(plan, control, options);
    for (const WorkerId w : all_workers(plan)) {
      const auto device = backend->device(w);
      std::byte* const block = device->allocate({1 << 20});
      for (const InitialTensor& t : plan.initial) {
        if (t.worker != w) continue;
        ASSERT_TRUE(device->fill(block, t));
        std::vector<std::byte> made(static_cast<std::size_t>(plan.bytes(plan.piece(t)).value));
        std::vector<std::byte> expected(made.size());
        inputs.fill(plan, t, expected);
        device->download(made, block);
        for (std::size_t i = 0; i < made.size(); i += 2) {
          const float a = number_at(made.data(), Dtype::Bf16, static_cast<std::int64_t>(i / 2));
          const float b = number_at(expected.data(), Dtype::Bf16, static_cast<std::int64_t>(i / 2));
          ASSERT_TRUE(a == b || (a != a && b != b)) << a << " " << b;
        }
      }
    }
  }
}

TEST_F(Gpu, RefusesPlansWhereATaskTakesSomeHeads) {
  Plan plan = plan_of(problem(2, 40, 4, 2, 16, Dtype::Bf16, Pass::Forward), "ring");
  plan.pieces.push_back({attention::kPartial, RegionId{0}, {1, 2}});
  Control control;
  try {
    make(plan, control, {});
    ADD_FAILURE() << "it was taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("has a partial of heads 1 to 2"), std::string::npos)
        << e.what();
  }
}

TEST_F(Gpu, ALibraryTakesWhatItIsSaidToTake) {
  const Plan plan = plan_of(problem(4, 4096, 8, 2, 128, Dtype::Bf16, Pass::Both), "striped");
  Control control;
  EXPECT_THAT(make(plan, control, {})->kernels(),
              testing::MatchesRegex("[0-9]+ attends by cuDNN(;.*)?"));
}

TEST_F(Gpu, WorkersRunOnMultiprocessorsOfTheirOwn) {
  std::vector<std::vector<std::uint32_t>> seen;
  function<ProbeCuda>("ringsched_probe_cuda")(4, seen);
  const Plan plan = plan_of(problem(4, 64, 1, 1, 8, Dtype::Bf16, Pass::Forward), "ring");
  Control control;
  CudaOptions options;
  options.gpu = 0;
  const auto backend = make(plan, control, options);
  if (backend->where().find("of their own") == std::string::npos) GTEST_SKIP() << backend->where();
  std::set<std::uint32_t> all;
  std::size_t count = 0;
  for (const auto& one : seen) {
    EXPECT_FALSE(one.empty());
    all.insert(one.begin(), one.end());
    count += one.size();
  }
  EXPECT_EQ(all.size(), count) << "some multiprocessors are in two partitions";
  // The last is that of messages, if the partitions of four workers leave any for it.
  EXPECT_THAT(seen.size(), testing::AnyOf(4u, 5u));
  if (getenv("RINGSCHED_EMULATED_GPUS")) {
    EXPECT_EQ(seen.size(), 5u);
  }
}

TEST_F(Gpu, ANumberThatIsNoneEndsTheRunAndIsNamed) {
  const Plan plan = plan_of(problem(4, 64, 2, 1, 8, Dtype::Bf16, Pass::Forward), "ring");
  CudaOptions options;
  options.check_finite = true;
  options.inputs = InputKind::NotANumber;
  try {
    run(plan, options);
    FAIL();
  } catch (const RunFailed& e) {
    EXPECT_THAT(e.what(), HasSubstr("worker 3"));
    EXPECT_THAT(e.what(), HasSubstr("not finite"));
  }
}

// More rows than the threads of a grid take at once.
TEST_F(Gpu, KernelsTakeAsManyRowsAsThereAre) {
  const Plan plan = plan_of(
      problem(8, size(4096, 8 * 36), number(32, 16), number(32, 16), 8, Dtype::Bf16, Pass::Both),
      "balanced");
  CudaOptions options;
  options.gpu = 0;  // of which each worker has a small part
  expect_right(plan, run(plan, options));
}

// On a GPU they may have to share what others compute with.
TEST_F(Gpu, WorkersOfAnEmulatedGpuComputeAtTheSameTime) {
  if (!emulated_) return;
  const Plan plan = plan_of(problem(4, 64, 2, 1, 64, Dtype::Bf16, Pass::Forward), "balanced");
  const Timeline t = run(plan).timeline;
  Picoseconds busy{0};
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (plan.tasks[id].lane == Lane::Compute)
      busy.value += t.tasks[id].end_ps - t.tasks[id].start_ps;
  EXPECT_GT(busy.value, 2 * t.makespan().value);
}

TEST_F(Gpu, HasAStreamForEachOfEightLanes) {
  const Plan plan = on_more_lanes(
      plan_of(problem(4, size(256, 64), 4, 2, 64, Dtype::Bf16, Pass::Both), "balanced"));
  for (const bool graph : {false, true}) {
    CudaOptions options;
    options.gpu = 0;
    options.graph = graph;
    expect_right(plan, run(plan, options));
  }
}

TEST_F(Gpu, LargeAndEqualScoresStayRight) {
  for (const InputKind kind : {InputKind::Large, InputKind::Equal}) {
    const Plan plan =
        plan_of(problem(4, size(256, 64), 4, 2, 128, Dtype::Bf16, Pass::Both), "balanced");
    CudaOptions options;
    options.inputs = kind;
    expect_right(plan, run(plan, options));
  }
}

TEST_F(Gpu, TheForwardPassIsTheSameEveryTime) {
  const Plan plan = plan_of(
      problem(8, size(2048, 128), number(8, 4), 2, 128, Dtype::Bf16, Pass::Forward), "balanced");
  EXPECT_EQ(run(plan).results, run(plan, {}, 3).results);
}

TEST_F(Gpu, TooLittleMemoryIsSaidWithWhatWouldFit) {
  const Plan plan = plan_of(problem(8, 64 << 20, 32, 8, 128, Dtype::Bf16, Pass::Both), "ring");
  Control control;
  try {
    make(plan, control, {});
    FAIL();
  } catch (const RunFailed& e) {
    EXPECT_THAT(e.what(), HasSubstr("tokens would fit"));
  }
}

}  // namespace
}  // namespace ringsched
