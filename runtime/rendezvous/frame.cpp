#include "rendezvous/frame.hpp"

#include <fmt/format.h>

#include "rendezvous/crc32c.hpp"
#include "ringsched/scheduler/printable.hpp"

namespace ringsched {

namespace {

constexpr std::string_view kMagic = "RSCH";
constexpr auto kLastKind = static_cast<std::uint64_t>(FrameKind::Left);
constexpr std::size_t kMostHost = 200;
constexpr std::uint64_t kFirstWithChecksums = 2;  // version

bool greets(std::uint64_t kind) {
  const auto k = static_cast<FrameKind>(kind);
  return k == FrameKind::Hello || k == FrameKind::Challenge || k == FrameKind::Proof ||
         k == FrameKind::Refused;
}

ParsedFrame bad(std::string why) { return {ParsedFrame::Outcome::Bad, {}, 0, std::move(why)}; }

}  // namespace

void put_number(std::string& to, std::uint64_t x, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) to += static_cast<char>(x >> (8 * i));
}

std::uint64_t take_number(std::string_view& from, std::size_t bytes) {
  std::uint64_t x = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    x |= std::uint64_t{static_cast<unsigned char>(from[i])} << (8 * i);
  from.remove_prefix(bytes);
  return x;
}

// Reports an error as soon as it shows: a foreign client may wait for an answer to half a line.
ParsedFrame parse_frame(std::string_view bytes, std::size_t most_body, bool known) {
  const std::string_view magic = bytes.substr(0, kMagic.size());
  if (magic != kMagic.substr(0, magic.size()))
    return bad(
        known ? "a message that was changed on the way: its first bytes are wrong"
              : fmt::format("it is not a ringsched message: '{}'", printable(bytes.substr(0, 16))));
  if (bytes.size() < kFrameHeader) return {};
  std::string_view rest = bytes.substr(kMagic.size(), kFrameHeader - kMagic.size());
  const std::uint64_t version = take_number(rest, 1), kind = take_number(rest, 1),
                      zero = take_number(rest, 2), number = take_number(rest, 4),
                      length = take_number(rest, 4), of_body = take_number(rest, 4),
                      of_header = take_number(rest, 4);
  if ((known || version >= kFirstWithChecksums) &&
      of_header != crc32c(bytes.data(), kFrameHeader - 4))
    return bad("a message that was changed on the way: the checksum of its header is wrong");
  if (version < kFirstWithChecksums || (version != kFrameVersion && !greets(kind)))
    return bad(fmt::format("its messages are of version {}, not {}", version, kFrameVersion));
  if (kind == 0 || kind > kLastKind || zero != 0)
    return bad(fmt::format("a message of unknown kind {}", kind));
  if (length > most_body)
    return bad(fmt::format("a message of {} bytes, where {} are allowed", length, most_body));
  if (bytes.size() - kFrameHeader < length) return {};
  if (of_body != crc32c(bytes.data() + kFrameHeader, length))
    return bad(fmt::format(
        "a message of {} bytes that was changed on the way: its checksum is wrong", length));
  ParsedFrame out;
  out.outcome = ParsedFrame::Outcome::Good;
  out.frame = {static_cast<FrameKind>(kind), static_cast<std::uint32_t>(number),
               bytes.substr(kFrameHeader, length), static_cast<std::uint8_t>(version)};
  out.taken = kFrameHeader + length;
  return out;
}

std::string frame(FrameKind kind, std::uint32_t number, std::string_view body) {
  std::string head(kMagic);
  put_number(head, kFrameVersion, 1);
  put_number(head, static_cast<std::uint8_t>(kind), 1);
  put_number(head, 0, 2);
  put_number(head, number, 4);
  put_number(head, body.size(), 4);
  return with_checksums(std::move(head), body);
}

std::string with_checksums(std::string head, std::string_view body) {
  put_number(head, crc32c(body.data(), body.size()), 4);
  put_number(head, crc32c(head.data(), head.size()), 4);
  return head.append(body);
}

std::string greeting_text(const Greeting& g) {
  std::string out;
  put_number(out, g.rank, 4);
  put_number(out, g.size, 4);
  put_number(out, g.secret ? 1 : 0, 1);
  return out + g.nonce + g.host.substr(0, kMostHost);
}

std::optional<Greeting> parse_greeting(std::string_view body) {
  if (body.size() < 9 + kNonce || body.size() > 9 + kNonce + kMostHost) return {};
  Greeting g;
  g.rank = static_cast<std::uint32_t>(take_number(body, 4));
  g.size = static_cast<std::uint32_t>(take_number(body, 4));
  const std::uint64_t secret = take_number(body, 1);
  if (secret > 1 || g.size == 0 || g.size > kMostProcesses || g.rank >= g.size) return {};
  g.secret = secret == 1;
  g.nonce = body.substr(0, kNonce);
  g.host = printable(body.substr(kNonce), kMostHost);
  return g;
}

std::string texts_body(const std::vector<std::string_view>& texts) {
  std::string out;
  put_number(out, texts.size(), 4);
  for (const std::string_view t : texts) put_number(out, t.size(), 4);
  for (const std::string_view t : texts) out += t;
  return out;
}

std::optional<std::vector<std::string>> parse_texts(std::string_view body) {
  if (body.size() < 4) return {};
  const std::uint64_t count = take_number(body, 4);
  if (count > kMostProcesses || body.size() < 4 * count) return {};
  std::string_view lengths = body.substr(0, 4 * count);
  body.remove_prefix(lengths.size());
  std::vector<std::string> out;
  while (!lengths.empty()) {
    const std::uint64_t length = take_number(lengths, 4);
    if (length > body.size()) return {};
    out.emplace_back(body.substr(0, length));
    body.remove_prefix(length);
  }
  if (!body.empty()) return {};
  return out;
}

}  // namespace ringsched
