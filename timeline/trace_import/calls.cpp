// A trace may hold several calls of attention: repeats, or the layers of a model. This finds which
// attends belong to one call.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "matching.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched::trace_import {

namespace {

constexpr std::array<TraceWork, kPasses> kAttendOf = {TraceWork::Attend, TraceWork::AttendBackward};
constexpr std::array<std::string_view, kPasses> kAttendNames = {"attend", "backward attend"};

using Events = std::vector<TraceEvent>;

bool is_message(const TraceEvent& e) {
  return e.work == TraceWork::Send || e.work == TraceWork::Receive ||
         e.work == TraceWork::SendReceive || e.work == TraceWork::Exchange;
}

template <class Holds>
Events those(const Events& events, Holds holds) {
  Events out;
  std::ranges::copy_if(events, std::back_inserter(out), holds);
  return out;
}

// A run of attends that are one pass of one call.
struct Group {
  std::size_t pass = 0;
  Events attends;
  std::int64_t start() const { return attends.front().start_ps; }
  std::int64_t end() const { return std::ranges::max(attends, {}, &TraceEvent::end_ps).end_ps; }
};

// For the passes that the plan has, groups as large as the plan says. Other passes only lie in
// between.
std::vector<Group> groups_of(const RankTrace& trace, const WorkerTasks& tasks) {
  std::vector<Group> out;
  for (const std::size_t pass : {0u, 1u}) {
    const std::size_t size = std::max<std::size_t>(1, tasks.passes[pass].attends.size());
    const Events all =
        those(trace.events, [&](const TraceEvent& e) { return e.work == kAttendOf[pass]; });
    for (std::size_t i = 0; i + size <= all.size(); i += size)
      out.push_back({pass, Events(all.begin() + static_cast<std::ptrdiff_t>(i),
                                  all.begin() + static_cast<std::ptrdiff_t>(i + size))});
  }
  std::ranges::stable_sort(out, {}, &Group::start);
  return out;
}

// The groups of one call, by place, of those that the plan has. The backward pass of a model runs
// through its layers in reverse, so it belongs to the last forward pass without one.
std::vector<std::vector<std::size_t>> calls_of(const std::vector<Group>& groups,
                                               const WorkerTasks& tasks) {
  const bool forward = !tasks.passes[0].attends.empty();
  const bool backward = !tasks.passes[1].attends.empty();
  std::vector<std::vector<std::size_t>> out;
  std::vector<std::size_t> open;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].pass == 0 && forward) {
      if (backward) {
        open.push_back(g);
      } else {
        out.push_back({g});
      }
    } else if (groups[g].pass == 1 && backward && (!forward || !open.empty())) {
      out.emplace_back();
      if (forward) {
        out.back().push_back(open.back());
        open.pop_back();
      }
      out.back().push_back(g);
    }
  }
  return out;
}

Events within(const Events& events, std::int64_t from, std::int64_t to) {
  return those(events, [&](const TraceEvent& e) { return e.start_ps >= from && e.start_ps < to; });
}

WorkerEvents events_of_call(const RankTrace& trace, const std::vector<Group>& groups,
                            const std::vector<std::size_t>& call) {
  WorkerEvents out;
  out.messages = those(trace.events, is_message);
  const Events computes =
      those(trace.events, [](const TraceEvent& e) { return e.work == TraceWork::Compute; });
  for (const std::size_t g : call) {
    PassEvents& pass = out.passes[groups[g].pass];
    pass.attends = groups[g].attends;
    if (g > 0) pass.from_ps = groups[g - 1].end();
    if (g + 1 < groups.size()) pass.to_ps = groups[g + 1].start();
    pass.computes = within(computes, groups[g].start(), pass.to_ps);
  }
  // The backward pass may begin to fetch while the forward pass is still attending.
  if (call.size() == 2 && call[0] + 1 == call[1]) {
    out.passes[1].from_ps = out.passes[0].from_ps;
    out.passes[0].to_ps = out.passes[1].to_ps;
  }
  return out;
}

std::size_t count(const RankTrace& trace, std::size_t pass) {
  return static_cast<std::size_t>(
      std::ranges::count(trace.events, kAttendOf[pass], &TraceEvent::work));
}

// How many calls the traces most likely hold: the number that leaves the fewest attends missing or
// superfluous, and the largest of these, because events get lost.
std::size_t likely_calls(const std::vector<WorkerTasks>& plan, std::span<const RankTrace> traces,
                         std::size_t pass) {
  std::set<std::size_t> candidates{1};
  std::vector<std::pair<std::size_t, std::size_t>> counts;  // found, wanted
  for (std::size_t w = 0; w < plan.size(); ++w) {
    counts.emplace_back(count(traces[w], pass), plan[w].passes[pass].attends.size());
    const auto [found, wanted] = counts.back();
    if (wanted > 0 && found > 0 && found % wanted == 0) candidates.insert(found / wanted);
  }
  const auto off = [&](std::size_t calls) {
    std::size_t sum = 0;
    for (const auto& [found, wanted] : counts)
      sum += std::max(found, calls * wanted) - std::min(found, calls * wanted);
    return sum;
  };
  return *std::ranges::min_element(candidates, [&](std::size_t a, std::size_t b) {
    return off(a) != off(b) ? off(a) < off(b) : a > b;
  });
}

