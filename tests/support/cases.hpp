// The problems that property tests run over.
#pragma once

#include <string>

#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

struct Case {
  const Schedule* schedule;
  std::uint32_t workers;

  std::string name() const;
};

// Every schedule at W = 1..last, for testing::ValuesIn.
std::vector<Case> all_schedules(std::uint32_t last);

// A small problem of W workers: `tokens` in all, 4 query heads of dimension 8.
Problem small_problem(std::uint32_t workers, std::int64_t tokens, Pass = Pass::Forward,
                      Mask = Mask::causal());

void PrintTo(const Case&, std::ostream*);

}  // namespace ringsched
