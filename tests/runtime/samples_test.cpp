#include "backends/cpu/samples.hpp"

#include <gtest/gtest.h>

namespace ringsched {
namespace {

TEST(Samples, TheMiddleOneOfTheUndisturbedTimesCounts) {
  Samples s;
  for (const double time : {5.0, 3.0, 4.0}) s.add(time, true);
  s.add(1, false);
  s.add(2, false);
  EXPECT_EQ(s.typical(), 4);
}

TEST(Samples, DisturbedTimesCountWhereNothingIsBetter) {
  Samples s;
  s.add(7, false);
  EXPECT_EQ(s.typical(), 7);
  s.add(5, true);
  s.add(6, false);
  EXPECT_FALSE(s.settled());
  EXPECT_EQ(s.typical(), 6);
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

}  // namespace
}  // namespace ringsched
