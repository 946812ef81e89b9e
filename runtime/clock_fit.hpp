// How far the clock of process 0 is from this process's, from questions and answers: it was read
// between question and arrival, so each answer puts the offset in an interval, and all of them
// together in what they have in common.
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

// The same for processes whose steady clocks are one: those of one boot of one machine, unless a
// time namespace has moved them. Empty if it cannot be told.
std::string name_of_clock();

std::int64_t steady_now();

}  // namespace ringsched
