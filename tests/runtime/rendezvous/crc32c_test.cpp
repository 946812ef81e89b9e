// The checksum of messages: by table and by instruction, compared with each other and with
// published values.
#include "rendezvous/crc32c.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace ringsched {
namespace {

std::vector<Crc32c> ways() {
  std::vector<Crc32c> out{crc32c_by_table, crc32c};
  if (crc32c_by_instruction()) out.push_back(crc32c_by_instruction());
  return out;
}

std::string counted(int from, int step) {
  std::string out;
  for (int i = 0; i < 32; ++i) out += static_cast<char>(from + step * i);
  return out;
}

// RFC 3720 (iSCSI), appendix B.4, and the check value of the catalogue of CRC algorithms.
TEST(Crc32c, IsWhatOthersPublish) {
  for (const Crc32c sum : ways()) {
    const auto of = [&](const std::string& text) { return sum(text.data(), text.size(), 0); };
    EXPECT_EQ(of("123456789"), 0xe3069283u);
    EXPECT_EQ(of(std::string(32, '\0')), 0x8a9136aau);
    EXPECT_EQ(of(std::string(32, '\xff')), 0x62a8ab43u);
    EXPECT_EQ(of(counted(0, 1)), 0x46dd794eu);
    EXPECT_EQ(of(counted(31, -1)), 0x113fdb5cu);
    EXPECT_EQ(of(""), 0u);
  }
}

TEST(Crc32c, IsTheSameByTableAndByInstructionInPartsAndAtAnyPlace) {
  std::mt19937 random(5);
  std::string text(70'000, '\0');
  for (char& c : text) c = static_cast<char>(random());
  for (int i = 0; i < 300; ++i) {
    const std::size_t from = random() % 64, size = random() % (i % 2 ? 300 : text.size() - from),
                      cut = random() % (size + 1);
    const std::uint32_t expected = crc32c_by_table(text.data() + from, size, 0);
    for (const Crc32c sum : ways()) {
      ASSERT_EQ(sum(text.data() + from, size, 0), expected);
      ASSERT_EQ(sum(text.data() + from + cut, size - cut, sum(text.data() + from, cut, 0)),
                expected);
    }
  }
}

}  // namespace
}  // namespace ringsched
