// Exchanges in plans: what verify() accepts, and its messages about invalid ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"
#include "support/exchange_plans.hpp"
#include "support/exchange_surgery.hpp"
#include "support/interpreter.hpp"
#include "support/surgery.hpp"
#include "support/term_surgery.hpp"

namespace ringsched {
namespace {

std::string first_fault(const Plan& plan) {
  const Verification v = verify(plan);
  return v.holds() ? "" : v.violations[0].text;
}

struct HeadCounts {
  std::uint32_t query, key_value;
};
constexpr HeadCounts kHeadCounts[] = {{4, 4}, {8, 2}, {33, 33}, {5, 1}, {32, 4}, {1, 1}};

TEST(Exchanges, PlansByHandHold) {
  for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both})
    for (const HeadCounts heads : kHeadCounts)
      for (std::uint32_t workers = 1; workers <= (kSanitized ? 9 : 33); ++workers) {
        Problem p = small_problem(workers, 3 * std::int64_t{workers} - 1, pass);
        p.heads = heads.query;
        p.kv_heads = heads.key_value;
        SCOPED_TRACE(testing::Message() << to_text(pass) << ", " << workers << " workers, "
                                        << heads.query << ":" << heads.key_value << " heads");
        ASSERT_EQ(first_fault(ulysses_by_hand(p)), "");
        ASSERT_EQ(first_fault(gather_queries_by_hand(p)), "");
        for (const std::uint32_t stride : {0u, 1u, 3u})
          ASSERT_EQ(first_fault(all_gather_by_hand(p, stride)), "");
      }
}

// What a plan of the backward pass alone is given beside shares is what both passes together
// exchange; no other plan may have it, nor other tensors in this one.
TEST(Exchanges, OfTheForwardPassHaveLeftWhatABackwardPlanIsGiven) {
  using Place = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                           std::uint32_t, std::uint32_t>;
  const auto place = [](const Plan& plan, const Piece& p, WorkerId w) {
    const Region rows = plan.regions[p.rows.value];
    return Place{p.value.value, w.value,         rows.first.value,
                 rows.count,    p.columns.first, p.columns.count};
  };
  for (const char* name : {"ulysses", "usp:ulysses=2", "usp:ulysses=2:ring=zigzag", "all-gather"}) {
    Problem p = small_problem(4, 32, Pass::Backward);
    p.heads = 8;
    p.kv_heads = 4;
    Plan alone = build_plan(p, find_schedule(name));
    EXPECT_EQ(first_fault(alone), "") << name;
    std::multiset<Place> given, brought;
    for (const InitialTensor& t : alone.initial)
      if (!alone.layout.share(t.worker).contains(alone.regions[alone.piece(t).rows.value]))
        given.insert(place(alone, alone.piece(t), t.worker));
    p.pass = Pass::Both;
    const Plan both = build_plan(p, find_schedule(name));
    for (const Task& t : both.tasks)
      if (is_exchange(t.kind) &&
          (both.value(t) == attention::kQuery || both.value(t) == attention::kKeyValue))
        brought.insert(place(both, both.piece(t), t.worker()));
    if (std::string_view(name) == "all-gather")
      EXPECT_TRUE(given.empty());
    else
      EXPECT_EQ(given, brought) << name;

    std::uint32_t outputs = 0;
    for (InitialTensor& t : alone.initial)
      if (alone.piece(t).value == attention::kOutputGradient && t.worker.value == 0) {
        t.worker = {1};
        ++outputs;
      }
    EXPECT_EQ(outputs, 1u);
    EXPECT_EQ(first_fault(alone), "an initial output_gradient is not where its chunks live");
  }
  Plan forward = ulysses_by_hand(small_problem(2, 4));
  forward.initial[0].worker = {1};
  EXPECT_EQ(first_fault(forward), "an initial query is not where its chunks live");
}

