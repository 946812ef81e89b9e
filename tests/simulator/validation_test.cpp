#include "ringsched/simulator/validation.hpp"

#include <gtest/gtest.h>

namespace ringsched {

namespace {

// All but a few: a ring over all eight devices was slower than anything here explains.
TEST(Validation, DegreesOfUspAreMostlyInThePublishedOrder) {
  std::size_t groups = 0, in_order = 0, pairs = 0;
  for (const ValidatedGroup& g : validate().groups) {
    if (!g.name.starts_with("USP, 8 x A100")) continue;
    ++groups;
    // By the kind of ring, so that only degrees are compared.
    for (const std::string_view ring : {"", ":ring=zigzag", ":ring=striped"}) {
      ValidatedGroup degrees;
      for (const ValidatedResult& r : g.results)
        if (r.schedule.substr(std::string_view("usp:ulysses=8").size()) == ring)
          degrees.results.push_back(r);
      in_order += degrees.ranking().in_order;
      pairs += degrees.ranking().pairs;
    }
  }
  EXPECT_EQ(groups, 6u);
  EXPECT_GE(20 * in_order, 19 * pairs) << in_order << " of " << pairs;
}

TEST(Validation, PairsThatHardlyDifferHaveNoOrder) {
  ValidatedGroup g;
  const auto add = [&](double published, double predicted) {
    ValidatedResult r;
    r.published = published;
    r.predicted = predicted;
    g.results.push_back(r);
  };
  add(100, 7);
  add(102, 5);  // 2 percent more
  EXPECT_EQ(g.ranking().pairs, 0u);
  add(104, 6);  // 4 percent more than the first, and predicted below it
  EXPECT_EQ(g.ranking().pairs, 1u);
  EXPECT_EQ(g.ranking().in_order, 0u);
  add(50, 1);
  EXPECT_EQ(g.ranking().pairs, 4u);
  EXPECT_EQ(g.ranking().in_order, 3u);
}

// Where the kernels of others stand in, an error would be theirs.
TEST(Validation, ErrorsOfResultsThatAreOnlyOrderedDoNotCount) {
  Validation v;
  v.groups.resize(2);
  v.groups[0].results.resize(2);
  v.groups[0].results[0].error = -0.5;
  v.groups[0].results[1].error = 0.25;
  v.groups[1] = v.groups[0];
  v.groups[1].order_only = true;
  v.groups[1].results[0].error = 9;
  EXPECT_EQ(v.results(), 2u);
  EXPECT_EQ(v.average_error(), 0.375);
  EXPECT_EQ(v.worst_error(), 0.5);
  v.groups[0].results[0].impossible = true;
  EXPECT_EQ(v.impossible(), 1u);
  EXPECT_EQ(v.worst_error(), 0.25);
}

}  // namespace

}  // namespace ringsched
