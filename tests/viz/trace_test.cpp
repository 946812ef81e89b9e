// Traces, fact by fact. tests/trace_test.py and tests/hta_test.py read whole ones.
#include "ringsched/viz/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "ringsched/simulator/predicted_timeline.hpp"
#include "ringsched/simulator/report.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"
#include "support/refusal.hpp"
#include "support/runs.hpp"
#include "trace/parts.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kUS = 1'000'000;

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

std::string line_with(const std::string& text, const std::string& what) {
  const std::size_t at = text.find(what);
  if (at == text.npos) return "";
  const std::size_t start = text.rfind('\n', at) + 1;
  return text.substr(start, text.find('\n', at) - start);
}

struct Given {
  TaskKind kind;
  ValueId makes;
  Lane lane;
  std::uint16_t worker, queries, other;
  std::int64_t start_ps, end_ps;
  std::int64_t bytes;
  std::vector<std::uint32_t> needs;
};

Timeline timeline(std::uint32_t workers, const std::vector<Given>& tasks, Pass pass) {
  Timeline t;
  t.program = "a program";
  t.machine = "a machine";
  t.schedule = "a schedule";
  t.plan_hash = "0123";
  t.problem = small_problem(workers, 10 * workers, pass);
  t.values = program_of(t.problem).values;
  t.initial.assign(workers, Bytes{1000});
  for (const Given& g : tasks) {
    TimelineTask x;
    x.kind = g.kind;
    x.makes = g.makes;
    x.lane = g.lane;
    x.worker = g.worker;
    x.queries = g.queries;
    x.other = g.other;
    x.step = 3;
    x.start_ps = g.start_ps;
    x.end_ps = g.end_ps;
    t.tasks.push_back(x);
    TaskDetail d;
    d.bytes = {g.bytes};
    for (std::size_t i = 0; i < g.needs.size(); ++i) d.needs[i] = {g.needs[i]};
    t.details.push_back(d);
  }
  return t;
}

// Worker 0 sends its keys to worker 1, which posts its receive earlier and then attends.
Timeline small_run(std::int64_t bytes = 3000) {
  constexpr ValueId kv = attention::kKeyValue;
  return timeline(
      2,
      {{TaskKind::Send, kv, Lane::Fetch, 0, 0, 1, 1'234'567, 4 * kUS, bytes, {}},
       {TaskKind::Receive, kv, Lane::Fetch, 1, 0, 0, 7, 4 * kUS, bytes, {0}},
       {TaskKind::Attend, attention::kPartial, Lane::Compute, 1, 1, 0, 4 * kUS, 9 * kUS, 50, {1}},
       {TaskKind::Attend, attention::kPartial, Lane::Compute, 1, 1, 1, 9 * kUS, 10 * kUS, 50, {}},
       {TaskKind::Merge,
        attention::kPartial,
        Lane::Compute,
        1,
        1,
        1,
        10 * kUS,
        11 * kUS,
        50,
        {2, 3}},
       {TaskKind::Output, attention::kPartial, Lane::Compute, 1, 1, 1, 11 * kUS, 11 * kUS, 0, {4}}},
      Pass::Forward);
}

std::vector<std::string> counter(const std::string& trace, int worker, const std::string& name) {
  const std::string head =
      "{\"ph\":\"C\",\"pid\":" + std::to_string(worker) + ",\"name\":\"" + name + "\",\"ts\":";
  std::vector<std::string> out;
  for (std::size_t at = trace.find(head); at != trace.npos; at = trace.find(head, at + 1)) {
    const std::string line =
        trace.substr(at + head.size(), trace.find("}}", at) - at - head.size());
    const std::size_t comma = line.find(','), value = line.rfind(':');
    out.push_back(line.substr(0, comma) + ": " + line.substr(value + 1));
  }
  return out;
}

using Steps = std::vector<std::string>;