// What verify() says first of a spoilt plan: Ulysses of two workers, 4 heads, 2 of keys. Tasks 0
// and 1 exchange queries, 2 and 3 keys, 4 and 5 attend, 6 and 7 round, 8 and 9 exchange results.
template <class Spoil>
std::string said_of_ulysses(Spoil spoil) {
  Plan plan = ulysses_by_hand(small_problem(2, 4));
  spoil(plan);
  return first_fault(plan);
}
constexpr const char* kQueriesOf0 = "task 0 (worker 0, step 0, exchange of query chunks 0-1)";
constexpr const char* kQueriesOf1 = "task 1 (worker 1, step 0, exchange of query chunks 0-1)";

TEST(Exchanges, HaveTheMembersThatThePlanLists) {
  const std::string other = "task 1 is not a member of the exchange that it names";
  EXPECT_EQ(said_of_ulysses([](Plan& p) { p.tasks[1].exchange = {}; }), other);
  EXPECT_EQ(said_of_ulysses([](Plan& p) { p.tasks[1].exchange = {1}; }), other);
  EXPECT_EQ(said_of_ulysses([](Plan& p) { p.exchanges[0].members = 1; }), other);
  const std::string none =
      "exchange 3 has no members, or some that the plan does not have, or that stand before those "
      "of an earlier exchange";
  for (const Exchange e : {Exchange{{11}, 0}, {{12}, 1}, {{11}, 2}, {{8}, 2}})
    EXPECT_EQ(said_of_ulysses([&](Plan& p) { p.exchanges.push_back(e); }), none);
  EXPECT_EQ(
      said_of_ulysses([](Plan& p) {
        p.exchanges.push_back({{11}, 1});
      }),
      "task 11 (worker 1, step 1, output of rounded_partial result of chunk 1) stands among the "
      "members of exchange 3, but is not one of them");
}

TEST(Exchanges, HaveMembersThatAgree) {
  const auto disagree = [](const std::string& second) {
    return fmt::format(
        "{} and {} are members of one exchange, with different values, lanes or steps", second,
        kQueriesOf0);
  };
  EXPECT_EQ(said_of_ulysses([](Plan& p) { p.tasks[1].step = 1; }),
            disagree("task 1 (worker 1, step 1, exchange of query chunks 0-1)"));
  EXPECT_EQ(said_of_ulysses([](Plan& p) { p.tasks[1].lane = Lane::Return; }),
            disagree(kQueriesOf1));
  EXPECT_EQ(said_of_ulysses([](Plan& p) {
              p.tasks[1].inputs[0] = {3};
              set_value(p, p.tasks[1], attention::kKeyValue);
            }),
            disagree("task 1 (worker 1, step 0, exchange of key_value chunks 0-1)"));
  EXPECT_EQ(said_of_ulysses([](Plan& p) { p.tasks[1].worker_index = 0; }),
            fmt::format("{} and task 1 (worker 0, step 0, exchange of query chunks 0-1) are "
                        "members of one exchange on the same worker",
                        kQueriesOf0));
}

