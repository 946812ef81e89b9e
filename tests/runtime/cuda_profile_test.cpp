// The profiles that calibrate writes, of a GPU and of a CPU: the simulator reads them, and predicts
// from their figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibrate_profile.hpp"
#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/builder.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/simulator/simulate.hpp"

namespace ringsched {
namespace {

CudaFigures figures(std::uint32_t workers) {
  CudaFigures f;
  f.name = "NVIDIA \"H200\"";
  f.driver = "driver for CUDA 13.0";
  f.library = "cuDNN 9.19.0";
  f.clocks = "1980 MHz\nmemory";
  f.workers = workers;
  f.multiprocessors = 16;
  f.memory_gb_per_s = 500;
  f.copy_roof_gb_per_s = 4000;
  f.launch_us = 4;
  f.launch_without_times_us = 2.4;
  f.copy_gb_per_s = 90;
  f.kernel_copy_gb_per_s = 1200;
  f.latency_us = 5;
  f.slowdown = 1.062;
  f.messages = {{65536, 9}, {1048576, 60}, {67108864, 80}};
  for (const bool backward : {false, true})
    for (const bool causal : {false, true})
      f.kernels.push_back({backward, causal, Dtype::Bf16, 128, {1024, 4096}, {40, 60}});
  return f;
}

TEST(CudaProfile, IsReadByTheSimulator) {
  const Machine m = read_machine(profile(figures(8), "mine"), "mine.toml");
  EXPECT_EQ(m.name, "mine");
  EXPECT_EQ(m.workers_per_device, 8u);
  EXPECT_EQ(m.concurrency, 8u);
  EXPECT_EQ(m.kernels.size(), 4u);
  EXPECT_DOUBLE_EQ(m.launch_us, 4);
  EXPECT_DOUBLE_EQ(m.comm_slowdown, 1.062);
  EXPECT_EQ(m.fabric.kind, Fabric::Memory);
  EXPECT_THAT(m.summary, testing::HasSubstr("8 workers on 16 multiprocessors each"));
  EXPECT_THAT(profile(figures(8), "mine"),
              testing::HasSubstr("# all at once, not by copy engines: 1200 GB/s\n"));
  CudaFigures shared = figures(2);
  shared.shared = "the \"driver\" has no green contexts";
  EXPECT_THAT(read_machine(profile(shared, "mine"), "mine.toml").devices_source,
              testing::HasSubstr("no green contexts"));
}

TEST(CudaProfile, SaysWhatAFullTileOfAWorkerTakes) {
  const Machine m = read_machine(profile(figures(8), "mine"), "mine.toml");
  Problem p;
  p.workers = 8;
  p.tokens = {8 * 4096};
  p.heads = 32;
  p.kv_heads = 8;
  p.head_dim = 128;
  p.mask = Mask::full();
  const Plan plan = build_plan(p, find_schedule("ring"));
  const Workload w = price(plan, m, 0.5);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    if (t.kind != TaskKind::Attend) continue;
    const double us = 4 + 4.0 * 4096 * 4096 * 128 * 32 / 60e12 * 1e6;
    EXPECT_NEAR(static_cast<double>(
                    w.compute[static_cast<std::size_t>(t.kind) * plan.works.size() + t.work.value]),
                us * 1e6, 1e6);
  }
}

// Its rates are those of one core alone, so that the slowdown makes of them what was measured with
// all at work.
TEST(CpuProfile, SaysWhatWasMeasuredWhenAllCoresAreAtWork) {
  CpuFigures f;
  f.cores = 2;
  f.memory_gb_per_s = 10;
  f.copy_gb_per_s = 9;
  f.slowdown = 1.25;
  f.noise = 0.083;
  f.messages = {{1 << 20, 8}};
  f.kernels = {{false, false, Dtype::Fp32, 128, {64, 1024}, {0.04, 0.08}}};
  const Machine m = read_machine(profile(f, {}, "mine"), "mine.toml");
  EXPECT_DOUBLE_EQ(m.full_slowdown, 1.25);
  EXPECT_DOUBLE_EQ(m.noise, 0.083);
  EXPECT_DOUBLE_EQ(m.memory_gb_per_s, 12.5);
  EXPECT_THAT(m.kernels[0].tflops, testing::ElementsAre(0.05, 0.1));
  Problem p;
  p.workers = 2;
  p.tokens = {2 * 1024};
  p.heads = p.kv_heads = 8;
  p.dtype = Dtype::Fp32;
  p.mask = Mask::full();
  const Simulation run = simulate(price(build_plan(p, find_schedule("ring")), m));
  // And copies of messages, some 2 %.
  EXPECT_NEAR(static_cast<double>(run.end[0]) / 1e12, 4.0 * 1024 * 1024 * 128 * 8 / 0.08e12, 2e-3);
}

TEST(CpuProfile, OfOneCoreHasNoNoise) {
  CpuFigures f;
  f.memory_gb_per_s = 10;
  f.copy_gb_per_s = 9;
  f.messages = {{1 << 20, 8}};
  f.kernels = {{false, false, Dtype::Fp32, 128, {64}, {0.04}}};
  EXPECT_THAT(profile(f, {}, "mine"), testing::Not(testing::HasSubstr("noise")));
}

}  // namespace
}  // namespace ringsched