TEST(ChromeTrace, HasASliceForEachTaskThatTakesTimeAndAnInstantForTheRest) {
  const std::string trace = chrome_trace(small_run());
  EXPECT_EQ(line_with(trace, "\"task\":2"),
            "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":4.000000,\"dur\":5.000000,\"cat\":\"attend\","
            "\"name\":\"attend q1 "
            "k0\",\"cname\":\"rail_idle\",\"args\":{\"task\":2,\"step\":3,\"queries\":1,\"keys\":0,"
            "\"pairs\":0,\"bytes\":50,\"cause\":\"nothing\"}},");
  EXPECT_THAT(line_with(trace, "\"task\":0"), HasSubstr("\"ts\":1.234567,\"dur\":2.765433,"));
  EXPECT_THAT(line_with(trace, "\"task\":0"), HasSubstr("\"name\":\"send kv0 to 1\""));
  EXPECT_THAT(line_with(trace, "\"task\":1"), HasSubstr("\"ts\":0.000007,\"dur\":3.999993,"));
  EXPECT_THAT(line_with(trace, "\"task\":5"), HasSubstr("{\"ph\":\"i\""));
  EXPECT_THAT(line_with(trace, "\"task\":5"), HasSubstr("\"ts\":11.000000,\"s\":\"t\""));
  EXPECT_THAT(trace, HasSubstr("\"makespan_us\": 11.000000,\n"));
  EXPECT_THAT(trace, HasSubstr("\"args\":{\"name\":\"worker 1\"}"));
}

// Worker W is the critical path.
TEST(ChromeTrace, HasATrackOfTheCriticalPathIfThatIsKnown) {
  Timeline t = small_run();
  EXPECT_THAT(chrome_trace(t), Not(HasSubstr("critical path")));
  t.critical_path = {{{0}, {0}, {0}}, {{1}, {1}, {4 * kUS}}, {{2}, {4 * kUS}, {9 * kUS}}};
  const std::string trace = chrome_trace(t);
  EXPECT_EQ(count(trace, "\"cat\":\"critical path\""), 2u) << "one takes no time";
  EXPECT_THAT(trace, HasSubstr("\"pid\":2,\"tid\":0,\"name\":\"process_name\","
                               "\"args\":{\"name\":\"critical path\"}}"));
  EXPECT_THAT(trace, HasSubstr("{\"ph\":\"X\",\"pid\":2,\"tid\":1,\"ts\":4.000000,"
                               "\"dur\":5.000000,\"cat\":\"critical path\","
                               "\"name\":\"worker 1: attend q1 k0\",\"cname\":\"rail_idle\","
                               "\"args\":{\"task\":2,\"step\":3}}"));
}

TEST(ChromeTrace, GivesEightWorkersEightColoursThatTheViewerKnows) {
  Timeline t = small_run();
  t.problem.workers = 8;
  t.tasks.resize(3);
  t.details.resize(3);
  t.tasks[2].kind = TaskKind::Attend;
  t.initial.clear();
  std::set<std::string> colours;
  for (std::uint16_t w = 0; w < 8; ++w) {
    t.tasks[2].queries = w;
    const std::string line = line_with(chrome_trace(t), "\"task\":2");
    const std::size_t at = line.find("\"cname\":\"") + 9;
    colours.insert(line.substr(at, line.find('"', at) - at));
  }
  EXPECT_EQ(colours,
            std::set<std::string>({"thread_state_runnable", "rail_idle", "rail_load",
                                   "cq_build_attempt_runnig", "rail_response", "rail_animation",
                                   "cq_build_failed", "thread_state_unknown"}));
}

TEST(ChromeTrace, DrawsAnArrowFromTheSendToWhereBothEndsArePosted) {
  const std::string trace = chrome_trace(small_run());
  EXPECT_EQ(line_with(trace, "\"ph\":\"s\""),
            "{\"ph\":\"s\",\"pid\":0,\"tid\":6,\"ts\":1.234567,\"id\":1,\"cat\":\"message\","
            "\"name\":\"message\"},");
  EXPECT_EQ(line_with(trace, "\"ph\":\"f\""),
            "{\"ph\":\"f\",\"pid\":1,\"tid\":5,\"ts\":1.234567,\"id\":1,\"cat\":\"message\","
            "\"name\":\"message\",\"bp\":\"e\"},");
  EXPECT_GT(trace.find("\"ph\":\"s\""), trace.rfind("\"ph\":\"X\""));
}