TEST(Exchanges, GiveEachCellOnce) {
  EXPECT_EQ(said_of_ulysses([](Plan& p) { p.tasks[0].inputs[0] = p.tasks[1].inputs[0] = {}; }),
            fmt::format("no member of the exchange of {} gives anything", kQueriesOf0));
  EXPECT_EQ(
      said_of_ulysses([](Plan& p) { p.tasks[1].inputs[0] = {}; }),
      fmt::format("{} gets cells that no member of its exchange gives: heads 0", kQueriesOf0));
  EXPECT_EQ(
      said_of_ulysses([](Plan& p) {
        set_columns(p, p.tasks[7], {3, 1});
        restate_work(p, {7});
      }),
      "task 8 (worker 0, step 1, exchange of rounded_partial result of chunk 0) gets cells that no "
      "member of its exchange gives: heads 2");
  EXPECT_EQ(
      said_of_ulysses([](Plan& p) {
        for (const std::uint32_t member : {8u, 9u}) {
          set_value(p, p.tasks[member], attention::kPartial);
          p.tasks[member].inputs[0] = p.output({member - 4});
          restate_work(p, {member});
        }
        erase_task(p, {7});
        erase_task(p, {6});
        p.tasks[5].completes = 0;
      }),
      "task 7 (worker 1, step 1, exchange of partial result of chunk 1) gives a part of a sum to "
      "an "
      "exchange, and task 6 (worker 0, step 1, exchange of partial result of chunk 0) a complete "
      "tensor");
  Plan twice = gather_queries_by_hand(small_problem(2, 4));
  repeat_exchange(twice, {0}, true);
  restate_completion(twice);
  EXPECT_EQ(first_fault(twice),
            "task 2 (worker 0, step 0, exchange of query chunks 0-1) and task 3 (worker 1, step 0, "
            "exchange of query chunks 0-1) give the same cells to their exchange");
}

TEST(Exchanges, CompleteWhatTheirMembersGet) {
  EXPECT_EQ(said_of_ulysses([](Plan& p) { p.tasks[1].completes = 0; }),
            fmt::format("{}: what a member gets from an exchange is complete", kQueriesOf1));
  EXPECT_EQ(said_of_ulysses([](Plan& p) { p.tasks[1].with_previous = true; }),
            fmt::format("{}: a member of an exchange cannot be posted in a group", kQueriesOf1));
  EXPECT_EQ(said_of_ulysses([](Plan& p) { p.tasks[1].work = p.tasks[4].work; }),
            fmt::format("{}: it states 4 rows and 0 bytes, and has 4 and 128", kQueriesOf1));
  const auto get_nothing = [](Plan& p) {
    p.regions.push_back({{0}, 0});
    set_rows(p, p.tasks[1], {static_cast<std::uint32_t>(p.regions.size()) - 1});
    restate_work(p, {1});
  };
  EXPECT_EQ(said_of_ulysses(get_nothing),
            "task 5 (worker 1, step 0, attend of query chunks 0-1 with key chunks 0-1): input 0 is "
            "of a member that got nothing from its exchange");
  Plan nobody = ulysses_by_hand(small_problem(2, 4));
  get_nothing(nobody);
  nobody.tasks[1].inputs[0] = {};
  EXPECT_EQ(verify(nobody).violations[1].text,
            "task 1 (worker 1, step 0, exchange of query nothing): it gives nothing and gets "
            "nothing");
}

// Partial results of all queries with each worker's own keys, added up by tasks 4 and 5.
TEST(Exchanges, AddUpEachTermOnce) {
  const Plan valid = gather_queries_by_hand(small_problem(2, 4, Pass::Forward, Mask::full()));
  const auto said = [&](auto spoil) {
    Plan plan = valid;
    spoil(plan);
    return first_fault(plan);
  };
  EXPECT_EQ(said([](Plan& p) { p.tasks[5].inputs[0] = {}; }),
            "task 3 (worker 1, step 0, attend of query chunks 0-1 with key chunk 1): its "
            "result is neither merged nor output");
  EXPECT_EQ(said([](Plan& p) {
              set_columns(p, p.tasks[3], {0, 3});
              restate_work(p, {3});
            }),
            "the result of query chunk 0, heads 3, lacks key chunk 1; see task 4 (worker 0, "
            "step 0, exchange "
            "of partial result of chunk 0)");
  EXPECT_EQ(said([](Plan& p) { double_terms(p, {3}); }),
            "the result of query chunk 0 counts key chunk 1 twice: by task 3 (worker 1, step "
            "0, attend of query chunks 0-1 with key chunk 1) and by task 4 (worker 1, step 0, "
            "attend of query chunks 0-1 with key chunk 1)");
  EXPECT_EQ(said([](Plan& p) { repeat_exchange(p, {1}, false); }),
            "task 4 (worker 0, step 0, exchange of partial result of chunk 0) and task 6 (worker "
            "0, step 0, "
            "exchange of partial result of chunk 0) both use the partial of task 2 (worker 0, step "
            "0, attend "
            "of query chunks 0-1 with key chunk 0); it would count twice");
  EXPECT_EQ(said([](Plan& p) { repeat_exchange(p, {1}, true); }),
            "task 4 (worker 0, step 0, exchange of partial result of chunk 0): what a member gets "
            "from an "
            "exchange is complete");
}

