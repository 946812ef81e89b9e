// From traces and a plan to a measured timeline.
#include <algorithm>
#include <array>

#include "matching.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched {

namespace {

using namespace trace_import;

// By rank, if all files give theirs; otherwise in the given order.
void put_by_worker(const Plan& plan, std::vector<RankTrace>& traces) {
  if (traces.size() != plan.problem.workers)
    fail("{} for a plan of {}; give one for each worker",
         counted(static_cast<std::int64_t>(traces.size()), "trace"),
         counted(plan.problem.workers, "worker"));
  if (std::ranges::any_of(traces, [](const RankTrace& t) { return t.rank < 0; })) {
    for (std::size_t w = 0; w < traces.size(); ++w) traces[w].rank = static_cast<std::int64_t>(w);
    return;
  }
  std::ranges::stable_sort(traces, {}, &RankTrace::rank);
  for (std::size_t w = 1; w < traces.size(); ++w)
    if (traces[w].rank == traces[w - 1].rank)
      fail("{} and {} are both of rank {}", traces[w - 1].name, traces[w].name, traces[w].rank);
}

TaskTimes times_of_attends(const Plan& plan, const std::vector<WorkerTasks>& tasks,
                           const TakenCall& call) {
  TaskTimes times(plan.tasks.size());
  for (std::size_t w = 0; w < tasks.size(); ++w)
    for (std::size_t pass = 0; pass < kPasses; ++pass) {
      const std::vector<TaskId>& attends = tasks[w].passes[pass].attends;
      const std::vector<TraceEvent>& found = call.workers[w].passes[pass].attends;
      for (std::size_t k = 0; k < attends.size(); ++k)
        times[attends[k].value] = {found[k].start_ps, found[k].end_ps};
    }
  return times;
}

// On one clock, from zero on. If the passes are apart, the time between them is left out.
void put_times(const std::vector<WorkerTasks>& tasks, const TaskTimes& times,
               const std::vector<std::int64_t>& moves, bool apart, Timeline& out) {
  std::array<std::int64_t, kPasses> first{kNever, kNever}, last{0, 0};
  for (std::size_t i = 0; i < out.tasks.size(); ++i) {
    TimelineTask& row = out.tasks[i];
    row.start_ps = times[i].start_ps + moves[row.worker];
    row.end_ps = times[i].end_ps + moves[row.worker];
  }
  const auto each = [&](auto&& visit) {
    for (const WorkerTasks& worker : tasks)
      for (std::size_t pass = 0; pass < kPasses; ++pass)
        for (const auto* list : {&worker.passes[pass].computes, &worker.passes[pass].messages})
          for (const TaskId id : *list) visit(pass, out.tasks[id.value]);
  };
  last = {-kNever, -kNever};
  each([&](std::size_t pass, const TimelineTask& t) {
    first[pass] = std::min(first[pass], t.start_ps);
    last[pass] = std::max(last[pass], t.end_ps);
  });
  const bool cut = apart && first[0] != kNever && first[1] != kNever;
  const std::int64_t start = std::min(first[0], first[1]);
  const std::int64_t gap = cut ? std::max<std::int64_t>(0, first[1] - last[0]) : 0;
  each([&](std::size_t pass, TimelineTask& t) {
    const std::int64_t left_out = start + (pass == 1 ? gap : 0);
    t.start_ps -= left_out;
    t.end_ps -= left_out;
  });
}

}  // namespace

ImportedRun import_traces(const Plan& plan, std::vector<RankTrace> traces,
                          const ImportOptions& options) {
  put_by_worker(plan, traces);
  const std::vector<WorkerTasks> tasks = tasks_by_worker(plan);
  ImportedRun out;
  TakenCall call = take_call(tasks, traces, options);
  out.call = call.call;
  out.calls = call.calls;
  out.mismatches = std::move(call.mismatches);
  if (!out.mismatches.empty()) return out;
  SizeMatch sizes = match_sizes(plan, tasks, call);
  out.mismatches = std::move(sizes.mismatches);
  if (!out.mismatches.empty()) return out;

  std::vector<std::int64_t> ranks;
  for (const RankTrace& t : traces) ranks.push_back(t.rank);
  TaskTimes times = times_of_attends(plan, tasks, call);
  MessageMatch messages = match_messages(plan, tasks, call, ranks, times);
  out.parts = messages.parts;
  out.mismatches = std::move(messages.mismatches);
  out.notes = std::move(messages.notes);
  std::ranges::move(sizes.notes, std::back_inserter(out.notes));
  if (!out.mismatches.empty()) return out;
  match_computes(plan, tasks, call, times);

  const Clocks clocks = align_clocks(plan, times, traces);
  out.clocks_moved_ps = clocks.moved_ps;
  out.clocks_left_ps = clocks.left_ps;
  out.timeline = timeline_of(plan, TimelineSource::Measured,
                             traces[0].device.empty() ? "traced" : traces[0].device);
  out.timeline.details.clear();  // traces do not say what fixed when a task started
  out.timeline.initial.clear();
  put_times(tasks, times, clocks.moves_ps, call.apart, out.timeline);
  return out;
}

}  // namespace ringsched