TEST(ChromeTrace, EndsAnArrowInsideAReceiveThatIsSaidToEndBeforeItsSend) {
  Timeline t = small_run();
  t.tasks[0].start_ps = 5 * kUS;  // clocks of two machines
  t.tasks[0].end_ps = 6 * kUS;
  EXPECT_THAT(line_with(chrome_trace(t), "\"ph\":\"f\""), HasSubstr("\"ts\":2.000003,"));
  t.tasks[0].end_ps = t.tasks[0].start_ps;
  EXPECT_THAT(chrome_trace(t), Not(HasSubstr("\"ph\":\"s\"")));
}

TEST(ChromeTrace, CountsMemoryAsDocumented) {
  const std::string trace = chrome_trace(small_run());
  EXPECT_EQ(counter(trace, 0, "memory"), Steps({"0.000000: 1000"}));
  // Comes in, read until 9 while a partial is made; the merge is done in place of that and frees
  // the other; the output keeps it.
  EXPECT_EQ(counter(trace, 1, "memory"),
            Steps({"0.000000: 1000", "0.000007: 4000", "4.000000: 4050", "9.000000: 1100",
                   "11.000000: 1050"}));
}

TEST(ChromeTrace, CountsAMergeThatGrowsBesideItsInputs) {
  Timeline t = small_run();
  t.details[4].bytes = {70};
  EXPECT_EQ(counter(chrome_trace(t), 1, "memory"),
            Steps({"0.000000: 1000", "0.000007: 4000", "4.000000: 4050", "9.000000: 1100",
                   "10.000000: 1170", "11.000000: 1070"}));
}

TEST(ChromeTrace, TellsTheTwoGradientsOfABackwardAttendApartWhereTheyAreRead) {
  constexpr ValueId q = attention::kQueryGradient, kv = attention::kKeyValueGradient;
  const auto attend = [](std::int64_t at) {
    return Given{
        TaskKind::AttendBackward, q, Lane::Compute, 0, 0, 0, at * kUS, (at + 1) * kUS, 30, {}};
  };
  Timeline t =
      timeline(1,
               {attend(1),
                attend(2),
                {TaskKind::Reduce, q, Lane::Compute, 0, 0, 0, 3 * kUS, 4 * kUS, 10, {0, 1}},
                {TaskKind::Reduce, kv, Lane::Compute, 0, 0, 0, 4 * kUS, 5 * kUS, 20, {0, 1}},
                {TaskKind::Output, q, Lane::Compute, 0, 0, 0, 5 * kUS, 6 * kUS, 0, {2}},
                {TaskKind::Output, kv, Lane::Compute, 0, 0, 0, 6 * kUS, 7 * kUS, 0, {3}}},
               Pass::Backward);
  EXPECT_EQ(counter(chrome_trace(t), 0, "memory"),
            Steps({"0.000000: 1000", "1.000000: 1030", "2.000000: 1060", "4.000000: 1050",
                   "5.000000: 1030"}));
  t.details[3].bytes = {25};  // larger than what it sums, so there is no telling
  EXPECT_EQ(counter(chrome_trace(t), 0, "memory"),
            Steps({"0.000000: 1000", "1.000000: 1030", "2.000000: 1060", "3.000000: 1070",
                   "4.000000: 1095", "5.000000: 1035"}));
}

std::vector<std::int64_t> most_held(const Timeline& t) {
  std::vector<std::int64_t> out;
  for (const auto& steps : memory_counters(t))
    out.push_back(std::ranges::max_element(steps, {}, &CounterStep::value)->value);
  return out;
}

