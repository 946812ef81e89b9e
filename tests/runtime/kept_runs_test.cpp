#include "session/kept_runs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace ringsched {
namespace {

Timeline timeline(std::int64_t makespan) {
  Timeline t;
  t.tasks.resize(1);
  t.tasks[0].end_ps = makespan;
  return t;
}

// Adds runs of these makespans, and says how many timelines were kept at the most.
std::size_t add_all(KeptRuns& runs, const std::vector<std::int64_t>& makespans) {
  std::size_t most = 0;
  for (const std::int64_t m : makespans) {
    runs.add(timeline(m));
    most = std::max(most, runs.kept());
  }
  return most;
}

std::int64_t taken(KeptRuns& runs) { return runs.take().tasks[0].end_ps; }

TEST(KeptRuns, TheMedianIsExactForUpTo99RunsInAnyOrder) {
  std::mt19937 random(1);
  for (std::int64_t repeats = 1; repeats <= 99; ++repeats)
    for (int order = 0; order < 6; ++order) {
      std::vector<std::int64_t> makespans(static_cast<std::size_t>(repeats));
      // The last orders have many equal ones.
      for (std::int64_t& m : makespans)
        m = static_cast<std::int64_t>(random() % (order < 4 ? 1000 : 3));
      if (order == 0) std::sort(makespans.begin(), makespans.end());
      if (order == 1) std::sort(makespans.rbegin(), makespans.rend());
      KeptRuns runs(repeats, false);
      EXPECT_LE(add_all(runs, makespans), KeptRuns::kMost);
      std::sort(makespans.begin(), makespans.end());
      const std::int64_t median = makespans[makespans.size() / 2];
      EXPECT_EQ(runs.median().value, median);
      EXPECT_EQ(taken(runs), median) << repeats << " runs, order " << order;
    }
}

TEST(KeptRuns, TenThousandRunsKeepFiftyTimelinesAndReportOneNearTheMedian) {
  std::mt19937 random(1);
  std::vector<std::int64_t> makespans(10'000);
  for (std::int64_t& m : makespans) m = 1'000'000 + static_cast<std::int64_t>(random() % 1'000'000);
  KeptRuns runs(10'000, false);
  EXPECT_EQ(add_all(runs, makespans), KeptRuns::kMost);
  EXPECT_EQ(runs.makespans().size(), makespans.size());
  const std::int64_t reported = taken(runs);
  std::sort(makespans.begin(), makespans.end());
  EXPECT_EQ(runs.median().value, makespans[5'000]);
  const auto place = std::lower_bound(makespans.begin(), makespans.end(), reported);
  EXPECT_LE(std::abs(place - makespans.begin() - 5'000), 50);  // half a percent of the runs
}

// The machine slows down: what is the median in the end was among the slowest when it ran.
TEST(KeptRuns, OfRunsThatOnlyGetSlowerTheNearestKeptOneIsReported) {
  std::vector<std::int64_t> makespans(1'000);
  std::iota(makespans.begin(), makespans.end(), 1);
  KeptRuns runs(1'000, false);
  EXPECT_LE(add_all(runs, makespans), KeptRuns::kMost);
  EXPECT_EQ(runs.median().value, 501);
  EXPECT_NEAR(static_cast<double>(taken(runs)), 501, 15);
}

TEST(KeptRuns, OfTheFastestOneIsEnough) {
  KeptRuns runs(5, true);
  EXPECT_EQ(add_all(runs, {7, 5, 9, 5, 6}), 1u);
  EXPECT_EQ(taken(runs), 5);
}

}  // namespace
}  // namespace ringsched
