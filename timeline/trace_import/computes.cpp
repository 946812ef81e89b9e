// Merges, sums and the rest. What a rank computes between two attends goes to the tasks that the
// plan has there, in equal numbers of events. A task's time is that of its events, without the gaps
// between them. Tasks without events take no time.
#include <algorithm>
#include <map>

#include "matching.hpp"

namespace ringsched::trace_import {

namespace {

// The tasks after one attend and before the next, and the events there.
struct Between {
  std::vector<TaskId> tasks;
  std::vector<TraceEvent> events;
  bool last = false;
};

std::vector<Between> between_attends(const Plan& plan, const PassTasks& tasks,
                                     const PassEvents& found) {
  std::vector<Between> out;
  for (const TaskId id : tasks.computes) {
    const TaskKind kind = plan.tasks[id.value].kind;
    if (is_attend(kind)) {
      out.push_back({});
    } else if (!out.empty() && !is_output(kind)) {
      out.back().tasks.push_back(id);
    }
  }
  for (std::size_t a = 0; a < out.size(); ++a) {
    out[a].last = a + 1 == out.size();
    const std::int64_t until = out[a].last ? kNever : found.attends[a + 1].start_ps;
    for (const TraceEvent& e : found.computes)
      if (e.start_ps >= found.attends[a].end_ps && e.start_ps < until) out[a].events.push_back(e);
  }
  return out;
}

void give_times(const Between& between, TaskTimes& times) {
  const std::size_t tasks = between.tasks.size(), events = between.events.size();
  for (std::size_t i = 0; i < tasks; ++i) {
    const std::size_t first = i * events / tasks, end = (i + 1) * events / tasks;
    if (first == end) continue;
    std::int64_t busy = 0, until = between.events[first].start_ps;
    for (std::size_t e = first; e < end; ++e) {
      const TraceEvent& x = between.events[e];
      busy += std::max<std::int64_t>(0, x.end_ps - std::max(until, x.start_ps));
      until = std::max(until, x.end_ps);
    }
    const std::int64_t start = between.events[first].start_ps;
    times[between.tasks[i].value] = {start, start + busy};
  }
}

}  // namespace

void match_computes(const Plan& plan, const std::vector<WorkerTasks>& tasks, const TakenCall& call,
                    TaskTimes& times) {
  for (std::size_t pass = 0; pass < kPasses; ++pass) {
    std::vector<Between> all;
    std::map<std::size_t, std::size_t> most;  // events, by the number of tasks
    for (std::size_t w = 0; w < tasks.size(); ++w)
      std::ranges::move(between_attends(plan, tasks[w].passes[pass], call.workers[w].passes[pass]),
                        std::back_inserter(all));
    for (const Between& b : all)
      if (!b.last) most[b.tasks.size()] = std::max(most[b.tasks.size()], b.events.size());
    for (Between& b : all) {
      // After the last attend, the rest of the model follows.
      const auto usual = most.find(b.tasks.size());
      if (b.last && usual != most.end() && b.events.size() > usual->second)
        b.events.resize(usual->second);
      if (!b.tasks.empty()) give_times(b, times);
    }
  }
  // A task without events takes no time, as soon as its worker and its inputs are there.
  std::vector<std::int64_t> done(tasks.size(), 0);
  std::vector<std::int64_t> next(plan.tasks.size(), kNever);  // before the pass's first attend
  for (const WorkerTasks& worker : tasks)
    for (const PassTasks& pass : worker.passes)
      for (const TaskId id : pass.computes) {
        if (is_attend(plan.tasks[id.value].kind)) break;
        if (!pass.attends.empty()) next[id.value] = times[pass.attends[0].value].start_ps;
      }
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const Task& t = plan.tasks[i];
    if (communicates(t.kind)) continue;
    std::int64_t at = std::max(done[t.worker_index], next[i] == kNever ? 0 : next[i]);
    for (const TensorId input : t.inputs)
      if (input.valid() && plan.producer(input).valid() &&
          times[plan.producer(input).value].known() && next[i] == kNever)
        at = std::max(at, times[plan.producer(input).value].end_ps);
    if (!times[i].known()) times[i] = {at, at};
    done[t.worker_index] = std::max(done[t.worker_index], times[i].end_ps);
  }
}

}  // namespace ringsched::trace_import