// On each worker of every schedule, forward and backward. A bound for any timing may be higher.
TEST(ChromeTrace, CountsNoMoreMemoryThanVerifyFinds) {
  std::size_t reached = 0, all = 0;
  std::vector<NamedRun> runs = predicted_runs(4);
  if (!kSanitized) std::ranges::move(predicted_runs(8), std::back_inserter(runs));
  for (const NamedRun& r : runs) {
    // Free transfers run ahead of the buffers that the plan has for them.
    if (r.name.find("_free_t") != std::string::npos) continue;
    SCOPED_TRACE(r.name);
    const std::vector<Bytes> peak = verify(r.plan).peak;
    const std::vector<std::int64_t> held = most_held(r.timeline);
    ASSERT_EQ(held.size(), peak.size());
    for (std::size_t w = 0; w < peak.size(); ++w) {
      EXPECT_LE(held[w], peak[w].value) << w;
      reached += held[w] == peak[w].value ? 1 : 0;
      ++all;
    }
  }
  EXPECT_GT(reached, all / 4);
}

// Nothing is held for a task that the run did not begin, and what such a task reads stays.
TEST(ChromeTrace, CountsOnlyWhatAnIncompleteRunHasMade) {
  Timeline t = small_run();
  t.incomplete = "worker 0 is gone";
  t.unfinished = {{3}, {4}, {5}};
  for (const TaskId id : t.unfinished) t.tasks[id.value].start_ps = t.tasks[id.value].end_ps = 0;
  EXPECT_EQ(counter(chrome_trace(t), 1, "memory"),
            Steps({"0.000000: 1000", "0.000007: 4000", "4.000000: 4050", "9.000000: 1050"}));
  t.details[3].needs[0] = {1};
  EXPECT_EQ(counter(chrome_trace(t), 1, "memory"),
            Steps({"0.000000: 1000", "0.000007: 4000", "4.000000: 4050"}));
}

TEST(ChromeTrace, CountsEachMessageAtItsAverageRateWhileBothEndsArePosted) {
  const std::string trace = chrome_trace(small_run(2'765'433));  // as many bytes as ps
  EXPECT_EQ(counter(trace, 0, "GB/s out"),
            Steps({"0.000000: 0.000000000", "1.234567: 1000.000000000", "4.000000: 0.000000000"}));
  EXPECT_EQ(counter(trace, 1, "GB/s in"), counter(trace, 0, "GB/s out"));
  EXPECT_EQ(counter(trace, 0, "GB/s in"), Steps({"0.000000: 0.000000000"}));
}

TEST(ChromeTrace, CountsNoFurtherThanThereAreNumbers) {
  Timeline t = small_run(std::int64_t{1} << 60);
  t.tasks[1].start_ps = t.tasks[1].end_ps - 1;
  t.tasks.insert(t.tasks.end(), 20, t.tasks[1]);
  t.details.insert(t.details.end(), 20, t.details[1]);
  const std::string trace = chrome_trace(t);
  const Steps in = counter(trace, 1, "GB/s in"), memory = counter(trace, 1, "memory");
  EXPECT_THAT(in, testing::Contains("3.999999: 9223372036.854775807"));
  EXPECT_EQ(in.back(), "4.000000: 0.000000000");
  EXPECT_THAT(memory, testing::Contains("3.999999: 9223372036854775807"));
}

TEST(ChromeTrace, PutsTasksThatOverlapOnFurtherTracks) {
  Timeline t = small_run();
  for (int i = 0; i < 2; ++i) {
    t.tasks.push_back(t.tasks[1]);
    t.details.push_back(t.details[1]);
  }
  t.tasks[7].start_ps = t.tasks[6].end_ps = 2 * kUS;  // these two touch
  t.details[6].needs = t.details[7].needs = {};
  const std::string trace = chrome_trace(t);
  EXPECT_THAT(line_with(trace, "\"fetch in\""), HasSubstr("\"tid\":5,"));
  EXPECT_THAT(line_with(trace, "\"fetch in 2\""), HasSubstr("\"tid\":10,"));
  EXPECT_THAT(trace, Not(HasSubstr("\"fetch in 3\"")));
  EXPECT_THAT(line_with(trace, "\"task\":1,"), HasSubstr("\"tid\":5,"));
  EXPECT_THAT(line_with(trace, "\"task\":6,"), HasSubstr("\"tid\":10,"));
  EXPECT_THAT(line_with(trace, "\"task\":7,"), HasSubstr("\"tid\":10,"));
}