// Workers 0, 2 and 4 have two heads of their partial results added up, alone: there is one part of
// each. The other cells of these rows and heads are not of the exchange.
TEST(Exchanges, CompleteNothingButWhatTheirMembersGet) {
  std::string tasks;
  for (int w = 0; w < 5; ++w)
    for (const int heads : {0, 2})
      tasks +=
          fmt::format(R"({{"do":"attend","in":["Q{0}","KV{0}"],"heads":[{1},2],"complete":{2}}},)",
                      w, heads, w % 2 == 1 || heads != (w == 0 ? 0 : 2));
  for (const int w : {0, 2, 4})
    tasks +=
        fmt::format(R"({{"do":"exchange","in":[{}],"rows":[{},1],"heads":[{},2]{}}},)",
                    2 * w + (w == 0 ? 0 : 1), w, w == 0 ? 0 : 2, w == 0 ? ",\"members\":3" : "");
  tasks.pop_back();
  const Plan plan = read_plan(R"({"format":"ringsched-plan","version":2,
"problem":{"workers":5,"tokens":9,"heads":4,"kv_heads":4,"head_dim":8,"dtype":"bf16",
           "mask":"documents:2,2,2,2,1","pass":"forward"},"tasks":[)" +
                                  tasks + "]}",
                              "plan");
  EXPECT_EQ(first_fault(plan), "");
  EXPECT_EQ(any_wrong_run(plan, 3), "");
}

// Rows that do not touch have their own terms: chunk 2 meets 3 keys, and chunk 4 all 5 of them.
TEST(Exchanges, AddUpTheTermsOfEachRow) {
  const auto said = [](std::string_view last_keys) {
    std::string tasks;
    for (int w = 0; w < 5; ++w)
      tasks += fmt::format(R"({{"do":"exchange","in":["KV{}"],"rows":[0,5],"heads":[0,4]{}}},)", w,
                           w == 0 ? ",\"members\":5" : "");
    for (int w = 0; w < 5; ++w)
      tasks += fmt::format(R"({{"do":"attend","in":["Q{0}",{0}],"complete":{1},"keys":{2}}},)", w,
                           w % 2 == 1, w == 4 ? last_keys : "[0,5]");
    for (const int w : {0, 2, 4})
      tasks += fmt::format(R"({{"do":"exchange","in":[{}],"rows":[{},1],"heads":[0,4]{}}},)", 5 + w,
                           w, w == 0 ? ",\"members\":3" : "");
    tasks.pop_back();
    return first_fault(read_plan(R"({"format":"ringsched-plan","version":2,
"problem":{"workers":5,"tokens":5,"heads":4,"kv_heads":4,"head_dim":8,"dtype":"bf16",
           "mask":"causal","pass":"forward"},"tasks":[)" +
                                     tasks + "]}",
                                 "plan"));
  };
  EXPECT_EQ(said("[0,5]"), "");
  EXPECT_EQ(said("[0,3]"),
            "the result of query chunk 4 lacks key chunk 3; see task 10 (worker 0, step 0, "
            "exchange of "
            "partial result of chunk 0)");
}

