// Each kind of fault, made by hand, and verify()'s message about it.
#include "ringsched/scheduler/verify.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "support/cases.hpp"
#include "support/hidden_plan.hpp"
#include "support/interpreter.hpp"
#include "support/surgery.hpp"

namespace ringsched {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Plan plan_of(std::string_view schedule, std::uint32_t workers, Pass pass = Pass::Forward) {
  return build_plan(small_problem(workers, 4 * std::int64_t{workers}, pass),
                    find_schedule(schedule));
}

std::string first_violation(const Plan& plan, Rule rule) {
  const Verification v = verify(plan);
  for (const Violation& x : v.violations)
    if (x.rule == rule) return x.text;
  return v.holds() ? "it holds" : "only: " + v.violations[0].text;
}

// LightSeq's public code rests in the last step of an odd number of workers too, as if it were
// even.
void lightseq(const Problem& problem, PlanBuilder& plan) {
  const std::uint32_t w = problem.workers;
  std::vector<Partial> helped;
  for (Step t = 0; t <= w / 2 + 1; ++t) {
    plan.step(t);
    for (Partial& p : helped) p = plan.move(p, p.owner);
    std::vector<Partial> made;
    for (std::uint32_t r = 0; r < w && t <= w / 2; ++r) {
      const WorkerId self{r}, other{(r + w - t) % w};
      if (r >= t) {
        made.push_back(plan.attend(plan.queries(self), plan.move(plan.keys(other), self)));
      } else if (t < w / 2) {
        made.push_back(plan.attend(plan.move(plan.queries(other), self), plan.keys(self)));
      }
    }
    for (const Partial& p : helped) plan.merge(p);
    helped.clear();
    for (const Partial& p : made) p.worker == p.owner ? plan.merge(p) : helped.push_back(p);
  }
}
const Schedule kLightSeq{"lightseq", "", "", contiguous, lightseq};

TEST(Verify, FindsTheBlockPairsThatLightSeqDropsForOddWorkerCounts) {
  for (std::uint32_t w = 3; w <= 33; w += 2) {
    const Plan plan = build_plan(small_problem(w, w), kLightSeq);
    const Verification v = verify(plan, {.most = 1000});
    // The pairs at distance (W+1)/2, and only they.
    ASSERT_EQ(v.violations.size(), (w - 1) / 2) << "W=" << w;
    for (std::uint32_t i = 0; i < v.violations.size(); ++i) {
      const std::uint32_t q = (w + 1) / 2 + i;
      EXPECT_EQ(v.violations[i].rule, Rule::Coverage);
      EXPECT_EQ(v.violations[i].worker, WorkerId{q});
      EXPECT_THAT(v.violations[i].text,
                  StartsWith(fmt::format(
                      "the result of query chunk {} lacks key chunk {}; see task ", q, i)));
    }
  }
}

TEST(Verify, AcceptsTheSameRuleForEvenWorkerCounts) {
  for (std::uint32_t w = 2; w <= 32; w += 2)
    EXPECT_TRUE(verify(build_plan(small_problem(w, w), kLightSeq)).holds()) << "W=" << w;
}

void twice(const Problem& problem, PlanBuilder& plan) {
  for (std::uint32_t r = 0; r < problem.workers; ++r)
    for (int i = 0; i < 2; ++i)
      plan.merge(plan.attend(plan.queries(WorkerId{r}), plan.keys(WorkerId{r})));
}

TEST(Verify, FindsAPairThatIsComputedTwice) {
  const Plan plan = build_plan(small_problem(1, 4), {"twice", "", "", contiguous, twice});
  EXPECT_THAT(first_violation(plan, Rule::Coverage),
              AllOf(StartsWith("the result of query chunk 0 counts key chunk 0 twice: by task 0 "),
                    HasSubstr("and by task 1 ")));
}

constexpr std::uint32_t kManyChunks = 130;

Layout one_token_chunks(std::uint32_t workers, Tokens tokens) {
  std::vector<Region> shares;
  std::vector<TokenRange> chunks;
  for (std::uint32_t w = 0; w < workers; ++w) shares.push_back({{w * kManyChunks}, kManyChunks});
  for (std::int64_t t = 0; t < tokens.value; ++t) chunks.push_back({t, 1, 1});
  return custom_layout(chunks, shares);
}

// Row 65 meets the keys one by one, the others all at once.
void row_by_row(PlanBuilder& plan, std::uint32_t left_out, std::uint32_t instead) {
  const Queries q = plan.queries(WorkerId{0});
  const Keys k = plan.keys(WorkerId{0});
  for (std::uint32_t i = 0; i < kManyChunks; ++i)
    if (i != 65) plan.merge(plan.attend(q.part(i), k));
  for (std::uint32_t i = 0; i < kManyChunks; ++i)
    plan.merge(plan.attend(q.part(65), k.part(i == left_out ? instead : i)));
}
void all_rows(const Problem&, PlanBuilder& plan) { row_by_row(plan, 0, 0); }
void row_65_meets_63_for_64(const Problem&, PlanBuilder& plan) { row_by_row(plan, 64, 63); }

TEST(Verify, FindsAPairThatIsComputedInPlaceOfAnotherAmongManyChunks) {
  const Problem problem = small_problem(1, kManyChunks, Pass::Forward, Mask::full());
  EXPECT_TRUE(verify(build_plan(problem, {"all", "", "", one_token_chunks, all_rows})).holds());
  const Verification v =
      verify(build_plan(problem, {"wrong", "", "", one_token_chunks, row_65_meets_63_for_64}));
  ASSERT_EQ(v.violations.size(), 2u);
  EXPECT_THAT(v.violations[0].text,
              StartsWith("the result of query chunk 65 counts key chunk 63 twice: by "));
  EXPECT_THAT(v.violations[1].text,
              StartsWith("the result of query chunk 65 lacks key chunk 64; see task "));
}

TEST(Verify, FindsAPartialThatIsNeverMerged) {
  Plan plan = plan_of("ring", 3);
  const TaskId merge = find_task(plan, TaskKind::Merge, 2, 1);
  const TaskId output = find_task(plan, TaskKind::Output, 2);
  plan.tasks[output.value].inputs[0] = plan.tasks[merge.value].inputs[0];
  erase_task(plan, merge);
  restate_completion(plan);
  EXPECT_THAT(first_violation(plan, Rule::Coverage),
              AllOf(HasSubstr("worker 2, step 2"), HasSubstr("query chunk 2 with key chunk 0"),
                    HasSubstr("neither merged")));
}

TEST(Verify, FindsAPartialThatIsMergedTwice) {
  Plan plan = plan_of("ring", 3);
  const TaskId first = find_task(plan, TaskKind::Merge, 2, 0);
  const TaskId second = find_task(plan, TaskKind::Merge, 2, 1);
  plan.tasks[second.value].inputs[1] = plan.tasks[first.value].inputs[1];
  EXPECT_THAT(first_violation(plan, Rule::Coverage), HasSubstr("it would count twice"));
}

TEST(Verify, FindsASendWithoutAReceiveAndTheReverse) {
  Plan no_receive = plan_of("ring", 3);
  erase_task(no_receive, find_task(no_receive, TaskKind::Receive, 1));
  EXPECT_THAT(first_violation(no_receive, Rule::Communication),
              AllOf(HasSubstr("send of key_value chunk 0"), HasSubstr("has no receive")));
  Plan no_send = plan_of("ring", 3);
  erase_task(no_send, find_task(no_send, TaskKind::Send, 0));
  EXPECT_THAT(first_violation(no_send, Rule::Communication),
              AllOf(HasSubstr("receive of key_value chunk 0"), HasSubstr("has no send")));
}

TEST(Verify, FindsASizeMismatch) {
  Plan plan = build_plan(small_problem(3, 13), find_schedule("ring"));
  set_rows(plan, plan.tasks[find_task(plan, TaskKind::Receive, 1).value], {2});
  EXPECT_THAT(first_violation(plan, Rule::Communication),
              AllOf(HasSubstr("carries chunk 0 (320 bytes)"), HasSubstr("chunk 2 (256 bytes)")));
}

TEST(Verify, FindsAUseBeforeArrival) {
  Plan plan = plan_of("ring", 3);
  const TaskId receive = find_task(plan, TaskKind::Receive, 1);
  const TaskId attend = find_task(plan, TaskKind::Attend, 1, 1);
  swap_tasks(plan, receive, attend);
  EXPECT_THAT(first_violation(plan, Rule::Communication),
              AllOf(HasSubstr("attend of query chunk 1 with key chunk 0"),
                    HasSubstr("before it is there"), HasSubstr("receive of key_value chunk 0")));
}

TEST(Verify, FindsAUseOfWhatWasNeverSentHere) {
  Plan plan = plan_of("ring", 3);
  const TaskId attend = find_task(plan, TaskKind::Attend, 1, 1);
  plan.tasks[attend.value].inputs[1] = {3};  // the keys of worker 0, at home
  EXPECT_THAT(first_violation(plan, Rule::Communication),
              HasSubstr("held by worker 0 without having received it"));
}

// Two workers that both send first and receive second, each transfer on its own.
Plan head_on(bool grouped) {
  Plan plan = build_plan(small_problem(2, 8, Pass::Forward, Mask::full()), find_schedule("ring"));
  // send 0>1, receive, send 1>0, receive: bring both sends to the front.
  const TaskId first{find_task(plan, TaskKind::Receive, 1)},
      second{find_task(plan, TaskKind::Send, 1)};
  swap_tasks(plan, first, second);
  for (Task& t : plan.tasks) t.with_previous = grouped && t.kind == TaskKind::Receive;
  return plan;
}

TEST(Verify, FindsARendezvousCycleUnlessItIsPostedAsAGroup) {
  EXPECT_THAT(first_violation(head_on(false), Rule::Deadlock),
              AllOf(HasSubstr("send of key_value chunk 0 to worker 1) waits for"),
                    HasSubstr("send of key_value chunk 1 to worker 0) waits for")));
  EXPECT_TRUE(verify(head_on(true)).holds());
}

TEST(Verify, FindsABufferThatIsOverwrittenTooEarly) {
  Plan plan = limit_communication(plan_of("ring", 4), {Overlap::Unbounded, 2});
  ASSERT_TRUE(verify(plan).holds());
  plan.controls.clear();
  EXPECT_THAT(first_violation(plan, Rule::Memory),
              AllOf(HasSubstr("overwrites buffer"), HasSubstr("may still read")));
  bool ever_wrong = false;
  for (std::uint64_t seed = 0; seed < 50; ++seed) ever_wrong |= !interpret(plan, seed).empty();
  EXPECT_TRUE(ever_wrong) << "no order of events shows the fault that verify claims";
}

// Keys that go from worker 0 through one buffer of worker 1 to worker 2, `times` over. Which relay
// frees the buffer only its control edge says.
Plan relay_through_one_buffer(std::uint32_t times, bool ordered) {
  Plan plan = plan_of("ring", 3);
  const WorkId work = plan.tasks[find_task(plan, TaskKind::Receive, 1).value].work;
  const auto add = [&](TaskKind kind, std::uint16_t worker, Lane lane) -> Task& {
    Task& t = plan.tasks.emplace_back();
    t.kind = kind;
    set_piece(plan, t, attention::kKeyValue, {0});
    t.completes = kind == TaskKind::Receive;
    t.lane = lane;
    t.worker_index = worker;
    t.work = work;
    t.peer = {static_cast<std::uint32_t>(plan.tasks.size()) - (kind == TaskKind::Send ? 0 : 2)};
    return t;
  };
  for (std::uint32_t i = 0; i < times; ++i) {
    const auto first = static_cast<std::uint32_t>(plan.tasks.size());
    add(TaskKind::Send, 0, Lane::Fetch).inputs[0] = {3};
    add(TaskKind::Receive, 1, Lane::Fetch);
    plan.slots.push_back({{first + 1}, 0});
    if (ordered && i > 0) plan.controls.push_back({{first - 2}, {first + 1}});
    add(TaskKind::Send, 1, Lane::Return).inputs[0] = plan.output({first + 1});
    add(TaskKind::Receive, 2, Lane::Return);
  }
  return plan;
}

TEST(Verify, ProvesLongRelaysThroughOneBufferInNoTime) {
  const std::uint32_t length = kSanitized ? 3'000 : 30'000;
  EXPECT_TRUE(verify(relay_through_one_buffer(length, true)).holds());
  const Verification v = verify(relay_through_one_buffer(length, false), {.most = 100'000});
  EXPECT_THAT(v.violations.front().text, HasSubstr("overwrites buffer 0 while"));
}

TEST(Verify, FindsGradientsPreparedFromAnUnfinishedResult) {
  Plan plan = plan_of("ring", 3, Pass::Both);
  const TaskId prepare = find_task(plan, TaskKind::Prepare, 2);
  const TaskId early = find_task(plan, TaskKind::Attend, 2);
  plan.tasks[prepare.value].inputs[0] = plan.output(early);
  EXPECT_THAT(first_violation(plan, Rule::Structure),
              HasSubstr("input 0 is a partial that is not complete"));
}

TEST(Verify, FindsAGivenForwardResultThatIsChangedBeforeUse) {
  Plan plan = plan_of("ring", 1, Pass::Backward);
  // O merged with itself in front of everything: the log-sum-exp is then wrong.
  Plan changed = plan;
  Task merge;
  merge.kind = TaskKind::Merge;
  set_piece(changed, merge, attention::kPartial, {0});
  merge.inputs = {TensorId{3}, TensorId{3}, {}};
  changed.tasks.insert(changed.tasks.begin(), merge);
  for (std::size_t i = 1; i < changed.tasks.size(); ++i)
    for (TensorId& input : changed.tasks[i].inputs)
      if (input.valid() && input.value >= 4) input.value += 2;
  changed.tasks[1].inputs[0] = changed.output({0});
  restate_work(changed, {0});
  EXPECT_THAT(first_violation(changed, Rule::Structure),
              HasSubstr("input 0 is already complete; adding to it would count twice"));
}

TEST(Verify, FindsAKeyGradientThatNeverComesHome) {
  Plan plan = plan_of("balanced", 4, Pass::Backward);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (plan.tasks[id].kind == TaskKind::Send &&
        plan.value(plan.tasks[id]) == attention::kKeyValueGradient) {
      const TaskId receive = plan.tasks[id].peer;
      erase_task(plan, receive);
      erase_task(plan, {id});
      break;
    }
  EXPECT_FALSE(verify(plan).holds());
}

TEST(Verify, HoldsOfPlansThatTakeTheHeadsInTwoHalves) {
  for (const std::uint32_t workers : {1u, 2u, 5u})
    for (const Schedule& s : schedules_for(workers))
      for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both}) {
        for (const bool given : {false, true}) {
          const Plan plan = build_plan(small_problem(workers, 23, pass), s);
          const Plan halves = by_half_the_heads(plan, given);
          const Verification v = verify(halves);
          EXPECT_TRUE(v.holds()) << s.name << ": " << v.violations[0].text;
          EXPECT_EQ(interpret(halves, 1), "");
        }
      }
}

TEST(Verify, FindsTensorsThatAreMarkedCompleteTooEarlyOrNotAtAll) {
  const Plan plan = plan_of("ring", 3, Pass::Both);
  Plan early = plan;
  early.tasks[find_task(plan, TaskKind::Attend, 2).value].completes = 1;
  EXPECT_THAT(first_violation(early, Rule::Structure),
              HasSubstr("input 0 is already complete; adding to it would count twice"));
  Plan keys = plan;
  keys.tasks[find_task(plan, TaskKind::AttendBackward, 0).value].completes = 3;
  EXPECT_THAT(first_violation(keys, Rule::Structure),
              HasSubstr("input 0 is already complete; adding to it would count twice"));
  Plan unmarked = plan_of("ring", 3);
  unmarked.tasks[find_task(unmarked, TaskKind::Merge, 2, 1).value].completes = 0;
  EXPECT_THAT(first_violation(unmarked, Rule::Structure),
              HasSubstr("input 0 is a partial that is not complete"));
  Plan operand = plan;
  operand.tasks[find_task(plan, TaskKind::Receive, 1).value].completes = 0;
  EXPECT_THAT(first_violation(operand, Rule::Structure),
              HasSubstr("it receives a complete tensor, and must say so"));
}

TEST(Verify, NamesTheHeadsThatAreMissingOrComputedTwice) {
  const Plan halves = by_half_the_heads(plan_of("ring", 1, Pass::Both));
  const auto shifted = [&](TaskKind kind, ColumnRange columns) {
    Plan plan = halves;
    for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
      Task& t = plan.tasks[id];
      if (id % 2 == 0 || plan.value(t) == attention::kKeyValueGradient) continue;
      if (t.kind != kind && t.kind != TaskKind::Output) continue;
      if (t.kind == TaskKind::Output && plan.tasks[plan.producer(t.inputs[0]).value].kind != kind)
        continue;
      set_columns(plan, t, columns);
      restate_work(plan, {id});
    }
    return plan;
  };
  Plan plan = shifted(TaskKind::AttendBackward, {1, 2});
  EXPECT_NE(interpret(plan, 1), "");
  EXPECT_THAT(
      first_violation(plan, Rule::Structure),
      HasSubstr("it uses heads 1-2, but its prepared_gradient tensor holds only heads 2-3"));