TEST(ChromeTrace, GivesFurtherLanesTracksOfTheirOwn) {
  Timeline t = small_run();
  t.lanes = {"compute", "fetch", "return", "the \"outer\""};
  t.tasks[0].lane = t.tasks[1].lane = static_cast<Lane>(3);
  for (const std::string& trace : {chrome_trace(t), kineto_trace(t, 1)})
    EXPECT_THAT(trace, HasSubstr("the \\\"outer\\\" in\"}"));
  const std::string trace = chrome_trace(t);
  EXPECT_THAT(trace, HasSubstr("{\"name\":\"the \\\"outer\\\" out\"}"));
  EXPECT_THAT(line_with(trace, "\"task\":0"), HasSubstr("\"tid\":12,"));
  EXPECT_THAT(line_with(trace, "\"task\":1"), HasSubstr("\"tid\":11,"));
  EXPECT_THAT(trace, Not(HasSubstr("fetch")));
}

TEST(ChromeTrace, DoesWithoutDetails) {
  Timeline t = small_run();
  t.details.clear();
  const std::string trace = chrome_trace(t);
  EXPECT_EQ(count(trace, "\"ph\":\"X\""), 5u);
  for (const char* phase : {"\"ph\":\"C\"", "\"ph\":\"s\"", "\"ph\":\"f\"", "bytes", "cause"})
    EXPECT_THAT(trace, Not(HasSubstr(phase)));
  Timeline rates = small_run();
  rates.initial.clear();
  EXPECT_THAT(chrome_trace(rates), Not(HasSubstr("\"memory\"")));
  EXPECT_THAT(chrome_trace(rates), HasSubstr("\"GB/s in\""));
}

TEST(Traces, EscapeWhatComesFromOutside) {
  Timeline t = small_run();
  t.machine = "a \"machine\" of \\ mine\t\x01\x7f";
  t.schedule = "r\xc3\xadng \xe2\x82\xac\xf0\x9f\x98\x80 \xff\xc0\xaf\xed\xa0\x80 \xe2\x82";
  const std::string machine = "\"a \\\"machine\\\" of \\\\ mine\\u0009\\u0001\\u007f\"";
  const std::string schedule =
      "\"r\xc3\xadng \xe2\x82\xac\xf0\x9f\x98\x80 "
      "\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd \\ufffd\\ufffd\"";
  for (const std::string& trace : {chrome_trace(t), kineto_trace(t, 1)}) {
    EXPECT_THAT(trace, HasSubstr("\"machine\": " + machine + ",\n"));
    EXPECT_THAT(trace, HasSubstr("\"schedule\": " + schedule + ",\n"));
  }
}

TEST(Traces, RefuseWhatCannotBeDrawn) {
  Timeline t = small_run();
  EXPECT_EQ(refusal([&] { kineto_trace(t, 2); }), "no worker 2; the timeline has workers 0 to 1");
  t.tasks.clear();
  t.details.clear();
  EXPECT_EQ(refusal([&] { chrome_trace(t); }), "the timeline has no tasks: nothing to draw");
  EXPECT_EQ(refusal([&] { kineto_trace(t, 0); }), "the timeline has no tasks: nothing to draw");
}

