// Plans executed on threads, compared with attention in double precision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "runtime/plans_to_run.hpp"
#include "support/cases.hpp"
#include "support/hidden_plan.hpp"
#include "support/more_lanes.hpp"
#include "support/surgery.hpp"

namespace ringsched {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

struct Ran {
  std::vector<CheckedResults> checked;
  Timeline timeline;
  MemoryPlan memory;
};

Ran run(const Plan& plan, InputKind kind = InputKind::Normal, bool finite = false,
        std::chrono::nanoseconds deadline = 60s, std::int64_t rows = 0) {
  Control control;
  const Inputs inputs(plan.problem, 7, kind);
  const auto transport = make_local_transport(plan, control);
  const auto gate = make_core_gate(2, true, control);
  Execution e(
      plan, all_workers(plan),
      [&](WorkerId w, std::span<const TaskId> tasks) {
        return make_cpu_device(plan, w, tasks, control, {finite, gate});
      },
      *transport, control, fill_from(plan, inputs));
  const auto hung = [](const std::string& why) { FAIL() << "hung: " << why; };
  e.run(Clock::now() + e.lead(), deadline, hung);
  Ran out;
  const ForwardRows forward = needs_forward_rows(plan.problem, {})
                                  ? forward_rows(plan, inputs, e.results())
                                  : ForwardRows{};
  out.checked = check_results(plan, inputs, e.results(), {rows, 3}, forward);
  out.timeline = timeline_of(plan, TimelineSource::Measured, "here");
  e.add_times(out.timeline);
  out.memory = e.memory();
  return out;
}

void expect_right(const Ran& r, const std::string& what) {
  ringsched::expect_right(r.checked, what);
}

// Tasks that compute at one time.
int most_at_once(const Timeline& t) {
  std::vector<std::pair<std::int64_t, int>> changes;
  for (const TimelineTask& x : t.tasks) {
    if (communicates(x.kind) || x.kind == TaskKind::Output || x.start_ps == x.end_ps) continue;
    changes.emplace_back(x.start_ps, +1);
    changes.emplace_back(x.end_ps, -1);
  }
  std::sort(changes.begin(), changes.end());  // at one instant, ends come first
  int now = 0, most = 0;
  for (const auto& [at, change] : changes) most = std::max(most, now += change);
  return most;
}

TEST(Execution, AttendsWithoutAVisiblePairChangeNothing) {
  expect_right(run(read_plan(kHiddenPlan, "hidden")), "hidden");
}

// All workers have copies of the same queries; each that puts out a result is checked.
TEST(Execution, Decodes) {
  for (const char* schedule : {"flash-decode", "flash-decode:to=one", "tree-decode:node=2",
                               "ring-decode", "ring-decode:passes=results"})
    for (const char* mask :
         {"causal", "window:40", "documents:30,70", "window:20,documents:30,70"}) {
      Problem p = problem(3, 100, 12, 4, 24, Dtype::Bf16, Pass::Forward, parse_mask(mask));
      p.new_tokens = {3};
      const Plan plan = plan_of(p, schedule);
      ASSERT_TRUE(verify(plan).holds());
      expect_right(run(plan), described(plan));
    }
}

// The heads in two halves: each tensor has only its half, or all tasks read and send their half of
// whole tensors.
TEST(Execution, TakesTheHeadsInHalves) {
  for (const Schedule& s : schedules())
    for (const Pass pass : {Pass::Forward, Pass::Both})
      for (const auto& [workers, given] : {std::pair{1u, false}, {4u, false}, {4u, true}})
        for (const Dtype dtype : {Dtype::Fp32, Dtype::Bf16}) {
          if (kSanitized && (dtype == Dtype::Fp32) == (pass == Pass::Both)) continue;
          if (workers > 1 && !given && dtype == Dtype::Fp32) continue;
          const Problem p = problem(workers, 130, 12, 4, 24, dtype, pass);
          const Plan plan = by_half_the_heads(build_plan(p, s), given);
          ASSERT_TRUE(verify(plan).holds());
          expect_right(run(plan), described(plan));
        }
}

TEST(Execution, MovesOnEightLanes) {
  for (const std::uint32_t workers : {2u, 5u})
    for (const Schedule& s : schedules_for(workers)) {
      const Plan plan =
          on_more_lanes(plan_of(problem(workers, 70, 4, 2, 16, Dtype::Fp32, Pass::Both), s.name));
      const Ran ran = run(plan);
      expect_right(ran, described(plan));
      for (const TimelineTask& t : ran.timeline.tasks)
        EXPECT_TRUE(!is_on_a_further_lane(t.lane) || t.end_ps > 0);
    }
}

TEST(Execution, TakesHeadsThatReadAPartOfAGroup) {
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both}) {
    Plan plan = build_plan(problem(1, 90, 6, 2, 40, Dtype::Fp32, pass), find_schedule("ring"));
    // Heads 0 and 1 read a part of key head 0; 2 to 4 the rest, and a part of key head 1; then 5.
    const auto split = [&](ColumnRange columns, const Plan& whole) {
      Plan part = whole;
      for (std::uint32_t id = 0; id < part.tasks.size(); ++id) {
        Task& t = part.tasks[id];
        if (part.value(t) == attention::kKeyValueGradient) continue;
        set_columns(part, t, columns);
        restate_work(part, {id});
      }
      return part;
    };
    for (const ColumnRange columns : {ColumnRange{0, 2}, ColumnRange{2, 3}, ColumnRange{5, 1}}) {
      const Plan part = split(columns, plan);
      EXPECT_FALSE(verify(part).holds());  // as the other heads are missing
      for (const CheckedResults& c : run(part).checked) {
        const bool of_keys = c.name == "key gradient" || c.name == "value gradient";
        EXPECT_TRUE(of_keys || c.holds()) << c.name << ": " << c.worst;
      }
    }
  }
}

