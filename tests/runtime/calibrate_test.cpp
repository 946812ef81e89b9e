// What calibrate measures on a CPU, and in which order. No test here depends on how long it takes.
#include "ringsched/runtime/calibrate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

namespace ringsched {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Of tiles that take next to no time.
CalibrationOptions small(double timeout) {
  CalibrationOptions o;
  o.cores = 1;
  o.dtypes = {Dtype::Fp32};
  o.head_dims = {8};
  o.max_tokens = 128;
  o.timeout = timeout;
  o.enough = 1e9;
  return o;
}

std::map<std::string, int> samples_by_point(const CalibrationOptions& options, CpuFigures& out) {
  std::map<std::string, int> samples;
  out = measure_cpu(options, [&](const CalibrationProgress& p) {
    if (!p.what.empty()) ++samples[p.what];
  });
  return samples;
}

TEST(Calibrate, TakesOneSampleOfAPointWhoseTimeIsUpThen) {
  CpuFigures figures;
  const auto samples = samples_by_point(small(1e-9), figures);
  for (const auto& [what, times] : samples) EXPECT_EQ(times, 1) << what;
  EXPECT_EQ(figures.points, samples.size());
  EXPECT_EQ(figures.disturbed, figures.points);  // one sample says nothing of others
}

TEST(Calibrate, TakesThreeSamplesOfEachPointWhenTimeIsShort) {
  CpuFigures figures;
  CalibrationOptions options = small(1e9);
  options.enough = 0;
  for (const auto& [what, times] : samples_by_point(options, figures)) EXPECT_EQ(times, 3) << what;
}

TEST(Calibrate, TakesFiveToElevenSamplesWhereThereIsTime) {
  CpuFigures figures;
  const auto samples = samples_by_point(small(1e9), figures);
  for (const auto& [what, times] : samples) {
    EXPECT_GE(times, 5) << what;
    EXPECT_LE(times, 11) << what;
  }
  EXPECT_EQ(figures.points, samples.size());
  EXPECT_THAT(figures.missing, IsEmpty());
  ASSERT_EQ(figures.kernels.size(), 4u);  // forward and backward, full and causal
  for (const MeasuredKernel& k : figures.kernels) {
    EXPECT_THAT(k.tokens, ElementsAre(64, 128));
    for (const double x : k.tflops) EXPECT_GT(x, 0);
  }
}

TEST(Calibrate, IsUsableOnceOnePassIsMeasuredForBothMasks) {
  struct Stopped {};
  CpuFigures so_far;
  const auto stop_before = [&](const std::string& what) {
    const auto stop = [&](const CalibrationProgress& p) {
      so_far = p.so_far;
      if (p.what == what) throw Stopped{};
    };
    EXPECT_THROW(measure_cpu(small(1e9), stop), Stopped) << what;
  };
  stop_before("merging");
  EXPECT_FALSE(so_far.usable());
  EXPECT_THAT(so_far.missing, ElementsAre("messages", "forward fp32 x 8", "backward fp32 x 8"));
  stop_before("forward fp32 x 8 causal, 128 tokens");
  EXPECT_FALSE(so_far.usable());
  EXPECT_THAT(so_far.missing, ElementsAre("forward fp32 x 8", "backward fp32 x 8"));
  stop_before("backward fp32 x 8 full, 64 tokens");
  EXPECT_TRUE(so_far.usable());
  EXPECT_EQ(so_far.kernels.size(), 2u);
  EXPECT_THAT(so_far.missing, ElementsAre("backward fp32 x 8"));
}

TEST(Calibrate, SaysHowMuchIsDoneAndLeft) {
  std::vector<CalibrationProgress> all;
  measure_cpu(small(1e-9), [&](const CalibrationProgress& p) { all.push_back(p); });
  EXPECT_LT(all.front().done, all.back().done);
  for (const CalibrationProgress& p : all) {
    EXPECT_GE(p.done, 0);
    EXPECT_LE(p.done, 1);
    EXPECT_EQ(p.seconds_left > 0, !p.what.empty()) << p.what;
  }
  EXPECT_EQ(all.back().what, "");
  EXPECT_EQ(all.back().done, 1);
}

}  // namespace
}  // namespace ringsched
