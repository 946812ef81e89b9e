// Long work ends soon after it is asked to, in any thread.
#include "ringsched/scheduler/stop.hpp"

#include <gtest/gtest.h>

#include <atomic>

#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "ringsched/simulator/simulate.hpp"
#include "ringsched/simulator/spread.hpp"

namespace ringsched {
namespace {

class AskedToStop : public testing::Test {
 protected:
  const Plan plan_ = build_plan({}, find_schedule("balanced"));
  std::atomic<bool> stop_ = true;
};

TEST_F(AskedToStop, WorkWithoutAFlagGoesOn) {
  stop_here();
  const std::atomic<bool> go_on = false;
  const StopWhen asked(&go_on);
  EXPECT_TRUE(verify(plan_).holds());
}

TEST_F(AskedToStop, EachPartOfTheWorkEnds) {
  const Workload ideal = price(plan_, find_machine("ideal"));
  const Workload shared = price(plan_, find_machine("laptop"));
  const StopWhen asked(&stop_);
  EXPECT_THROW(build_plan({}, find_schedule("ring")), Interrupted);
  EXPECT_THROW(verify(plan_), Interrupted);
  EXPECT_THROW(simulate(ideal), Interrupted);
  EXPECT_THROW(simulate(shared), Interrupted);
}

TEST_F(AskedToStop, OtherThreadsOfTheWorkEndToo) {
  const StopWhen asked(&stop_);
  std::atomic<int> done = 0;
  EXPECT_THROW(in_parallel(
                   8, [&](std::size_t) { ++done; }, 4),
               Interrupted);
  EXPECT_EQ(done, 0);
}

TEST_F(AskedToStop, ThatEndsWithItsScope) {
  {
    const StopWhen asked(&stop_);
    {
      const StopWhen not_here(nullptr);
      stop_here();
    }
    EXPECT_THROW(stop_here(), Interrupted);
  }
  stop_here();
  EXPECT_EQ(stop_flag(), nullptr);
}

}  // namespace
}  // namespace ringsched
