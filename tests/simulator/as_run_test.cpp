// What a library does with a schedule that leaves it a choice.
#include "ringsched/simulator/as_run.hpp"

#include <gtest/gtest.h>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {
namespace {

TEST(AsRun, SendsAllInRingsWhereTheLibraryDoes) {
  SoftwareFigures software;
  EXPECT_EQ(as_run("ring", software), "ring");
  software.sends_all = true;
  EXPECT_EQ(as_run("ring", software), "ring:sends=all");
  EXPECT_EQ(as_run("usp:ulysses=2:ring=zigzag", software), "usp:ulysses=2:ring=zigzag:sends=all");
  EXPECT_EQ(as_run("ring:sends=needed", software), "ring:sends=needed");
  EXPECT_EQ(as_run("ulysses", software), "ulysses");
  EXPECT_THROW(as_run("rin", software), Error);
}

}  // namespace
}  // namespace ringsched
