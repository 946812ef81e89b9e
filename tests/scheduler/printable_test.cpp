#include "ringsched/scheduler/printable.hpp"

#include <gtest/gtest.h>

namespace ringsched {
namespace {

TEST(Printable, LeavesWhatFitsALineAlone) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("ring"), "ring");
  EXPECT_EQ(printable("gr\u00fcn \u6f22\u5b57 \U0001f600"), "gr\u00fcn \u6f22\u5b57 \U0001f600");
}

TEST(Printable, CutsBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcdef...");
  EXPECT_EQ(printable("abcd efg", 6), "abcd...");
  EXPECT_EQ(printable("abcd efg hi", 8), "abcd efg...");
  EXPECT_EQ(printable("a bcdefgh", 6), "a bcde...");
  EXPECT_EQ(printable("abcd\u6f22\u5b57", 8), "abcd\u6f22...");
  EXPECT_EQ(printable("\u6f22", 2), "...");
}

TEST(Printable, HasNothingThatBreaksOrTurnsTheLine) {
  EXPECT_EQ(printable("a\nb\x1b[1m\x7f"), "a?b?[1m?");
  for (const char* c : {"\u0085", "\u009b", "\u061c", "\u200e", "\u200f", "\u2028", "\u2029",
                        "\u202a", "\u202e", "\u2066", "\u2069"})
    EXPECT_EQ(printable(c), "?") << c;
  for (const char* c : {"\u00a0", "\u2027", "\u202f", "\u2065", "\u206a", "\u200d"})
    EXPECT_EQ(printable(c), c) << c;
}

TEST(Printable, TakesWhatIsNoUtf8) {
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a?b");
  EXPECT_EQ(printable("\xe2\x80"), "?");
  EXPECT_EQ(printable("\xe2\x81 x"), "? x");
  EXPECT_EQ(printable("\x80\x80\xff\xc2"), "????");
  EXPECT_EQ(printable("\n\x8e\x8e"), "???");  // a line break that seems to go on as a character
  EXPECT_EQ(printable("\xc3\xbc\xbc"), "\u00fc?");
  // Surrogates, what is longer than need be, and what is beyond U+10FFFF.
  for (const char* c : {"\xed\xa0\x80", "\xed\xbf\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf",
                        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"})
    EXPECT_EQ(printable(c), "?") << c;
  for (const char* c :
       {"\u00a0", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\U00010000", "\U0010ffff"})
    EXPECT_NE(printable(c), "?") << c;
}

}  // namespace
}  // namespace ringsched
