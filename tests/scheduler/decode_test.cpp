// Decoding: new tokens attend cached keys that are spread over workers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "ringsched/scheduler/words.hpp"
#include "support/cases.hpp"
#include "support/interpreter.hpp"
#include "support/same_plan.hpp"
#include "support/surgery.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;

constexpr const char* kDecodes[] = {"flash-decode",
                                    "flash-decode:to=one",
                                    "tree-decode",
                                    "tree-decode:node=2",
                                    "tree-decode:node=3:to=one",
                                    "ring-decode",
                                    "ring-decode:passes=results"};

Problem decoding(std::uint32_t workers, std::int64_t tokens, std::int64_t new_tokens,
                 Mask mask = Mask::causal()) {
  Problem p = small_problem(workers, tokens, Pass::Forward, std::move(mask));
  p.new_tokens = {new_tokens};
  return p;
}

std::string said_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Decode, SharesOutTheCacheEvenlyAndHasTheNewTokensLast) {
  for (const Mask& mask : {Mask::causal(), Mask::documents({{9}, {30}, {4}, {20}})})
    for (std::uint32_t workers = 1; workers <= 17; ++workers)
      for (const std::int64_t n : {1, 3}) {
        const Problem p = decoding(workers, 63, n, mask);
        const Layout l = decode_layout(p);
        require_valid(l, p.tokens);
        EXPECT_EQ(refusal_of(p, l), "");
        const Region rows = query_rows(p, l, {0});
        const auto documents = static_cast<std::int64_t>(documents_of(p).size());
        EXPECT_EQ(l.rows(rows).value, n * documents);
        EXPECT_EQ(rows.end(), l.chunks.size());
        std::vector<std::int64_t> cached;
        for (std::uint32_t w = 0; w < workers; ++w) cached.push_back(l.rows(l.share({w})).value);
        cached.back() -= n * documents;
        const auto [least, most] = std::ranges::minmax(cached);
        EXPECT_LE(most - least, 1) << workers;
      }
}

TEST(Decode, IsRefusedInOneLineWhereItMakesNoSense) {
  const auto refused = [](const Problem& p, const char* schedule) {
    return said_by([&] { build_plan(p, find_schedule(schedule)); });
  };
  EXPECT_EQ(refused(decoding(2, 8, 9), "tree-decode"), "new_tokens is 9; use 1 to 6");
  EXPECT_EQ(refused(decoding(2, 8, -1), "tree-decode"), "new_tokens is -1; use 1 to 6");
  EXPECT_EQ(refused(decoding(2, 8, 4, Mask::documents({{3}, {5}})), "tree-decode"),
            "new_tokens is 4; use 1 to 3");
  EXPECT_EQ(refused(decoding(2, 8, 4), "ring"),
            "schedule ring does not decode, but new_tokens is 4; use flash-decode, tree-decode or "
            "ring-decode");
  EXPECT_EQ(refused(small_problem(2, 8, Pass::Backward), "ring-decode"),
            "schedule ring-decode is for decoding, which has only a forward pass, but pass is "
            "'backward'");
  EXPECT_EQ(refused(decoding(4, 5, 3), "flash-decode"),
            "2 cached tokens cannot be spread over 4 workers; use fewer workers or fewer "
            "new tokens");
  EXPECT_EQ(refused(decoding(2, 3, 4), "flash-decode"), "new_tokens is 4; use 1");
  EXPECT_EQ(described(decoding(1, 9, 2, Mask::documents({{3}, {3}, {3}}))),
            "9 tokens, 2 new in each of 3 documents, 4 heads (2 kv) x 8, bf16, "
            "documents:3,3,3, forward");
  EXPECT_EQ(build_plan(small_problem(2, 8), find_schedule("flash-decode")).problem.new_tokens,
            Tokens{1});
}

TEST(Decode, ALayoutMayNotMixNewAndCachedTokens) {
  const Problem p = decoding(2, 8, 2);
  const auto refusal = [&](const std::vector<TokenRange>& chunks, std::vector<Region> shares) {
    Plan plan = build_plan(p, find_schedule("flash-decode"));
    plan.layout = custom_layout(chunks, std::move(shares));
    const Verification v = verify(plan);
    return v.holds() ? "" : v.violations[0].text;
  };
  EXPECT_EQ(refusal({{0, 1, 3}, {3, 1, 2}, {5, 1, 3}}, {{{0}, 1}, {{1}, 2}}),
            "chunk 2 has cached and new tokens; cut it at token 6");
  EXPECT_EQ(refusal({{0, 1, 3}, {6, 1, 1}, {3, 1, 3}, {7, 1, 1}}, {{{0}, 2}, {{2}, 2}}),
            "the new tokens are not in consecutive chunks: between them is token 3");
}

