// Whatever reads as a trace must have its events in order. Used for two ranks and matched to a
// plan, it must match, mismatch, or be refused in one line.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/timeline/trace_import.hpp"

namespace {

using namespace ringsched;

Plan plan_for_two(const char* schedule, Pass pass) {
  Problem p;
  p.workers = 2;
  p.tokens = {512};
  p.heads = p.kv_heads = 2;
  p.head_dim = 16;
  p.pass = pass;
  return build_plan(p, find_schedule(schedule));
}

void hold_against(const Plan& plan, const RankTrace& trace) {
  std::vector<RankTrace> both(2, trace);
  both[0].rank = 0;
  both[1].rank = 1;
  both[1].origin_ns /= 2;
  for (const bool annotated : {false, true}) {
    try {
      const ImportedRun run = import_traces(plan, both, {.repeat = 0, .annotated = annotated});
      if (run.mismatches.empty() &&
          read_timeline(write_timeline(run.timeline), "its own text") != run.timeline)
        std::abort();
    } catch (const Error& e) {
      if (std::string_view(e.what()).find('\n') != std::string_view::npos) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  RankTrace trace;
  try {
    trace = read_kineto(json, "input", {"", "", "ring"});
  } catch (const Error& e) {
    const std::string_view what = e.what();
    if (what.find('\n') != what.npos || !what.starts_with("input:")) std::abort();
    return 0;
  }
  if (!std::ranges::is_sorted(trace.events, {}, &TraceEvent::start_ps)) std::abort();
  for (const TraceEvent& e : trace.events)
    if (e.end_ps < e.start_ps) std::abort();
  static const Plan ring = plan_for_two("ring", Pass::Forward),
                    zigzag = plan_for_two("zigzag", Pass::Both),
                    ulysses = plan_for_two("ulysses", Pass::Both);
  for (const Plan* plan : {&ring, &zigzag, &ulysses}) hold_against(*plan, trace);
  return 0;
}
