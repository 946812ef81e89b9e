// Takes valid plans with exchanges and damages each in one random way, in its exchanges or
// anywhere. The interpreter decides whether the meaning changed, as for other plans
// (mutation_test.cpp), and verify() must have refused each of those.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"
#include "support/exchange_plans.hpp"
#include "support/exchange_surgery.hpp"
#include "support/interpreter.hpp"
#include "support/surgery.hpp"

namespace ringsched {
namespace {

struct ByHand {
  const char* name;
  Plan (*make)(const Problem&);
};
constexpr ByHand kByHand[] = {
    {"ulysses", ulysses_by_hand},
    {"all_gather", [](const Problem& p) { return all_gather_by_hand(p); }},
    {"all_gather_by_one", [](const Problem& p) { return all_gather_by_hand(p, 1); }},
    {"gather_queries", gather_queries_by_hand},
};

class ExchangeMutation : public testing::TestWithParam<ByHand> {};
INSTANTIATE_TEST_SUITE_P(All, ExchangeMutation, testing::ValuesIn(kByHand),
                         [](const auto& c) { return std::string(c.param.name); });
void PrintTo(const ByHand& c, std::ostream* out) { *out << c.name; }

struct Tally {
  int changed = 0, refused = 0, harmless = 0, accepted = 0;
  std::string escape;
};

void spoil(const Plan& valid, int times, std::mt19937_64& random, Tally& tally) {
  for (int i = 0; i < times; ++i) {
    Plan spoilt = valid;
    const std::string what =
        random() % 4 == 0 ? mutate(spoilt, random) : mutate_exchange(spoilt, random);
    const bool holds = verify(spoilt).holds();
    const std::string wrong = any_wrong_run(spoilt, holds ? 4 : 1);
    ++(wrong.empty() ? tally.harmless : tally.changed);
    if (wrong.empty() && holds) ++tally.accepted;
    if (!wrong.empty() && !holds) ++tally.refused;
    if (!wrong.empty() && holds && tally.escape.empty()) tally.escape = what + ": " + wrong;
  }
}

TEST_P(ExchangeMutation, IsRefusedWheneverItChangesTheMeaning) {
  const int times = kSanitized ? 10 : cases_to_run(1000, 60);
  std::mt19937_64 random(5);
  Tally tally;
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both})
    for (const std::uint32_t workers : {2u, 3u, 5u})
      for (const std::uint32_t kv_heads : {1u, 2u, 4u}) {
        Problem p = small_problem(workers, 2 * std::int64_t{workers} - 1, pass);
        p.kv_heads = kv_heads;
        if (workers == 3) p.mask = parse_mask("documents:2,3");
        const Plan valid = GetParam().make(p);
        const Verification proof = verify(valid);
        ASSERT_TRUE(proof.holds()) << proof.violations[0].text;
        ASSERT_EQ(any_wrong_run(valid, 4), "");
        spoil(valid, times, random, tally);
      }
  EXPECT_EQ(tally.refused, tally.changed) << "verify accepts this: " << tally.escape;
  // Both kinds occur, so neither answer alone would do.
  EXPECT_GT(2 * tally.changed, tally.harmless);
  EXPECT_GT(tally.accepted, 0);
  RecordProperty("changed", tally.changed);
  RecordProperty("harmless", tally.harmless);
  RecordProperty("harmless_and_accepted", tally.accepted);
}

}  // namespace
}  // namespace ringsched
