// Compares two timelines: predicted with measured, or schedule with schedule.
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

  double ratio() const;  // second over first; infinite if only the second has any
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
  // For the same plan, the largest differences first. A receive stands for its send, too.
  std::vector<ComparedTask> worst;
  double error() const;  // of the makespan: second over first, less 1
};

// Throws Error if they cannot be compared: different numbers of workers or tokens.
void refuse_different_problems(const Timeline& first, const Timeline& second);
// Throws Error if they cannot be compared: different numbers of workers or tokens.
Comparison compare(const Timeline& first, const Timeline& second, std::size_t worst = 5);

}  // namespace ringsched
