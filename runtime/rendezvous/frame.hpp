// What processes and their store say to each other, as bytes. A frame is a header of 24 bytes and a
// body; numbers are little-endian:
//
//   "RSCH"  version (1 byte)  kind (1)  0 (2)  number (4)  length of the body (4)
//   CRC-32C of the body (4)   CRC-32C of the 20 bytes before (4)
//
// Headers, Hello, Challenge, Proof and Refused are the same in every version from 2 on, so that two
// that differ can tell each other that they do.
//
// Everything here reads bytes of anybody: it refuses malformed input, and takes no more
// memory than it was allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringsched {

inline constexpr std::size_t kFrameHeader = 24, kFrameLength = 12;  // where the length stands
inline constexpr std::uint8_t kFrameVersion = 2;
inline constexpr std::size_t kMostGreeting = 512;               // of a process not known yet
inline constexpr std::size_t kMostText = std::size_t{1} << 28;  // of what one process gives
inline constexpr std::size_t kMostGathered = std::size_t{1} << 30;
inline constexpr std::uint32_t kMostProcesses = 65536;
inline constexpr std::size_t kNonce = 16;
// The exit code of a process that is told why it cannot go on: it was started wrongly, or the run
// failed.
inline constexpr std::uint32_t kExitBadInput = 2, kExitFailed = 3;

enum class FrameKind : std::uint8_t {
  Hello = 1,  // process: a Greeting
  Challenge,  // store: its nonce, and its proof of the secret
  Proof,      // process: its own; the store answers with Alive
  Welcome,    // store, once all are there: how many (number)
  Refused,    // store: why, for people; the number is an exit code
  Put,        // process: its text of round `number`
  All,        // store: the texts of all
  AskTime,    // process: question `number`
  Time,       // store: nanoseconds of its clock, 8 bytes
  Farewell,   // process: why it ends, with which code, and what it leaves
  Ended,      // store: why all must end; the number is an exit code
  Alive,      // both: a sign of life
  Leave,      // process: it has what it came for
  Left,       // store: so have all
};

struct Frame {
  FrameKind kind = FrameKind::Alive;
  std::uint32_t number = 0;
  std::string_view body;
  std::uint8_t version = kFrameVersion;
};

// What stands at the beginning of `bytes`.
struct ParsedFrame {
  enum class Outcome { Good, NeedsMore, Bad } outcome = Outcome::NeedsMore;
  Frame frame;            // Good: views `bytes`
  std::size_t taken = 0;  // Good: of `bytes`
  std::string why;        // Bad, for people
};
// `known`: of a peer that has spoken the protocol, so that bad bytes were a frame once.
ParsedFrame parse_frame(std::string_view bytes, std::size_t most_body, bool known = false);
std::string frame(FrameKind, std::uint32_t number = 0, std::string_view body = {});
// The same from a header without its checksums, whatever it says.
std::string with_checksums(std::string head, std::string_view body);

struct Greeting {
  std::uint32_t rank = 0, size = 1;
  bool secret = false;  // it has one
  std::string nonce;
  std::string host;  // for people: its host and process number
};
std::string greeting_text(const Greeting&);
std::optional<Greeting> parse_greeting(std::string_view body);

// Texts, one behind the other.
std::string texts_body(const std::vector<std::string_view>&);
std::optional<std::vector<std::string>> parse_texts(std::string_view body);

void put_number(std::string& to, std::uint64_t, std::size_t bytes);
std::uint64_t take_number(std::string_view& from, std::size_t bytes);  // which must have this many

}  // namespace ringsched