TEST(Decode, EverySchedulesPlansHoldAndComputeWhatTheyShould) {
  for (const char* name : kDecodes)
    for (const std::uint32_t w : {1u, 2u, 3u, 4u, 5u, 7u, 9u})
      for (const char* mask : {"causal", "full", "window:6", "prefix:2,window:5", "documents:8,15",
                               "window:4,documents:8,15"})
        for (const std::int64_t n : {1, 3}) {
          const Plan plan = build_plan(decoding(w, 23, n, parse_mask(mask)), find_schedule(name));
          const std::string what = fmt::format("{} W={} {} {}", name, w, mask, n);
          const Verification v = verify(plan);
          ASSERT_TRUE(v.holds()) << what << ": " << v.violations[0].text;
          ASSERT_EQ(any_wrong_run(plan, 1), "") << what;
          expect_same(plan, read_plan(write_plan(plan), "file"));
          if (testing::Test::HasFailure()) FAIL() << what;
        }
}

// By worker, to others.
struct Sends {
  std::vector<std::int64_t> bytes;
  std::int64_t messages = 0;
};
Sends sends_of(const Plan& plan) {
  Sends out{std::vector<std::int64_t>(plan.problem.workers)};
  for (const Task& t : plan.tasks)
    if (is_send(t.kind)) {
      out.bytes[t.worker_index] += plan.works[t.work.value].bytes.value;
      ++out.messages;
    }
  for (const Exchange& e : plan.exchanges)
    for (const Share& s : shares_of(plan, e)) {
      if (s.from == s.to) continue;
      const Task& giver = plan.tasks[e.first.value + s.from];
      out.bytes[giver.worker_index] +=
          plan.program.bytes(plan.value(giver), plan.layout.rows(s.rows), s.columns.count).value;
      ++out.messages;
    }
  return out;
}

TEST(Decode, SendsWhatTheClosedFormsSay) {
  for (const auto& [heads, kv_heads] :
       {std::pair{32u, 32u}, {32u, 8u}, {64u, 8u}, {33u, 33u}, {40u, 8u}})
    for (std::uint32_t w = 2; w <= 33; ++w) {
      Problem p = decoding(w, 6 * std::int64_t{w} + 2, 2);
      p.heads = heads;
      p.kv_heads = kv_heads;
      const std::int64_t partial = 2 * heads * (p.head_dim + 1) * 4;  // fp32, with its lse
      const std::int64_t result = 2 * heads * p.head_dim * 2;
      const std::int64_t keys = 2 * kv_heads * p.head_dim * 2;  // of one token
      const auto plan = [&](const char* name) { return build_plan(p, find_schedule(name)); };
      const auto all = [](const Sends& s) {
        return std::accumulate(s.bytes.begin(), s.bytes.end(), std::int64_t{0});
      };
      // A tree has W - 1 edges; each worker but the root sends its partial once.
      const Plan tree = plan("tree-decode:to=one");
      for (std::uint32_t from = 0; from < w; ++from)
        ASSERT_EQ(sends_of(tree).bytes[from], from + 1 == w ? 0 : partial);
      ASSERT_EQ(tree.tasks.back().step, std::bit_width(w - 1)) << w;  // ceil(log2 W)
      const Plan tree_to_all = plan("tree-decode");
      ASSERT_EQ(sends_of(tree_to_all).messages, 2 * (std::int64_t{w} - 1));
      ASSERT_EQ(all(sends_of(tree_to_all)), (w - 1) * (partial + result));
      ASSERT_EQ(all(sends_of(plan("flash-decode:to=one"))), (w - 1) * partial);
      // What an all-reduce amounts to: each gets the partials of all others.
      ASSERT_EQ(all(sends_of(plan("flash-decode"))), std::int64_t{w} * (w - 1) * partial);
      ASSERT_EQ(all(sends_of(plan("ring-decode:passes=results"))), (w - 1) * partial);
      ASSERT_EQ(all(sends_of(plan("ring-decode"))), (w - 1) * p.tokens.value * keys);
    }
}

TEST(Decode, OfAThousandDocumentsHasAChunkForEachPart) {
  std::vector<Tokens> lengths;
  for (int d = 0; d < 1000; ++d) lengths.push_back({100 + d % 7});
  const std::int64_t tokens =
      std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0},
                      [](std::int64_t sum, Tokens t) { return sum + t.value; });
  for (const char* name : {"flash-decode", "tree-decode"}) {
    const Plan plan =
        build_plan(decoding(16, tokens, 1, Mask::documents(lengths)), find_schedule(name));
    EXPECT_EQ(plan.layout.chunks.size(), 17'000u);
    EXPECT_LT(plan.tasks.size(), 100u);
    EXPECT_TRUE(verify(plan).holds()) << name;
  }
}

