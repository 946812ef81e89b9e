// Clocks that differ, drift, and are read over a slow network.
#include "clock_fit.hpp"

#include <gtest/gtest.h>

#include <random>

namespace ringsched {
namespace {

struct Clocks {
  std::int64_t offset = 0;
  double drift = 0;
  std::int64_t theirs(std::int64_t at) const {
    return at + offset + static_cast<std::int64_t>(drift * static_cast<double>(at));
  }
};

ClockReading read(const Clocks& clocks, std::int64_t& now, std::mt19937& random,
                  std::int64_t slowest) {
  ClockFit fit;
  for (int i = 0; i < kClockQuestions; ++i) {
    const auto takes = [&] { return 1000 + static_cast<std::int64_t>(random()) % slowest; };
    const std::int64_t asked = now;
    now += takes();
    const std::int64_t theirs = clocks.theirs(now);
    now += takes();
    fit.add(asked, theirs, now);
  }
  return fit.reading();
}

TEST(ClockFit, IsNoFurtherOffThanItSays) {
  std::mt19937 random(1);
  for (const std::int64_t offset :
       {std::int64_t{0}, std::int64_t{3'600'000'000'000}, -std::int64_t{77}})
    for (const double drift : {0.0, 20e-6, -100e-6})
      for (const std::int64_t slowest : {1000, 50'000, 3'000'000}) {
        const Clocks clocks{offset, drift};
        std::int64_t now = 1'000'000'000;
        const ClockReading r = read(clocks, now, random, slowest);
        EXPECT_LE(std::abs(clocks.theirs(r.at) - r.at - r.offset), r.error)
            << offset << " " << drift << " " << slowest;
        EXPECT_LT(r.error, slowest + 1000 + 200'000);
      }
}

TEST(ClockLine, TakesOutWhatDrifts) {
  std::mt19937 random(2);
  const Clocks clocks{5'000'000, 80e-6};
  std::int64_t now = 0;
  ClockLine line;
  line.before = read(clocks, now, random, 10'000);
  now += 10'000'000'000;  // of a run: the clocks are 800 us further apart at its end
  line.after = read(clocks, now, random, 10'000);
  EXPECT_NEAR(line.drift(), 80e-6, 1e-6);
  for (std::int64_t at = line.before.at; at < line.after.at; at += 1'000'000'000)
    EXPECT_LE(std::abs(clocks.theirs(at) - at - line.correction(at)), line.error()) << at;
}

TEST(ClockLine, OfASharedClockCorrectsNothing) {
  const ClockLine line{{5, 0, 0}, {900, 0, 0}};
  EXPECT_EQ(line.correction(300), 0);
  EXPECT_EQ(line.drift(), 0);
  EXPECT_EQ(line.error(), 0);
}

}  // namespace
}  // namespace ringsched
