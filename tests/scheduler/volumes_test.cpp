// What each worker sends under each schedule with exchanges, against the closed forms of the
// papers: to the byte.
#include <gtest/gtest.h>

#include <numeric>

#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/scheduler/verify.hpp"

namespace ringsched {
namespace {

// By worker, to others.
std::vector<std::int64_t> bytes_sent(const Plan& plan) {
  std::vector<std::int64_t> sent(plan.problem.workers);
  for (const Task& t : plan.tasks)
    if (is_send(t.kind)) sent[t.worker_index] += plan.works[t.work.value].bytes.value;
  for (const Exchange& e : plan.exchanges)
    for (const Share& s : shares_of(plan, e)) {
      if (s.from == s.to) continue;
      const Task& giver = plan.tasks[e.first.value + s.from];
      sent[giver.worker_index] +=
          plan.program.bytes(plan.value(giver), plan.layout.rows(s.rows), s.columns.count).value;
    }
  return sent;
}

struct Ratio {
  std::uint32_t heads, kv_heads;
};
constexpr Ratio kRatios[] = {{32, 32}, {32, 8}, {64, 8}, {33, 33}, {40, 8}};
constexpr std::int64_t kTokensEach = 6, kHeadDim = 16;

Problem problem(std::uint32_t workers, Ratio r, Pass pass) {
  Problem p;
  p.workers = workers;
  p.tokens = {kTokensEach * workers};
  p.heads = r.heads;
  p.kv_heads = r.kv_heads;
  p.head_dim = kHeadDim;
  p.pass = pass;
  return p;
}

// u: the queries of one worker, in bytes; kv: its keys and values.
struct Bytes16 {
  std::int64_t u, kv;
  explicit Bytes16(Ratio r)
      : u(kTokensEach * r.heads * kHeadDim * 2), kv(2 * kTokensEach * r.kv_heads * kHeadDim * 2) {}
};

void expect_sent(const Problem& p, const std::string& schedule, std::int64_t expected) {
  const Plan plan = build_plan(p, find_schedule(schedule));
  const Verification v = verify(plan);
  ASSERT_TRUE(v.holds()) << schedule << ": " << v.violations[0].text;
  for (const std::int64_t sent : bytes_sent(plan))
    ASSERT_EQ(sent, expected) << schedule << " W=" << p.workers << " heads " << p.heads << "/"
                              << p.kv_heads << " " << to_text(p.pass);
}

TEST(Volumes, OfUlyssesAreThoseOfItsPaper) {
  for (const Ratio r : kRatios)
    for (std::int64_t w = 2; w <= 33; ++w) {
      const Bytes16 b(r);
      if (r.heads % w != 0) continue;
      const Problem forward = problem(static_cast<std::uint32_t>(w), r, Pass::Forward);
      Problem both = forward;
      both.pass = Pass::Both;
      const std::int64_t results = b.u * (w - 1) / w;
      if (r.kv_heads % w == 0) {
        const std::int64_t once = (2 * b.u + b.kv) * (w - 1) / w;
        expect_sent(forward, "ulysses", once);
        expect_sent(both, "ulysses", 2 * once);
      } else if (w % r.kv_heads == 0) {
        // Each of the others gets one key/value head; what arises from the copies goes back in
        // fp32.
        const std::int64_t keys = b.kv / r.kv_heads * (w - 1);
        expect_sent(forward, "ulysses", 2 * results + keys);
        expect_sent(both, "ulysses", 4 * results + keys + 2 * keys);
      }
    }
}

// Where the heads do not divide, what is sent in all is still as little as it can be.
TEST(Volumes, OfUlyssesWithUnevenHeadsAddUp) {
  for (const Ratio r : kRatios)
    for (std::int64_t w = 2; w <= std::min(33u, r.heads); ++w) {
      if (r.kv_heads != r.heads) continue;
      const Plan plan = build_plan(problem(static_cast<std::uint32_t>(w), r, Pass::Both),
                                   find_schedule("ulysses"));
      const std::vector<std::int64_t> sent = bytes_sent(plan);
      const Bytes16 b(r);
      EXPECT_EQ(std::accumulate(sent.begin(), sent.end(), std::int64_t{0}),
                2 * (2 * b.u + b.kv) * (w - 1));
    }
}

TEST(Volumes, OfAllGatherAreThoseOfARingAndOfTheSumsThatGoHome) {
  for (const Ratio r : kRatios)
    for (std::int64_t w = 2; w <= 33; ++w)
      for (const char* schedule : {"all-gather", "all-gather:stride=3:shares=zigzag"}) {
        const Bytes16 b(r);
        const Problem forward = problem(static_cast<std::uint32_t>(w), r, Pass::Forward);
        Problem both = forward;
        both.pass = Pass::Both;
        expect_sent(forward, schedule, b.kv * (w - 1));
        expect_sent(both, schedule, 2 * b.kv * (w - 1) + 2 * b.kv * (w - 1));  // sums are fp32
      }
}

TEST(Volumes, OfUspAreThoseOfBothItsLevels) {
  for (const Ratio r : kRatios)
    for (std::int64_t w = 2; w <= 33; ++w)
      for (std::int64_t u = 1; u <= std::min<std::int64_t>(w, r.kv_heads); ++u) {
        if (w % u != 0 || r.kv_heads % u != 0) continue;
        const Bytes16 b(r);
        Problem p = problem(static_cast<std::uint32_t>(w), r, Pass::Forward);
        p.mask = Mask::full();  // so that all keys go round
        const std::int64_t inside = (2 * b.u + b.kv) * (u - 1) / u, across = b.kv * (w / u - 1);
        const std::string schedule = "usp:ulysses=" + std::to_string(u);
        expect_sent(p, schedule, inside + across);
        expect_sent(p, schedule + ":ring=striped", inside + across);
        p.pass = Pass::Both;
        // Sums of key gradients go round and home in fp32.
        const std::int64_t home = w / u > 1 ? 2 * b.kv * (w / u - 1) : 0;
        expect_sent(p, schedule, 2 * inside + 2 * across + home);
      }
}

TEST(Volumes, OfUspWithOneLevelAreThePlansOfThatLevel) {
  const auto same = [](const Plan& a, const Plan& b) {
    ASSERT_EQ(a.tasks.size(), b.tasks.size());
    for (std::size_t id = 0; id < a.tasks.size(); ++id) {
      const Task &x = a.tasks[id], &y = b.tasks[id];
      EXPECT_TRUE(x.kind == y.kind && x.worker_index == y.worker_index && x.step == y.step &&
                  a.piece(x) == b.piece(y) && x.inputs == y.inputs && x.lane == y.lane)
          << id;
    }
  };
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both})
    for (const std::uint32_t w : {2u, 5u, 8u}) {
      const Problem p = problem(w, {40, 40}, pass);
      const auto plan = [&](const std::string& name) { return build_plan(p, find_schedule(name)); };
      same(plan("usp:ulysses=" + std::to_string(w)), plan("ulysses"));
      for (const std::string ring : {"ring", "zigzag", "striped", "balanced"})
        same(plan("usp:ulysses=1:ring=" + ring), plan(ring));
    }
}

}  // namespace
}  // namespace ringsched
