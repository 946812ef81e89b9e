#include "ringsched/viz/picture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Picture sample() {
  Picture p;
  p.width = 200;
  p.height = 100;
  p.title = "a <picture> & \"more\"";
  p.shapes.emplace_back(
      Box{10, 20, 30.125, 40, ink::keys, Hatch::Diagonal, ink::black, 2, "it <is>"});
  p.shapes.emplace_back(Box{50, 20, 30, 40, {}, Hatch::Dots, {}, 1, {}});
  p.shapes.emplace_back(Stroke{{{1, 2}, {3.5, -0.001}}, ink::grey, 0.5, true, true});
  p.shapes.emplace_back(Area{{{0, 0}, {5, 0}, {5, 5}}, ink::results});
  p.shapes.emplace_back(Label{100, 50, 11, ink::black, Anchor::Middle, true, "a&b <c>"});
  return p;
}

TEST(Svg, SaysWhatIsInThePicture) {
  const std::string text = svg(sample());
  EXPECT_THAT(text, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"200\" "));
  EXPECT_THAT(text, HasSubstr("<title>a &lt;picture&gt; &amp; &quot;more&quot;</title>"));
  EXPECT_THAT(
      text, HasSubstr("<rect x=\"10\" y=\"20\" width=\"30.13\" height=\"40\" fill=\"#949494\"/>"));
  EXPECT_THAT(text, HasSubstr("stroke-width=\"2\"><title>it &lt;is&gt;</title></rect>"));
  EXPECT_THAT(text, HasSubstr("d=\"M1 2L3.5 0\""));
  EXPECT_THAT(text,
              HasSubstr("text-anchor=\"middle\" font-weight=\"bold\">a&amp;b &lt;c&gt;</text>"));
  EXPECT_THAT(text, Not(HasSubstr("-0\"")));
  EXPECT_TRUE(text.ends_with("</svg>\n"));
  EXPECT_EQ(text, svg(sample()));
}

TEST(Svg, KeepsTextThatWouldBreakItOut) {
  Picture p = sample();
  p.title = std::string("a\x01\n\xff") + "b";
  const std::string text = svg(p);
  for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
}

// Printed in grey, neighbours in a bar or a band differ by a contrast of 1.5:1 at least.
TEST(Ink, IsToldApartInGrey) {
  const auto light = [](Colour c) {
    const double grey = (0.299 * c.red + 0.587 * c.green + 0.114 * c.blue) / 255;
    return (grey <= 0.04045 ? grey / 12.92 : std::pow((grey + 0.055) / 1.055, 2.4)) + 0.05;
  };
  const Colour parts[] = {ink::overhead, ink::own, ink::helping, ink::waiting};
  for (std::size_t i = 1; i < std::size(parts); ++i)
    EXPECT_GE(light(parts[i]), 1.5 * light(parts[i - 1])) << i;
  EXPECT_GE(light(ink::own), 3 * light(ink::overhead)) << "they touch in every bar";
}

TEST(TextWidth, IsThatOfHelvetica) {
  EXPECT_DOUBLE_EQ(text_width("Ma 0", 10), 8.33 + 5.56 + 2.78 + 5.56);
  EXPECT_GT(text_width("Ma 0", 10, true), text_width("Ma 0", 10));
  EXPECT_DOUBLE_EQ(text_width("\xc2\xb7", 10), text_width("\xe2\x86\x92", 10));
  const Box end = bounds({100, 50, 10, ink::black, Anchor::End, false, "00"});
  EXPECT_DOUBLE_EQ(end.x + end.width, 100);
  EXPECT_DOUBLE_EQ(end.width, 11.12);
}

