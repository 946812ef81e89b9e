#include "transports/tcp_header.hpp"

#include "rendezvous/crc32c.hpp"
#include "rendezvous/frame.hpp"

namespace ringsched {

std::string TcpHeader::text() const {
  std::string out;
  put_number(out, static_cast<std::uint32_t>(kind), 4);
  put_number(out, message, 4);
  put_number(out, bytes, 8);
  put_number(out, checksum, 4);
  put_number(out, crc32c(out.data(), out.size()), 4);
  return out;
}

std::optional<TcpHeader> TcpHeader::parse(std::string_view text) {
  const std::uint32_t sum = crc32c(text.data(), kBytes - 4);
  TcpHeader h;
  h.kind = static_cast<Kind>(take_number(text, 4));
  h.message = static_cast<std::uint32_t>(take_number(text, 4));
  h.bytes = take_number(text, 8);
  h.checksum = static_cast<std::uint32_t>(take_number(text, 4));
  if (take_number(text, 4) != sum) return {};
  return h;
}

}  // namespace ringsched
