// The problems that property tests run over.
#pragma once

#include <string>
#include <vector>

#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

// Sanitizers look at how memory is used, which a few workers show as well as many, and take their
// time.
#ifdef RINGSCHED_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// How many of them a test runs: all if RINGSCHED_WHOLE is 1, as in scripts/nightly, else a sample.
int cases_to_run(int whole, int sample);

struct Case {
  const Schedule* schedule;
  std::uint32_t workers;

  std::string name() const;
};

// Can it be planned with this number of heads? Ulysses needs one for each worker.
bool fits(const Schedule&, std::uint32_t workers, std::uint32_t heads = 4);
std::vector<Schedule> schedules_for(std::uint32_t workers, std::uint32_t heads = 4);

// Every schedule at W = 1..last, for testing::ValuesIn, where it can be planned with 4 heads.
std::vector<Case> all_schedules(std::uint32_t last);
std::vector<Case> schedules_of_messages(std::uint32_t last);  // those without exchanges

// A small problem of W workers: `tokens` in all, 4 query heads of dimension 8.
Problem small_problem(std::uint32_t workers, std::int64_t tokens, Pass = Pass::Forward,
                      Mask = Mask::causal());

void PrintTo(const Case&, std::ostream*);

}  // namespace ringsched
