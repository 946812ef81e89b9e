// The bytes that anybody may send to a store, and what it makes of them.
#include "rendezvous/frame.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace ringsched {
namespace {

using testing::HasSubstr;
using Outcome = ParsedFrame::Outcome;

// A frame that says something else, and means it: its checksums are right.
std::string changed(std::string bytes, std::size_t at, char with) {
  bytes[at] = with;
  return with_checksums(bytes.substr(0, kFrameHeader - 8), bytes.substr(kFrameHeader));
}

TEST(Frame, ReadsWhatIsWritten) {
  const std::string bytes = frame(FrameKind::Put, 77, "text") + "more";
  const ParsedFrame p = parse_frame(bytes, 4);
  ASSERT_EQ(p.outcome, Outcome::Good);
  EXPECT_EQ(p.frame.kind, FrameKind::Put);
  EXPECT_EQ(p.frame.number, 77u);
  EXPECT_EQ(p.frame.body, "text");
  EXPECT_EQ(bytes.substr(p.taken), "more");
}

TEST(Frame, WaitsForTheRestOfWhatHasBegunWell) {
  const std::string bytes = frame(FrameKind::All, 1, "0123456789");
  for (std::size_t have = 0; have < bytes.size(); ++have)
    EXPECT_EQ(parse_frame(std::string_view(bytes).substr(0, have), 10).outcome, Outcome::NeedsMore)
        << have;
}

TEST(Frame, RefusesOthersByTheirFirstLetters) {
  for (const char* foreign : {"GET / HTTP/1.1\r\n", "G", "SSH-2.0", "RSCX", "\x16\x03\x01"}) {
    const ParsedFrame p = parse_frame(foreign, 100);
    EXPECT_EQ(p.outcome, Outcome::Bad) << foreign;
    EXPECT_THAT(p.why, HasSubstr("not a ringsched message"));
  }
}

TEST(Frame, RefusesWhatItDoesNotKnow) {
  const auto spoiled = [](std::size_t at, char with) {
    return parse_frame(changed(frame(FrameKind::Put, 0, "x"), at, with), 100);
  };
  EXPECT_THAT(spoiled(4, 1).why, HasSubstr("version 1, not 2"));
  EXPECT_THAT(spoiled(4, 3).why, HasSubstr("version 3, not 2"));
  EXPECT_THAT(spoiled(5, 0).why, HasSubstr("unknown kind"));
  EXPECT_THAT(spoiled(5, 99).why, HasSubstr("unknown kind 99"));
  EXPECT_THAT(spoiled(6, 1).why, HasSubstr("unknown kind"));
}

TEST(Frame, OfAnotherVersionCanGreetAndBeRefused) {
  for (const FrameKind kind :
       {FrameKind::Hello, FrameKind::Challenge, FrameKind::Proof, FrameKind::Refused}) {
    const std::string bytes = changed(frame(kind, 3, "body"), 4, 7);
    const ParsedFrame p = parse_frame(bytes, 100);
    ASSERT_EQ(p.outcome, Outcome::Good) << p.why;
    EXPECT_EQ(p.frame.version, 7);
    EXPECT_EQ(p.frame.body, "body");
  }
}

TEST(Frame, RefusesTooMuchBeforeItComes) {
  const std::string header =
      frame(FrameKind::Put, 0, std::string(101, 'x')).substr(0, kFrameHeader);
  EXPECT_THAT(parse_frame(header, 100).why, HasSubstr("101 bytes, where 100 are allowed"));
  EXPECT_EQ(parse_frame(header, 101).outcome, Outcome::NeedsMore);
}

TEST(Frame, GreetingsThatMakeNoSenseAreNone) {
  const Greeting g{2, 3, true, std::string(kNonce, 'n'), "host, pid 5"};
  const std::string good = greeting_text(g);
  const auto read = parse_greeting(good);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->rank, 2u);
  EXPECT_EQ(read->size, 3u);
  EXPECT_TRUE(read->secret);
  EXPECT_EQ(read->nonce, g.nonce);
  EXPECT_EQ(read->host, g.host);
  for (std::size_t have = 0; have < 9 + kNonce; ++have)
    EXPECT_FALSE(parse_greeting(good.substr(0, have))) << have;
  for (const Greeting& bad : {Greeting{3, 3, true, g.nonce, ""}, Greeting{0, 0, true, g.nonce, ""},
                              Greeting{0, kMostProcesses + 1, true, g.nonce, ""}})
    EXPECT_FALSE(parse_greeting(greeting_text(bad)));
  EXPECT_FALSE(parse_greeting(good + std::string(500, 'x')));
  EXPECT_EQ(parse_greeting(greeting_text({0, 1, false, g.nonce, "a\nb"}))->host, "a?b");
}

TEST(Frame, TextsComeBackAsTheyWere) {
  const std::vector<std::string> texts = {"", "one", std::string(300, '\0'), "two"};
  const std::string body = texts_body({texts.begin(), texts.end()});
  EXPECT_EQ(parse_texts(body), texts);
  EXPECT_EQ(parse_texts(texts_body({})), std::vector<std::string>{});
  for (std::size_t have = 0; have < body.size(); ++have)
    EXPECT_FALSE(parse_texts(body.substr(0, have))) << have;
  EXPECT_FALSE(parse_texts(body + "x"));
  EXPECT_FALSE(parse_texts("\xff\xff\xff\xff"));
}

TEST(Frame, NoFlippedBitGoesUnseen) {
  const std::string good = frame(FrameKind::All, 3, texts_body({"abc", "", "defghi"}));
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    EXPECT_EQ(parse_frame(bytes, 1000).outcome, Outcome::Bad) << bit;
    EXPECT_THAT(parse_frame(bytes, 1000, true).why, HasSubstr("changed on the way")) << bit;
  }
}

TEST(Frame, NoSpoiledBytesTakeMoreThanTheyAre) {
  std::mt19937 random(1);
  const std::string good = frame(FrameKind::All, 3, texts_body({"abc", "", "defghi"}));
  std::size_t read = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good;
    for (int n = 0; n < 1 + i % 3; ++n)
      bytes = changed(bytes, random() % bytes.size(), static_cast<char>(random()));
    const ParsedFrame p = parse_frame(bytes, 1000);
    if (p.outcome != Outcome::Good) continue;
    ++read;
    ASSERT_LE(p.taken, bytes.size());
    ASSERT_EQ(p.frame.body.size() + kFrameHeader, p.taken);
    if (const auto texts = parse_texts(p.frame.body)) {
      std::size_t sum = 4;
      for (const std::string& t : *texts) sum += 4 + t.size();
      ASSERT_EQ(sum, p.frame.body.size());
    }
  }
  EXPECT_GT(read, 1000u);
}

// What tests/fuzz/store_frame_fuzz.cpp began with and what it found.
TEST(Frame, OfTheFuzzCorpusIsReadOrRefusedInOneLine) {
  std::size_t files = 0, good = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(RINGSCHED_FUZZ_CORPUS "/store_frame")) {
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    ++files;
    const std::string bytes = text.str();
    const ParsedFrame p = parse_frame(bytes, 4096);
    EXPECT_EQ(p.why.find('\n'), p.why.npos) << entry.path();
    good += p.outcome == Outcome::Good ? 1 : 0;
  }
  EXPECT_GE(files, 6u);
  EXPECT_GE(good, 4u);
}

}  // namespace
}  // namespace ringsched
