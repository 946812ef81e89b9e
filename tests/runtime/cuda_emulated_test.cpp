// What only an emulated GPU can show (tests/support/emulated_cuda): errors of any CUDA call, and
// what a run leaves behind. Skipped on other GPUs.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "ringsched/runtime/cuda_backend.hpp"
#include "ringsched/runtime/cuda_calibrate.hpp"
#include "runtime/plans_to_run.hpp"

namespace ringsched {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

// Errors of these calls need not end a run: it gives something back, asks whether the GPU can do
// something, or does without.
const std::set<std::string> kMayBeIgnored = {"cuDevResourceGenerateDesc",
                                             "cuDevSmResourceSplitByCount",
                                             "cuDeviceGet",
                                             "cuDeviceGetDevResource",
                                             "cuGreenCtxCreate",
                                             "cudaDeviceCanAccessPeer",
                                             "cudaDeviceEnablePeerAccess",
                                             "cudaDeviceGetAttribute",
                                             "cudaEventDestroy",
                                             "cudaEventElapsedTime",
                                             "cudaFree",
                                             "cudaGetDriverEntryPointByVersion",
                                             "cudaGraphDestroy",
                                             "cudaStreamDestroy"};

// After these the backend asks for the last error. That call also reports errors that an earlier
// call returned and nobody looked at.
const std::set<std::string> kAreLaunches = {"cudaLaunchKernel", "cudaMemcpyAsync",
                                            "cudaMemsetAsync"};

// One thread makes these calls, so nothing more may be put on a stream after one of them fails.
// Otherwise the error was dropped, and another call reported it by chance.
const std::set<std::string> kEndAtOnce = {
    "cudaEventRecord",     "cudaEventRecordWithFlags", "cudaGraphLaunch",    "cudaMemcpyAsync",
    "cudaMemcpyPeerAsync", "cudaStreamQuery",          "cudaStreamWaitEvent"};

class EmulatedGpu : public testing::Test {
 protected:
  void SetUp() override {
    void* const runtime = ::dlopen("libemulated_cuda.so", RTLD_NOW);
    if (!runtime) GTEST_SKIP() << "the GPU is not emulated: " << ::dlerror();
    void* const module = ::dlopen("libringsched_cuda.so", RTLD_NOW);
    ASSERT_TRUE(module) << ::dlerror();
    find(make_, module, "ringsched_make_cuda_backend");
    find(measure_, module, "ringsched_measure_cuda");
    find(probe_, module, "ringsched_probe_cuda");
    find(set_faults_, runtime, "emulated_cuda_faults");
    find(called_, runtime, "emulated_cuda_called");
    find(alive_, runtime, "emulated_cuda_alive");
    find(work_after_, runtime, "emulated_cuda_work_after_a_fault");
    find(did_, runtime, "emulated_cuda_did");
    find(pending_, runtime, "emulated_cuda_pending");
    find(starve_, runtime, "emulated_cuda_starve");
    find(spoil_, runtime, "emulated_cuda_spoil");
  }
  void TearDown() override {
    if (set_faults_) set_faults_("");
    if (starve_) starve_(kNone);
  }

  template <class Function>
  static void find(Function& out, void* library, const char* name) {
    out = reinterpret_cast<Function>(::dlsym(library, name));
    ASSERT_TRUE(out) << name;
  }

  static constexpr std::size_t kNone = ~std::size_t{0};
  static void run(Execution& e) {
    e.run(Clock::now() + e.lead(), 20s, [](const std::string& why) { throw RunFailed(why); });
  }
  static void run_twice(Execution& e) {
    run(e);
    run(e);
  }

  // Runs the plan, as `runs` says. Why it failed; empty: it did not, and its numbers are right. How
  // often each function was called by then is in calls_.
  std::string attempt(const Plan& plan, const CudaOptions& options, const std::string& faults,
                      const std::function<void(Execution&)>& runs = run_twice) {
    set_faults_(faults.c_str());
    calls_.clear();
    try {
      Control control;
      const Inputs inputs(plan.problem, options.seed, options.inputs);
      const std::unique_ptr<CudaBackend> backend(make_(plan, all_workers(plan), control, options));
      const auto transport = backend->transport();
      Execution e(
          plan, all_workers(plan),
          [&](WorkerId w, std::span<const TaskId>) { return backend->device(w); }, *transport,
          control, fill_from(plan, inputs));
      runs(e);
      e.fetch_results();
      calls_ = calls_made();
      for (const CheckedResults& c : check_results(plan, inputs, e.results(), {0, 3}, {}))
        if (!c.holds()) return "wrong numbers";
    } catch (const RunFailed& e) {
      return std::string("failed: ") + e.what();
    }
    return "";
  }

