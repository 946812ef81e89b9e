// How long exchanges take: by formula where there is one, by a machine's tables, and compared with
// a naive simulation beside other work.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/plan_tables.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/simulator/export.hpp"
#include "ringsched/simulator/report.hpp"
#include "ringsched/simulator/what_if.hpp"
#include "support/cases.hpp"
#include "support/exchange_plans.hpp"
#include "support/machines.hpp"
#include "support/naive_simulation.hpp"

namespace ringsched {
namespace exchange_tests {
namespace {

// Of test_machine(): 2 us, 1 us, 0.1 GB/s, and 1000 GB/s of memory, which is a byte per ps.
constexpr double kLatencyPs = 2e6, kLaunchPs = 1e6, kBytesPerPs = 1e-4;

// 64 tokens and one query head of 8 bf16 numbers for each worker.
Problem even_problem(std::uint32_t workers, Pass pass = Pass::Forward) {
  Problem p = small_problem(workers, 64 * workers, pass, Mask::full());
  p.heads = p.kv_heads = workers;
  return p;
}
// One query tensor of one worker.
double share_bytes(std::uint32_t workers) { return 64.0 * workers * 8 * 2; }

// From when all members were posted until it was over.
double took(const Workload& w, const Simulation& run, std::uint32_t exchange) {
  const Exchange& e = w.plan->exchanges[exchange];
  std::int64_t posted = 0;
  for (std::uint32_t id = e.first.value; id < e.end(); ++id)
    posted = std::max(posted, run.start[id]);
  for (std::uint32_t id = e.first.value; id < e.end(); ++id)
    EXPECT_EQ(run.end[id], run.end[e.first.value]);
  return static_cast<double>(run.end[e.first.value] - posted);
}

void expect_takes(const Workload& w, std::uint32_t exchange, double ps) {
  EXPECT_NEAR(took(w, simulate(w), exchange), ps, 2) << exchange;
}

CollectiveTable measured(ExchangeForm kind, std::uint32_t per_node,
                         std::vector<MessageRate> rates) {
  CollectiveTable t;
  t.kind = kind;
  t.per_node = per_node;
  t.busbw = std::move(rates);
  return t;
}

TEST(ExchangeTime, OfUlyssesIsPackingLatencyAndWhatLeavesEachWorker) {
  for (const std::uint32_t n : {2u, 4u, 8u, 5u, 12u}) {
    const Plan plan = ulysses_by_hand(even_problem(n));
    const Workload w = price(plan, test_machine(Fabric::Switch, n));
    const double moved = share_bytes(n) * (n - 1) / n;
    ASSERT_EQ(plan.exchanges.size(), 3u);
    const double query = kLaunchPs + 2 * moved + kLatencyPs + moved / kBytesPerPs;
    expect_takes(w, 0, query);
    // Keys and values are twice as much.
    expect_takes(w, 1, kLaunchPs + 4 * moved + kLatencyPs + 2 * moved / kBytesPerPs);
    expect_takes(w, 2, query);  // unpacked at home in place of packed
    for (const ExchangeCost& cost : w.exchanges) EXPECT_EQ(cost.form, ExchangeForm::AllToAll);
  }
}

// Without a clock, the speed of strided copies is not known, and plans that have some say so.
TEST(ExchangeTime, OfStridedCopiesWithoutAClockIsUnsure) {
  Machine m = test_machine(Fabric::Switch, 4);
  const std::string named =
      "strided copies (from their bytes, as the profile lacks clock_ghz or sms)";
  const auto unsure = [&](const Plan& plan) { return price(plan, m).extrapolated.contains(named); };
  const Plan ulysses = ulysses_by_hand(even_problem(4));
  EXPECT_FALSE(unsure(ulysses));
  m.software.pack_per_clock = 1.5;
  EXPECT_TRUE(unsure(ulysses));
  EXPECT_FALSE(unsure(all_gather_by_hand(even_problem(4, Pass::Both))));  // it packs nothing
  m.sms = 2;
  m.clock_ghz = 3;
  EXPECT_FALSE(unsure(ulysses));
}

// A library may copy whole tensors, with what stays; and by a kernel that instructions limit.
TEST(ExchangeTime, OfUlyssesIsLongerWhereALibraryPacksAllOrSlowly) {
  for (const std::uint32_t n : {2u, 4u, 5u}) {
    const Plan plan = ulysses_by_hand(even_problem(n));
    Machine m = test_machine(Fabric::Switch, n);
    m.software.packs_all = true;
    const double all = share_bytes(n), moved = all * (n - 1) / n;
    const double rest = kLaunchPs + kLatencyPs + moved / kBytesPerPs;
    expect_takes(price(plan, m), 0, 2 * all + rest);
    expect_takes(price(plan, m), 2, 2 * all + rest);
    m.sms = 2;
    m.clock_ghz = 3;
    m.software.pack_per_clock = 0.01;  // 60 elements of 2 bytes in a us
    expect_takes(price(plan, m), 0, all / 2 / 60 * 1e6 + rest);
    expect_takes(price(plan, m), 2, all / 2 / 60 * 1e6 + rest);
    m.software.pack_per_clock = 1e6;
    expect_takes(price(plan, m), 0, 2 * all + rest);
  }
}

TEST(ExchangeTime, OfAGatherIsAllThatAWorkerLacksAndNothingIsPacked) {
  for (const std::uint32_t n : {2u, 3u, 8u}) {
    const Plan plan = all_gather_by_hand(even_problem(n, Pass::Both));
    const Workload w = price(plan, test_machine(Fabric::Switch, n));
    const double moved = 2 * share_bytes(n) * (n - 1);
    ASSERT_EQ(plan.exchanges.size(), 3u);
    EXPECT_EQ(w.exchanges[0].form, ExchangeForm::AllGather);
    EXPECT_EQ(w.exchanges[0].flows.size(), n);
    expect_takes(w, 0, kLatencyPs + moved / kBytesPerPs);
    EXPECT_EQ(w.exchanges[2].form, ExchangeForm::ReduceScatter);
    EXPECT_EQ(w.exchanges[2].flows.size(), n);
    expect_takes(w, 2, kLatencyPs + 2 * moved / kBytesPerPs);  // fp32
  }
}

// Where all get all sums, or one does, whatever lies in between is added up on the way.
TEST(ExchangeTime, OfSumsThatAllGetIsTwiceRoundAndThatOneGetsIsOnce) {
  Plan plan = all_gather_by_hand(even_problem(4, Pass::Both));
  PlanTables tables(plan);
  const double sums = 8 * 2 * share_bytes(4);  // K and V of all tokens in fp32
  const auto set_wanted = [&](std::uint32_t member, Region rows) {
    Task& t = plan.tasks[plan.exchanges[2].first.value + member];
    t.piece = tables.id(Piece{plan.value(t), tables.id(rows), plan.piece(t).columns});
  };
  for (std::uint32_t m = 0; m < 4; ++m) set_wanted(m, {{0}, 4});
  const Workload all = price(plan, test_machine(Fabric::Switch, 4));
  EXPECT_EQ(all.exchanges[2].form, ExchangeForm::AllReduce);
  expect_takes(all, 2, kLatencyPs + 2 * sums * 3 / 4 / kBytesPerPs);
  for (std::uint32_t m = 0; m < 4; ++m) set_wanted(m, {{0}, m == 1 ? 4u : 0u});
  const Workload one = price(plan, test_machine(Fabric::Switch, 4));
  EXPECT_EQ(one.exchanges[2].form, ExchangeForm::Reduce);
  EXPECT_EQ(one.exchanges[2].flows.size(), 3u);
  expect_takes(one, 2, kLatencyPs + sums / kBytesPerPs);
}

// Where one worker alone has a partial result, nothing is added up: one call, with one start-up.
TEST(ExchangeTime, OfTheOnlyPartialResultIsThatOfABroadcast) {
  Problem p = even_problem(4);
  p.new_tokens = {1};
  p.mask = Mask::window({8});
  const Plan plan = build_plan(p, find_schedule("flash-decode"));
  const Workload w = price(plan, test_machine(Fabric::Switch, 4));
  const double bytes = p.heads * (p.head_dim + 1) * 4.0;
  EXPECT_EQ(w.exchanges.at(0).form, ExchangeForm::Broadcast);
  EXPECT_EQ(w.exchanges[0].calls, 1u);
  expect_takes(w, 0, kLatencyPs + bytes / kBytesPerPs);
}

// No library adds up softmax results, so no table is for that.
TEST(ExchangeTime, OfPartialResultsIsThatOfThreeCalls) {
  Problem p = even_problem(4);
  p.new_tokens = {1};
  const Plan plan = build_plan(p, find_schedule("flash-decode"));
  Machine m = test_machine(Fabric::Switch, 4);
  m.collectives = {measured(ExchangeForm::AllReduce, 4, {{1, 100}})};
  const Workload w = price(plan, m);
  const double bytes = p.heads * (p.head_dim + 1) * 4.0;
  EXPECT_EQ(w.exchanges[0].form, ExchangeForm::AllReduce);
  EXPECT_EQ(w.exchanges[0].row, ExchangeCost::kLinks);
  expect_takes(w, 0, 3 * kLatencyPs + 2 * bytes * 3 / 4 / kBytesPerPs);
  const Report r = report(w, simulate(w));
  EXPECT_EQ(r.exchanges.at(0).calls, 3u);
}

// What all get is gathered from between other heads once, not once for each.
TEST(ExchangeTime, OfAGatherOfSomeHeadsPacksTheseOnce) {
  const Plan plan = all_gather_by_hand(even_problem(4), 2);
  const Workload w = price(plan, test_machine(Fabric::Switch, 4));
  const double own = share_bytes(4);  // half of the heads, keys and values
  expect_takes(w, 0, kLaunchPs + 2 * own + kLatencyPs + 3 * own / kBytesPerPs);
}

// Key/value heads that several workers have: each sends its sums home, where they are added up.
TEST(ExchangeTime, OfSumsThatOnlySomeHaveIsDirectAndAddedUpAtTheGetter) {
  Problem p = even_problem(4, Pass::Both);
  p.kv_heads = 2;
  const Plan plan = ulysses_by_hand(p);
  const Workload w = price(plan, test_machine(Fabric::Switch, 4));
  const std::uint32_t last = static_cast<std::uint32_t>(plan.exchanges.size()) - 1;
  ASSERT_TRUE(adds_up(plan, plan.exchanges[last]));
  EXPECT_EQ(w.exchanges[last].form, ExchangeForm::AllToAll);
  const double moved = 3 * 64.0 * 8 * 2 * 4;  // 64 rows of one head, K and V in fp32, to each other
  expect_takes(w, last, kLatencyPs + moved / kBytesPerPs + kLaunchPs + moved / 4 * 12);
}

TEST(ExchangeTime, OfTwoAtOnceIsAsTheyShareTheirLinks) {
  Plan plan = ulysses_by_hand(even_problem(4));
  for (std::uint32_t id = plan.exchanges[1].first.value; id < plan.exchanges[1].end(); ++id)
    plan.tasks[id].lane = Lane::Return;
  const Workload w = price(plan, test_machine(Fabric::Switch, 4));
  const Simulation run = simulate(w);
  const double moved = share_bytes(4) * 3 / 4, later = 2 * moved;  // as keys take longer to pack
  const double query = kLaunchPs + 2 * moved + kLatencyPs;
  EXPECT_NEAR(took(w, run, 0), query + later + 2 * (moved - later * kBytesPerPs) / kBytesPerPs, 4);
  EXPECT_NEAR(took(w, run, 1), query + 3 * moved / kBytesPerPs, 4);
}

// Two nodes with four devices and two NICs each: a ring crosses over both NICs.
Machine two_nodes() {
  Machine m = test_machine(Fabric::Switch, 4);
  m.nodes = 2;
  m.network = {2, {0.03, 7, {}}, 1, 0, ""};
  require_valid(m);
  return m;
}

TEST(ExchangeTime, OfAGatherAcrossNodesUsesAllNics) {
  const Plan plan = all_gather_by_hand(even_problem(8));
  const Workload w = price(plan, two_nodes());
  const double moved = 2 * share_bytes(8) * 7;
  EXPECT_EQ(w.exchanges[0].flows.size(), 6u + 2 * 2);
  expect_takes(w, 0, 7e6 + moved / 2 / 0.3e-4);
  // From all to all, half of what a worker sends leaves its node, over the NIC that two share.
  const Plan all = ulysses_by_hand(even_problem(8));
  const Workload to_all = price(all, two_nodes());
  expect_takes(to_all, 0,
               kLaunchPs + 2 * share_bytes(8) * 7 / 8 + 7e6 + 2 * share_bytes(8) / 2 / 0.3e-4);
}

TEST(ExchangeTime, OnTheIdealMachineIsNothing) {
  for (const std::uint32_t n : {1u, 4u, 8u}) {
    const Plan plan = ulysses_by_hand([&] {
      Problem p = even_problem(n);
      p.mask = Mask::causal();
      return p;
    }());
    const Simulation run = simulate(price(plan, find_machine("ideal")));
    EXPECT_EQ(run.makespan.value, n * 500'000);
  }
}

TEST(ExchangeTime, IsWhatTheMachinesTableSays) {
  Machine m = test_machine(Fabric::Switch, 4);
  const Problem p = even_problem(4, Pass::Both);
  const double own = share_bytes(4);
  // For all keys and values at 0.02 GB/s, and for half and twice as many.
  m.collectives = {
      measured(ExchangeForm::AllGather, 4, {{4 * own, 0.01}, {8 * own, 0.02}, {16 * own, 0.04}}),
      measured(ExchangeForm::AllToAll, 4, {{own / 2, 0.02}, {2 * own, 0.08}})};
  const Plan gather = all_gather_by_hand(p);
  const Workload g = price(gather, m);
  EXPECT_EQ(g.exchanges[0].row, 0u);
  expect_takes(g, 0, 6 * own / 0.2e-4);
  EXPECT_EQ(g.exchanges[2].row, ExchangeCost::kLinks);
  // Between two sizes by their logarithms; beyond the last as for the last.
  const Plan ulysses = ulysses_by_hand(p);
  const Workload u = price(ulysses, m);
  EXPECT_EQ(u.exchanges[0].row, 1u);
  expect_takes(u, 0, kLaunchPs + 1.5 * own + own * 3 / 4 / 0.4e-4);
  expect_takes(u, 1, kLaunchPs + 3 * own + 2 * own * 3 / 4 / 0.8e-4);
  // Links carry what is sent, however long it takes.
  const Simulation run = simulate(g);
  const double sent = 6 * own + 6 * own + 12 * own;
  EXPECT_NEAR(run.links[0].bytes, sent, 1e-3);
}

// Half as fast as links, and then sharing them with another.
TEST(ExchangeTime, ByATableIsSharedLikeAnyOther) {
  Machine m = test_machine(Fabric::Switch, 4);
  m.fabric.link.latency_us = m.launch_us = 0;
  m.collectives = {measured(ExchangeForm::AllToAll, 4, {{1, 0.05}})};
  Plan plan = ulysses_by_hand(even_problem(4));
  const double moved = share_bytes(4) * 3 / 4;
  expect_takes(price(plan, m), 0, 2 * moved + 2 * moved / kBytesPerPs);
  for (std::uint32_t id = plan.exchanges[1].first.value; id < plan.exchanges[1].end(); ++id)
    plan.tasks[id].lane = Lane::Return;
  const Workload w = price(plan, m);
  EXPECT_NEAR(took(w, simulate(w), 1), 2 * moved + 6 * moved / kBytesPerPs, 4);
}

// A switch that adds up, for one, lets an exchange be faster than its links; bounds still hold.
TEST(ExchangeTime, ByATableMayBeFasterThanTheLinks) {
  Machine m = test_machine(Fabric::Switch, 4);
  m.fabric.link.latency_us = 0;
  m.collectives = {measured(ExchangeForm::AllGather, 4, {{1, 0.2}})};
  const Plan plan = all_gather_by_hand(even_problem(4));
  const Workload w = price(plan, m);
  const double moved = 6 * share_bytes(4);
  expect_takes(w, 0, moved / 2e-4);
  const Simulation run = simulate(w);
  const Report r = report(w, run);
  EXPECT_LE(r.bounds.best(), run.makespan);
  EXPECT_NEAR(r.links.at(0).bytes, moved, 1e-3);
  EXPECT_LE(r.links[0].utilisation, 1);
}

TEST(ExchangeTime, ByATableForMoreWorkersOnASwitch) {
  Machine m = test_machine(Fabric::Switch, 4);
  m.collectives = {measured(ExchangeForm::AllGather, 8, {{1, 0.05}})};
  const Plan plan = all_gather_by_hand(even_problem(4));
  expect_takes(price(plan, m), 0, 6 * share_bytes(4) / 0.5e-4);
  Machine mesh = m;
  mesh.fabric.kind = Fabric::Mesh;
  EXPECT_EQ(price(plan, mesh).exchanges[0].row, ExchangeCost::kLinks);
}

// Over PCIe, more than two members hinder each other; two do not. A table's spread is that of what
// it prices.
TEST(ExchangeTime, ByATableForOtherNumbersOfWorkersOverPcie) {
  const auto cost = [](std::uint32_t workers, double spread, std::set<std::string>* why = nullptr) {
    Machine m = test_machine(Fabric::Pcie, workers);
    m.collectives = {measured(ExchangeForm::AllToAll, 4, {{1e6, 1}}),
                     measured(ExchangeForm::AllToAll, 8, {{1e6, 1}})};
    for (CollectiveTable& t : m.collectives) t.spread = spread;
    const Workload w = price(ulysses_by_hand(even_problem(workers)), m);
    if (why != nullptr) *why = w.extrapolated;
    return w.exchanges.at(0);
  };
  EXPECT_EQ(cost(2, 0.7).row, ExchangeCost::kLinks);
  EXPECT_EQ(cost(3, 0.7).row, 0u);
  EXPECT_EQ(cost(5, 0.7).row, 0u);
  EXPECT_EQ(cost(6, 0.7).row, 1u) << "as near, and larger";
  EXPECT_EQ(cost(7, 0.7).row, 1u);
  std::set<std::string> why;
  EXPECT_NEAR(std::pow(cost(8, 0.7, &why).doubt, 2) - std::pow(cost(8, 0).doubt, 2), 0.49, 1e-9);
  EXPECT_TRUE(
      why.contains("all-to-alls of 8 workers (their table is uncertain by a factor of 1.7)"));
}

// Machines with PCIe differ by a factor of two, as the prediction says; others by much less.
TEST(ExchangeTime, WithoutATableIsMostUncertainOverPcie) {
  const auto doubt = [](Fabric fabric) {
    const Workload w = price(ulysses_by_hand(even_problem(4)), test_machine(fabric, 4));
    EXPECT_EQ(fabric == Fabric::Pcie, w.extrapolated.contains("all-to-all (from link speeds, and "
                                                              "machines with PCIe differ by a "
                                                              "factor of 2)"));
    return w.exchanges.at(0).doubt;
  };
  EXPECT_EQ(1 + doubt(Fabric::Pcie), 2);
  EXPECT_LT(doubt(Fabric::Switch), 0.25);
  EXPECT_EQ(doubt(Fabric::Mesh), doubt(Fabric::Switch));
}

TEST(ExchangeTime, WithTwiceTheBandwidthIsHalfButForTheLatency) {
  Machine m = test_machine(Fabric::Switch, 4);
  m.collectives = {measured(ExchangeForm::AllGather, 4, {{1000, 0.001}, {1e6, 0.05}})};
  const Plan plan = all_gather_by_hand(even_problem(4));
  const double ps = took(price(plan, m), simulate(price(plan, m)), 0);
  const Workload fast = price(plan, changed({m, {}}, "bandwidth=2x", 4).machine);
  const Workload at_once = price(plan, changed({m, {}}, "latency=0x", 4).machine);
  // The figures between two sizes are not changed in proportion; they stay close.
  EXPECT_NEAR(took(fast, simulate(fast), 0), kLatencyPs + (ps - kLatencyPs) / 2, 0.02 * ps);
  EXPECT_NEAR(took(at_once, simulate(at_once), 0), ps - kLatencyPs, 0.02 * ps);
}

TEST(ExchangeTime, OfTheGroupsAtOnceThatATableIsFor) {
  // All-gathers of pairs, one worker of each node: two at once share a NIC.
  Machine m = two_nodes();
  CollectiveTable table = measured(ExchangeForm::AllGather, 1, {{1, 0.006}});
  table.nodes = 2;
  table.groups = 2;
  m.collectives = {table};
  Plan plan = all_gather_by_hand(even_problem(8));
  PlanTables tables(plan);
  TaskArray tasks;
  plan.exchanges.clear();
  const Piece all = plan.piece(plan.tasks[0]);
  for (std::uint32_t w = 0; w < 2; ++w) {
    plan.exchanges.push_back({{2 * w}, 2});
    for (const std::uint32_t worker : {w, w + 4}) {
      Task t;
      t.kind = TaskKind::Exchange;
      t.lane = Lane::Fetch;
      t.worker_index = static_cast<std::uint16_t>(worker);
      t.exchange = {w};
      t.completes = 1;
      t.work = {0};
      t.inputs[0] = {8 + worker};
      // The rows of both, and what lies between them, which nobody gives.
      t.piece = tables.id(Piece{all.value, tables.id(Region{{w}, 5}), all.columns});
      tasks.push_back(t);
    }
  }
  plan.tasks = tasks;
  const Workload w = price(plan, m);
  ASSERT_EQ(w.exchanges[0].row, 0u);
  const double moved = 2 * share_bytes(8);
  expect_takes(w, 0, moved / 0.6e-5);
  expect_takes(w, 1, moved / 0.6e-5);
}

TEST(ExchangeTime, RoundingCostsWhatAnOutputDoesAndTheOutputThenNothing) {
  Machine m = test_machine(Fabric::Switch, 4);
  m.software.output_bytes = 6;
  const Plan plan = ulysses_by_hand(even_problem(4, Pass::Both));
  const Workload w = price(plan, m);
  const Simulation run = simulate(w);
  std::uint32_t rounds = 0;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const TaskKind kind = plan.tasks[id].kind;
    const std::int64_t ps = run.end[id] - run.start[id];
    if (kind == TaskKind::Output) {
      EXPECT_EQ(ps, 0);
    }
    if (kind != TaskKind::Round) continue;
    ++rounds;
    const double matrices =
        plan.value(plan.tasks[id]) == attention::kRoundedKeyValueGradient ? 2 : 1;
    EXPECT_EQ(static_cast<double>(ps), kLaunchPs + matrices * 256 * 8 * 6);
  }
  EXPECT_EQ(rounds, 12u);
  m.software.output_bytes = 0;
  const Workload free = price(plan, m);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (plan.tasks[id].kind == TaskKind::Round) {
      EXPECT_EQ(simulate(free).end[id], simulate(free).start[id]);
    }
}

// The naive simulation.

void expect_as_naive(const Plan& plan, const Machine& m, const Conditions& c,
                     const std::string& what) {
  const Workload w = price(plan, m);
  const Simulation fast = simulate(w, c);
  const NaiveRun slow = naive_simulation(w, c);
  std::size_t flows = plan.tasks.size();
  for (const ExchangeCost& cost : w.exchanges) flows += cost.flows.size();
  const double tolerance = 1e-9 * slow.makespan + 2.0 * static_cast<double>(flows);
  for (std::size_t id = 0; id < slow.end.size(); ++id) {
    ASSERT_NEAR(static_cast<double>(fast.start[id]), slow.start[id], tolerance)
        << what << " " << id;
    ASSERT_NEAR(static_cast<double>(fast.end[id]), slow.end[id], tolerance) << what << " " << id;
  }
}

Conditions uneven_workers(std::uint32_t workers) {
  Conditions c;
  for (std::uint32_t r = 0; r < workers; ++r) c.slow_worker.push_back(1 + 0.013 * ((r * 7) % 5));
  return c;
}

TEST(ExchangeTime, IsAsANaiveSimulationHasIt) {
  for (const auto& [name, machine] : test_machines(4))
    for (const std::uint32_t heads : {4u, 6u, 2u})
      for (const std::int64_t tokens : {160, 163}) {
        Problem p = small_problem(4, tokens, Pass::Both);
        p.heads = heads;
        p.kv_heads = 2;
        p.head_dim = 16;
        expect_as_naive(ulysses_by_hand(p), machine, uneven_workers(4), name + " ulysses");
        expect_as_naive(all_gather_by_hand(p, 1), machine, uneven_workers(4), name + " gather");
      }
}

// Adds exchanges of any shape to a plan, on lanes of their own: they run beside its messages.
void add_exchanges(Plan& plan, std::mt19937& random) {
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  plan.lanes.emplace_back("outer");
  plan.lanes.emplace_back("other");
  PlanTables tables(plan);
  const auto chunks = static_cast<std::uint32_t>(plan.layout.chunks.size());
  for (std::uint32_t number = 0; number < 4; ++number) {
    const bool sums = below(2) == 0;
    std::vector<TensorId> had(plan.problem.workers);
    for (std::uint32_t t = 0; t < plan.initial.size() + 2 * plan.tasks.size(); ++t) {
      const TaskId maker = plan.producer({t});
      const std::uint32_t output =
          maker.valid() ? (t - static_cast<std::uint32_t>(plan.initial.size())) % 2 : 0;
      if (maker.valid() && outputs_of(plan.tasks[maker.value].kind) <= output) continue;
      const Tensor tensor = plan.tensor({t});
      if (tensor.value == (sums ? attention::kPartial : attention::kKeyValue) &&
          tensor.complete != sums && (!had[tensor.worker.value].valid() || below(2) == 0))
        had[tensor.worker.value] = {t};
    }
    const ValueId value = sums ? attention::kPartial : attention::kKeyValue;
    const std::uint32_t columns = plan.program[value].columns.count;
    Exchange e{{static_cast<std::uint32_t>(plan.tasks.size())}, 0};
    const auto lane = static_cast<Lane>(3 + number % 2);
    const bool alike = below(2) == 0;
    const auto any_piece = [&] {
      const std::uint32_t row = below(chunks), column = below(columns);
      return Piece{value,
                   tables.id(Region{{row}, 1 + below(chunks - row)}),
                   {column, 1 + below(columns - column)}};
    };
    const Piece same = any_piece();
    for (std::uint32_t w = plan.problem.workers; w-- > 0;) {
      if (below(4) == 0) continue;
      Task t;
      t.kind = TaskKind::Exchange;
      t.lane = lane;
      t.worker_index = static_cast<std::uint16_t>(w);
      t.exchange = {static_cast<std::uint32_t>(plan.exchanges.size())};
      t.completes = 1;
      t.work = {0};
      if (below(4) > 0) t.inputs[0] = had[w];
      t.piece = tables.id(alike ? same : any_piece());
      plan.tasks.push_back(t);
      ++e.members;
    }
    plan.exchanges.push_back(e);
  }
}

TEST(ExchangeTime, OfAnyShapeBesideMessagesIsAsANaiveSimulationHasIt) {
  std::mt19937 random(7);
  std::vector<std::uint32_t> forms(kExchangeForms);
  for (int round = 0; round < (kSanitized ? 2 : 12); ++round)
    for (const auto& [name, machine] : test_machines(4)) {
      const Schedule& s = schedules()[random() % schedules().size()];
      Problem p = small_problem(4, 163, Pass::Both);
      p.head_dim = 64;
      Plan plan = limit_communication(build_plan(p, s), {Overlap::Prefetch, 0});
      add_exchanges(plan, random);
      Machine m = machine;
      if (round % 2 == 0)
        m.collectives = {measured(ExchangeForm::AllGather, 3, {{1000, 0.01}, {1e5, 0.06}}),
                         measured(ExchangeForm::AllToAll, 2, {{1000, 0.01}, {1e5, 0.2}})};
      for (const ExchangeCost& cost : price(plan, m).exchanges)
        ++forms[static_cast<std::size_t>(cost.form)];
      expect_as_naive(plan, m, uneven_workers(4), fmt::format("{} {} {}", round, name, s.name));
    }
  if (kSanitized) return;
  for (const ExchangeForm f :
       {ExchangeForm::AllGather, ExchangeForm::AllToAll, ExchangeForm::Other})
    EXPECT_GT(forms[static_cast<std::size_t>(f)], 0u) << to_text(f);
}

// However short: a message may take less than the machine's latency by its table.
TEST(ExchangeTime, OfAnySizeHasAPrice) {
  for (const char* machine : {"dgx-a100", "hgx-h100", "hgx-h200"})
    for (const std::uint32_t workers : {2u, 3u, 8u})
      for (std::int64_t tokens = 8; tokens < 100'000; tokens = tokens * 3 / 2 + 1) {
        Problem p = small_problem(workers, tokens);
        p.heads = p.kv_heads = 8;
        p.head_dim = 128;
        const Plan plan = limit_communication(build_plan(p, find_schedule("ulysses")), {});
        const Workload w = price(plan, find_machine(machine));
        for (const ExchangeCost& cost : w.exchanges) EXPECT_GE(cost.stretch, 0);
        EXPECT_GT(simulate(w).makespan.value, 0) << machine << " " << workers << " " << tokens;
      }
}

// Reports.

TEST(ExchangeReport, SaysWhatPricedTheExchanges) {
  Machine m = test_machine(Fabric::Switch, 4);
  m.collectives = {measured(ExchangeForm::AllToAll, 4, {{1, 0.05}})};
  const Plan plan = all_gather_by_hand(even_problem(4, Pass::Both));
  const Workload w = price(plan, m);
  const Report r = report(w, simulate(w));
  ASSERT_EQ(r.exchanges.size(), 2u);
  EXPECT_EQ(r.exchanges[0].form, ExchangeForm::AllGather);
  EXPECT_EQ(r.exchanges[0].count, 2u);
  EXPECT_EQ(r.exchanges[0].members, 4u);
  EXPECT_EQ(r.exchanges[0].row, ExchangeCost::kLinks);
  EXPECT_EQ(r.exchanges[0].bytes, 2 * 4 * 6 * share_bytes(4));
  const Plan other = ulysses_by_hand(even_problem(4));
  const Workload u = price(other, m);
  EXPECT_EQ(report(u, simulate(u)).exchanges.at(0).row, 0u);
}

TEST(ExchangeReport, AccountsForAllTimeOfThePathAndReachesItsChain) {
  for (const auto& [name, machine] : test_machines(4)) {
    const Plan plan = ulysses_by_hand(even_problem(4, Pass::Both));
    const Workload w = price(plan, machine);
    for (const double noise : {0.0, 0.1}) {
      Conditions c;
      c.noise = noise;
      const Simulation run = simulate(w, c);
      const Report r = report(w, run, c);
      const PathShare& p = r.path;
      EXPECT_EQ(p.attending + p.overhead + p.startup + p.below_speed + p.wire + p.contention +
                    p.host + p.waiting,
                run.makespan)
          << name;
      EXPECT_EQ(r.path_steps.back().end, run.makespan);
      EXPECT_LE(r.bounds.best().value, run.makespan.value + 100) << name;
      EXPECT_GT(r.workers[0].transferring.value, 0) << name;
    }
  }
  // Nothing overlaps but the two exchanges at the beginning, which take turns on their lane.
  const Plan plan = ulysses_by_hand(even_problem(4));
  const Workload w = price(plan, test_machine(Fabric::Switch, 4));
  const Simulation run = simulate(w);
  const Report r = report(w, run);
  EXPECT_NEAR(static_cast<double>(r.path.startup.value), 3 * kLatencyPs, 1);
  EXPECT_NEAR(static_cast<double>(r.path.wire.value), 4 * share_bytes(4) * 3 / 4 / kBytesPerPs, 9);
  EXPECT_EQ(r.workers[2].transferring.value + r.workers[2].attending.value, run.makespan.value);
}

// A worker that is late keeps the others.
TEST(ExchangeReport, WaitsForALateMember) {
  const Plan plan = ulysses_by_hand(even_problem(4));
  const Workload w = price(plan, test_machine(Fabric::Switch, 4));
  Conditions c;
  c.slow_worker = {1, 1, 2, 1};
  const Simulation run = simulate(w, c);
  const Report r = report(w, run, c);
  const Exchange& back = plan.exchanges[2];
  const std::int64_t late = run.start[back.first.value + 2] - run.start[back.first.value];
  EXPECT_GT(late, 0);
  EXPECT_EQ(r.workers[0].waiting_for_sender.value, late);
  EXPECT_EQ(r.workers[2].waiting_for_sender.value, 0);
  // The path goes through the late one, and nothing of it is owed to sharing.
  EXPECT_EQ(r.path.attending, r.workers[2].attending);
  EXPECT_EQ(r.path.contention.value + r.path.waiting.value, 0);
}

// Each task is made to take so much longer, and the run is simulated again.
TEST(ExchangeReport, SlackIsHowMuchLongerATaskCanTake) {
  Problem p = even_problem(4, Pass::Both);
  p.mask = Mask::causal();
  p.head_dim = 64;
  Plan plan = ulysses_by_hand(p);
  for (Task& t : plan.tasks)
    if (is_exchange(t.kind)) t.lane = Lane::Fetch;  // no two share a link
  Workload w = price(plan, test_machine(Fabric::Mesh, 4));
  w.amounts.resize(plan.tasks.size());
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    w.amounts[id] = w.compute[static_cast<std::size_t>(t.kind) * plan.works.size() + t.work.value];
    if (is_attend(t.kind)) w.amounts[id] += 1'000'000 * t.worker_index;
  }
  const Simulation run = simulate(w);
  const TaskColumn<std::int64_t> room = slack(w, run, {});
  std::uint32_t with_room = 0;
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    ASSERT_GE(room[id], 0);
    if (communicates(plan.tasks[id].kind)) continue;
    with_room += room[id] > 0;
    Workload longer = w;
    longer.amounts[id] += room[id];
    EXPECT_EQ(simulate(longer).makespan, run.makespan) << id;
    longer.amounts[id] += 1000;
    EXPECT_EQ(simulate(longer).makespan.value, run.makespan.value + 1000) << id;
  }
  EXPECT_GT(with_room, 4u);
  for (std::uint32_t e = 0; e < plan.exchanges.size(); ++e) {
    Workload longer = w;
    const std::int64_t more = room[plan.exchanges[e].first.value];
    longer.exchanges[e].startup += more;
    EXPECT_EQ(simulate(longer).makespan, run.makespan) << e;
    longer.exchanges[e].startup += 1000;
    EXPECT_EQ(simulate(longer).makespan.value, run.makespan.value + 1000) << e;
  }
}

TEST(ExchangeReport, IsNotForOtherSimulators) {
  const Plan plan = ulysses_by_hand(even_problem(4));
  const Workload w = price(plan, test_machine(Fabric::Switch, 4));
  EXPECT_THROW(goal(w), Error);
  EXPECT_THROW(workload_text(w), Error);
}

}  // namespace
}  // namespace exchange_tests
}  // namespace ringsched
