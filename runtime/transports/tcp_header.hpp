// What goes before each piece of a message, and alone where a receiver is ready for one: 24 bytes,
// little-endian:
//
//   kind (4)  number of the message (4)  bytes of the piece (8)
//   CRC-32C of the piece (4)  CRC-32C of the 20 bytes before (4)
//
// TCP's own sum of 16 bits misses one changed packet in thousands, and memory on the way has none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ringsched {

struct TcpHeader {
  static constexpr std::size_t kBytes = 24;
  enum class Kind : std::uint32_t { Ready = 0x59444552, Piece = 0x43455049 } kind = Kind::Ready;
  std::uint32_t message = 0;
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;

  std::string text() const;
  // Empty if its own checksum is wrong: then nothing in it can be trusted. Of kBytes bytes.
  static std::optional<TcpHeader> parse(std::string_view);
};

}  // namespace ringsched