  Plan forward = by_half_the_heads(plan_of("ring", 1));
  set_columns(forward, forward.tasks[1], {2, 1});
  restate_work(forward, {1});
  set_columns(forward, forward.tasks[3], {2, 1});
  restate_work(forward, {3});
  EXPECT_THAT(first_violation(forward, Rule::Coverage),
              StartsWith("worker 0 does not output the partial of chunk 0, heads 3"));
  EXPECT_NE(interpret(forward, 1), "");
  for (const std::uint32_t id : {1u, 3u}) {
    set_columns(forward, forward.tasks[id], {1, 3});
    restate_work(forward, {id});
  }
  EXPECT_THAT(first_violation(forward, Rule::Coverage),
              HasSubstr("both output the partial of chunk 0, heads 1"));
  EXPECT_NE(interpret(forward, 1), "");
}

TEST(Verify, FindsTwoResultsOfOneChunkThatShouldHaveBeenMerged) {
  Plan plan = plan_of("ring", 2);
  const TaskId merge = find_task(plan, TaskKind::Merge, 1);
  Task& task = plan.tasks[merge.value];
  for (Task& t : plan.tasks)
    if (t.inputs[0] == plan.output(merge)) t.inputs[0] = task.inputs[0];
  task.kind = TaskKind::Output;
  task.inputs = {task.inputs[1], {}, {}};
  restate_completion(plan);
  EXPECT_THAT(first_violation(plan, Rule::Coverage),
              HasSubstr("both output the partial of chunk 1"));
}