bool has_cairo() {
  try {
    png(sample(), 1);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::uint32_t big_endian(const std::string& bytes, std::size_t at) {
  std::uint32_t n = 0;
  for (std::size_t i = 0; i < 4; ++i) n = n << 8 | static_cast<unsigned char>(bytes[at + i]);
  return n;
}

TEST(Png, HasTheSizeAskedFor) {
  if (!has_cairo()) GTEST_SKIP() << "built without Cairo";
  const std::string image = png(sample(), 1.5);
  EXPECT_THAT(image, StartsWith("\x89PNG\r\n\x1a\n"));
  EXPECT_EQ(big_endian(image, 16), 300u);
  EXPECT_EQ(big_endian(image, 20), 150u);
  EXPECT_EQ(image, png(sample(), 1.5));
  EXPECT_THROW(png(sample(), 1000), Error);
}

// Its size in metres, so that a printer needs no one to tell it.
TEST(Png, SaysHowLargeItIs) {
  if (!has_cairo()) GTEST_SKIP() << "built without Cairo";
  const std::string image = png(sample(), 300.0 / 72);
  const std::size_t at = image.find("pHYs");
  ASSERT_NE(at, image.npos);
  EXPECT_EQ(image.find("pHYs", at + 4), image.npos);
  EXPECT_LT(at, image.find("IDAT"));
  EXPECT_EQ(big_endian(image, at - 4), 9u);
  EXPECT_EQ(big_endian(image, at + 4), 11811u);  // 300 per inch
  EXPECT_EQ(big_endian(image, at + 8), 11811u);
  EXPECT_EQ(image[at + 12], 1);
  // The checksum by polynomial division, bit by bit.
  std::uint64_t rest = 0xffffffff;
  for (std::size_t i = at; i < at + 13; ++i)
    for (int bit = 0; bit < 8; ++bit) {
      const std::uint64_t in = static_cast<unsigned char>(image[i]) >> bit & 1;
      const bool odd = (rest & 1) != in;
      rest = rest >> 1 ^ (odd ? 0xedb88320u : 0u);
    }
  EXPECT_EQ(big_endian(image, at + 13), 0xffffffff ^ static_cast<std::uint32_t>(rest));
  EXPECT_EQ(with_density(image, 300.0 / 72), image);
}

TEST(Pdf, IsTheSameWheneverItIsMade) {
  if (!has_cairo()) GTEST_SKIP() << "built without Cairo";
  const std::string file = pdf(sample());
  EXPECT_TRUE(file.starts_with("%PDF-1.4") || file.starts_with("%PDF-1.5")) << file.substr(0, 8);
  EXPECT_EQ(file, pdf(sample()));
  if (file.find("/ObjStm") != file.npos) return;  // a newer Cairo compresses the rest
  EXPECT_THAT(file, HasSubstr("CreationDate (20000101"));
  EXPECT_THAT(file, HasSubstr("/MediaBox [ 0 0 200 100 ]"));
}

TEST(Colours, OfWorkersDifferAndCarryText) {
  for (const std::uint32_t workers : {2u, 8u, 9u, 64u, 1024u})
    for (std::uint32_t w = 0; w < workers; ++w) {
      const Colour c = worker_colour(w, workers);
      const auto light = [](Colour k) {  // WCAG's relative luminance
        const auto linear = [](double v) {
          return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
        };
        return 0.2126 * linear(k.red / 255.0) + 0.7152 * linear(k.green / 255.0) +
               0.0722 * linear(k.blue / 255.0);
      };
      if (w > 0) {  // neighbours, also in grey
        const double own = light(c) + 0.05, other = light(worker_colour(w - 1, workers)) + 0.05;
        EXPECT_NE(c, worker_colour(w - 1, workers)) << w;
        EXPECT_GT(std::max(own, other) / std::min(own, other), workers > 8 ? 1.5 : 1) << w;
      }
      const double a = light(c) + 0.05, b = light(text_on(c)) + 0.05;
      EXPECT_GT(std::max(a, b) / std::min(a, b), 4) << hex(c) << " of " << workers;
    }
}

}  // namespace
}  // namespace ringsched
