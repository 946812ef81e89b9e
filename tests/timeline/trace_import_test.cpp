// Simulated runs written as traces and imported again. tests/import_test.py and
// tests/python/torch_import_test.py import real traces.
#include "ringsched/timeline/trace_import.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/simulator/predicted_timeline.hpp"
#include "ringsched/viz/trace.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"
#include "support/refusal.hpp"
#include "support/runs.hpp"

namespace ringsched {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kUs = 1'000'000;
constexpr std::int64_t kTickPs = 1'000;  // the writer's, rounded up

std::vector<RankTrace> traces_of(const Timeline& t) {
  std::vector<RankTrace> out;
  for (std::uint32_t w = 0; w < t.problem.workers; ++w)
    out.push_back(read_kineto(kineto_trace(t, w), fmt::format("rank-{}.json", w)));
  return out;
}

Plan planned_run(const char* schedule, std::uint32_t workers, Pass pass = Pass::Forward) {
  return limit_communication(
      build_plan(small_problem(workers, 64 * workers, pass), find_schedule(schedule)), {});
}

Timeline run_of(const Plan& plan) {
  return predicted_run(plan, test_machine(Fabric::Mesh, plan.problem.workers));
}

// Attends and messages; what lies between attends gets its time, but not its place.
bool is_matched(const TimelineTask& t) { return is_attend(t.kind) || communicates(t.kind); }

TEST(TraceImport, FindsTheTimesOfEveryAttendAndMessage) {
  int tried = 0;
  for (const std::uint32_t workers : {1u, 2u, 3u, 4u, 5u})
    for (const Schedule& schedule : schedules_for(workers))
      for (const Pass pass : {Pass::Forward, Pass::Both}) {
        if (kSanitized && workers % 2 == 1) continue;
        if (schedule.decodes() && pass != Pass::Forward) continue;
        SCOPED_TRACE(fmt::format("{} {} {}", schedule.name, workers, to_text(pass)));
        const Plan plan = limit_communication(
            build_plan(small_problem(workers, 64 * workers, pass), schedule), {});
        const Timeline expected = run_of(plan);
        const ImportedRun run = import_traces(plan, traces_of(expected));
        ASSERT_THAT(run.mismatches, IsEmpty());
        EXPECT_EQ(run.clocks_moved_ps, 0);
        EXPECT_EQ(run.clocks_left_ps, 0);
        EXPECT_EQ(run.timeline.plan_hash, expected.plan_hash);
        EXPECT_EQ(run.timeline.source, TimelineSource::Measured);
        std::int64_t shift = expected.tasks[0].start_ps - run.timeline.tasks[0].start_ps;
        for (std::size_t i = 0; i < expected.tasks.size(); ++i) {
          const TimelineTask &e = expected.tasks[i], &f = run.timeline.tasks[i];
          if (!is_matched(e)) continue;
          EXPECT_NEAR(double(f.start_ps + shift), double(e.start_ps), 2 * kTickPs) << i;
          EXPECT_NEAR(double(f.end_ps - f.start_ps), double(e.end_ps - e.start_ps), 2 * kTickPs)
              << i;
        }
        ++tried;
      }
  EXPECT_GT(tried, kSanitized ? 10 : 50);
}

TEST(TraceImport, SaysWhichAttendsAreMissing) {
  const Plan plan = planned_run("zigzag", 4, Pass::Both);
  std::vector<RankTrace> traces = traces_of(run_of(plan));
  const auto erase = [&](std::size_t w, TraceWork work) {
    auto& events = traces[w].events;
    events.erase(std::ranges::find(events, work, &TraceEvent::work));
  };
  erase(3, TraceWork::Attend);
  EXPECT_THAT(import_traces(plan, traces).mismatches,
              ElementsAre("worker 3: 3 attends in the trace; the plan needs 4"));
  erase(1, TraceWork::AttendBackward);
  EXPECT_THAT(import_traces(plan, traces).mismatches,
              ElementsAre("worker 3: 3 attends in the trace; the plan needs 4",
                          "worker 1: 3 backward attends in the trace; the plan needs 4"));
}

// What context parallelism that is silently off looks like: one attend each, and no messages.
TEST(TraceImport, SaysWhenContextParallelismIsOff) {
  const Plan plan = planned_run("zigzag", 2);
  std::vector<RankTrace> traces = traces_of(run_of(plan));
  for (RankTrace& t : traces) {
    const auto last = std::ranges::find(t.events, TraceWork::Attend, &TraceEvent::work);
    t.events = {*last};
  }
  EXPECT_THAT(import_traces(plan, traces).mismatches,
              ElementsAre("worker 0: 1 attend in the trace; the plan needs 2",
                          "worker 1: 1 attend in the trace; the plan needs 2"));
}

TEST(TraceImport, SaysWhichMessagesAreMissing) {
  const Plan plan = planned_run("zigzag", 4);
  std::vector<RankTrace> traces = traces_of(run_of(plan));
  std::erase_if(traces[2].events, [](const TraceEvent& e) { return e.work == TraceWork::Send; });
  const auto found = import_traces(plan, traces).mismatches;
  ASSERT_THAT(found, testing::Not(IsEmpty()));
  EXPECT_THAT(found, testing::Contains("worker 2: 0 sends in the trace; the plan needs 3"));
}

// The k-th of several calls, 1 s apart.
std::vector<RankTrace> repeated(std::vector<RankTrace> traces, int calls) {
  for (RankTrace& t : traces) {
    const std::vector<TraceEvent> once = t.events;
    for (int k = 1; k < calls; ++k)
      for (TraceEvent e : once) {
        e.start_ps += k * 1'000'000 * kUs;
        e.end_ps += k * 1'000'000 * kUs + k * kUs;
        t.events.push_back(e);
      }
  }
  return traces;
}

TEST(TraceImport, TakesTheCallThatIsAskedFor) {
  const Plan plan = planned_run("balanced", 4, Pass::Both);
  const Timeline once = run_of(plan);
  const std::vector<RankTrace> traces = repeated(traces_of(once), 3);
  const std::size_t attend = 0;  // each repeat makes attends longer by one microsecond
  ASSERT_TRUE(is_attend(plan.tasks[attend].kind));
  for (const std::uint32_t repeat : {0u, 1u, 2u, 3u}) {
    const ImportedRun run = import_traces(plan, traces, {.repeat = repeat, .annotated = false});
    ASSERT_THAT(run.mismatches, IsEmpty()) << repeat;
    EXPECT_EQ(run.calls, 3u);
    EXPECT_EQ(run.call, repeat == 0 ? 3 : repeat);
    const auto length = [&](const Timeline& t) {
      return t.tasks[attend].end_ps - t.tasks[attend].start_ps;
    };
    EXPECT_NEAR(double(length(run.timeline) - length(once)), double(run.call - 1) * kUs,
                2 * kTickPs);
  }
  EXPECT_EQ(refusal([&] { import_traces(plan, traces, {.repeat = 4, .annotated = false}); }),
            "--call is 4; the traces have 3 calls");
}

// Keys and values apart, and all hops round the ring, of which a causal plan needs the first only,
// as most rings have it. In between, the other calls' messages are just like these.
TEST(TraceImport, TakesSeveralMessagesForOneAndLeavesOutThoseInExcess) {
  Problem full = small_problem(4, 256);
  full.mask = parse_mask("full");
  const Plan all = limit_communication(build_plan(full, find_schedule("ring")), {});
  std::vector<RankTrace> traces = traces_of(run_of(all));
  for (std::size_t w = 0; w < traces.size(); ++w) {
    std::vector<TraceEvent> out;
    std::size_t attends = 0;
    for (TraceEvent e : traces[w].events) {
      e.peer = e.bytes = -1;
      if (e.work != TraceWork::Attend || attends++ <= w) out.push_back(e);
      if (e.work == TraceWork::Send || e.work == TraceWork::Receive) out.push_back(e);
    }
    traces[w].events = out;
  }
  const Plan causal = planned_run("ring", 4);
  for (const int calls : {1, 3}) {
    const ImportedRun run = import_traces(causal, repeated(traces, calls));
    ASSERT_THAT(run.mismatches, IsEmpty());
    EXPECT_EQ(run.parts, 2u) << calls;
    EXPECT_EQ(run.clocks_moved_ps, 0);
    EXPECT_LT(run.timeline.makespan().value, 1'000 * kUs) << calls;  // of a part of one call
  }
}

// As NCCL runs a batch_isend_irecv: one kernel for a group of messages, which says nothing of them.
// Attends take turns on two streams, other kernels run on all of them.
RankTrace as_on_a_gpu(const Plan& plan, const Timeline& run, std::uint32_t worker) {
  RankTrace out;
  out.rank = worker;
  const auto add = [&](TraceWork work, std::int64_t stream, std::int64_t from, std::int64_t to) {
    TraceEvent& e = out.events.emplace_back();
    e.work = work;
    e.stream = stream;
    e.start_ps = from;
    e.end_ps = to;
  };
  std::int64_t turn = 0;
  TraceEvent* last[kMostLanes] = {};
  out.events.reserve(3 * run.tasks.size());
  for (std::size_t i = 0; i < run.tasks.size(); ++i) {
    const TimelineTask& t = run.tasks[i];
    if (t.worker != worker) continue;
    TraceEvent*& group = last[static_cast<std::size_t>(t.lane)];
    if (is_attend(t.kind)) {
      const bool back = is_backward(t.kind);
      add(back ? TraceWork::AttendBackward : TraceWork::Attend, 7 + turn++ % 2, t.start_ps,
          t.end_ps);
      add(TraceWork::Compute, 7, t.end_ps, t.end_ps + 10);
    } else if (is_transfer(t.kind) && plan.tasks[i].with_previous) {
      group->start_ps = std::min(group->start_ps, t.start_ps);
      group->end_ps = std::max(group->end_ps, t.end_ps);
    } else if (is_transfer(t.kind)) {
      add(TraceWork::SendReceive, 20, t.start_ps, t.end_ps);
      group = &out.events.back();
    }
  }
  std::ranges::stable_sort(out.events, {}, &TraceEvent::start_ps);
  return out;
}

TEST(TraceImport, MatchesOneKernelToABatchOfMessages) {
  for (const char* schedule : {"ring", "zigzag", "striped", "balanced", "balanced-split"})
    for (const Pass pass : {Pass::Forward, Pass::Both}) {
      SCOPED_TRACE(fmt::format("{} {}", schedule, to_text(pass)));
      const Plan plan = planned_run(schedule, 4, pass);
      const Timeline expected = run_of(plan);
      std::vector<RankTrace> traces;
      for (std::uint32_t w = 0; w < 4; ++w) traces.push_back(as_on_a_gpu(plan, expected, w));
      const ImportedRun run = import_traces(plan, repeated(traces, 2));
      ASSERT_THAT(run.mismatches, IsEmpty());
      EXPECT_EQ(run.parts, 1u);
      EXPECT_THAT(run.notes, IsEmpty());
      for (std::size_t i = 0; i < expected.tasks.size(); ++i) {
        if (!is_attend(expected.tasks[i].kind)) continue;
        const TimelineTask &e = expected.tasks[i], &f = run.timeline.tasks[i];
        EXPECT_EQ(f.end_ps - f.start_ps, e.end_ps - e.start_ps + kUs) << i;
      }
    }
}

// Clocks that are seconds apart: messages tell to within the time that they have.
TEST(TraceImport, AlignsClocksByMessages) {
  for (const char* schedule : {"ring", "zigzag", "balanced", "double-ring", "ulysses"})
    for (const std::uint32_t workers : {2u, 4u}) {
      SCOPED_TRACE(fmt::format("{} {}", schedule, workers));
      Problem problem = small_problem(workers, 64 * workers, Pass::Both);
      problem.mask = parse_mask("full");
      const Plan plan = limit_communication(build_plan(problem, find_schedule(schedule)), {});
      const Timeline expected = run_of(plan);
      std::vector<RankTrace> traces = traces_of(expected);
      for (std::size_t w = 0; w < traces.size(); ++w)
        traces[w].origin_ns += static_cast<std::int64_t>(w * w) * 3'000'000'000 + 10'000'000'000;
      const ImportedRun run = import_traces(plan, traces);
      ASSERT_THAT(run.mismatches, IsEmpty());
      EXPECT_EQ(run.clocks_left_ps, 0);
      EXPECT_GT(run.clocks_moved_ps, 2'900'000 * kUs);
      EXPECT_LT(double(run.timeline.makespan().value), 1.5 * double(expected.makespan().value));
    }
}

TEST(TraceImport, LeavesTheClockOfOneHostAlone) {
  const Plan plan = planned_run("zigzag", 2);
  std::vector<RankTrace> traces = traces_of(run_of(plan));
  for (RankTrace& t : traces) t.host = "node7";
  traces[1].origin_ns += 1'000'000'000;
  const ImportedRun run = import_traces(plan, traces);
  EXPECT_EQ(run.clocks_moved_ps, 0);
  EXPECT_GT(run.clocks_left_ps, 900'000 * kUs);
}

TEST(TraceImport, GoesByTheRanksOfTheFiles) {
  const Plan plan = planned_run("balanced", 4);
  std::vector<RankTrace> traces = traces_of(run_of(plan));
  const Timeline expected = import_traces(plan, traces).timeline;
  std::ranges::reverse(traces);
  EXPECT_EQ(import_traces(plan, traces).timeline, expected);
  for (RankTrace& t : traces) {  // as a group of ranks 8 to 11 would be
    t.rank += 8;
    for (TraceEvent& e : t.events)
      if (e.peer >= 0) e.peer += 8;
  }
  EXPECT_EQ(import_traces(plan, traces).timeline, expected);
  traces[1].rank = traces[2].rank;
  EXPECT_EQ(refusal([&] { import_traces(plan, traces); }),
            "rank-2.json and rank-1.json are both of rank 9");
  traces.pop_back();
  EXPECT_EQ(refusal([&] { import_traces(plan, traces); }),
            "3 traces for a plan of 4 workers; give one for each worker");
}

TEST(TraceImport, TakesWhatARangeHolds) {
  const Plan plan = planned_run("zigzag", 2);
  std::vector<RankTrace> traces = repeated(traces_of(run_of(plan)), 2);
  const ImportOptions options{.repeat = 0, .annotated = true};
  EXPECT_EQ(refusal([&] { import_traces(plan, traces, options); }),
            "rank-0.json: no range has the name given by --annotation");
  for (RankTrace& t : traces) {
    TraceEvent range;
    range.end_ps = 500'000 * kUs;
    t.ranges.push_back(range);
  }
  EXPECT_EQ(import_traces(plan, traces, options).calls, 1u);
  for (RankTrace& t : traces) t.ranges[0].end_ps = 3'000'000 * kUs;
  EXPECT_THAT(import_traces(plan, traces, options).mismatches,
              ElementsAre("worker 0: 4 attends in the trace; the plan needs 2",
                          "worker 1: 4 attends in the trace; the plan needs 2"));
}

}  // namespace
}  // namespace ringsched
