// What single tasks cost, compared with the tables and with formulas written out again.
#include <gtest/gtest.h>

#include <cmath>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/simulator/report.hpp"
#include "ringsched/simulator/simulate.hpp"
#include "support/cases.hpp"
#include "support/hidden_plan.hpp"
#include "support/machines.hpp"
#include "support/surgery.hpp"

namespace ringsched {
namespace {

std::int64_t price_of(const Workload& w, std::size_t id) {
  const Task& t = w.plan->tasks[id];
  if (!w.amounts.empty()) return w.amounts[id];
  return w.compute[static_cast<std::size_t>(t.kind) * w.plan->works.size() + t.work.value];
}

// ps of the first task of this kind, and of this output where given.
double price_of(const Plan& plan, const Machine& m, TaskKind kind, ValueId makes) {
  const Workload w = price(plan, m);
  for (std::size_t id = 0; id < plan.tasks.size(); ++id)
    if (plan.tasks[id].kind == kind && plan.value(plan.tasks[id]) == makes)
      return static_cast<double>(price_of(w, id));
  ADD_FAILURE() << "the plan has no " << to_text(kind) << " of " << plan.name(makes);
  return 0;
}

// The last worker attends the keys of the first: `rows` times `keys`, all visible.
double tile_ps(const Machine& m, std::int64_t rows, std::int64_t keys) {
  static std::int64_t first_share;
  first_share = keys;
  const Schedule s = {
      "tile", "", "",
      [](std::uint32_t, Tokens tokens) {
        return custom_layout({{0, 1, first_share}, {first_share, 1, tokens.value - first_share}},
                             {{{0}, 1}, {{1}, 1}});
      },
      [](const Problem&, PlanBuilder& plan) {
        plan.step(1);
        plan.merge(plan.attend(plan.queries(WorkerId{1}), plan.move(plan.keys(WorkerId{0}), {1})));
      }};
  const Plan plan = build_plan(small_problem(2, rows + keys), s);
  return price_of(plan, m, TaskKind::Attend, attention::kPartial);
}

double flops(double rows, double keys) { return 4 * rows * keys * 8 * 4; }  // of small_problem()

// NCCL has 32 channels for the ranks of a communicator: a ring of two has four times the rate of a
// ring of eight, and so has each of four rings of two.
TEST(Price, OfMessagesDependsOnHowManyWorkersTheyConnect) {
  const Machine m = find_machine("hgx-h100");
  const auto startup = [&](std::uint32_t workers, const std::string& schedule) {
    Problem p;
    p.workers = workers;
    p.tokens = {1024 * workers};
    const Plan plan = build_plan(p, find_schedule(schedule));
    const Workload w = price(plan, m);
    for (const Task& t : plan.tasks)
      if (t.kind == TaskKind::Send)
        return static_cast<double>(
                   w.startup[static_cast<std::size_t>(Distance::SameNode)][t.work.value]) /
               static_cast<double>(plan.works[t.work.value].bytes.value);
    return 0.0;
  };
  // Beyond the latency of 10 us, by byte: what the channels take over the link's rate.
  const auto by_channels = [&](double channels, double bytes) {
    const double most = channels * (16 << 20), latency = 10e6;
    const double beyond = most / (m.fabric.channel_gb_per_s * 1e-3) / channels -
                          most / (m.fabric.link.gb_per_s * 1e-3);
    return (latency + bytes / most * (beyond - latency)) / bytes;
  };
  const double bytes = 1024.0 * 8 * 128 * 2 * 2;
  EXPECT_NEAR(startup(8, "ring") / by_channels(4, bytes), 1, 1e-3);
  EXPECT_NEAR(startup(4, "ring") / by_channels(8, bytes), 1, 1e-3);
  EXPECT_NEAR(startup(2, "ring") / by_channels(16, bytes), 1, 1e-3);
  const double half = bytes;  // two shares of tokens, and half of the heads
  EXPECT_NEAR(startup(8, "usp:ulysses=2") / by_channels(8, half), 1, 1e-3);
}

// Larger heads take longer, also between the head dimensions of two tables; and full tiles of a
// head dimension that only has a causal table are priced as that table says.
TEST(Price, OfAnAttendGrowsWithTheHeadDimension) {
  for (const MachineProfile& profile : machine_profiles()) {
    const Machine m = find_machine(std::string(profile.name));
    if (m.ideal) continue;
    for (const Mask& mask : {Mask::full(), Mask::causal()})
      for (const TaskKind kind : {TaskKind::Attend, TaskKind::AttendBackward}) {
        double before = 0;
        for (const std::uint32_t dim : {64, 72, 88, 96, 104, 128, 160, 181, 182, 256}) {
          Problem p;
          p.workers = 1;
          p.tokens = {16384};
          p.head_dim = dim;
          p.mask = mask;
          p.pass = Pass::Both;
          const Plan plan = build_plan(p, find_schedule("ring"));
          const auto first =
              std::ranges::find_if(plan.tasks, [&](const Task& t) { return t.kind == kind; });
          const ValueId makes = plan.value(*first);
          double ps = 0;
          try {
            ps = price_of(plan, m, kind, makes);
          } catch (const Error&) {
            break;  // no table for bf16
          }
          EXPECT_GE(ps, before) << profile.name << " " << dim;
          before = ps;
        }
      }
  }
  const Machine m = find_machine("dgx-a100");
  const auto attend = [&](const Mask& mask) {
    Problem p;
    p.workers = 1;
    p.tokens = {16384};
    p.head_dim = 256;
    p.mask = mask;
    return price_of(build_plan(p, find_schedule("ring")), m, TaskKind::Attend, attention::kPartial);
  };
  EXPECT_NEAR(attend(Mask::full()) / attend(Mask::causal()), 1.9, 0.1);
}

// A tile shorter than any that was measured fills fewer SMs. That explains much of why it is slow,
// so its rate falls by no more than a usual cost of each block.
TEST(Price, OfTilesShorterThanMeasuredCountsEmptySmsOnce) {
  Machine m = find_machine("dgx-a100");
  m.launch_us = 0;
  m.devices_spread = 1e-9;
  std::erase_if(m.kernels,
                [](const KernelTable& t) { return t.backward || t.shape != TileShape::Full; });
  m.kernels.resize(1);
  m.kernels[0].dtypes = {Dtype::Fp32, Dtype::Bf16, Dtype::Fp16};
  m.kernels[0].head_dim = 4;
  m.kernels[0].tokens = {1024};
  m.kernels[0].tflops = {100};
  m.kernels[0].heads = {};
  m.kernels[0].blocks = {};
  m.kernels[0].spread = 0;
  // Rows of 128 tokens of 8 heads: one wave either way.
  EXPECT_NEAR(tile_ps(m, 512, 512) / tile_ps(m, 1024, 1024), (512.0 + 128) / (1024 + 128), 1e-3);
  EXPECT_NEAR(tile_ps(m, 1023, 1023) / tile_ps(m, 1024, 1024), 1, 3e-3) << "no jump";
  m.sms = 0;
  EXPECT_NEAR(tile_ps(m, 512, 512) / tile_ps(m, 1024, 1024), 0.5, 1e-3);
}

// One new token: the keys and values of a worker are read once, by all query heads of a group; the
// table's rate would say something else.
TEST(Price, OfAnAttendThatDecodesIsThatOfItsBytesOrOfItsFlops) {
  const Machine m = find_machine("dgx-a100");
  for (const auto& [new_tokens, name] : {std::pair{1, "memory"}, {4000, "compute"}}) {
    Problem p;
    p.workers = 2;
    p.tokens = {64 * 1024 + new_tokens};
    p.mask = Mask::full();
    p.new_tokens = {new_tokens};
    const Plan plan = build_plan(p, find_schedule("flash-decode:to=one"));
    const double rows = new_tokens, keys = 32 * 1024;  // of worker 0
    const double kv = 2 * keys * 8 * 128 * 2, q = rows * 32 * 128 * 2, o = rows * 32 * 129 * 4;
    double best = 0;
    for (const KernelTable& t : m.kernels)
      if (!t.backward && t.head_dim == 128 && t.library == m.library &&
          t.shape == TileShape::Full && t.dtypes[0] == Dtype::Bf16)
        for (const double rate : t.tflops) best = std::max(best, rate);
    const double by_bytes = (kv + q + o) / (m.memory_gb_per_s * 1e-3);
    const double by_flops = 4 * rows * keys * 128 * 32 / best;
    EXPECT_NEAR(price_of(plan, m, TaskKind::Attend, attention::kPartial),
                std::max(by_bytes, by_flops) + m.launch_us * 1e6, 2);
    EXPECT_EQ(by_bytes > by_flops, new_tokens == 1);
    EXPECT_EQ(attends_bound_by(plan, m), name);
    // One device reads the keys of both workers.
    EXPECT_GT(static_cast<double>(one_device(price(plan, m), m).value),
              1.9 * std::max(by_bytes, by_flops));
  }
}

// Where every worker attends all keys, in the block model, too.
TEST(Price, OfDecodingOnOneDeviceCountsTheKeysOnce) {
  Problem p;
  p.workers = 5;
  for (const char* schedule : {"ring-decode", "tree-decode"}) {
    const Plan plan = build_plan(p, find_schedule(schedule));
    const Machine ideal = find_machine("ideal");
    EXPECT_EQ(one_device(price(plan, ideal), ideal).value, 5'000'000) << schedule;
  }
}

// Of a long cache, a window is read and no more.
TEST(Price, OfDecodingInAWindowIsThatOfTheKeysThatAreSeen) {
  const Machine m = find_machine("dgx-a100");
  for (const int new_tokens : {1, 3}) {
    Problem p;
    p.workers = 2;
    p.tokens = {64 * 1024};
    p.mask = Mask::window({4096});
    p.new_tokens = {new_tokens};
    const Plan plan = build_plan(p, find_schedule("flash-decode"));
    const double rows = new_tokens, keys = 4096 + new_tokens - 1;
    const double bytes = 2 * keys * 8 * 128 * 2 + rows * 32 * (128 * 2 + 129 * 4);
    EXPECT_NEAR(price_of(plan, m, TaskKind::Attend, attention::kPartial),
                bytes / (m.memory_gb_per_s * 1e-3) + m.launch_us * 1e6, 2);
  }
}

// Even where it has no rows and no keys, and so no efficiency.
TEST(Price, OfAnAttendWithoutAVisiblePairIsALaunch) {
  const Plan plan = read_plan(kHiddenPlan, "hidden");
  const Machine m = find_machine("dgx-a100");
  Conditions c;
  const Workload w = price(plan, m);
  const Simulation s = simulate(w, c);
  for (const std::size_t task : {8u, 9u, 17u})
    EXPECT_EQ(static_cast<double>(price_of(w, task)), std::round(m.launch_us * 1e6)) << task;
  EXPECT_GT(s.makespan.value, 0);
  const Workload ideal = price(plan, find_machine("ideal"));
  for (const std::size_t task : {8u, 9u, 17u}) EXPECT_EQ(price_of(ideal, task), 0) << task;
}

Layout one_chunk_and_two(std::uint32_t, Tokens) {
  return custom_layout({{0, 1, 4}, {4, 1, 4}, {8, 1, 4}}, {{{0}, 1}, {{1}, 2}});
}
void own_chunks(const Problem&, PlanBuilder& plan) {
  plan.merge(plan.attend(plan.queries(WorkerId{0}), plan.keys(WorkerId{0})));
  plan.merge(plan.attend(plan.queries(WorkerId{1}).part(0), plan.keys(WorkerId{1}).part(0)));
}

TEST(Price, OfEqualWorkDiffersWhereItIsAnotherShareOfABlock) {
  const Plan plan = build_plan(small_problem(2, 12, Pass::Forward, Mask::full()),
                               {"own", "", "", one_chunk_and_two, own_chunks});
  ASSERT_EQ(plan.tasks[0].work, plan.tasks[1].work);
  const Workload w = price(plan, find_machine("ideal"));
  EXPECT_EQ(price_of(w, 0), 1'000'000);
  EXPECT_EQ(price_of(w, 1), 250'000);
  EXPECT_EQ(one_device(w, find_machine("ideal")).value, 1'250'000);
}

TEST(Price, OfASquareOfTheTableIsWhatTheTableSays) {
  int points = 0;
  for (const MachineProfile& p : machine_profiles()) {
    Machine m = find_machine(std::string(p.name));
    for (const KernelTable& t : m.kernels) {
      m.library = t.library;
      // Without heads a table's rates hold for full devices, whatever the waves.
      if (t.heads.empty()) m.sms = 0;
      for (std::size_t i = 0; i < t.tokens.size(); ++i)
        for (const Dtype dtype : t.dtypes) {
          Problem problem;
          problem.workers = 1;
          problem.tokens = {static_cast<std::int64_t>(t.tokens[i])};
          problem.heads = t.heads.empty() ? 3 : static_cast<std::uint32_t>(t.heads[i]);
          problem.kv_heads = problem.heads / t.heads_per_key_head;
          problem.head_dim = t.head_dim;
          problem.dtype = dtype;
          problem.mask = t.shape == TileShape::Full ? Mask::full() : Mask::causal();
          problem.pass = t.backward ? Pass::Backward : Pass::Forward;
          const double n = t.tokens[i];
          const double pairs = t.shape == TileShape::Full ? n * n : n * (n + 1) / 2;
          const double work = (t.backward ? 10 : 4) * pairs * t.head_dim * problem.heads;
          const double rate =
              t.sustained_tflops > 0 ? std::min(t.tflops[i], t.sustained_tflops) : t.tflops[i];
          const double expected = work / rate + m.launch_us * 1e6;
          const Plan plan = build_plan(problem, find_schedule("ring"));
          const double ps =
              t.backward ? price_of(plan, m, TaskKind::AttendBackward, attention::kQueryGradient)
                         : price_of(plan, m, TaskKind::Attend, attention::kPartial);
          EXPECT_NEAR(ps, expected, 1e-9 * expected + 1)
              << p.name << " " << t.library << " " << n << (t.backward ? " backward" : "");
          ++points;
        }
    }
  }
  EXPECT_GT(points, 100);
}

Machine with_table() {
  Machine m = test_machine(Fabric::Switch, 2);
  m.kernels.clear();
  KernelTable table;
  table.dtypes = {Dtype::Bf16};
  table.head_dim = 8;
  table.tokens = {100, 1000};
  table.tflops = {0.01, 0.02};
  table.source = "made up";
  for (const TileShape shape : {TileShape::Full, TileShape::Causal}) {
    table.shape = shape;
    m.kernels.push_back(table);
  }
  return m;
}

TEST(Price, OfARectangleIsAtTheRateOfTheHarmonicMeanOfItsSides) {
  const Machine m = with_table();
  // The harmonic mean of 200 and 600 is 300; rates go with the logarithm of the size.
  const double rate = 0.01 + 0.01 * std::log10(3.0);
  const double expected = 1e6 + flops(200, 600) / rate;
  EXPECT_NEAR(tile_ps(m, 200, 600), expected, 1e-9 * expected + 1);
  EXPECT_EQ(tile_ps(m, 600, 200), tile_ps(m, 200, 600));
}

TEST(Price, BelowTheTableFallsInProportionAndStaysBeyondIt) {
  const Machine m = with_table();
  EXPECT_NEAR(tile_ps(m, 50, 50), 1e6 + flops(50, 50) / 0.005, 1);
  EXPECT_NEAR(tile_ps(m, 1, 1), 1e6 + flops(1, 1) / 0.0001, 1);
  EXPECT_NEAR(tile_ps(m, 9000, 9000), 1e6 + flops(9000, 9000) / 0.02, 1e3);
}

TEST(Price, CountsTheWavesOfBlocks) {
  Machine m = test_machine(Fabric::Switch, 2);
  m.sms = 10;
  m.block_rows = 16;
  // 4 heads: 64 rows are 16 blocks in 2 waves of 10; 80 rows are 20 blocks in 2 full waves; 8 rows
  // are 4 blocks in one, each as long as a full one.
  EXPECT_NEAR(tile_ps(m, 64, 100), 1e6 + flops(64, 100) / (0.01 * 16 / 20), 1);
  EXPECT_NEAR(tile_ps(m, 80, 100), 1e6 + flops(80, 100) / 0.01, 1);
  EXPECT_NEAR(tile_ps(m, 8, 100), 1e6 + flops(8, 100) / (0.01 * 4 * 0.5 / 10), 1);
}

SoftwareFigures figures_of_software() {
  SoftwareFigures s;
  s.merge_bytes = 3;
  s.reduce_bytes = 5;
  s.prepare_bytes = 7;
  s.output_bytes = 11;
  s.merge_launches = 4;
  return s;
}

// 300 rows, 4 heads and 2 key heads of 8, at a byte per ps; a launch takes 1 us.
TEST(Price, OfAPassOverMemoryIsItsBytesAndItsLaunches) {
  Machine m = test_machine(Fabric::Mesh, 2);
  m.software = figures_of_software();
  const Plan plan =
      build_plan(small_problem(2, 600, Pass::Both, Mask::full()), find_schedule("ring"));
  const double queries = 300 * 4 * 8, keys = 300 * 2 * 8 * 2;
  using namespace attention;
  EXPECT_EQ(price_of(plan, m, TaskKind::Merge, kPartial), 4e6 + 3 * queries);
  // 2 SMs of 3 GHz that make a hundredth of an element in each clock: 60 elements in a us.
  m.software.merge_per_clock = 0.01;
  m.sms = 2;
  EXPECT_EQ(price_of(plan, m, TaskKind::Merge, kPartial), 4e6 + 3 * queries);  // no clock is known
  const std::string named = "merges (from their bytes, as the profile lacks clock_ghz or sms)";
  EXPECT_TRUE(price(plan, m).extrapolated.contains(named));
  m.clock_ghz = 3;
  EXPECT_FALSE(price(plan, m).extrapolated.contains(named));
  EXPECT_NEAR(price_of(plan, m, TaskKind::Merge, kPartial), 4e6 + queries / 60 * 1e6, 1);
  m.software.merge_per_clock = 1e6;
  EXPECT_EQ(price_of(plan, m, TaskKind::Merge, kPartial), 4e6 + 3 * queries);
  EXPECT_EQ(price_of(plan, m, TaskKind::Reduce, kQueryGradient), 1e6 + 5 * queries);
  EXPECT_EQ(price_of(plan, m, TaskKind::Reduce, kKeyValueGradient), 1e6 + 5 * keys);
  EXPECT_EQ(price_of(plan, m, TaskKind::Prepare, kPreparedGradient), 1e6 + 7 * queries);
  EXPECT_EQ(price_of(plan, m, TaskKind::Output, kQueryGradient), 1e6 + 11 * queries);
  EXPECT_EQ(price_of(plan, m, TaskKind::Output, kKeyValueGradient), 1e6 + 11 * keys);
  EXPECT_EQ(price_of(plan, m, TaskKind::Output, kPartial), 1e6 + 11 * queries);
  m.software.output_bytes = 0;
  EXPECT_EQ(price_of(plan, m, TaskKind::Output, kQueryGradient), 0);
}

TEST(Price, OfAnAttendWithCopiesAroundItIsMore) {
  Machine m = test_machine(Fabric::Mesh, 2);
  const Plan plan =
      build_plan(small_problem(2, 600, Pass::Both, Mask::full()), find_schedule("ring"));
  const double queries = 300 * 4 * 8, keys = 300 * 2 * 8 * 2;
  using namespace attention;
  const auto forward = price_of(plan, m, TaskKind::Attend, kPartial);
  const auto backward = price_of(plan, m, TaskKind::AttendBackward, kQueryGradient);
  m.software.attend_bytes = 10;
  m.software.attend_key_bytes = 4;
  m.software.attend_backward_bytes = 18;
  m.software.attend_backward_key_bytes = 14;
  m.software.attend_launches = 2;
  EXPECT_EQ(price_of(plan, m, TaskKind::Attend, kPartial), forward + 2e6 + 10 * queries + 4 * keys);
  EXPECT_EQ(price_of(plan, m, TaskKind::AttendBackward, kQueryGradient),
            backward + 2e6 + 18 * queries + 14 * keys);
  // 60 elements in a us, each read and written once.
  const double copied = 2.0 * static_cast<double>(size_of(plan.problem.dtype));
  m.software.attend_per_clock = 0.01;
  m.sms = 2;
  m.devices_spread = 1e-9;  // so that no device is slower than others
  const std::string named =
      "strided copies (from their bytes, as the profile lacks clock_ghz or sms)";
  EXPECT_TRUE(price(plan, m).extrapolated.contains(named));
  m.clock_ghz = 3;
  EXPECT_FALSE(price(plan, m).extrapolated.contains(named));
  const auto prices = [&] {
    return std::pair{price_of(plan, m, TaskKind::Attend, kPartial),
                     price_of(plan, m, TaskKind::AttendBackward, kQueryGradient)};
  };
  const auto [slow, slow_backward] = prices();
  m.software.attend_per_clock = 1e6;
  const auto [by_memory, by_memory_backward] = prices();
  m.software.attend_bytes = m.software.attend_key_bytes = 0;
  m.software.attend_backward_bytes = m.software.attend_backward_key_bytes = 0;
  m.software.attend_per_clock = 0.01;
  m.clock_ghz = 0;
  EXPECT_FALSE(price(plan, m).extrapolated.contains(named));  // nothing is copied
  const auto [bare, bare_backward] = prices();
  EXPECT_NEAR(slow - bare, 2e6 + (10 * queries + 4 * keys) / copied / 60 * 1e6, 100);
  EXPECT_NEAR(slow_backward - bare_backward, 2e6 + (18 * queries + 14 * keys) / copied / 60 * 1e6,
              100);
  EXPECT_NEAR(by_memory - bare, 2e6 + 10 * queries + 4 * keys, 100);
  EXPECT_NEAR(by_memory_backward - bare_backward, 2e6 + 18 * queries + 14 * keys, 100);
}

TEST(Price, OfHalfTheHeadsIsHalfTheTimeAfterTheLaunch) {
  Machine m = test_machine(Fabric::Mesh, 2);
  m.software = figures_of_software();
  const Plan whole =
      build_plan(small_problem(2, 600, Pass::Both, Mask::full()), find_schedule("ring"));
  const Plan halves = by_half_the_heads(whole);
  using namespace attention;
  const std::pair<TaskKind, ValueId> kinds[] = {{TaskKind::Attend, kPartial},
                                                {TaskKind::AttendBackward, kQueryGradient},
                                                {TaskKind::Merge, kPartial},
                                                {TaskKind::Reduce, kKeyValueGradient},
                                                {TaskKind::Prepare, kPreparedGradient},
                                                {TaskKind::Output, kPartial}};
  for (const auto& [kind, made] : kinds) {
    const double launches = kind == TaskKind::Merge ? 4e6 : 1e6;
    EXPECT_NEAR(2 * (price_of(halves, m, kind, made) - launches),
                price_of(whole, m, kind, made) - launches, 2)
        << to_text(kind);
  }
  const Machine ideal = find_machine("ideal");
  EXPECT_EQ(2 * price_of(halves, ideal, TaskKind::Attend, kPartial),
            price_of(whole, ideal, TaskKind::Attend, kPartial));
}

TEST(Price, OfAMergeIntoASliceIsMore) {
  Machine m = test_machine(Fabric::Mesh, 4);
  const Plan striped = build_plan(small_problem(4, 400), find_schedule("striped"));
  const double whole = price_of(striped, m, TaskKind::Merge, attention::kPartial);
  m.software.slice_bytes = 9;
  const Workload w = price(striped, m);
  double most = 0;
  for (std::size_t id = 0; id < striped.tasks.size(); ++id)
    if (striped.tasks[id].kind == TaskKind::Merge)
      most = std::max(most, static_cast<double>(w.amounts[id]));
  EXPECT_EQ(most, whole + 9 * 100 * 4 * 8);
}

// A device without pauses keeps up less than a table of single calls says.
TEST(Price, OfAnAttendIsAtMostAtTheSustainedRate) {
  Machine m = with_table();
  const double fast = tile_ps(m, 1000, 1000), slow = tile_ps(m, 100, 100);
  for (KernelTable& k : m.kernels) k.sustained_tflops = 0.015;
  const double launch = m.launch_us * 1e6;
  EXPECT_NEAR(tile_ps(m, 1000, 1000) - launch, (fast - launch) * 0.02 / 0.015, 10);
  EXPECT_EQ(tile_ps(m, 100, 100), slow);  // at 0.01 it is slower than that anyway
  for (KernelTable& k : m.kernels) k.sustained_tflops = 1;
  EXPECT_EQ(tile_ps(m, 1000, 1000), fast);
}

// At most steps of a zigzag ring, a tile has a whole rectangle of each document. Libraries call
// kernels without a mask for these, and with one for a worker's own tokens.
TEST(Price, OfWholeRectanglesOfDocumentsIsThatOfKernelsWithoutAMask) {
  Machine m = find_machine("hgx-h100");
  m.library = "fa3";
  Problem p = small_problem(4, 4096);
  p.head_dim = 128;
  p.mask = Mask::documents(std::vector<Tokens>(4, Tokens{1024}));
  const Plan plan = build_plan(p, find_schedule("zigzag:shares=documents"));
  Machine slow = m;
  for (KernelTable& t : slow.kernels)
    if (t.shape == TileShape::Full)
      for (double& rate : t.tflops) rate /= 100;
  const auto ps = [&](const Machine& machine, const Work& w) {
    KernelTimes kernels(machine, p);
    kernels.know_parts(plan);
    return kernels.ps(w, false);
  };
  int own = 0, others = 0;
  for (const Task& t : plan.tasks) {
    if (t.kind != TaskKind::Attend) continue;
    const Work& w = plan.works[t.work.value];
    ASSERT_EQ(w.form, TileForm::Other);
    const bool is_own = plan.layout.owner(plan.regions[plan.rows(t).value].first) ==
                        plan.layout.owner(plan.regions[t.keys.value].first);
    ++(is_own ? own : others);
    if (is_own)
      EXPECT_EQ(ps(slow, w), ps(m, w));
    else
      EXPECT_GT(ps(slow, w), 2 * ps(m, w));
  }
  EXPECT_EQ(own, 4);
  EXPECT_EQ(others, 12);
}

// A kernel that deals its blocks does not slow down beside a transfer: blocks of its last SMs start
// late. Libraries call other kernels for packed sequences.
TEST(Price, BlocksOfTheLastSmsStartLate) {
  Machine m = find_machine("hgx-h100");
  m.library = "fa3";
  Problem p = small_problem(8, 1 << 15);
  p.heads = p.kv_heads = 64;
  p.head_dim = 128;
  const Plan plan = build_plan(p, find_schedule("ring"));
  const auto work = [&](TileForm form) {
    for (const Task& t : plan.tasks)
      if (is_attend(t.kind) && plan.works[t.work.value].form == form)
        return plan.works[t.work.value];
    return Work{};
  };
  const Work full = work(TileForm::Full), causal = work(TileForm::Causal);
  const auto late = [&](const Work& w, std::uint32_t transfers) {
    return KernelTimes(m, plan.problem).late_ps(w, false, transfers);
  };
  const KernelTimes kernels(m, plan.problem);
  EXPECT_GT(late(full, 1), 0.5 * kernels.ps(full, false));
  EXPECT_LE(late(full, 1), kernels.ps(full, false));
  EXPECT_LE(late(full, 1), late(full, 2));
  EXPECT_EQ(late(causal, 1), 0) << "an SM that is free takes the next block";
  EXPECT_EQ(kernels.slowed(full, false, 1), m.comm_slowdown);
  EXPECT_GT(kernels.slowed(causal, false, 1), m.comm_slowdown);
  m.software.packed = true;
  EXPECT_EQ(late(full, 1), 0);
  for (KernelTable& t : m.kernels) t.deals_blocks = DealsBlocks::Always;
  EXPECT_GT(late(full, 1), 0);
  EXPECT_GT(late(causal, 1), 0);
  // A slower device needs longer for them, too.
  const auto share = [&](double spread) {
    m.devices_spread = spread;
    const Workload w = price(plan, m);
    const std::int64_t most = std::ranges::max(w.late[0]), all = std::ranges::max(w.compute);
    EXPECT_GT(most, 0);
    return static_cast<double>(most) / static_cast<double>(all);
  };
  EXPECT_NEAR(share(0.1), share(1e-6), 1e-6);
  m.comm_sms = 0;
  EXPECT_EQ(late(full, 1), 0);
  m.sms = 0;
  EXPECT_EQ(KernelTimes(m, plan.problem).tail_ps(full, false), 0) << "nobody knows its blocks";
}

// Keys and values, and their gradients, may be several tensors; queries and results are not. A
// rounded gradient starts as a message of as many bytes does.
TEST(Price, OfAMessageFollowsFromItsTensorsAndFromWhatIsSent) {
  Machine m = find_machine("hgx-h100");
  m.software.sends_rounded = true;
  Problem p = small_problem(8, 1 << 17, Pass::Both);
  p.heads = p.kv_heads = 16;
  p.head_dim = 128;
  const Plan plan = build_plan(p, find_schedule("balanced"));
  const auto startups = [&](std::uint32_t tensors) {
    m.software.message_tensors = tensors;
    const Workload w = price(plan, m);
    std::map<TypeId, std::int64_t> by_type;
    for (const Task& t : plan.tasks)
      if (t.kind == TaskKind::Send)
        by_type[plan.program[plan.value(t)].type] =
            w.startup[static_cast<std::size_t>(Distance::SameNode)]
                     [w.starts_apart(t) * plan.works.size() + t.work.value];
    return by_type;
  };
  const auto one = startups(1), two = startups(2);
  ASSERT_GE(one.size(), 4u);
  for (const auto& [type, ps] : one) {
    const bool keys = type == TypeId::KeysValues || type == TypeId::KeysValuesSum;
    EXPECT_EQ(two.at(type) != ps, keys);
  }
  m.software.tensors_apart = true;
  EXPECT_EQ(startups(2).at(TypeId::KeysValues), startups(1).at(TypeId::KeysValues))
      << "each message is one tensor";
  m.software.tensors_apart = false;
  EXPECT_EQ(one.at(TypeId::KeysValuesSum), one.at(TypeId::KeysValues));
  EXPECT_EQ(two.at(TypeId::KeysValuesSum), two.at(TypeId::KeysValues));
}

// A table says what its own points take, however the kernel gives its blocks to SMs.
TEST(Price, OfASquareOfTheTableIsThatOfTheTableIfBlocksAreDealt) {
  Machine m = find_machine("hgx-h100");
  m.library = "fa3";
  Problem p;
  p.heads = p.kv_heads = 64;
  p.head_dim = 128;
  for (const TileForm form : {TileForm::Full, TileForm::Causal}) {
    const std::int64_t n = 8192, pairs = form == TileForm::Full ? n * n : n * (n + 1) / 2;
    const Work w{n, n, Pairs{pairs}, form, 64, {}};
    const auto ps = [&](DealsBlocks deals) {
      for (KernelTable& t : m.kernels) t.deals_blocks = deals;
      return KernelTimes(m, p).ps(w, false);
    };
    EXPECT_NEAR(ps(DealsBlocks::Always) / ps(DealsBlocks::Never), 1, 2e-3);
  }
}

// Transfers hold an SM for each of NCCL's channels, inside a node.
TEST(Price, OfAnAttendBesideATransferFollowsFromTheChannelsOfTheLongestMessage) {
  const auto slowed = [](Machine m, std::int64_t tokens, unsigned groups) {
    const Plan plan = build_plan(small_problem(8, tokens), find_schedule("ring"));
    const std::vector<double> all = price(plan, m).slowed[groups - 1];
    return *std::ranges::max_element(all);
  };
  const auto with = [&](std::uint32_t sms, std::int64_t tokens, unsigned groups) {
    Machine m = find_machine("hgx-h100");
    m.comm_sms = sms;
    m.comm_sms_set = true;
    return slowed(m, tokens, groups);
  };
  Machine m = find_machine("hgx-h100");
  const std::int64_t tokens = 1 << 15;  // 4 channels among 8; 16 between 2, each way
  EXPECT_EQ(slowed(m, tokens, 1), with(4, tokens, 1));
  EXPECT_EQ(slowed(m, tokens, 2), with(4, tokens, 2));
  const std::int64_t longer = 1 << 26;  // 512 MiB of keys and values
  EXPECT_EQ(slowed(m, longer, 1), with(32, longer, 1));
  EXPECT_EQ(slowed(m, longer / 2, 1), with(16, longer / 2, 1)) << "just 16 MiB a channel";
  EXPECT_EQ(slowed(m, longer / 2 + 8, 1), with(32, longer / 2 + 8, 1));
  m.software.tensors_apart = true;
  EXPECT_EQ(slowed(m, longer / 2, 1), with(8, longer / 2, 1)) << "128 MiB of keys";
  m.software.tensors_apart = false;
  m.software.message_tensors = 2;
  EXPECT_EQ(slowed(m, longer / 2, 1), with(8, longer / 2, 1)) << "twice 128 MiB";
  m.software.message_tensors = 1;
  m.software.pair_communicators = true;
  EXPECT_EQ(slowed(m, tokens, 1), with(32, tokens, 1));
  EXPECT_EQ(slowed(m, tokens, 2), with(32, tokens, 1)) << "one stream between two workers";
  m.comm_sms_set = true;
  EXPECT_EQ(slowed(m, tokens, 1), with(4, tokens, 1)) << "as a user asks";
  // Exchanges hold what the profile says.
  const Plan gathers = build_plan(small_problem(8, tokens), find_schedule("all-gather"));
  Machine usual = find_machine("hgx-h100"), asked = usual;
  asked.comm_sms_set = true;
  EXPECT_EQ(price(gathers, usual).slowed[0], price(gathers, asked).slowed[0]);
}

// A library's own kernels, such as those for packed sequences.
TEST(Price, OfAnAttendByALibrarysOwnKernelIsALittleMore) {
  Machine m = with_table();
  const double launch = m.launch_us * 1e6, usual = tile_ps(m, 300, 200) - launch;
  const auto extrapolated = [&] {
    return price(build_plan(small_problem(2, 600), find_schedule("ring")), m).extrapolated;
  };
  const std::string named =
      "forward attends (the library's kernels take 1.25 times as long as the table's)";
  EXPECT_FALSE(extrapolated().contains(named));
  m.software.attend_factor = 1.25;
  EXPECT_NEAR(tile_ps(m, 300, 200) - launch, 1.25 * usual, 1);
  EXPECT_TRUE(extrapolated().contains(named));
}

// Kernels for packed sequences: as their table says, or 1.026 times as long; and documents are as
// many heads of shorter sequences.
TEST(Price, OfPackedSequencesIsThatOfTheirKernelsAndOfEachDocument) {
  Machine m = find_machine("hgx-h100");
  for (KernelTable& k : m.kernels) k.sustained_tflops = 0;
  Problem p;
  p.heads = p.kv_heads = 16;
  p.head_dim = 128;
  const auto ps = [&](const Work& w, bool backward) {
    return KernelTimes(m, p).ps(w, backward) - m.launch_us * 1e6;
  };
  const Work triangle{4096, 4096, Pairs{4096 * 4097 / 2}, TileForm::Causal, 16, {}};
  for (const bool backward : {false, true})
    for (const char* library : {"cudnn", "fa3"}) {
      m.library = library;
      const bool measured = m.library == "cudnn";
      m.software.packed = false;
      const double usual = ps(triangle, backward);
      EXPECT_EQ(KernelTimes(m, p).doubt(triangle, backward), 0);
      m.software.packed = true;
      const double factor = !measured ? 1.026 : backward ? 1.07 : 1.065;
      EXPECT_NEAR(ps(triangle, backward), factor * usual, 1e-6 * usual) << library;
      EXPECT_NEAR(KernelTimes(m, p).doubt(triangle, backward), measured ? (factor - 1) / 3 : 0.03,
                  1e-9);
    }
  m.software.packed = false;
  // Documents on one worker are as many more heads. They end at the diagonal, and each with a
  // block.
  for (const std::int64_t n : {128, 1000, 1024}) {
    const Work each{n, n, Pairs{n * (n + 1) / 2}, TileForm::Causal, 16 * 8, {}};
    const Work all{8 * n, 8 * n, Pairs{8 * each.pairs.value}, TileForm::Other, 16, {}};
    for (const bool backward : {false, true}) {
      p.mask = Mask::causal();
      const double expected = ps(each, backward), as_one = ps(all, backward);
      const double tail = KernelTimes(m, p).tail_ps(each, backward);
      std::set<std::string> why, of_each;
      KernelTimes(m, p).doubt(each, backward, &of_each);
      p.mask = Mask::documents(std::vector<Tokens>(8, Tokens{n}));
      KernelTimes kernels(m, p);
      Work one = each;
      one.columns = 16;
      kernels.know_parts(all, {{one, 8}});
      const double found = kernels.ps(all, backward) - m.launch_us * 1e6;
      EXPECT_NEAR(found, expected, 1e-6 * expected) << n;
      if (n > 128) {
        EXPECT_GT(found, 1.02 * as_one);
      }
      EXPECT_NEAR(kernels.tail_ps(all, backward), tail, 1e-6 * tail + 1);
      kernels.doubt(all, backward, &why);
      EXPECT_EQ(why.size(), of_each.size() + 1) << "fewer tokens than measured, and of documents";
    }
  }
}

// A plan's tiles are priced by what each document has of them: few rows against many keys cost more
// than squares of as many pairs.
TEST(Price, OfPackedDocumentsIsThatOfTheBlocksOfEach) {
  Machine m = find_machine("hgx-h100");
  m.library = "cudnn";
  Problem p = small_problem(8, 64 * 512);
  p.heads = p.kv_heads = 16;
  p.head_dim = 128;
  p.mask = Mask::documents(std::vector<Tokens>(64, Tokens{512}));
  const Plan plan = build_plan(p, find_schedule("all-gather:shares=documents"));
  const Workload w = price(plan, m);
  // A worker has 64 rows of each document, which see up to 512 keys: 64 blocks a head, each with
  // nearly all keys. As squares of as many pairs they would cost less.
  KernelTimes kernels(m, p);
  kernels.know_parts(plan);
  for (const Task& t : plan.tasks) {
    if (!is_attend(t.kind)) continue;
    const Work& work = plan.works[t.work.value];
    const Work full{64 * 128, 512, Pairs{64 * 128 * 512}, TileForm::Full, 16, {}};
    EXPECT_NEAR(kernels.ps(work, false), kernels.ps(full, false), 0.25 * kernels.ps(full, false));
    EXPECT_EQ(w.doubt[static_cast<std::size_t>(t.kind) * plan.works.size() + t.work.value] > 0,
              true);
  }
  EXPECT_TRUE(
      w.extrapolated.contains("forward attends of packed documents (from the blocks of each)"));
  // A table may say how uncertain that is.
  for (KernelTable& t : m.kernels) t.documents_spread = 0.5;
  const Workload less_sure = price(plan, m);
  ASSERT_EQ(less_sure.doubt.size(), w.doubt.size());
  for (std::size_t i = 0; i < w.doubt.size(); ++i) {
    if (w.doubt[i] <= 0) continue;
    EXPECT_LT(w.doubt[i], 0.1);
    EXPECT_NEAR(less_sure.doubt[i], 0.5, 0.02);
  }
}

// A worker of a causal zigzag has two chunks, and a library calls a kernel for each: their blocks
// are about equally long, and none has to wait for a last long one.
TEST(Price, OfTwoChunksIsThatOfAKernelForEach) {
  Machine m = find_machine("hgx-h100");
  m.library = "fa2";
  Problem p = small_problem(8, 65536);
  p.heads = p.kv_heads = 8;
  p.head_dim = 128;
  const Plan plan = build_plan(p, find_schedule("all-gather:shares=zigzag"));
  KernelTimes kernels(m, p), unaware(m, p);
  kernels.know_parts(plan);
  const auto part = [&](std::int64_t before) {
    const std::int64_t n = 4096;
    return kernels.ps({n, before + n, Pairs{n * before + n * (n + 1) / 2}, TileForm::Other, 8, {}},
                      false);
  };
  std::size_t attends = 0;
  for (const Task& t : plan.tasks) {
    if (!is_attend(t.kind)) continue;
    ++attends;
    const std::int64_t r = t.worker_index;
    const double each = part(4096 * r) + part(4096 * (15 - r));
    const double found = kernels.ps(plan.works[t.work.value], false);
    EXPECT_NEAR(found, each, 0.1 * each) << r;
    EXPECT_LT(found, 0.8 * unaware.ps(plan.works[t.work.value], false)) << r;
    EXPECT_EQ(kernels.doubt(plan.works[t.work.value], false), 0);
  }
  EXPECT_EQ(attends, 8u);
}

// FlashAttention-3's kernels for packed sequences put all query heads of a key head into one block.
TEST(Price, OfPackedDocumentsFallsIfABlockHasAllHeadsOfAKeyHead) {
  Machine m = find_machine("hgx-h100");
  m.library = "fa3";
  Problem p;
  p.heads = 32;
  p.kv_heads = 8;
  p.head_dim = 128;
  p.mask = Mask::documents(std::vector<Tokens>(64, Tokens{1024}));
  const Work each{32, 1024, Pairs{32 * 1024}, TileForm::Full, 32, {}};
  const Work all{64 * 32, 64 * 1024, Pairs{64 * 32 * 1024}, TileForm::Other, 32, {}};
  const auto ps = [&](bool packed, bool backward) {
    m.software.packed = packed;
    KernelTimes kernels(m, p);
    kernels.know_parts(all, {{each, 64}});
    return (kernels.ps(all, backward) - m.launch_us * 1e6) / (packed ? 1.026 : 1);
  };
  EXPECT_NEAR(ps(true, false), ps(false, false) / 4, 0.05 * ps(false, false))
      << "four heads of 32 rows fill a block";
  EXPECT_NEAR(ps(true, true), ps(false, true), 1e-6 * ps(false, true));
  for (KernelTable& t : m.kernels) t.packs_groups = false;
  EXPECT_NEAR(ps(true, false), ps(false, false), 1e-6 * ps(false, false));
}

// FlashAttention has kernels for some head dimensions, and fills up the others with zeros.
TEST(Price, OfAHeadDimensionWithoutAKernelIsThatOfTheNext) {
  const auto ps = [](const char* library, std::uint32_t head_dim) {
    Machine m = find_machine("hgx-h100");
    m.library = library;
    Problem p;
    p.heads = p.kv_heads = 16;
    p.head_dim = head_dim;
    const Work w{8192, 8192, Pairs{8192 * 8192}, TileForm::Full, 16, {}};
    return KernelTimes(m, p).ps(w, false);
  };
  for (const char* library : {"fa2", "fa3"}) {
    EXPECT_NEAR(ps(library, 72), ps(library, 96), 1e-9 * ps(library, 96)) << library;
    EXPECT_EQ(ps(library, 40), ps(library, 64)) << library;
    EXPECT_GT(ps(library, 72), 1.1 * ps(library, 64)) << library;
    EXPECT_EQ(ps(library, 97), ps(library, 128)) << library;
  }
  EXPECT_LT(ps("fa2", 32), 0.9 * ps("fa2", 64)) << "FlashAttention-2 has a kernel for 32";
  EXPECT_LT(ps("cudnn", 72), ps("cudnn", 96)) << "what cuDNN does is not known";
  EXPECT_GT(ps("fa2", 300), ps("fa2", 256)) << "beyond all kernels, nothing is filled up";
}

TEST(Price, DoesNotFallAsTheHeadDimensionGrows) {
  for (const auto& [machine, library] :
       std::map<std::string, std::vector<std::string>>{{"hgx-h100", {"fa2", "fa3", "cudnn"}},
                                                       {"hgx-b200", {"fa4", "cudnn"}},
                                                       {"dgx-a100", {""}}})
    for (const std::string& named : library)
      for (const TileForm form : {TileForm::Full, TileForm::Causal})
        for (const bool backward : {false, true}) {
          Machine m = find_machine(machine);
          m.library = named;
          double last = 0;
          for (std::uint32_t dim = 32; dim <= 128; dim += 8) {
            Problem p;
            p.heads = p.kv_heads = 32;
            p.head_dim = dim;
            const std::int64_t n = 16384;
            const std::int64_t pairs = form == TileForm::Full ? n * n : n * (n + 1) / 2;
            const double ps = KernelTimes(m, p).ps({n, n, Pairs{pairs}, form, 32, {}}, backward);
            EXPECT_GE(ps, 0.97 * last) << machine << " " << named << " " << dim << " " << backward
                                       << " " << static_cast<int>(form);
            last = ps;
          }
        }
}

// FlashAttention-2 splits the keys of a call with few blocks, but not of packed sequences.
TEST(Price, OfPackedSequencesIsThatOfUnsplitKeys) {
  Machine m = find_machine("hgx-h100");
  m.library = "fa2";
  Problem p;
  p.heads = p.kv_heads = 1;
  const Work w{1024, 8192, Pairs{1024 * 8192}, TileForm::Full, 1, {}};
  const double split = KernelTimes(m, p).ps(w, false);
  m.software.packed = true;
  EXPECT_GT(KernelTimes(m, p).ps(w, false), 2 * split);
  for (KernelTable& t : m.kernels) t.blocks.splits_keys = false;
  const double packed = KernelTimes(m, p).ps(w, false);
  m.software.packed = false;
  EXPECT_NEAR(packed / 1.026, KernelTimes(m, p).ps(w, false), 0.03 * packed);
}

// A few new tokens for long keys take as long as the operations that the kernel computes.
TEST(Price, OfDecodingCountsTheHeadDimensionThatIsComputed) {
  Machine m = find_machine("hgx-h100");
  m.library = "fa2";
  m.memory_gb_per_s = 0;
  const auto ps = [&](std::uint32_t dim) {
    Problem p;
    p.heads = p.kv_heads = 32;
    p.head_dim = dim;
    p.new_tokens = {64};
    return KernelTimes(m, p).decode_ps({64, 8192, Pairs{64 * 8192}, TileForm::Full, 32, {}});
  };
  EXPECT_EQ(ps(72), ps(96));
  EXPECT_LT(ps(64), ps(72));
}

// Under Ulysses, a worker may have fewer query heads than share a key head.
TEST(Price, OfGroupedHeadsIsThatOfTheHeadsOfAWorker) {
  Machine m = find_machine("hgx-h100");
  const auto ps = [&](std::uint32_t columns, std::uint32_t kv_heads) {
    Problem p;
    p.heads = 32;
    p.kv_heads = kv_heads;
    p.head_dim = 128;
    const Work w{4096, 4096, Pairs{4096 * 2048}, TileForm::Other, columns, {}};
    return KernelTimes(m, p).ps(w, true);
  };
  EXPECT_EQ(ps(1, 8), ps(1, 32));
  EXPECT_EQ(ps(2, 8), ps(2, 16));
  EXPECT_GT(ps(2, 8), ps(2, 32));
  EXPECT_LT(ps(4, 8), ps(4, 16)) << "fewer sums are written";
  EXPECT_GT(ps(4, 8), ps(4, 32));
}

// NCCL's channels were measured among at most eight.
TEST(Price, OfMessagesAmongMoreWorkersThanWereMeasuredIsUnsure) {
  Machine m = find_machine("gb200-nvl72");
  const auto unsure = [&](std::uint32_t workers) {
    Problem p = small_problem(workers, 72 * 1024);
    p.heads = p.kv_heads = 8;
    p.head_dim = 128;
    const Plan plan = build_plan(p, find_schedule("ring"));
    const Workload w = price(plan, m);
    const std::string named = fmt::format(
        "messages among {} workers of a node (NCCL's channels were measured among 2 to 8)",
        workers);
    const std::size_t sends = static_cast<std::size_t>(TaskKind::Send) * plan.works.size();
    double most = 0;
    for (std::size_t i = 0; i < plan.works.size() && !w.doubt.empty(); ++i)
      most = std::max<double>(most, w.doubt[sends + i]);
    EXPECT_EQ(most > 0, w.extrapolated.contains(named)) << workers;
    return most > 0;
  };
  EXPECT_TRUE(unsure(72));
  EXPECT_TRUE(unsure(9));
  EXPECT_FALSE(unsure(8));
  m.software.pair_communicators = true;
  EXPECT_FALSE(unsure(72));
}

double longest_ps(const Plan& plan, const Workload& w, TaskKind kind) {
  std::int64_t ps = 0;
  for (const Task& t : plan.tasks)
    if (t.kind == kind)
      ps = std::max(ps,
                    w.compute[static_cast<std::size_t>(kind) * plan.works.size() + t.work.value]);
  return static_cast<double>(ps);
}

// Kernels that ignore the mask take as long as without one, for each part of the rows up to the
// last key that it sees.
TEST(Price, OfABackwardAttendThatSkipsNothingIsThatOfItsRectangles) {
  const auto longest = [](const char* schedule, const Mask& mask, std::uint32_t fills,
                          TaskKind kind) {
    Machine m = find_machine("hgx-h100");
    m.software.backward_fills = fills;
    Problem p = small_problem(4, 1 << 16, Pass::Both, mask);
    p.heads = p.kv_heads = 16;
    p.head_dim = 128;
    const Plan plan = build_plan(p, find_schedule(schedule));
    return longest_ps(plan, price(plan, m), kind);
  };
  const auto backward = [&](const char* schedule, const Mask& mask, std::uint32_t fills) {
    return longest(schedule, mask, fills, TaskKind::AttendBackward);
  };
  const Mask causal = Mask::causal(), window = Mask::window(Tokens{512}), full = Mask::full();
  // In rings of stripes all tiles are triangles.
  const double square = backward("striped", full, 0);
  for (const Mask& mask : {causal, window, full})
    EXPECT_NEAR(backward("striped", mask, 1), square, 1e-3 * square);
  const double forward = longest("striped", causal, 0, TaskKind::Attend);
  EXPECT_NEAR(longest("striped", causal, 1, TaskKind::Attend), forward, 1e-3 * forward);
  // Two chunks of a zigzag share see 1 + 8 of 8 chunks, and so on: 9 of 16, not 8.
  const double gathered = backward("all-gather:shares=zigzag", full, 0);
  for (const Mask& mask : {causal, window})
    EXPECT_NEAR(backward("all-gather:shares=zigzag", mask, 2), gathered * 9 / 16, 0.01 * gathered);
  EXPECT_LT(backward("all-gather:shares=zigzag", window, 0), gathered / 10);
  const Mask prefix = Mask::prefix_window(Tokens{1024}, Tokens{512});
  EXPECT_EQ(backward("striped", prefix, 1), backward("striped", prefix, 0)) << "not known";
  // In shares of neighbours, the last worker sees all keys.
  const double last = backward("all-gather", full, 0);
  EXPECT_NEAR(backward("all-gather", causal, 1), last, 0.03 * last);  // devices differ
}

// Packed documents of equal length take as long as that many times the heads of one, whether the
// kernels skip what the mask hides or not.
TEST(Price, OfABackwardAttendThatSkipsNothingGoesByDocument) {
  const auto longest = [](const char* schedule, const Mask& mask, std::int64_t tokens,
                          std::uint32_t heads, std::uint32_t fills, TaskKind kind,
                          std::set<std::string>* doubts = nullptr) {
    Machine m = find_machine("hgx-h100");
    m.software.backward_fills = fills;
    m.software.packed = true;
    for (KernelTable& k : m.kernels) k.sustained_tflops = 0;  // rates that hide the blocks
    Problem p = small_problem(4, tokens, Pass::Both, mask);
    p.heads = p.kv_heads = heads;
    p.head_dim = 128;
    const Plan plan = build_plan(p, find_schedule(schedule));
    const Workload w = price(plan, m);
    if (doubts != nullptr) doubts->insert(w.extrapolated.begin(), w.extrapolated.end());
    return longest_ps(plan, w, kind);
  };
  constexpr std::int64_t kTokens = 16384;
  std::map<std::uint32_t, double> times;
  for (const Tokens window : {Tokens{0}, Tokens{1024}, Tokens{6000}}) {
    const Mask alone = window.value > 0 ? Mask::window(window) : Mask::causal();
    const Mask pack = Mask::documents({{kTokens}, {kTokens}, {kTokens}}, window);
    for (const std::uint32_t fills : {0U, 1U, 2U})
      for (const TaskKind kind : {TaskKind::Attend, TaskKind::AttendBackward}) {
        const double one = longest("all-gather:shares=zigzag", alone, kTokens, 48, fills, kind);
        std::set<std::string> doubts;
        const double packed =
            longest("all-gather:shares=documents", pack, 3 * kTokens, 16, fills, kind, &doubts);
        // Rectangles agree. Of triangles, a document's two chunks are cut into blocks together.
        const bool rectangles = fills > 0 && kind == TaskKind::AttendBackward;
        EXPECT_NEAR(packed, one, (rectangles ? 0.002 : 0.05) * one)
            << fills << " " << to_text(kind) << " " << window.value;
        if (kind == TaskKind::AttendBackward && window.value == 0) times[fills] = packed;
        EXPECT_EQ(fills > 0, doubts.contains("backward attends (the library's kernels compute what "
                                             "the mask hides)"));
        EXPECT_EQ(
            window.value > 0 && kind == TaskKind::Attend,
            kind == TaskKind::Attend && doubts.contains("forward attends under a window (rate "
                                                        "from causal kernels)"));
      }
  }
  EXPECT_GT(times[2], 1.05 * times[0]);  // 9 of 16 pairs, not 8, without a mask
  EXPECT_GT(times[1], 1.05 * times[2]);
}

// FlashAttention-3 puts the query heads of a key head into one block of a packed document. Under a
// window such a block has fewer positions, so fewer keys of its rows are hidden from others: never
// more work than with a key head for each query head.
TEST(Price, OfAWindowOfPackedDocumentsCountsBlocksOfSharedHeads) {
  Machine m = find_machine("hgx-h100");
  m.library = "fa3";
  m.software.packed = true;
  for (KernelTable& k : m.kernels) k.packs_groups = true;
  const auto longest = [&](std::uint32_t kv_heads, Tokens window) {
    Problem p = small_problem(2, 4096 * 4, Pass::Forward,
                              Mask::documents(std::vector<Tokens>(4, Tokens{4096}), window));
    p.heads = 32;
    p.kv_heads = kv_heads;
    p.head_dim = 128;
    const Plan plan = build_plan(p, find_schedule("ulysses"));
    return longest_ps(plan, price(plan, m), TaskKind::Attend);
  };
  int shorter = 0;  // blocks of keys are whole, so not under each window
  for (std::int64_t window = 128; window < 1024; window += 32) {
    const double shared = longest(4, {window}), apart = longest(32, {window});
    EXPECT_LE(shared, apart) << window;
    shorter += shared < 0.99 * apart;
  }
  EXPECT_GT(shorter, 10);
  EXPECT_LT(longest(4, {512}), 0.6 * longest(4, {0}));
}

// A window that hides nothing costs nothing, however many heads share a block, and makes nothing
// more certain.
TEST(Price, OfPackedDocumentsIsTheSameUnderAWindowThatHidesNothing) {
  const auto priced = [](const char* schedule, std::uint32_t heads, std::uint32_t kv_heads,
                         Tokens window, TaskKind kind) {
    Machine m = find_machine("hgx-h100");
    m.library = "fa3";
    m.software.packed = true;
    m.software.backward_fills = 2;
    for (KernelTable& k : m.kernels) k.packs_groups = true;
    // Cut by document, or as one pack, which cuts them anywhere.
    const std::vector<Tokens> lengths = std::string_view(schedule).ends_with("documents")
                                            ? std::vector<Tokens>(4, Tokens{8192})
                                            : std::vector<Tokens>{{6171}, {5865}, {2476}, {18256}};
    Problem p = small_problem(2, 32768, Pass::Both, Mask::documents(lengths, window));
    p.heads = heads;
    p.kv_heads = kv_heads;
    p.head_dim = 128;
    const Plan plan = build_plan(p, find_schedule(schedule));
    const Workload w = price(plan, m);
    double doubt = 0;
    for (const Task& t : plan.tasks)
      if (t.kind == kind)
        doubt = std::max(
            doubt, static_cast<double>(w.doubt[static_cast<std::size_t>(&t - plan.tasks.data())]));
    return std::pair{longest_ps(plan, w, kind), doubt};
  };
  for (const char* schedule :
       {"all-gather:shares=documents", "zigzag:shares=documents", "all-gather:shares=zigzag"})
    for (const auto& [heads, kv_heads] :
         {std::pair{128u, 1u}, {96u, 8u}, {48u, 1u}, {71u, 1u}, {256u, 1u}, {32u, 32u}})
      for (const TaskKind kind : {TaskKind::Attend, TaskKind::AttendBackward})
        for (const std::int64_t window : {18256, 20000}) {
          const auto [ps, doubt] = priced(schedule, heads, kv_heads, {0}, kind);
          const auto [same_ps, same_doubt] = priced(schedule, heads, kv_heads, {window}, kind);
          EXPECT_NEAR(same_ps, ps, 0.03 * ps) << schedule << heads << " " << to_text(kind);
          EXPECT_GE(same_doubt, doubt) << schedule << heads << " " << to_text(kind);
        }
}

// A library that sends results and gradients as it sends keys: log-sum-exps stay in fp32.
TEST(Price, OfAMessageIsOfTheTypeThatTheLibrarySends) {
  Machine m = test_machine(Fabric::Mesh, 4);
  for (KernelTable& k : m.kernels) k.dtypes.push_back(Dtype::Fp32);
  const auto bytes = [](const Plan& plan, const Task& send, bool rounded) {
    const Value& v = plan.program[plan.value(send)];
    const bool makes =
        v.type == TypeId::Softmax || v.type == TypeId::RowsSum || v.type == TypeId::KeysValuesSum;
    std::int64_t sum = 0;
    for (const Part& part : type_of(v.type).parts)
      sum += (part.scalar ? 1 : plan.problem.head_dim) *
             (makes && rounded && !part.scalar ? size_of(plan.problem.dtype)
                                               : element_bytes(part.element, plan.problem.dtype));
    const Region rows = plan.regions[plan.rows(send).value];
    return sum * plan.layout.rows(rows).value * v.columns.count;
  };
  int different = 0;
  for (const Dtype dtype : {Dtype::Bf16, Dtype::Fp32})
    for (const char* schedule : {"ring", "zigzag", "balanced"})
      for (const bool rounded : {false, true}) {
        Problem p = small_problem(4, 256, Pass::Both);
        p.dtype = dtype;
        const Plan plan = build_plan(p, find_schedule(schedule));
        m.software.sends_rounded = rounded;
        const Workload w = price(plan, m);
        double all = 0;
        for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
          const Task& t = plan.tasks[id];
          if (!is_send(t.kind)) continue;
          const std::int64_t expected = bytes(plan, t, rounded);
          all += static_cast<double>(expected);
          different += expected != plan.works[t.work.value].bytes.value ? 1 : 0;
          ASSERT_EQ(w.amounts.empty() ? plan.works[t.work.value].bytes.value : w.amounts[id],
                    expected)
              << schedule << " " << to_text(dtype) << " task " << id;
        }
        double carried = 0;
        for (const LinkReport& l : report(w, simulate(w)).links) carried += l.bytes;
        EXPECT_NEAR(carried, all, 1e-6 * all) << schedule << " " << to_text(dtype);
      }
  EXPECT_GT(different, 20);
}

TEST(Price, RefusesWhatTheMachineHasNoFiguresFor) {
  Problem p = small_problem(2, 200);
  p.dtype = Dtype::Fp32;
  const Plan plan = build_plan(p, find_schedule("ring"));
  EXPECT_THROW(price(plan, test_machine(Fabric::Mesh, 2)), Error);
  const Plan backward = build_plan(small_problem(2, 200, Pass::Backward), find_schedule("ring"));
  EXPECT_THROW(price(backward, with_table()), Error);
}

}  // namespace
}  // namespace ringsched