class EveryScheduleForReal : public testing::TestWithParam<std::string> {};

TEST_P(EveryScheduleForReal, ComputesTheRightNumbers) {
  const Schedule& schedule = find_schedule(GetParam());
  // Uneven tokens, head ratios, dimensions, dtypes, masks and overlaps take turns.
  constexpr std::pair<std::uint32_t, std::uint32_t> heads[] = {{4, 1}, {2, 2}, {6, 3}, {1, 1}};
  constexpr std::uint32_t dims[] = {16, 5, 64, 32};
  constexpr Dtype dtypes[] = {Dtype::Fp32, Dtype::Bf16, Dtype::Fp16};
  constexpr const char* masks[] = {"causal", "full", "window:9", "prefix:3,window:7",
                                   "documents:11,20,"};
  std::uint32_t turn = 0;
  for (std::uint32_t w = 1; w <= 12; ++w)
    for (const Pass pass : {Pass::Forward, Pass::Both, Pass::Backward})
      for (const std::int64_t tokens : {std::int64_t{4} * w + 3, std::int64_t{60}}) {
        ++turn;
        if (!fits(schedule, w, heads[turn % 4].first)) continue;
        std::string mask = masks[turn % 5];
        if (mask.back() == ',') mask += std::to_string(tokens + 1000);
        const auto [h, kv] = heads[turn % 4];
        Problem p = problem(w, tokens, h, kv, dims[(turn / 2) % 4], dtypes[turn % 3], pass);
        if (turn % 5 == 4) {
          p.mask = tokens > 31 ? Mask::documents({{11}, {20}, {tokens - 31}}) : Mask::causal();
        } else {
          p.mask = parse_mask(mask);
        }
        const Overlap overlap = static_cast<Overlap>(turn % 3);
        const Plan plan = limit_communication(build_plan(p, schedule), {overlap, 0});
        ASSERT_TRUE(verify(plan).holds()) << described(plan);
        const Ran r = run(plan, InputKind::Normal, true);
        expect_right(r, described(plan));
        EXPECT_LE(most_at_once(r.timeline), 2) << described(plan);
        if (HasFailure()) return;
      }
}

