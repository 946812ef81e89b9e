// Collectives through the whole chain: schedules made of them verify, and take on simple networks
// what their bytes over their links say.
#include "ringsched/scheduler/collectives.hpp"

#include <gtest/gtest.h>

#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "ringsched/simulator/simulate.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"

namespace ringsched {
namespace {

// Everybody gathers all keys, then attends.
void gather_keys(const Problem& p, PlanBuilder& plan) {
  plan.step(0);
  const auto keys = all_gather_keys(plan, p.workers);
  plan.step(1);
  for (std::uint32_t w = 0; w < p.workers; ++w)
    for (const Keys& k : keys[w]) plan.merge(plan.attend(plan.queries(WorkerId{w}), k));
}

void gather_keys_by_ring(const Problem& p, PlanBuilder& plan) {
  const auto keys = all_gather_keys_by_ring(plan, p.workers, 0);
  plan.step(p.workers);
  for (std::uint32_t w = 0; w < p.workers; ++w)
    for (const Keys& k : keys[w]) plan.merge(plan.attend(plan.queries(WorkerId{w}), k));
}

// Everybody gathers all queries, attends its own keys for them, and the results go home.
void gather_queries(const Problem& p, PlanBuilder& plan) {
  plan.step(0);
  const auto queries = all_gather_queries(plan, p.workers);
  plan.step(1);
  std::vector<Partial> partials;
  for (std::uint32_t w = 0; w < p.workers; ++w)
    for (const Queries& q : queries[w]) partials.push_back(plan.attend(q, plan.keys(WorkerId{w})));
  plan.step(2);
  reduce_scatter(plan, partials);
}

// Queries change places all to all, meet all keys, and their results go home.
void exchange_queries(const Problem& p, PlanBuilder& plan) {
  plan.step(0);
  const auto queries = all_to_all_queries(plan, p.workers);
  const auto keys = all_gather_keys(plan, p.workers);
  plan.step(1);
  std::vector<Partial> partials;
  for (std::uint32_t w = 0; w < p.workers; ++w)
    for (const Queries& q : queries[w])
      for (const Keys& k : keys[w]) partials.push_back(plan.attend(q, k));
  plan.step(2);
  reduce_scatter(plan, partials);
}

Layout squares(std::uint32_t workers, Tokens tokens) {
  Layout out = contiguous(workers * workers, tokens);
  out.name = "custom";
  out.first.clear();
  for (std::uint32_t w = 0; w <= workers; ++w) out.first.push_back(w * workers);
  return out;
}

const Schedule kSchedules[] = {
    {"gather-keys", "", "", contiguous, gather_keys},
    {"gather-queries", "", "", contiguous, gather_queries},
    {"exchange-queries", "", "", squares, exchange_queries},
};

TEST(Collectives, MakeSchedulesThatVerifyUnderEveryMaskForwardAndBackward) {
  for (const Schedule& s : kSchedules)
    for (std::uint32_t w = 1; w <= 7; ++w)
      for (const char* mask : {"causal", "full", "window:9", "prefix:5,window:7"})
        for (const Pass pass : {Pass::Forward, Pass::Both})
          for (const Overlap overlap : {Overlap::None, Overlap::Prefetch, Overlap::Unbounded}) {
            const Problem p = small_problem(w, 7 * w * w + 3, pass, parse_mask(mask));
            const Plan plan = limit_communication(build_plan(p, s), {overlap, 0});
            const Verification v = verify(plan);
            ASSERT_TRUE(v.holds())
                << s.name << " W=" << w << " " << mask << ": " << v.violations.front().text;
          }
}

TEST(Collectives, GatherRoundARingForwards) {
  const Schedule s = {"gather-keys-by-ring", "", "", contiguous, gather_keys_by_ring};
  for (std::uint32_t w = 1; w <= 7; ++w) {
    const Plan plan = build_plan(small_problem(w, 8 * w, Pass::Forward, Mask::full()), s);
    EXPECT_TRUE(verify(plan).holds()) << w;
  }
}

double last_arrival(const Plan& plan, const Simulation& run, ValueId kind) {
  std::int64_t last = 0;
  for (std::size_t id = 0; id < plan.tasks.size(); ++id)
    if (plan.tasks[id].kind == TaskKind::Receive && plan.value(plan.tasks[id]) == kind)
      last = std::max(last, run.end[id]);
  return static_cast<double>(last);
}

// On a switch each worker's link carries W - 1 messages at once; round a ring, one after the other.
TEST(Collectives, TakeWhatTheirBytesOverTheirLinksSay) {
  const Schedule ring = {"gather-keys-by-ring", "", "", contiguous, gather_keys_by_ring};
  for (std::uint32_t w = 2; w <= 9; ++w) {
    const Machine m = test_machine(Fabric::Switch, w);
    const Problem p = small_problem(w, 1000 * w, Pass::Forward, Mask::full());
    const double keys = 1000.0 * 2 * p.kv_heads * p.head_dim * 2;
    const double wire = keys / 1e8 * 1e12, latency = 2e6;  // 0.1 GB/s

    const Plan direct = build_plan(p, kSchedules[0]);
    EXPECT_NEAR(last_arrival(direct, simulate(price(direct, m)), attention::kKeyValue),
                latency + (w - 1) * wire, 1e-9 * w * wire + 2);
    const Plan hops = build_plan(p, ring);
    EXPECT_NEAR(last_arrival(hops, simulate(price(hops, m)), attention::kKeyValue),
                (w - 1) * (latency + wire), 1e-9 * w * wire + w);
  }
}

}  // namespace
}  // namespace ringsched