TEST(Verify, FindsAPartialOfWhichOnlyAPartIsHandedOver) {
  Plan plan = plan_of("balanced-split", 5);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (plan.tasks[id].kind == TaskKind::Send &&
        plan.value(plan.tasks[id]) == attention::kPartial) {
      const Region whole = plan.regions[plan.rows(plan.tasks[id]).value];
      plan.regions.push_back({whole.first, 1});
      const RegionId part{static_cast<std::uint32_t>(plan.regions.size()) - 1};
      for (const TaskId half : {TaskId{id}, plan.tasks[id].peer}) {
        set_rows(plan, plan.tasks[half.value], part);
        restate_work(plan, half);
      }
      break;
    }
  EXPECT_THAT(first_violation(plan, Rule::Structure), HasSubstr("the rest of it is lost"));
}

TEST(Verify, FindsAMergeThatClaimsOtherRowsThanItsInputs) {
  Plan plan = plan_of("balanced-split", 4);
  const TaskId merge = find_task(plan, TaskKind::Merge, 3);
  set_rows(plan, plan.tasks[merge.value], {0});
  EXPECT_THAT(first_violation(plan, Rule::Structure), HasSubstr("give chunks 6-7, not chunks 0-1"));
}

TEST(Verify, FindsAResultPutOutFarFromItsOwner) {
  // Worker 0 computes for worker 1 and keeps the result.
  const auto keep = [](const Problem&, PlanBuilder& plan) {
    plan.merge(plan.attend(plan.queries(WorkerId{0}), plan.keys(WorkerId{0})));
    plan.merge(plan.attend(plan.queries(WorkerId{1}), plan.keys(WorkerId{1})));
  };
  Plan plan = build_plan(small_problem(2, 8, Pass::Forward, Mask::documents({{4}, {4}})),
                         {"keep", "", "", contiguous, keep});
  ASSERT_TRUE(verify(plan).holds());
  const TaskId output = find_task(plan, TaskKind::Output, 1);
  plan.tasks[output.value].worker_index = 0;
  plan.tasks[output.value].inputs[0] = plan.output(find_task(plan, TaskKind::Attend, 0));
  const Verification v = verify(plan);
  EXPECT_TRUE(std::ranges::any_of(v.violations, [](const Violation& x) {
    return x.text.ends_with("must be output on worker 1, which owns it");
  }));
}