// Verify says what lives at one time. Tensors do not move while they live, so some plans need more:
// a place for the keys that arrive and one for a partial result that comes and goes between them.
TEST_P(EveryScheduleForReal, TakesLittleMoreMemoryThanVerifySays) {
  int plans = 0, as_said = 0;
  for (std::uint32_t w : {1u, 2u, 3u, 5u, 7u, 8u, 9u, kSanitized ? 4u : 17u})
    for (const Pass pass : {Pass::Forward, Pass::Both, Pass::Backward})
      for (const Overlap overlap : {Overlap::None, Overlap::Prefetch, Overlap::Unbounded})
        for (const std::uint32_t kv_heads : {1u, 2u, 8u}) {
          if (!fits(find_schedule(GetParam()), w, 8)) continue;
          const Plan plan = plan_of(problem(w, 64 * w + 3, 8, kv_heads, 64, Dtype::Bf16, pass),
                                    GetParam(), overlap);
          const Verification v = verify(plan);
          const MemoryPlan memory = plan_memory(plan);
          const std::string what = fmt::format("{} {}", described(plan), to_text(overlap));
          Bytes most, most_said;
          for (std::uint32_t i = 0; i < w; ++i) {
            EXPECT_GE(memory.size[i], v.peak[i]) << what;
            EXPECT_LE(static_cast<double>(memory.size[i].value),
                      1.12 * static_cast<double>(v.peak[i].value))
                << what << " worker " << i;
            most = std::max(most, memory.size[i]);
            most_said = std::max(most_said, v.peak[i]);
          }
          ++plans;
          as_said += static_cast<double>(most.value) <= 1.01 * static_cast<double>(most_said.value);
        }
  EXPECT_GE(as_said, 0.75 * plans) << plans;
}

TEST_P(EveryScheduleForReal, KeepsApartInMemoryWhatLivesAtOneTime) {
  const Plan plan = plan_of(problem(5, 101, 6, 2, 8, Dtype::Fp32, Pass::Both), GetParam());
  const Ran r = run(plan);
  // A tensor is there from the start of its task to the end of the last that reads it.
  struct Stay {
    std::int64_t low, high, from, until;
    std::uint32_t tensor;
  };
  std::map<std::uint32_t, std::vector<Stay>> stays;
  std::vector<std::int64_t> until(plan.initial.size() + 2 * plan.tasks.size(), -1);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    for (const TensorId t : plan.tasks[id].inputs)
      if (t.valid()) until[t.value] = std::max(until[t.value], r.timeline.tasks[id].end_ps);
  for (std::uint32_t t = 0; t < until.size(); ++t) {
    if (r.memory.offset[t] < 0) continue;
    const Tensor tensor = plan.tensor({t});
    const bool in_place =
        tensor.producer.valid() &&
        (plan.tasks[tensor.producer.value].kind == TaskKind::Merge ||
         plan.tasks[tensor.producer.value].kind == TaskKind::Reduce) &&
        r.memory.offset[plan.tasks[tensor.producer.value].inputs[0].value] == r.memory.offset[t];
    const std::int64_t from = !tensor.producer.valid() ? 0
                              : in_place ? r.timeline.tasks[tensor.producer.value].end_ps
                                         : r.timeline.tasks[tensor.producer.value].start_ps;
    const std::int64_t low = r.memory.offset[t];
    stays[tensor.worker.value].push_back(
        {low, low + plan.bytes({tensor.value, tensor.rows, tensor.columns}).value, from, until[t],
         t});
  }
  for (const auto& [worker, all] : stays)
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const Stay &a = all[i], &b = all[j];
        const bool share = a.low < b.high && b.low < a.high;
        EXPECT_TRUE(!share || a.from >= b.until || b.from >= a.until)
            << "worker " << worker << ": tensors " << a.tensor << " from " << a.from << " to "
            << a.until << " and " << b.tensor << " from " << b.from << " to " << b.until;
      }
}

INSTANTIATE_TEST_SUITE_P(Runtime, EveryScheduleForReal, testing::ValuesIn(schedule_names()),
                         name_of_test);

TEST(Execution, TheErrorDoesNotGrowWithTheWorkers) {
  for (const Dtype dtype : {Dtype::Fp32, Dtype::Bf16}) {
    double first = 0;
    for (const std::uint32_t w : {1u, kSanitized ? 4u : 8u, kSanitized ? 8u : 64u}) {
      const Plan plan = plan_of(problem(w, 512, 2, 1, 32, dtype, Pass::Both), "ring");
      const Ran r = run(plan);
      expect_right(r, described(plan));
      if (w == 1) first = r.checked[0].largest_error;
      EXPECT_LT(r.checked[0].largest_error, 4 * first + 1e-7) << described(plan);
    }
  }
}

TEST(Execution, LargeAndEqualScoresStayRight) {
  for (const InputKind kind : {InputKind::Large, InputKind::Equal})
    for (const char* name : {"ring", "balanced-split", "zigzag"})
      for (const Dtype dtype : {Dtype::Fp32, Dtype::Bf16}) {
        const Plan plan = plan_of(problem(4, 130, 2, 1, 24, dtype, Pass::Both), name);
        expect_right(run(plan, kind, true), described(plan));
      }
}

