// Tables in terminals of any width.
#include "text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace ringsched {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::size_t widest(const std::string& text) {
  std::istringstream in(text);
  std::size_t most = 0;
  for (std::string line; std::getline(in, line);) most = std::max(most, line.size());
  return most;
}

const Rows kRanking = {{"", "schedule", "makespan", "idle", "memory"},
                       {"*", "zigzag", "23.7 ms", "7.3%", "418.0 MiB"},
                       {"", "ring", "41.5 ms", "47.3%", "418.0 MiB"}};

TEST(ValueWords, AreThoseOfPeople) {
  EXPECT_EQ(value_words("key_value"), "keys and values");
  EXPECT_EQ(value_words("rounded_partial"), "rounded partial results");
  EXPECT_EQ(value_words("partial#0"), "partial results");
  EXPECT_EQ(value_words("some_other"), "some other");
}

TEST(Lines, BreakBetweenWords) {
  EXPECT_EQ(in_lines("short", 2, 20), "short");
  EXPECT_EQ(in_lines("  a: one two three four", 5, 14),
            "  a: one two\n"
            "     three\n"
            "     four");
  EXPECT_EQ(in_lines("unbreakable text", 0, 4), "unbreakable\ntext");
}

TEST(Table, IsOnePieceWhereItFits) {
  const std::string whole = table_within(kRanking, 2, 0);
  EXPECT_EQ(whole,
            "   schedule  makespan  idle   memory\n"
            "*  zigzag    23.7 ms   7.3%   418.0 MiB\n"
            "   ring      41.5 ms   47.3%  418.0 MiB\n");
  EXPECT_EQ(table_within(kRanking, 2, widest(whole)), whole);
}

TEST(Table, ContinuesBelowBehindItsKeys) {
  EXPECT_EQ(table_within(kRanking, 2, 30),
            "   schedule  makespan  idle\n"
            "*  zigzag    23.7 ms   7.3%\n"
            "   ring      41.5 ms   47.3%\n"
            "\n"
            "   schedule  memory\n"
            "*  zigzag    418.0 MiB\n"
            "   ring      418.0 MiB\n");
}

TEST(Table, LosesNoCellAtAnyWidth) {
  for (std::size_t columns = 1; columns < 60; ++columns) {
    const std::string text = table_within(kRanking, 2, columns);
    for (const auto& row : kRanking)
      for (const std::string& cell : row) EXPECT_THAT(text, testing::HasSubstr(cell)) << columns;
    if (columns >= 22) {
      EXPECT_LE(widest(text), columns);
    }
  }
}

TEST(Table, WrapsWordsInItsLastColumn) {
  const Rows words = {
      {"name", "what"}, {"ring", "keys go round from worker to worker"}, {"x", "y"}};
  EXPECT_EQ(table_within(words, 1, 30),
            "name  what\n"
            "ring  keys go round from\n"
            "      worker to worker\n"
            "   x  y\n");
}

TEST(TableOfNames, PutsNamesAboveTheirRowsWhereTheyDoNotFit) {
  const Rows rows = {{"group", "results", "worst"},
                     {"a long name, of three words and more", "3", "1.1x too fast"},
                     {"short", "12", "2.0x too slow"}};
  for (const std::size_t columns : {std::size_t{80}, std::size_t{0}})  // 0: any number
    EXPECT_EQ(table_of_names(rows, columns), table_within(rows, 1, 0));
  EXPECT_EQ(table_of_names(rows, 30),
            "group  results  worst\n"
            "a long name, of three words\n"
            "  and more\n"
            "       3        1.1x too fast\n"
            "short\n"
            "       12       2.0x too slow\n");
  EXPECT_EQ(table_of_names(rows, 20),
            "group  results\n"
            "a long name, of\n"
            "  three words and\n"
            "  more\n"
            "       3\n"
            "short\n"
            "       12\n"
            "\n"
            "group  worst\n"
            "a long name, of\n"
            "  three words and\n"
            "  more\n"
            "       1.1x too fast\n"
            "short\n"
            "       2.0x too slow\n");
}

}  // namespace
}  // namespace ringsched
