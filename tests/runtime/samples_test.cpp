#include "backends/cpu/samples.hpp"

#include <gtest/gtest.h>

namespace ringsched {
namespace {

TEST(Samples, TheSecondFastestUndisturbedTimeCounts) {
  Samples s;
  for (const double time : {5.0, 3.0, 4.0}) s.add(time, true);
  s.add(1, false);
  s.add(2, false);
  EXPECT_EQ(s.typical(), 4);
}

TEST(Samples, AreSettledWhenTheTwoFastestUndisturbedOnesAreAlike) {
  Samples s;
  s.add(5, true);
  EXPECT_FALSE(s.settled());
  s.add(4, true);
  EXPECT_FALSE(s.settled());
  s.add(4.05, false);
  EXPECT_FALSE(s.settled());
  s.add(4.05, true);
  EXPECT_TRUE(s.settled());
  s.add(3, true);
  EXPECT_FALSE(s.settled());
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

}  // namespace
}  // namespace ringsched