TEST(Execution, OneTokenForEachWorkerIsNothingUnusual) {
  for (const Schedule& s : schedules_for(7, 2)) {
    const Plan plan =
        limit_communication(build_plan(problem(7, 7, 2, 1, 8, Dtype::Fp32, Pass::Both), s), {});
    expect_right(run(plan), described(plan));
  }
}

TEST(Execution, ANumberThatIsNoneEndsTheRunAndIsNamed) {
  const Plan plan = plan_of(problem(4, 64, 2, 1, 8, Dtype::Fp32, Pass::Forward), "ring");
  EXPECT_THROW(
      {
        try {
          run(plan, InputKind::NotANumber, true);
        } catch (const RunFailed& e) {
          EXPECT_THAT(e.what(), HasSubstr("worker 3"));
          EXPECT_THAT(e.what(), HasSubstr("not finite"));
          throw;
        }
      },
      RunFailed);
  // Without that check the numbers are wrong, and the other check says so.
  const Ran r = run(plan, InputKind::NotANumber);
  EXPECT_FALSE(r.checked[0].holds());
}

TEST(Execution, ARunThatDoesNotEndIsEndedAndWhatItWaitedForIsNamed) {
  // Worker 1 runs in another process, which is not there.
  const Plan plan = plan_of(problem(2, 64, 2, 1, 8, Dtype::Fp32, Pass::Forward), "ring");
  Control control;
  const Inputs inputs(plan.problem, 7);
  const auto transport = make_local_transport(plan, control);
  Execution e(
      plan, {{0}},
      [&](WorkerId w, std::span<const TaskId> tasks) {
        return make_cpu_device(plan, w, tasks, control, {});
      },
      *transport, control, fill_from(plan, inputs));
  const auto began = Clock::now();
  try {
    e.run(Clock::now() + e.lead(), 200ms, [](const std::string& why) { FAIL() << why; });
    FAIL();
  } catch (const RunFailed& failed) {
    EXPECT_THAT(failed.what(), HasSubstr("not finished after 200 ms"));
    EXPECT_THAT(failed.what(), HasSubstr("send of key_value chunk 0 to worker 1"));
  }
  EXPECT_LT(Clock::now() - began, 5s);
}

// Nor does a task begin on a core that is free because all give up.
TEST(Execution, ARunThatIsGivenUpHasWorkersWaitingForCores) {
  const Plan plan = plan_of(problem(6, 12288, 4, 4, 64, Dtype::Fp32, Pass::Forward), "ring");
  Control control;
  const Inputs inputs(plan.problem, 7);
  const auto transport = make_local_transport(plan, control);
  const auto gate = make_core_gate(2, true, control);
  Execution e(
      plan, all_workers(plan),
      [&](WorkerId w, std::span<const TaskId> tasks) {
        return make_cpu_device(plan, w, tasks, control, {false, gate});
      },
      *transport, control, fill_from(plan, inputs));
  try {
    e.run(Clock::now() + e.lead(), 50ms, [](const std::string& why) { FAIL() << why; });
    GTEST_SKIP() << "this machine was faster";
  } catch (const RunFailed& failed) {
    EXPECT_THAT(failed.what(), HasSubstr("waiting for a core"));
  }
  Timeline t = timeline_of(plan, TimelineSource::Measured, "here");
  e.add_times(t);
  for (TimelineTask& task : t.tasks)
    if (task.start_ps >= 0 && task.end_ps < 0) task.end_ps = INT64_MAX;  // it did not end
  EXPECT_LE(most_at_once(t), 2);
}

TEST(Execution, RunsAgainWithTheSameNumbers) {
  const Plan plan = plan_of(problem(3, 96, 2, 1, 16, Dtype::Fp32, Pass::Both), "balanced");
  Control control;
  const Inputs inputs(plan.problem, 7);
  const auto transport = make_local_transport(plan, control);
  Execution e(
      plan, {{0}, {1}, {2}},
      [&](WorkerId w, std::span<const TaskId> tasks) {
        return make_cpu_device(plan, w, tasks, control, {});
      },
      *transport, control, fill_from(plan, inputs));
  for (int i = 0; i < 3; ++i) {
    e.run(Clock::now() + e.lead(), 60s, [](const std::string& why) { FAIL() << why; });
    for (const CheckedResults& c : check_results(plan, inputs, e.results(), {}, {}))
      EXPECT_TRUE(c.holds()) << c.name;
  }
}

}  // namespace
}  // namespace ringsched
