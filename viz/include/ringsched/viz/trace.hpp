// Timelines as traces for other viewers and analysers.
#pragma once

#include <string>

#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

// Chrome trace JSON, for ui.perfetto.dev and chrome://tracing: a process for each worker, a thread
// for each lane, an arrow from each send to its receive, counters for memory and for bytes in and
// out.
std::string chrome_trace(const Timeline&);

// A trace of one worker like those of PyTorch's profiler, for HolisticTraceAnalysis. HTA reads a
// folder with one such file for each worker.
std::string kineto_trace(const Timeline&, std::uint32_t worker);

}  // namespace ringsched
