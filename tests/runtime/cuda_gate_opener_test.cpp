#include "backends/cuda/gate_opener.hpp"

#include <gtest/gtest.h>

#include <future>

namespace ringsched::cuda {
namespace {

using namespace std::chrono_literals;

TEST(GateOpener, OpensOnceWhenItIsToldTo) {
  const int before = GateOpener::opened_by_clock();
  int opened = 0;
  {
    GateOpener gate([&] { ++opened; }, 1h);
    EXPECT_EQ(gate.open(), gate.open());
  }
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(GateOpener::opened_by_clock(), before);
}

TEST(GateOpener, LeavesGatesAloneWhenSubmittingFails) {
  int opened = 0;
  {
    const GateOpener gate([&] { ++opened; }, 1h);
  }
  EXPECT_EQ(opened, 0);
}

// Who submits waits for what stands behind the gate.
TEST(GateOpener, OpensByTheClockAndCountsThat) {
  const int before = GateOpener::opened_by_clock();
  std::promise<Clock::time_point> news;
  std::future<Clock::time_point> opened = news.get_future();
  GateOpener gate([&] { news.set_value(Clock::now()); }, 1ms);
  const Clock::time_point when = opened.get();
  EXPECT_LE(when, gate.open());
  EXPECT_EQ(GateOpener::opened_by_clock(), before + 1);
}

}  // namespace
}  // namespace ringsched::cuda
