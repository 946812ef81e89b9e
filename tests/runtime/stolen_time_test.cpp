#include "ringsched/runtime/stolen_time.hpp"

#include <gtest/gtest.h>

#include <string>

#include "ringsched/runtime/cpu_backend.hpp"

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

TEST(StolenTime, IsSummedOverTheCoresThatCount) {
  const std::string text = "cpu  9 9 9 9 9 9 9 9\ncpu0 1 2 3 4 5 6 7 8\ncpu1 10 0 0 0 0 0 0 1\n";
  EXPECT_EQ(processor_times(text, {1})->used, 10);
  EXPECT_EQ(processor_times(text, {0, 1})->used, 1 + 2 + 3 + 6 + 7 + 10);
  EXPECT_EQ(processor_times(text, {0, 1})->stolen, 9);
  EXPECT_FALSE(processor_times(text, {}));
  EXPECT_FALSE(processor_times(text, {0, 2}));  // half of what was asked for is no answer
}

TEST(OtherPrograms, KeepNoMoreCoresBusyThanThereAre) {
  const OtherPrograms others;
  EXPECT_GE(others.cores(), 0);
  EXPECT_LE(others.cores(), usable_cores());
}

TEST(StolenTime, IsAShare) {
  const StolenTime stolen;
  EXPECT_GE(stolen.share(), 0);
  EXPECT_LE(stolen.share(), 1);
}

}  // namespace
}  // namespace ringsched
