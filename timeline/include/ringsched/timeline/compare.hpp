// Two timelines side by side: predicted against measured, or schedule against schedule.
#pragma once

#include <string>
#include <vector>

#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

// A share of the time of both: a class of tasks, or a worker.
struct ComparedPart {
  std::string name;
  std::int64_t tasks[2] = {0, 0};
  Picoseconds time[2];

  double ratio() const;  // second over first; infinite where only the second has any
};

struct ComparedTask {
  std::uint32_t task = 0;
  Picoseconds took[2];
};

struct Comparison {
  Picoseconds makespan[2];
  bool same_plan = false;             // then tasks are compared one by one
  std::vector<ComparedPart> classes;  // by kind of task; transfers by what they carry
  std::vector<ComparedPart> workers;  // time spent computing
  // Of the same plan, the largest disagreements first. A receive speaks for its send, too.
  std::vector<ComparedTask> worst;
  double error() const;  // of the makespan: second over first, less 1
};

// Throws Error where they have nothing to compare: another number of workers or tokens.
void refuse_different_problems(const Timeline& first, const Timeline& second);
// Throws Error where they have nothing to compare: another number of workers or tokens.
Comparison compare(const Timeline& first, const Timeline& second, std::size_t worst = 5);

}  // namespace ringsched
