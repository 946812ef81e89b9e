// Plans as JSON text, so that they can be kept, compared, and written by other programs. The format
// is described in docs/plan-format.md.
#pragma once

#include <string>
#include <string_view>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

inline constexpr int kPlanFileVersion = 2;  // written; those before it are read, too

// The canonical text: one task per line, nothing that the reader would fill in by itself except
// each task's worker and step. Equal plans have equal texts.
std::string write_plan(const Plan&);
// Written aside and renamed, so that a reader never meets half a file. Throws Error.
void write_plan_file(const Plan&, const std::string& path);

// Throws Error, beginning with `name`, for whatever is no plan. What comes back is well formed: all
// ids are in range, inputs are of the right kinds, and every task reads only what earlier ones
// made. Whether it computes what it should is for verify() to say.
Plan read_plan(std::string_view json, std::string_view name);
Plan read_plan_file(const std::string& path);  // "-" reads standard input

}  // namespace ringsched