  std::map<std::string, std::uint64_t> calls_made() const {
    std::istringstream calls(called_());
    std::map<std::string, std::uint64_t> out;
    std::string name;
    for (std::uint64_t count = 0; calls >> name >> count;) out[name] = count;
    return out;
  }

  static Plan small_plan(Pass pass, Dtype dtype = Dtype::Bf16) {
    return plan_of(problem(2, 24, 2, 1, 8, dtype, pass), "balanced");
  }
  static CudaOptions small_options(bool graph) {
    CudaOptions options;
    options.check_finite = true;
    options.graph = graph;
    if (graph) options.gpu = 0;
    return options;
  }

  // Some of the calls, among them the first and the last.
  static std::set<std::uint64_t> some_of(std::uint64_t count, std::uint64_t most = 8) {
    std::set<std::uint64_t> out;
    for (std::uint64_t i = 0; i < most; ++i) out.insert(1 + i * (count - 1) / (most - 1));
    return out;
  }

  MakeCudaBackend make_ = nullptr;
  MeasureCuda measure_ = nullptr;
  ProbeCuda probe_ = nullptr;
  void (*set_faults_)(const char*) = nullptr;
  const char* (*called_)() = nullptr;
  std::uint64_t (*alive_)() = nullptr;
  std::uint64_t (*work_after_)() = nullptr;
  std::uint64_t (*did_)(const char*) = nullptr;
  std::uint64_t (*pending_)() = nullptr;
  std::size_t (*starve_)(std::size_t) = nullptr;
  void (*spoil_)(bool) = nullptr;
  std::map<std::string, std::uint64_t> calls_;
};

TEST_F(EmulatedGpu, EveryErrorOfACallIsTold) {
  const Plan plan = small_plan(Pass::Both);
  for (const bool graph : {false, true}) {
    const CudaOptions options = small_options(graph);
    ASSERT_EQ(attempt(plan, options, ""), "");
    const auto calls = calls_;
    ASSERT_GT(calls.size(), 20u);
    for (const auto& [name, count] : calls) {
      // How often it is asked whether a run is over depends on the host.
      for (const std::uint64_t n : name == "cudaStreamQuery"
                                       ? std::set<std::uint64_t>{1}
                                       : some_of(count, kEndAtOnce.contains(name) ? 40 : 8)) {
        const std::string fault = name + "#" + std::to_string(n) + "=999";
        const std::string why = attempt(plan, options, fault);
        if (kMayBeIgnored.contains(name))
          EXPECT_THAT(why, AnyOf("", HasSubstr("failed: "))) << fault;
        else
          EXPECT_THAT(why, HasSubstr("failed: ")) << fault << (graph ? " in a graph" : "");
        if (!kAreLaunches.contains(name) && !kMayBeIgnored.contains(name)) {
          EXPECT_THAT(why, Not(HasSubstr("launching a kernel")))
              << fault << " was reported by another call";
        }
        if (kEndAtOnce.contains(name)) {
          EXPECT_EQ(work_after_(), 0u) << fault << ": " << why;
        }
      }
    }
  }
}

// Of what a stream does later, the error comes with some other call.
TEST_F(EmulatedGpu, EveryErrorOfWorkOnAStreamIsTold) {
  const Plan plan = small_plan(Pass::Forward);
  for (const bool graph : {false, true}) {
    const CudaOptions options = small_options(graph);
    ASSERT_EQ(attempt(plan, options, ""), "");
    const auto calls = calls_;
    for (const char* name :
         {"cudaLaunchKernel", "cudaMemcpyPeerAsync", "cudaMemcpyAsync", "cudaEventRecord",
          "cudaStreamWaitEvent", "cudaMemset", "cudaGraphLaunch"}) {
      if (!calls.contains(name)) continue;
      for (const std::uint64_t n : some_of(calls.at(name))) {
        const std::string fault = std::string("later:") + name + "#" + std::to_string(n) + "=700";
        EXPECT_THAT(attempt(plan, options, fault), HasSubstr("illegal memory access")) << fault;
      }
    }
  }
}

// As above, of what else the module does. A calibration is long: those of its first calls.
TEST_F(EmulatedGpu, EveryErrorOfAProbeAndOfACalibrationIsTold) {
  const auto expect_told = [&](const std::string& name, std::uint64_t n, const auto& work) {
    const std::string fault = name + "#" + std::to_string(n) + "=999";
    set_faults_(fault.c_str());
    std::string why;
    try {
      work();
    } catch (const RunFailed& e) {
      why = e.what();
    }
    if (!kMayBeIgnored.contains(name) || name == "cudaEventElapsedTime") {
      EXPECT_NE(why, "") << fault;
    }
    if (!kAreLaunches.contains(name) && !kMayBeIgnored.contains(name)) {
      EXPECT_THAT(why, Not(HasSubstr("launching a kernel"))) << fault;
    }
    if (kEndAtOnce.contains(name)) {
      EXPECT_EQ(work_after_(), 0u) << fault;
    }
  };
  std::vector<std::vector<std::uint32_t>> seen;
  const auto probe = [&] { probe_(2, seen); };
  set_faults_("");
  probe();
  for (const auto& [name, count] : calls_made())
    for (std::uint64_t n = 1; n <= count; ++n) expect_told(name, n, probe);
  if (const char* gpus = std::getenv("RINGSCHED_EMULATED_GPUS"); gpus && *gpus != '1') return;
  CudaCalibration options;
  options.workers = 2;
  const auto calibrate = [&] {
    CudaFigures figures;
    measure_(
        options, [](const std::string&, double) {}, figures);
  };
  for (const char* name : {"cudaDeviceSynchronize", "cudaEventRecord"})
    for (const std::uint64_t n : {2u, 3u}) expect_told(name, n, calibrate);
  for (const char* name : {"cudaStreamSynchronize", "cudaStreamWaitEvent", "cudaEventElapsedTime"})
    expect_told(name, 1, calibrate);
}

TEST_F(EmulatedGpu, ARunIsOverWhenAllOfItsStreamsAre) {
  const Plan plan = plan_of(problem(4, 24, 2, 1, 8, Dtype::Bf16, Pass::Forward), "balanced-split");
  const std::size_t others = starve_(kNone);
  const auto runs = [&](Execution& e) {
    run(e);
    const std::size_t streams = starve_(kNone);
    for (std::size_t s = others; s < streams; ++s) {
      starve_(s);
      run(e);
      EXPECT_EQ(pending_(), 0u) << "on stream " << s;
    }
  };
  EXPECT_EQ(attempt(plan, small_options(false), "", runs), "");
}

TEST_F(EmulatedGpu, EveryRunIsHeldUntilItIsSubmitted) {
  for (const bool graph : {false, true})
    EXPECT_EQ(attempt(small_plan(Pass::Forward), small_options(graph), ""), "");
  EXPECT_EQ(did_("wait for a value that was there"), 0u);
}

TEST_F(EmulatedGpu, NumbersThatAreNotFiniteAreLookedForAfterEveryRun) {
  const auto spoilt_later = [this](Execution& e) {
    run(e);
    spoil_(true);
    run(e);
  };
  for (const bool graph : {false, true})
    EXPECT_THAT(attempt(small_plan(Pass::Forward), small_options(graph), "", spoilt_later),
                HasSubstr("not finite"));
}

TEST_F(EmulatedGpu, MemoryIsUsedWhereItIs) {
  for (const Dtype dtype : {Dtype::Bf16, Dtype::Fp32})  // by the library; by kernels of our own
    EXPECT_EQ(attempt(small_plan(Pass::Both, dtype), small_options(false), ""), "");
  EXPECT_EQ(did_("copies by way of the host"), 0u);
  EXPECT_EQ(did_("reach into another GPU"), 0u);
}

TEST_F(EmulatedGpu, ARunGivesBackAllThatItTook) {
  const Plan plan = small_plan(Pass::Both);
  for (const bool graph : {false, true}) {
    const std::uint64_t before = alive_();
    EXPECT_EQ(attempt(plan, small_options(graph), ""), "");
    EXPECT_EQ(alive_(), before);
  }
}

}  // namespace
}  // namespace ringsched
