// The profiles that calibrate writes, of a GPU and of a CPU: the simulator reads them, and predicts
// from their figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

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
  f.under_load = 1.12;
  f.latency_us = 5;
  f.slowdown = 1.062;
  f.messages = {{65536, 9}, {1048576, 60}, {67108864, 80}};
  for (const bool backward : {false, true})
    for (const bool causal : {false, true})
      f.kernels.push_back({backward, causal, Dtype::Bf16, 128, {1024, 4096}, {40, 60}});
  return f;
}

TEST(CudaProfile, HasATileHoweverFewTokensMayBeMeasured) {
  CudaCalibration options;
  options.max_tokens = 1100;
  EXPECT_EQ(options.tile_tokens(), (std::vector<std::int64_t>{256, 512, 1024}));
  options.max_tokens = 64;  // the least that calibrate takes
  EXPECT_EQ(options.tile_tokens(), std::vector<std::int64_t>{64});
}

TEST(CudaProfile, IsReadByTheSimulator) {
  const Machine m = read_machine(profile(figures(8), {"mine"}), "mine.toml");
  EXPECT_EQ(m.name, "mine");
  EXPECT_EQ(m.workers_per_device, 8u);
  EXPECT_EQ(m.concurrency, 8u);
  EXPECT_EQ(m.kernels.size(), 4u);
  EXPECT_DOUBLE_EQ(m.launch_us, 4);
  EXPECT_DOUBLE_EQ(m.comm_slowdown, 1.062);
  EXPECT_EQ(m.fabric.kind, Fabric::Memory);
  EXPECT_THAT(m.summary, testing::HasSubstr("8 workers on 16 multiprocessors each"));
  EXPECT_THAT(profile(figures(8), {"mine"}),
              testing::HasSubstr("largest full tile takes 1.12 times as long\n"));
  EXPECT_FALSE(m.comm_waits_for_kernel);
  CudaFigures without_room = figures(8);
  without_room.messages_wait = true;
  EXPECT_TRUE(read_machine(profile(without_room, {"mine"}), "mine.toml").comm_waits_for_kernel);
  CudaFigures shared = figures(2);
  shared.shared = "the \"driver\" has no green contexts";
  EXPECT_THAT(read_machine(profile(shared, {"mine"}), "mine.toml").devices_source,
              testing::HasSubstr("no green contexts"));
}

TEST(CudaProfile, SaysWhatAFullTileOfAWorkerTakes) {
  const Machine m = read_machine(profile(figures(8), {"mine"}), "mine.toml");
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
  const Machine m = read_machine(profile(f, {}, {"mine"}), "mine.toml");
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
  // And copies of messages, some 2%.
  EXPECT_NEAR(static_cast<double>(run.end[0]) / 1e12, 4.0 * 1024 * 1024 * 128 * 8 / 0.08e12, 2e-3);
}

CpuFigures small_figures() {
  CpuFigures f;
  f.cores = 2;
  f.memory_gb_per_s = 10;
  f.copy_gb_per_s = 9;
  f.messages = {{1 << 20, 8}};
  f.points = 40;
  f.kernels = {{false, false, Dtype::Fp32, 128, {64, 1024}, {0.04, 0.08}},
               {false, true, Dtype::Fp32, 128, {64, 1024}, {0.03, 0.07}}};
  return f;
}

TEST(CpuProfile, OfSeveralProcessesHasANodeForEach) {
  MeasuredLinks links;
  links.processes = 3;
  links.transport = "tcp";
  links.latency_us = 20;
  links.gb_per_s = 2.5;
  links.messages = {{1 << 16, 1}, {1 << 24, 2}};
  const Machine m = read_machine(profile(small_figures(), links, {"mine"}), "mine.toml");
  EXPECT_EQ(m.nodes, 3u);
  EXPECT_EQ(m.network.nics, 1u);
  EXPECT_EQ(m.network.link.gb_per_s, 2.5);
  EXPECT_EQ(m.network.link.messages.size(), 2u);
  EXPECT_THAT(m.network.source, testing::HasSubstr("by tcp, measured by ringsched calibrate on "));
  EXPECT_THAT(m.summary, testing::HasSubstr("threads of 3 processes"));
}

TEST(CpuProfile, SaysWhatDidNotSettleAndWhatElseIsToBeKnown) {
  CpuFigures f = small_figures();
  f.disturbed = 3;
  f.noise = 0.4;
  MeasuredLinks links;
  links.points = 7;
  links.disturbed = 1;
  const std::string text =
      profile(f, links, {"mine", "ringsched calibrate --dtype fp32", {"a \"remark\""}});
  EXPECT_THAT(text, testing::StartsWith("# Made by ringsched calibrate; measured anew by the same "
                                        "command.\n# a \"remark\"\nname = \"mine\"\n"));
  const Machine m = read_machine(text, "mine.toml");
  EXPECT_THAT(m.summary, testing::HasSubstr("4 of 47 points did not settle"));
  EXPECT_EQ(m.made_by, "ringsched calibrate --dtype fp32");
  EXPECT_EQ(m.noise, kMostNoise);
  EXPECT_THAT(m.noise_source, testing::HasSubstr("(cut, from 0.4)"));
}

// Each group of figures must have a source, whatever was measured.
TEST(CpuProfile, OfAnyFiguresIsAsExactAsTheyWere) {
  std::mt19937 random(7);
  const auto any = [&](double least, double most) {
    return std::exp(std::uniform_real_distribution<>(std::log(least), std::log(most))(random));
  };
  for (int i = 0; i < 300; ++i) {
    CpuFigures f = small_figures();
    f.slowdown = any(1, 3);
    f.noise = any(1e-3, 0.5);
    f.memory_gb_per_s = any(0.1, 1000);
    f.latency_us = any(0.1, 1000);
    f.task_us = any(0.01, 100);
    double longest = 0;
    f.messages.clear();
    for (std::int64_t bytes = 16 << 10; bytes <= 16 << 20; bytes *= 4) {
      longest = std::max(1.01 * longest, static_cast<double>(bytes) / any(1e9, 1e11));
      f.messages.push_back({bytes, static_cast<double>(bytes) / longest / 1e9});
      f.copy_gb_per_s = std::max(f.copy_gb_per_s, 1.01 * f.messages.back().gb_per_s);
    }
    for (MeasuredKernel& k : f.kernels)
      for (double& x : k.tflops) x = any(1e-4, 10);
    const Machine m = read_machine(profile(f, {}, {"mine"}), "mine.toml");
    EXPECT_NEAR(m.memory_gb_per_s / (f.slowdown * f.memory_gb_per_s), 1, 1e-3);
    EXPECT_NEAR(m.launch_us / f.task_us, 1, 1e-3);
    EXPECT_NEAR(m.kernels[1].tflops[1] / (f.slowdown * f.kernels[1].tflops[1]), 1, 1e-3);
    EXPECT_EQ(m.fabric.link.messages.size(), f.messages.size());
  }
}

TEST(CpuProfile, OfOneCoreHasNoNoise) {
  CpuFigures f;
  f.memory_gb_per_s = 10;
  f.copy_gb_per_s = 9;
  f.messages = {{1 << 20, 8}};
  f.kernels = {{false, false, Dtype::Fp32, 128, {64}, {0.04}}};
  EXPECT_THAT(profile(f, {}, {"mine"}), testing::Not(testing::HasSubstr("noise")));
}

}  // namespace
}  // namespace ringsched