TEST(Verify, FindsAResultThatIsNeverPutOut) {
  // Nothing dangles: the only attend of chunk 1 is gone together with its output.
  Plan plan = build_plan(small_problem(2, 8, Pass::Forward, Mask::documents({{4}, {4}})),
                         find_schedule("ring"));
  erase_task(plan, find_task(plan, TaskKind::Output, 1));
  erase_task(plan, find_task(plan, TaskKind::Attend, 1));
  EXPECT_EQ(first_violation(plan, Rule::Coverage),
            "worker 1 does not output the partial of chunk 1");
}

TEST(Verify, NamesWorkLeftOutByWorkerAndNotByTask) {
  Plan plan = plan_of("zigzag", 4);
  const TaskId output = find_task(plan, TaskKind::Output, 3);
  erase_task(plan, output);
  const Verification v = verify(plan);
  ASSERT_FALSE(v.holds());
  EXPECT_EQ(v.violations[0].worker, WorkerId{3});
}

TEST(Verify, StopsAtTheNumberOfViolationsAskedFor) {
  Problem p = small_problem(33, 33);
  Plan empty = build_plan(p, find_schedule("ring"));
  empty.tasks.clear();
  const Verification v = verify(empty, {.most = 7});
  EXPECT_EQ(v.violations.size(), 7u);
  EXPECT_TRUE(v.more);
}

