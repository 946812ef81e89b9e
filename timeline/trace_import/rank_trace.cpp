#include "rank_trace.hpp"

#include <algorithm>
#include <map>

namespace ringsched::trace_import {

namespace {

bool is_attend(const TraceEvent& e) {
  return e.work == TraceWork::Attend || e.work == TraceWork::AttendBackward;
}

// Of two that start together, the enclosing one is first.
bool earlier(const TraceEvent& a, const TraceEvent& b) {
  return a.start_ps != b.start_ps ? a.start_ps < b.start_ps : a.end_ps > b.end_ps;
}

}  // namespace

void put_in_order(RankTrace& trace) {
  std::ranges::stable_sort(trace.events, earlier);
  std::ranges::stable_sort(trace.ranges, earlier);
  std::map<std::int64_t, std::int64_t> attending;  // by stream: until when
  for (const TraceEvent& e : trace.events)
    if (is_attend(e)) attending.try_emplace(e.stream, 0);
  std::erase_if(trace.events, [&](const TraceEvent& e) {
    if (!is_attend(e) && e.work != TraceWork::Compute) return false;
    const auto until = attending.find(e.stream);
    if (until == attending.end()) return true;
    if (e.end_ps <= until->second && e.start_ps < until->second) return true;
    if (is_attend(e)) until->second = std::max(until->second, e.end_ps);
    return false;
  });
}

}  // namespace ringsched::trace_import
