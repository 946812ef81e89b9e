#include "ringsched/runtime/stolen_time.hpp"

#include <gtest/gtest.h>

namespace ringsched {
namespace {

TEST(StolenTime, IsReadFromTheFirstLine) {
  const auto t =
      processor_times("cpu  1903586 212694 205937 639796 964 7 2921 14762 5 6\ncpu0 1 2");
  ASSERT_TRUE(t);
  EXPECT_EQ(t->used, 1903586 + 212694 + 205937 + 7 + 2921);
  EXPECT_EQ(t->stolen, 14762);
}

TEST(StolenTime, WhatIsNoSuchTextSaysNothing) {
  for (const char* text :
       {"", "\n", "cpu", "cpu  1 2 3 4 5 6 7", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 x 5 6 7 8",
        "cpu 1 2 3 4 5 6 7 -8", "cpu 1 2 3 4 5 6 7 9223372036854775807",
        "cpu 1 2 3 4 5 6 7 99999999999999999999", "intr 1 2 3 4 5 6 7 8"})
    EXPECT_FALSE(processor_times(text)) << text;
}

TEST(StolenTime, IsAShare) {
  const StolenTime stolen;
  EXPECT_GE(stolen.share(), 0);
  EXPECT_LE(stolen.share(), 1);
}

}  // namespace
}  // namespace ringsched