// Keeps of each trace what one range of it holds.
std::vector<RankTrace> ranges_of(std::span<const RankTrace> traces, const ImportOptions& options,
                                 TakenCall& out) {
  std::size_t fewest = kNever;
  for (const RankTrace& t : traces) {
    if (t.ranges.empty()) fail("{}: no range has the name given by --annotation", t.name);
    fewest = std::min(fewest, t.ranges.size());
  }
  out.calls = static_cast<std::uint32_t>(fewest);
  out.call = options.repeat == 0 ? out.calls : options.repeat;
  if (out.call > out.calls)
    fail("--call is {}; the traces have {}", out.call,
         counted(static_cast<std::int64_t>(fewest), "call"));
  std::vector<RankTrace> cut;
  for (const RankTrace& t : traces) {
    // The last ones of each rank are the same call, even if a rank's trace began later.
    const std::size_t at = options.repeat == 0 ? t.ranges.size() - 1 : out.call - 1;
    RankTrace& one = cut.emplace_back();
    one.name = t.name;
    one.events = within(t.events, t.ranges[at].start_ps, t.ranges[at].end_ps + 1);
  }
  return cut;
}

void count_attends(const std::vector<WorkerTasks>& plan, std::span<const RankTrace> traces,
                   bool one_call, TakenCall& out) {
  for (const std::size_t pass : {0u, 1u}) {
    const bool in_plan = std::ranges::any_of(
        plan, [&](const WorkerTasks& w) { return !w.passes[pass].attends.empty(); });
    out.attends[pass] = in_plan;
    if (!in_plan) continue;
    const std::size_t calls = one_call ? 1 : likely_calls(plan, traces, pass);
    for (std::size_t w = 0; w < plan.size(); ++w) {
      const std::size_t wanted = plan[w].passes[pass].attends.size(),
                        found = count(traces[w], pass);
      if (found == calls * wanted) continue;
      out.mismatches.push_back(
          fmt::format("worker {}: {} in the trace; the plan needs {}{}", w,
                      counted(static_cast<std::int64_t>(found), kAttendNames[pass]), calls * wanted,
                      calls == 1 ? "" : fmt::format(" ({} calls with {} each)", calls, wanted)));
    }
  }
}

}  // namespace

TakenCall take_call(const std::vector<WorkerTasks>& plan, std::span<const RankTrace> traces,
                    const ImportOptions& options) {
  TakenCall out;
  std::vector<RankTrace> cut;
  if (options.annotated) {
    cut = ranges_of(traces, options, out);
    traces = cut;
  }
  count_attends(plan, traces, options.annotated, out);
  if (!out.mismatches.empty()) return out;
  std::vector<std::vector<Group>> groups;
  std::vector<std::vector<std::vector<std::size_t>>> calls;  // of each worker, by call
  std::size_t fewest = kNever;
  for (std::size_t w = 0; w < plan.size(); ++w) {
    groups.push_back(groups_of(traces[w], plan[w]));
    calls.push_back(calls_of(groups[w], plan[w]));
    const auto& passes = plan[w].passes;
    if (!passes[0].attends.empty() || !passes[1].attends.empty())
      fewest = std::min(fewest, calls[w].size());
  }
  if (fewest == kNever) fail("the plan has no attends to be found in traces");
  if (fewest == 0) {
    out.mismatches.emplace_back("no backward pass in the traces follows a forward pass");
    return out;
  }
  if (!options.annotated) {
    out.held = static_cast<std::uint32_t>(fewest);
    out.calls = static_cast<std::uint32_t>(fewest);
    out.call = options.repeat == 0 ? out.calls : options.repeat;
    if (out.call > out.calls)
      fail("--call is {}; the traces have {}", out.call,
           counted(static_cast<std::int64_t>(fewest), "call"));
  }
  const std::size_t call = options.annotated ? 0 : out.call - 1;
  for (std::size_t w = 0; w < plan.size(); ++w) {
    // A worker that attends nothing may still pass messages on.
    calls[w].resize(std::max(calls[w].size(), fewest));
    const std::vector<std::size_t>& own = calls[w][call];
    out.apart = out.apart || (!own.empty() && own.back() - own.front() > 1);
    out.workers.push_back(events_of_call(traces[w], groups[w], own));
  }
  return out;
}

}  // namespace ringsched::trace_import