TEST(Verify, CountsAttendsWithoutAVisiblePairAndAcceptsThem) {
  const Verification v = verify(read_plan(kHiddenPlan, "hidden"));
  EXPECT_TRUE(v.holds()) << v.violations.front().text;
  EXPECT_EQ(v.hidden, 3u);
  EXPECT_EQ(verify(plan_of("ring", 3)).hidden, 0u);
}

std::string all_of(const Verification& v) {
  std::string out =
      fmt::format("{} unread {} hidden {}\n", v.more ? "more" : "all", v.unread, v.hidden);
  for (const Violation& x : v.violations) {
    out +=
        fmt::format("{} worker {} step {}: {} (", to_text(x.rule), x.worker.value, x.step, x.text);
    for (const TaskId t : x.tasks) out += fmt::format(" {}", t.value);
    out += ")\n";
  }
  for (const Bytes b : v.peak) out += fmt::format("{} ", b.value);
  return out;
}

TEST(Verify, SaysTheSameOnAnyNumberOfThreads) {
  const Plan valid = limit_communication(plan_of("balanced", 7, Pass::Both), {});
  std::mt19937_64 random(1);
  for (int i = 0; i < (kSanitized ? 40 : 400); ++i) {
    Plan plan = valid;
    if (i > 0) mutate(plan, random);
    if (i % 4 == 1) plan.works[random() % plan.works.size()].rows += 1;  // wrong in many tasks
    for (const std::size_t most : {1, 3, 20}) {
      const std::string alone = all_of(verify(plan, {.most = most, .threads = 1}));
      for (const std::uint32_t threads : {2, 3, 8})
        ASSERT_EQ(all_of(verify(plan, {.most = most, .threads = threads})), alone);
    }
  }
}

