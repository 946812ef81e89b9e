// What `ringsched validate` prints fits on a page.
#include "validation_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

namespace ringsched {
namespace {

TEST(ValidationText, HasSummariesOfAHundredColumns) {
  unsetenv("COLUMNS");
  const std::string text = text_of(validate(read_measurements(R"(
[[group]]
name = "a benchmark of somebody else, 8 x A100, forward and backward, second implementation of ring"
quantity = "iterations_per_s"
machine = "dgx-a100"
problem = { workers = 8, heads = 32 }
results = [{ tokens = 65536, schedule = "ring", published = 20 }]
)",
                                                              "mine.toml")),
                                   ValidationDetail::Groups);
  EXPECT_THAT(text, testing::HasSubstr("\na benchmark of somebody else, 8 x A100"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

}  // namespace
}  // namespace ringsched