// Worker 0 sends on what came into its buffer. That this has ended before the next message comes
// in, only two exchanges with worker 1 say: one behind the send, and the `second` before the
// receive.
std::string said_of_buffer_behind(std::string_view second) {
  const Plan plan = read_plan(fmt::format(R"({{"format":"ringsched-plan","version":2,
"problem":{{"workers":2,"tokens":8,"heads":4,"kv_heads":4,"head_dim":8,"dtype":"bf16",
           "mask":"documents:4,4","pass":"forward"}},
"tasks":[{{"do":"send","in":["KV1"],"to":0}},{{"do":"receive","from":0,"slot":0}},
{{"do":"send","in":[1],"to":1,"lane":"return"}},{{"do":"receive","from":2,"lane":"return"}},
{{"do":"exchange","in":["Q0"],"rows":[],"members":2,"lane":"return"}},
{{"do":"exchange","in":[],"worker":1,"tensor":"query","rows":[0,1],"lane":"return"}},
{},
{{"do":"send","in":["KV1"],"to":0}},{{"do":"receive","from":8,"slot":0}},
{{"do":"attend","in":["Q0","KV0"]}},{{"do":"attend","in":["Q1","KV1"]}}]}})",
                                          second),
                              "plan");
  return first_fault(plan);
}

// What worker 0 gets from worker 1 has come only if that was behind the first exchange. What it
// gives, it may be rid of before.
TEST(Exchanges, OrderWhatMembersGetBehindWhatTheyAreGiven) {
  const std::string gets =
      R"({"do":"exchange","in":[],"worker":0,"tensor":"query","rows":[1,1],"members":2},
{"do":"exchange","in":["Q1"],"rows":[],)";
  const std::string gives =
      R"({"do":"exchange","in":["Q0"],"rows":[],"members":2},
{"do":"exchange","in":[],"worker":1,"tensor":"query","rows":[0,1],)";
  const std::string early =
      "task 9 (worker 0, step 0, receive of key_value chunk 1 from worker 1) overwrites buffer 0 "
      "while task 2 (worker 0, step 0, send of key_value chunk 1 to worker 1) may still read what "
      "task 1 (worker 0, step 0, receive of key_value chunk 1 from worker 1) put there";
  EXPECT_EQ(said_of_buffer_behind(gets + "\"after\":[5]}"), "");
  EXPECT_EQ(said_of_buffer_behind(gets + "\"after\":[]}"), early);
  EXPECT_EQ(said_of_buffer_behind(gives + "\"after\":[5]}"), early);
}

// Worker 0 posts its receive in one group with a send of what the exchange brings, and the exchange
// waits for worker 1, whose send of that message comes first.
TEST(Exchanges, FindsThoseThatWaitForAGroupThatWaitsForThem) {
  const Plan plan = read_plan(R"({"format":"ringsched-plan","version":2,
"problem":{"workers":2,"tokens":8,"heads":4,"kv_heads":4,"head_dim":8,"dtype":"bf16",
           "mask":"documents:4,4","pass":"forward"},
"tasks":[{"do":"send","in":["KV1"],"to":0},{"do":"receive","from":0},
{"do":"exchange","in":[],"worker":0,"tensor":"query","rows":[1,1],"members":2,"lane":"return"},
{"do":"exchange","in":["Q1"],"rows":[],"lane":"return","after":[0]},
{"do":"send","in":[2],"to":1,"lane":"fetch","with_previous":true},
{"do":"receive","from":4,"lane":"return"},
{"do":"attend","in":["Q0","KV0"]},{"do":"attend","in":["Q1","KV1"]}]})",
                              "plan");
  const Verification v = verify(plan);
  ASSERT_FALSE(v.holds());
  EXPECT_EQ(v.violations[0].rule, Rule::Deadlock);
  EXPECT_EQ(
      v.violations[0].text,
      "task 4 (worker 0, step 0, send of query chunk 1 to worker 1) waits for task 2 (worker 0, "
      "step 0, exchange of query chunk 1); task 2 (worker 0, step 0, exchange of query chunk 1) "
      "waits for task 3 (worker 1, step 0, exchange of query nothing); task 3 (worker 1, step 0, "
      "exchange of query nothing) waits for task 0 (worker 1, step 0, send of key_value chunk 1 to "
      "worker 0); task 0 (worker 1, step 0, send of key_value chunk 1 to worker 0) waits for task "
      "1 (worker 0, step 0, receive of key_value chunk 1 from worker 1), which comes only after "
      "task 4");
  EXPECT_NE(any_wrong_run(plan, 1), "");
  Plan behind = plan;
  behind.tasks[4].lane = Lane::Return;
  EXPECT_EQ(first_fault(behind),
            "task 4 (worker 0, step 0, send of query chunk 1 to worker 1): \"with_previous\" is "
            "true, but no transfer precedes it on its lane");
}