TEST(Verify, CountsWhatIsMovedForNothing) {
  Plan plan = plan_of("ring", 3);
  ASSERT_EQ(verify(plan).unread, 0u);
  move_for_nothing(plan);
  const Verification v = verify(plan);
  EXPECT_TRUE(v.holds());
  EXPECT_EQ(v.unread, 1u);
}

// A send and a receive are one group, but an attend between them waits for the send. So who goes
// through the tasks in their order would begin the attend before the group.
TEST(Verify, AGroupIsWholeBeforeWhatNeedsIt) {
  const std::string text = R"({"format": "ringsched-plan", "version": 2,
    "problem": {"workers": 2, "tokens": 128, "heads": 4, "kv_heads": 2, "head_dim": 16,
                "dtype": "fp32", "mask": "full", "pass": "forward"},
    "tasks": [
      {"do": "send", "worker": 0, "in": ["KV0"], "to": 1},
      {"do": "send", "worker": 1, "in": ["KV1"], "to": 0},
      {"do": "attend", "worker": 0, "in": ["Q0", "KV0"], "after": [0]},
      {"do": "attend", "worker": 1, "in": ["Q1", "KV1"]},
      {"do": "receive", "worker": 0, "from": 1, "with_previous": true},
      {"do": "receive", "worker": 1, "from": 0, "with_previous": true},
      {"do": "attend", "worker": 0, "in": ["Q0", 4]},
      {"do": "attend", "worker": 1, "in": ["Q1", 5]},
      {"do": "merge", "in": [2, 6], "complete": true},
      {"do": "merge", "in": [3, 7], "complete": true}]})";
  Plan plan = read_plan(text, "plan.json");
  const Verification v = verify(plan);
  ASSERT_EQ(v.violations.size(), 1u);
  EXPECT_EQ(v.violations[0].rule, Rule::Deadlock);
  EXPECT_EQ(v.violations[0].text,
            "task 2 (worker 0, step 0, attend of query chunk 0 with key chunk 0) needs task 0 "
            "(worker 0, step 0, send of key_value chunk 0 to worker 1), which is posted in one "
            "group with task 4 (worker 0, step 0, receive of key_value chunk 1 from worker 1), "
            "later in the plan");
  plan.controls.clear();
  EXPECT_TRUE(verify(plan).holds());
}

}  // namespace
}  // namespace ringsched
