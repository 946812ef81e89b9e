// How far the clock of process 0 is from this process's. Process 0 read its clock between question
// and arrival of the answer, so each answer puts the offset in an interval. The offset lies in the
// intersection of all.
#pragma once

#include <cstdint>
#include <string>

#include "ringsched/runtime/world.hpp"

namespace ringsched {

class ClockFit {
 public:
  // Nanoseconds: by this clock, by that of process 0, by this one.
  void add(std::int64_t asked, std::int64_t theirs, std::int64_t answered);
  ClockReading reading() const;

 private:
  std::int64_t least_ = INT64_MIN, most_ = INT64_MAX;
  std::int64_t first_ = 0, last_ = 0;
};

inline constexpr int kClockQuestions = 60;

// The same text for processes that share one steady clock: those of one boot of one machine, unless
// a time namespace has moved it. Empty if unknown.
std::string name_of_clock();

std::int64_t steady_now();

}  // namespace ringsched
