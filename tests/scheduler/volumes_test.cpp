// What each worker sends under each schedule with exchanges, compared to the byte with the formulas
// of the papers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "support/block_model.hpp"

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

// Padded heads cost what heads cost: 33 heads are 40 on 8 workers (+21%), 48 on 16 (+45.5%).
TEST(Volumes, OfPaddedUlyssesAreThoseOfThePaddedHeads) {
  for (std::int64_t w = 2; w <= 33; ++w) {
    const Ratio asked{33, 33};
    const auto heads = static_cast<std::uint32_t>((33 + w - 1) / w * w);
    const Bytes16 b({heads, heads});
    for (const Pass pass : {Pass::Forward, Pass::Both}) {
      const Problem p = problem(static_cast<std::uint32_t>(w), asked, pass);
      const std::int64_t once = (2 * b.u + b.kv) * (w - 1) / w;
      expect_sent(p, "ulysses:pad=1", pass == Pass::Forward ? once : 2 * once);
      const Plan plan = build_plan(p, find_schedule("ulysses:pad=1"));
      EXPECT_EQ(plan.problem.heads, heads);
      EXPECT_EQ(plan.without_padding(), p);
      for (const Task& t : plan.tasks)
        if (is_attend(t.kind)) {
          EXPECT_EQ(plan.works[t.work.value].columns, heads / w);
        }
    }
  }
  const auto padded = [](std::uint32_t workers) {
    return build_plan(problem(workers, {33, 33}, Pass::Forward), find_schedule("ulysses:pad=1"));
  };
  EXPECT_DOUBLE_EQ(block_model(padded(8), 0.5).makespan, 8.0 / 2 * 40 / 33);
  EXPECT_DOUBLE_EQ(block_model(padded(16), 0.5).makespan, 16.0 / 2 * 48 / 33);
}

// Key/value heads stay as they are where longer groups do; else there are more groups.
TEST(Volumes, OfPaddedUlyssesHaveTheFewestHeadsThatKeepEachQueryHeadWithItsKeys) {
  const auto padded = [](std::uint32_t workers, Ratio r) {
    const Problem p =
        build_plan(problem(workers, r, Pass::Forward), find_schedule("ulysses:pad=1")).problem;
    return std::pair{p.heads, p.kv_heads};
  };
  EXPECT_EQ(padded(16, {40, 8}), std::pair(48u, 8u));  // groups of 6
  EXPECT_EQ(padded(12, {32, 8}), std::pair(36u, 9u));  // 9 groups of 4
  EXPECT_EQ(padded(8, {32, 8}), std::pair(32u, 8u));   // nothing to pad
  EXPECT_EQ(padded(5, {4, 2}), std::pair(10u, 2u));    // 5 heads have no two groups
  EXPECT_EQ(padded(16, {8, 8}), std::pair(16u, 8u));   // fewer heads than workers
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
        const std::string other_order = schedule + ":consecutive=ring";
        expect_sent(p, schedule, inside + across);
        expect_sent(p, other_order, inside + across);
        expect_sent(p, schedule + ":ring=striped", inside + across);
        p.pass = Pass::Both;
        // Sums of key gradients go round and home in fp32.
        const std::int64_t home = w / u > 1 ? 2 * b.kv * (w / u - 1) : 0;
        expect_sent(p, schedule, 2 * inside + 2 * across + home);
        expect_sent(p, other_order, 2 * inside + 2 * across + home);
      }
}

// A benchmark of the backward pass alone finds what the forward pass left: then only gradients
// move, with a log-sum-exp and a delta beside each row of those of results.
TEST(Volumes, OfTheBackwardPassAloneAreThoseThatTheForwardPassLeaves) {
  const auto sent = [](Problem p, const std::string& schedule, Pass pass) {
    p.pass = pass;
    return bytes_sent(build_plan(p, find_schedule(schedule))).at(1);
  };
  for (const Ratio r : kRatios)
    for (const std::int64_t w : {2, 4, 8, 16, 32})
      for (const std::string schedule : {"ulysses", "usp:ulysses=2", "usp:ulysses=2:ring=zigzag"}) {
        if (r.heads % w != 0) continue;
        const Problem p = problem(static_cast<std::uint32_t>(w), r, Pass::Forward);
        const std::int64_t u = schedule == "ulysses" ? w : 2;
        const std::int64_t beside = kTokensEach * r.heads * 2 * 4 * (u - 1) / u;
        EXPECT_EQ(sent(p, schedule, Pass::Backward),
                  sent(p, schedule, Pass::Both) - sent(p, schedule, Pass::Forward) + beside)
            << schedule << " W=" << w << " heads " << r.heads << "/" << r.kv_heads;
        const std::string gather = "all-gather";  // which keeps nothing
        EXPECT_EQ(sent(p, gather, Pass::Backward),
                  sent(p, gather, Pass::Both) - sent(p, gather, Pass::Forward));
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
      for (const std::string order : {"ulysses", "ring"}) {
        const std::string last = ":consecutive=" + order;
        same(plan("usp:ulysses=" + std::to_string(w) + last), plan("ulysses"));
        for (const std::string ring : {"ring", "zigzag", "striped", "balanced"})
          same(plan("usp:ulysses=1:ring=" + ring + last), plan(ring));
      }
    }
}

// Who exchanges with whom, and where the keys go next.
TEST(Volumes, OfUspHaveEitherTheirGroupsOrTheirRingsOnConsecutiveWorkers) {
  for (const char* ring : {"ring", "zigzag", "striped", "balanced"})
    for (const bool rings : {false, true}) {
      const Plan plan = build_plan(problem(12, {8, 8}, Pass::Both),
                                   find_schedule(fmt::format("usp:ulysses=4:ring={}{}", ring,
                                                             rings ? ":consecutive=ring" : "")));
      EXPECT_TRUE(verify(plan).holds());
      for (const Exchange& e : plan.exchanges)
        for (std::uint32_t m = 1; m < e.members; ++m)
          EXPECT_EQ(plan.tasks[e.first.value + m].worker_index -
                        plan.tasks[e.first.value + m - 1].worker_index,
                    rings ? 3 : 1);
      for (const Task& t : plan.tasks) {
        if (t.kind != TaskKind::Send) continue;
        const std::uint32_t from = t.worker_index, to = plan.tasks[t.peer.value].worker_index;
        EXPECT_TRUE(rings ? from / 3 == to / 3 : from % 4 == to % 4) << from << " to " << to;
      }
    }
}

}  // namespace
}  // namespace ringsched
