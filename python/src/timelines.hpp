// The columns and words of timelines, which runs also use for theirs.
#pragma once

#include <memory>
#include <string>

#include "held.hpp"
#include "ringsched/timeline/accounting.hpp"
#include "table.hpp"

namespace ringsched::python {

Table timeline_table(const TimelinePointer&);
Table workers_table(const RunTimes&, std::shared_ptr<const void> keep);
void save(const Timeline&, const std::string& path);
std::string described_run(const Timeline&);

}  // namespace ringsched::python
