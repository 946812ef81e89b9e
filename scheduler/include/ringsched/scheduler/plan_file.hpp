// Plans as JSON text, to keep them, compare them, and exchange them with other programs.
// docs/plan-format.md describes the format.
#pragma once

#include <string>
#include <string_view>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

inline constexpr int kPlanFileVersion = 2;  // written; earlier ones are read, too

// The canonical text: one task per line, without defaults except each task's worker and step. Equal
// plans have equal texts.
std::string write_plan(const Plan&);
// Written atomically. Throws Error.
void write_plan_file(const Plan&, const std::string& path);

// Throws Error, beginning with `name`, for anything that is not a plan. The result is well formed:
// all ids are in range, inputs are of the right kinds, and every task reads only what earlier ones
// made. verify() says whether it computes the right thing.
Plan read_plan(std::string_view json, std::string_view name);
Plan read_plan_file(const std::string& path);  // "-" reads standard input

}  // namespace ringsched