TEST(Decode, AWrongPlanIsFound) {
  const auto found = [](const char* schedule, const std::function<void(Plan&)>& change) {
    Plan plan = build_plan(decoding(4, 23, 2), find_schedule(schedule));
    change(plan);
    EXPECT_NE(any_wrong_run(plan, 20), "") << schedule;
    const Verification v = verify(plan);
    return v.holds() ? "" : v.violations[0].text;
  };
  EXPECT_THAT(found("tree-decode:to=one",
                    [](Plan& p) {
                      const TaskId merge = find_task(p, TaskKind::Merge, 3);
                      read_instead(p, p.output(merge), p.tasks[merge.value].inputs[0]);
                      erase_task(p, merge);
                    }),
              HasSubstr("neither merged"));
  EXPECT_THAT(
      found("tree-decode:to=one",
            [](Plan& p) {
              Task& merge = p.tasks[find_task(p, TaskKind::Merge, 3).value];
              merge.inputs[1] = merge.inputs[0];
            }),
      testing::AllOf(HasSubstr(" counts the partial of task "), testing::EndsWith(" twice")));
  EXPECT_THAT(
      found("tree-decode:to=one",
            [](Plan& p) { p.tasks[find_task(p, TaskKind::Attend, 1).value].inputs[0] = {0}; }),
      HasSubstr("held by worker 0"));
  EXPECT_THAT(
      found("flash-decode", [](Plan& p) { repeat_task(p, find_task(p, TaskKind::Output, 2)); }),
      HasSubstr("both output"));
  EXPECT_THAT(found("flash-decode:to=one",
                    [](Plan& p) { erase_task(p, find_task(p, TaskKind::Output, 3)); }),
              HasSubstr("does not output"));
  EXPECT_THAT(found("ring-decode",
                    [](Plan& p) {
                      p.tasks.back().inputs[0] =
                          p.tasks[find_task(p, TaskKind::Attend, 3).value].inputs[0];
                    }),
              HasSubstr("input 0 is a query"));
}

TEST(Decode, OnlyCopiesOfNewQueriesAreGiven) {
  Plan plan = build_plan(decoding(2, 9, 2), find_schedule("flash-decode"));
  const Region share = plan.layout.share({0});
  for (Region& r : plan.regions)
    if (r == query_rows(plan.problem, plan.layout, {0})) r = share;
  const Verification v = verify(plan);
  ASSERT_FALSE(v.holds());
  EXPECT_EQ(v.violations[0].text, "an initial query has rows of cached tokens");
}

TEST(Decode, ChangesAtRandomThatMatterAreFound) {
  std::mt19937_64 random(5);
  int wrong = 0;
  for (const char* name : kDecodes) {
    const Plan valid = build_plan(decoding(4, 13, 2), find_schedule(name));
    for (int i = 0; i < cases_to_run(1500, 60); ++i) {
      Plan plan = valid;
      const std::string change = mutate(plan, random);
      if (verify(plan).holds())
        ASSERT_EQ(any_wrong_run(plan, 5), "") << name << ": " << change;
      else
        ++wrong;
    }
  }
  EXPECT_GT(wrong, 100);
}

std::string said_of_calls(const std::function<void(PlanBuilder&)>& calls,
                          Pass pass = Pass::Forward) {
  Problem p = pass == Pass::Forward ? decoding(3, 23, 2) : small_problem(3, 24, pass);
  PlanBuilder b(p, pass == Pass::Forward ? decode_layout(p) : contiguous(3, p.tokens));
  return said_by([&] {
    b.step(0);
    calls(b);
  });
}

TEST(Decode, WrongCallsAreNamed) {
  const auto own = [](PlanBuilder& b, std::uint32_t w) {
    return b.attend(b.queries(WorkerId{w}), b.keys(WorkerId{w}));
  };
  EXPECT_EQ(
      said_of_calls([&](PlanBuilder& b) { b.combine(own(b, 0), own(b, 1)); }),
      "step 0: combine needs both partials on one worker, but they are on workers 0 and 1; move "
      "one of them first");
  EXPECT_EQ(
      said_of_calls([&](PlanBuilder& b) { b.combine(own(b, 0), b.move(own(b, 1), WorkerId{0})); },
                    Pass::Both),
      "step 0: combine needs partials of the same queries; those on worker 0 have different ones");
  EXPECT_THAT(said_of_calls([&](PlanBuilder& b) {
                const Partial p = own(b, 0);
                b.combine(p, p);
              }),
              HasSubstr("is used again"));
  EXPECT_EQ(
      said_of_calls(
          [&](PlanBuilder& b) {
            b.exchange(std::vector{own(b, 0)}, std::vector{Wanted{WorkerId{0}, {{0}, 1}, {0, 4}}});
          },
          Pass::Both),
      "step 0: an exchange of partials works with --pass forward only");
  EXPECT_EQ(
      said_of_calls([&](PlanBuilder& b) {
        b.exchange(std::vector{own(b, 1)}, std::vector{Wanted{WorkerId{0}, {{0}, 1}, {0, 4}}});
      }),
      "step 0: worker 0 cannot give an exchange a partial of worker 1");
}

}  // namespace
}  // namespace ringsched
