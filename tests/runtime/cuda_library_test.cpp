// Which shapes cuDNN takes, asked of cuDNN itself for a GPU that is only described to it. Skipped
// where its libraries or CUDA's are not there.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "backends/cuda/library_tile.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched::cuda {
namespace {

// By the data sheets and the attributes that NVIDIA documents for compute capability 9.0.
constexpr const char* kH200 = R"({"maxGridSize": [2147483647, 65535, 65535],
"maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 132,
"warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
"reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
"maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
"supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
"l2CacheSize": 62914560, "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
"totalGlobalMem": 150754820096, "deviceName": "NVIDIA H200"})";

class CudnnOffline : public testing::Test {
 protected:
  void SetUp() override {
    void* const module = ::dlopen("libringsched_cuda.so", RTLD_NOW);
    if (!module) GTEST_SKIP() << ::dlerror();
    for (const char* library : {"libcudnn.so.9", "libcuda.so.1"})
      if (!::dlopen(library, RTLD_NOW)) GTEST_SKIP() << ::dlerror();
    ask_ = reinterpret_cast<void (*)(const Shape&, const std::string&, int, std::string&)>(
        ::dlsym(module, "ringsched_cudnn_refusal"));
    ASSERT_TRUE(ask_);
  }
  std::string refusal(const Shape& s) {
    std::string why;
    ask_(s, kH200, 90, why);
    return why;
  }

 private:
  void (*ask_)(const Shape&, const std::string&, int, std::string&) = nullptr;
};

// Those of all schedules, on tiles as a run has them and on odd ones.
TEST_F(CudnnOffline, TakesEveryTileThatSchedulesMakeOfACausalProblem) {
  std::map<Shape, std::string> asked;
  for (const Schedule& schedule : schedules())
    for (const std::uint32_t w : {1u, 2u, 3u, 8u})
      for (const std::int64_t tokens : {std::int64_t{1024} * w, std::int64_t{333} * w + 1}) {
        Problem p;
        p.workers = w;
        p.tokens = {tokens};
        p.heads = 32;
        p.kv_heads = 8;
        p.head_dim = 128;
        p.pass = Pass::Both;
        const Plan plan = build_plan(p, schedule);
        for (const Task& t : plan.tasks) {
          if (!is_attend(t.kind)) continue;
          const Work& work = plan.works[t.work.value];
          const auto tile =
              library_tile(p, work.form, work.rows, work.keys, t.kind == TaskKind::AttendBackward);
          ASSERT_TRUE(tile);
          const auto [at, is_new] = asked.try_emplace(tile->shape);
          if (is_new) at->second = refusal(tile->shape);
          EXPECT_EQ(at->second, "")
              << schedule.name << " W=" << w << " " << tile->shape.rows << " x " << tile->shape.keys
              << (tile->shape.causal ? " causal" : "") << (tile->shape.backward ? " backward" : "");
          if (HasFailure()) return;
        }
      }
  EXPECT_GT(asked.size(), 10u);
}

TEST_F(CudnnOffline, RefusesWhatItDoesNotHave) {
  Shape s{Dtype::Bf16, false, false, 8, 2, 128, 1024, 1024};
  EXPECT_EQ(refusal(s), "");
  s.head_dim = 100;
  EXPECT_NE(refusal(s), "");
  s.head_dim = 128;
  s.kv_heads = 3;
  EXPECT_NE(refusal(s), "");
}

}  // namespace
}  // namespace ringsched::cuda
