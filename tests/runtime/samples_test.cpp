#include "backends/cpu/samples.hpp"

#include <gtest/gtest.h>

namespace ringsched {
namespace {

TEST(Samples, TheMeanOfTheUndisturbedTimesCounts) {
  Samples s;
  for (const double time : {5.0, 3.0, 7.0}) s.add(time, true);
  s.add(1, false);
  s.add(2, false);
  EXPECT_EQ(s.counts(), 5);
}

TEST(Samples, NoTimeCountsMoreThanTwiceTheMiddleOne) {
  Samples s;
  for (const double time : {4.0, 100.0, 3.0}) s.add(time, true);
  EXPECT_EQ(s.counts(), 5);
}

TEST(Samples, DisturbedTimesCountWhereNothingIsBetter) {
  Samples s;
  s.add(7, false);
  EXPECT_EQ(s.counts(), 7);
  s.add(5, true);
  s.add(6, false);
  EXPECT_FALSE(s.settled());
  EXPECT_EQ(s.counts(), 6);
}

TEST(Samples, AreSettledWhenTheMiddleHalfOfTheUndisturbedOnesIsAlike) {
  Samples s;
  s.add(4, true);
  s.add(4.1, true);
  EXPECT_FALSE(s.settled());  // too few
  s.add(4.1, false);
  EXPECT_FALSE(s.settled());
  s.add(5, true);
  EXPECT_FALSE(s.settled());  // one of three is much slower
  s.add(4.1, true);
  s.add(4.1, true);
  EXPECT_TRUE(s.settled());  // one of five
  s.add(6, true);
  s.add(6, true);
  EXPECT_FALSE(s.settled());
}

TEST(Samples, TheFastestCountsWhereItIsAskedFor) {
  Samples s(true);
  for (const double time : {5.0, 9.0, 4.0}) s.add(time, true);
  s.add(3, false);
  EXPECT_EQ(s.counts(), 4);
  EXPECT_FALSE(s.settled());  // it was met once
  s.add(4.1, true);
  EXPECT_TRUE(s.settled());
  EXPECT_EQ(s.counts(), 4);
}

}  // namespace
}  // namespace ringsched
