#include "samples.hpp"

#include <gtest/gtest.h>

namespace ringsched {
namespace {

TEST(Samples, TheirMeanCounts) {
  Samples s;
  for (const double time : {5.0, 3.0, 7.0}) s.add(time);
  EXPECT_EQ(s.counts(), 5);
}

TEST(Samples, NoTimeCountsMoreThanTwiceTheMiddleOne) {
  Samples s;
  for (const double time : {4.0, 100.0, 3.0}) s.add(time);
  EXPECT_EQ(s.counts(), 5);
}

TEST(Samples, AreSettledWhenTheMiddleHalfIsAlike) {
  Samples s;
  s.add(4);
  s.add(4.1);
  EXPECT_FALSE(s.settled());  // too few
  s.add(5);
  EXPECT_FALSE(s.settled());  // one of three is much slower
  s.add(4.1);
  s.add(4.1);
  EXPECT_TRUE(s.settled());  // one of five
  s.add(6);
  s.add(6);
  EXPECT_FALSE(s.settled());
}

TEST(Samples, TheFastestCountsWhereItIsAskedFor) {
  Samples s(true);
  for (const double time : {5.0, 9.0, 4.0}) s.add(time);
  EXPECT_EQ(s.counts(), 4);
  EXPECT_FALSE(s.settled());  // it was met once
  s.add(4.1);
  EXPECT_TRUE(s.settled());
  EXPECT_EQ(s.counts(), 4);
}

// The same time again and again has settled; times that double never do.
Samples samples_of(int count, double factor) {
  Samples s;
  double time = 1;
  for (int i = 0; i < count; ++i, time *= factor) s.add(time);
  return s;
}

TEST(SettlingRule, TakesAFewSamplesOfATimeThatSettles) {
  const SettlingRule rule = {5, 11};
  for (int n = 0; n < 5; ++n) EXPECT_TRUE(needs_more(samples_of(n, 1), 0, rule)) << n;
  EXPECT_FALSE(needs_more(samples_of(5, 1), 0, rule));
}

TEST(SettlingRule, TakesMoreOfATimeThatDoesNotButNotForEver) {
  const SettlingRule rule = {5, 11};
  for (int n = 0; n < 11; ++n) EXPECT_TRUE(needs_more(samples_of(n, 2), 1e6, rule)) << n;
  EXPECT_FALSE(needs_more(samples_of(11, 2), 0, rule));
}

TEST(SettlingRule, StopsWhenTheTimeIsUpButNotBeforeThereIsASample) {
  const SettlingRule rule = {5, 11, 2.0};
  EXPECT_TRUE(needs_more(samples_of(1, 1), 1.9, rule));
  EXPECT_FALSE(needs_more(samples_of(1, 1), 2.0, rule));
  EXPECT_FALSE(needs_more(samples_of(7, 2), 2.0, rule));
  EXPECT_TRUE(needs_more(Samples(), 5, rule));
}

TEST(Noise, IsTheStandardDeviationOfWhatCoresDifferBy) {
  Noise none;
  EXPECT_EQ(none.share(), 0);
  none.add({5});  // one core differs from none
  EXPECT_EQ(none.share(), 0);
  none.add({3, 3, 3});
  EXPECT_EQ(none.share(), 0);
  Noise some;  // squares of 0.1 and 0.1, of which one is free
  some.add({9, 11});
  EXPECT_NEAR(some.share(), std::sqrt(0.02), 1e-12);
  some.add({2, 2});  // at another time they were alike
  EXPECT_NEAR(some.share(), std::sqrt(0.01), 1e-12);
}

}  // namespace
}  // namespace ringsched
