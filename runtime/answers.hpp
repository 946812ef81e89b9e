// What each process tells all others, in bytes, and how they read it. Without a secret, any program
// may send anything. So the reader trusts no length and no value: bad data ends the run, and the
// error names the process.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/runtime/world.hpp"

namespace ringsched {

class AnswerWriter {
 public:
  AnswerWriter& whole(std::int64_t);
  AnswerWriter& number(double);
  AnswerWriter& text(std::string_view);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// All its functions throw RunFailed if the bytes do not have what is asked for.
class AnswerReader {
 public:
  // `what`: for people, "task times".
  AnswerReader(std::string bytes, std::uint32_t rank, const char* what);

  std::int64_t whole(std::int64_t least, std::int64_t most);
  double number();     // any, NaN too: a wrong computation is reported, not refused
  double magnitude();  // likewise, but not negative
  double finite_magnitude();
  std::string text();  // short, and fit to stand in a line
  void end() const;    // nothing is left
  [[noreturn]] void refuse() const;

 private:
  std::string_view take(std::uint64_t bytes);

  std::string bytes_;
  std::size_t at_ = 0;
  std::uint32_t rank_;
  const char* what_;
};

// Together with all processes of the world: the answer of each, by rank.
std::vector<AnswerReader> gather_answers(World&, const std::string& own, const char* what);

// By how much the times that processes send may contradict the reader's clock. Compared clocks
// differ by far less.
inline constexpr std::chrono::nanoseconds kClockSlack = std::chrono::minutes(1);

}  // namespace ringsched