TEST(KinetoTrace, HasTheKernelsOfOneWorker) {
  const std::string trace = kineto_trace(small_run(), 1);
  EXPECT_THAT(trace, HasSubstr("\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 1, "
                               "\"world_size\": 2},\n"));
  EXPECT_EQ(count(trace, "\"ph\":\"X\",\"cat\":\"kernel\""), 4u);
  EXPECT_EQ(line_with(trace, "\"task\":1,"),
            "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_SendRecv\",\"pid\":1,"
            "\"tid\":5,\"ts\":0.0,\"dur\":4.0,\"args\":{\"device\":1,\"stream\":5,"
            "\"correlation\":2,\"External id\":2,\"task\":1,\"step\":3,\"key_value\":0,"
            "\"Collective name\":\"recv\",\"Src Rank\":0,\"Dst Rank\":1,\"Group size\":2,"
            "\"Process Group Name\":\"0\",\"Process Group Description\":\"default_pg\","
            "\"dtype\":\"Byte\",\"In msg nelems\":3000,\"Out msg nelems\":3000}},");
  EXPECT_THAT(line_with(trace, "\"task\":4,"), HasSubstr("\"name\":\"merge\""));
  EXPECT_EQ(count(kineto_trace(small_run(), 0), "\"ph\":\"X\""), 1u);
}

TEST(KinetoTrace, RoundsInstantsSoThatWhatTouchesStillDoes) {
  Timeline t = small_run();
  t.tasks[2].end_ps = t.tasks[3].start_ps = 9 * kUS + 700;  // 0.7168 of a tick
  t.tasks[5].end_ps += 400;                                 // nothing is left of it
  const std::string trace = kineto_trace(t, 1);
  EXPECT_THAT(line_with(trace, "\"task\":2,"), HasSubstr("\"ts\":4.0,\"dur\":5.0009765625,"));
  EXPECT_THAT(line_with(trace, "\"task\":3,"),
              HasSubstr("\"ts\":9.0009765625,\"dur\":0.9990234375,"));
  EXPECT_THAT(trace, Not(HasSubstr("\"task\":5,")));
}

TEST(KinetoTrace, DoesWithoutDetails) {
  Timeline t = small_run();
  t.details.clear();
  t.initial.clear();
  EXPECT_THAT(kineto_trace(t, 1), HasSubstr("\"Collective name\":\"recv\""));
  EXPECT_THAT(kineto_trace(t, 1), Not(HasSubstr("nelems")));
}

class TracesOfSchedule : public testing::TestWithParam<Case> {};

// On machines and under conditions that the program's profiles do not have.
TEST_P(TracesOfSchedule, HoldEachTaskAndMessageOnce) {
  const auto [schedule, workers] = GetParam();
  for (const auto& [name, machine] : test_machines(workers)) {
    const Plan plan = limit_communication(
        build_plan(small_problem(workers, 9 * workers + 1, Pass::Both), *schedule), {});
    const Workload w = price(plan, machine);
    const Simulation run = simulate(w);
    const Timeline t = predicted_timeline(w, run, machine, report(w, run).path_steps);
    const std::string trace = chrome_trace(t);
    std::size_t receives = 0, instants = 0, kernels = 0, lasting = 0;
    for (const TimelineTask& x : t.tasks) {
      receives += x.kind == TaskKind::Receive && x.end_ps > x.start_ps;
      instants += x.end_ps == x.start_ps;
      lasting += x.end_ps > x.start_ps + 1000;
    }
    const auto path = static_cast<std::size_t>(std::ranges::count_if(
        t.critical_path, [](const CriticalStep& step) { return step.end > step.start; }));
    ASSERT_EQ(count(trace, "\"cat\":\"critical path\""), path) << name;
    ASSERT_EQ(count(trace, "\"ph\":\"X\"") + instants, t.tasks.size() + path) << name;
    ASSERT_EQ(count(trace, "\"ph\":\"i\""), instants) << name;
    ASSERT_EQ(count(trace, "\"ph\":\"s\""), receives) << name;
    ASSERT_EQ(count(trace, "\"ph\":\"f\""), receives) << name;
    ASSERT_EQ(trace, chrome_trace(t)) << name;
    for (std::uint32_t r = 0; r < workers; ++r)
      kernels += count(kineto_trace(t, r), "\"cat\":\"kernel\"");
    ASSERT_GE(kernels, lasting) << name;
    ASSERT_LE(kernels, t.tasks.size() - instants) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Viz, TracesOfSchedule, testing::ValuesIn(all_schedules(5)),
                         [](const auto& each) { return each.param.name(); });

}  // namespace
}  // namespace ringsched