// An exchange on one lane, a message on another: worker 0 lists the message first, and worker 1 the
// exchange.
TEST(Exchanges, MayNeedLanesThatProgressIndependently) {
  const Plan plan = read_plan(R"({"format":"ringsched-plan","version":2,
"problem":{"workers":2,"tokens":8,"heads":4,"kv_heads":4,"head_dim":8,"dtype":"bf16",
           "mask":"documents:4,4","pass":"forward"},
"tasks":[{"do":"send","in":["KV0"],"to":1},
{"do":"exchange","in":["Q0"],"rows":[],"members":2,"lane":"return"},
{"do":"exchange","in":[],"worker":1,"tensor":"query","rows":[0,1],"lane":"return"},
{"do":"receive","from":0},
{"do":"attend","in":["Q0","KV0"]},{"do":"attend","in":["Q1","KV1"]}]})",
                              "plan");
  const Verification v = verify(plan, {.one_queue = true});
  EXPECT_TRUE(v.holds());
  EXPECT_EQ(v.stuck_in_one_queue,
            "task 0 (worker 0, step 0, send of key_value chunk 0 to worker 1) waits for task 3 "
            "(worker 1, step 0, receive of key_value chunk 0 from worker 0), which comes only "
            "after task 2; task 2 (worker 1, step 0, exchange of query chunk 0) waits for task 1 "
            "(worker 0, step 0, exchange of query nothing), which comes only after task 0");
  EXPECT_EQ(verify(plan).stuck_in_one_queue, "") << "nobody asked";
  Plan beside = plan;  // the message does not belong to the queue
  beside.tasks[0].lane = beside.tasks[3].lane = Lane::Compute;
  EXPECT_EQ(verify(beside, {.one_queue = true}).stuck_in_one_queue, "");
  // A group of transfers around an exchange is issued as a whole, behind it.
  const Plan around = read_plan(R"({"format":"ringsched-plan","version":2,
"problem":{"workers":2,"tokens":8,"heads":4,"kv_heads":4,"head_dim":8,"dtype":"bf16",
           "mask":"documents:4,4","pass":"forward"},
"tasks":[{"do":"send","in":["KV0"],"to":1},{"do":"send","in":["KV1"],"to":0},
{"do":"exchange","in":["Q0"],"rows":[],"members":2,"lane":"return"},
{"do":"exchange","in":[],"worker":1,"tensor":"query","rows":[0,1],"lane":"return"},
{"do":"receive","from":1,"with_previous":true},{"do":"receive","from":0,"with_previous":true},
{"do":"attend","in":["Q0","KV0"]},{"do":"attend","in":["Q1","KV1"]}]})",
                                "plan");
  EXPECT_EQ(first_fault(around), "");
  EXPECT_EQ(verify(around, {.one_queue = true}).stuck_in_one_queue, "");
  for (const Plan& p : {ulysses_by_hand(small_problem(3, 7, Pass::Both)),
                        all_gather_by_hand(small_problem(3, 7, Pass::Both), 1)})
    EXPECT_EQ(verify(p, {.one_queue = true}).stuck_in_one_queue, "");
}

}  // namespace
}  // namespace ringsched
