// Plans whose exchanges have become messages: they verify, mean the same as before, and send what
// the textbooks say.
#include "ringsched/scheduler/lower.hpp"
#include "ringsched/scheduler/plan_file.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "support/cases.hpp"
#include "support/exchange_cases.hpp"
#include "support/exchange_plans.hpp"
#include "support/interpreter.hpp"
#include "support/peak_oracle.hpp"
#include "support/same_plan.hpp"
#include "support/surgery.hpp"

namespace ringsched {
namespace {

constexpr Lowering kLowered[] = {Lowering::Direct, Lowering::Ring, Lowering::Tree};

std::string fault_of(const Plan& plan) {
  const Verification v = verify(plan);
  return v.holds() ? "" : v.violations[0].text;
}

struct PlanByHand {
  const char* name;
  Plan (*make)(const Problem&);
};
constexpr PlanByHand kPlansByHand[] = {
    {"ulysses", ulysses_by_hand},
    {"all_gather", [](const Problem& p) { return all_gather_by_hand(p); }},
    {"all_gather_by_one", [](const Problem& p) { return all_gather_by_hand(p, 1); }},
    {"gather_queries", gather_queries_by_hand},
    {"star", star_by_hand},
};

// Odd numbers of members, members with nothing to give or to get, shares that differ in size.
TEST(Lower, EveryExchangeBecomesMessagesThatDoTheSame) {
  for (const PlanByHand& by_hand : kPlansByHand)
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both})
      for (const std::uint32_t workers : {1u, 2u, 3u, 5u, 6u})
        for (const std::uint32_t kv_heads : {1u, 4u}) {
          Problem p = small_problem(workers, 2 * std::int64_t{workers} - 1, pass);
          p.kv_heads = kv_heads;
          const Plan native = by_hand.make(p);
          ASSERT_EQ(fault_of(native), "");
          for (const Lowering how : kLowered) {
            SCOPED_TRACE(fmt::format("{} {} W={} kv={} {}", by_hand.name, to_text(pass), workers,
                                     kv_heads, to_text(how)));
            const Lowered lowered = lower_exchanges(native, how);
            EXPECT_TRUE(lowered.plan.exchanges.empty());
            ASSERT_EQ(fault_of(lowered.plan), "");
            ASSERT_EQ(any_wrong_run(lowered.plan, 2), "");
          }
        }
}

TEST(Lower, SchedulesMayRunAheadAfterIt) {
  for (const char* name : {"ulysses", "all-gather", "all-gather:stride=1", "usp:ulysses=2",
                           "usp:ulysses=2:ring=zigzag"})
    for (const Pass pass : {Pass::Forward, Pass::Backward, Pass::Both})
      for (const std::uint32_t workers : {2u, 4u})
        for (const Lowering how : kLowered) {
          Problem p = small_problem(workers, 3 * std::int64_t{workers} + 1, pass);
          p.kv_heads = 2;
          const Plan lowered = lower_exchanges(build_plan(p, find_schedule(name)), how).plan;
          for (const Overlap overlap : {Overlap::None, Overlap::Prefetch, Overlap::Unbounded}) {
            const Plan plan = limit_communication(lowered, {overlap, 0});
            SCOPED_TRACE(fmt::format("{} {} W={} {} {}", name, to_text(pass), workers, to_text(how),
                                     to_text(overlap)));
            ASSERT_EQ(fault_of(plan), "");
            ASSERT_EQ(any_wrong_run(plan, 1), "");
          }
        }
}

struct Traffic {
  std::vector<std::int64_t> bytes, messages;  // by worker, sent
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

Traffic traffic_of(const Plan& plan) {
  Traffic out{std::vector<std::int64_t>(plan.problem.workers),
              std::vector<std::int64_t>(plan.problem.workers)};
  const auto count = [&](WorkerId w, Bytes bytes) {
    out.bytes[w.value] += bytes.value;
    ++out.messages[w.value];
  };
  for (const Task& t : plan.tasks)
    if (is_send(t.kind)) count(t.worker(), plan.works[t.work.value].bytes);
  for (const Exchange& e : plan.exchanges)
    for (const Share& s : shares_of(plan, e)) {
      const Task& giver = plan.tasks[e.first.value + s.from];
      if (s.from != s.to)
        count(giver.worker(),
              plan.program.bytes(plan.value(giver), plan.layout.rows(s.rows), s.columns.count));
    }
  return out;
}

TEST(Lower, DirectSendsEachShareOnce) {
  for (const PlanByHand& by_hand : kPlansByHand)
    for (std::uint32_t workers = 1; workers <= 7; ++workers) {
      const Plan native = by_hand.make(small_problem(workers, 20, Pass::Both));
      EXPECT_EQ(traffic_of(lower_exchanges(native, Lowering::Direct).plan), traffic_of(native))
          << by_hand.name << " " << workers;
    }
}

// Of n equal shares, all that pass a worker but its own: n - 1 of n, in as many messages.
TEST(Lower, RingsSendWhatTheirClosedFormsSay) {
  for (std::uint32_t n = 2; n <= 9; ++n) {
    const Problem p = small_problem(n, 4 * n, Pass::Backward);
    const Traffic sent = traffic_of(lower_exchanges(all_gather_by_hand(p), Lowering::Ring).plan);
    const Program program = program_of(p);
    const Tokens share{4};
    const std::int64_t expected =
        (n - 1) * (program.bytes(attention::kKeyValue, share).value +
                   program.bytes(attention::kKeyValueGradient, share).value);
    EXPECT_THAT(sent.bytes, testing::Each(expected)) << n;
    EXPECT_THAT(sent.messages, testing::Each(2 * (n - 1))) << n;
  }
}

// The only exchange of this plan is an all-reduce of 8 columns: 2 (n - 1) / n of all of it.
TEST(Lower, AnAllReduceTakesTwoRoundsOfARing) {
  for (const std::uint32_t n : {2u, 4u, 8u}) {
    Problem p = small_problem(n, 4 * n, Pass::Both);
    p.heads = p.kv_heads = 8;
    const Plan native = gather_queries_by_hand(p);
    const Exchange e = native.exchanges[1];
    ASSERT_EQ(form_of(native, e), ExchangeForm::AllReduce);
    const Plan lowered = lower_exchanges(native, Lowering::Ring).plan;
    std::vector<std::int64_t> bytes(n), messages(n);
    for (const Task& t : lowered.tasks)
      if (is_send(t.kind) && lowered.value(t) == attention::kPartial) {
        bytes[t.worker_index] += lowered.works[t.work.value].bytes.value;
        ++messages[t.worker_index];
      }
    const std::int64_t all = native.bytes(native.piece(native.tasks[e.first.value])).value;
    EXPECT_THAT(bytes, testing::Each(2 * (n - 1) * all / n));
    EXPECT_THAT(messages, testing::Each(2 * (n - 1)));
  }
}

std::int64_t messages_of(const Plan& plan, ValueId value) {
  return std::ranges::count_if(
      plan.tasks, [&](const Task& t) { return is_send(t.kind) && plan.value(t) == value; });
}

TEST(Lower, TreesSendOneMessageLessThanTheyHaveMembers) {
  for (std::uint32_t n = 1; n <= 9; ++n) {
    const Plan star = lower_exchanges(star_by_hand(small_problem(n, 2 * n)), Lowering::Tree).plan;
    EXPECT_EQ(messages_of(star, attention::kQuery), n - 1);
    EXPECT_EQ(messages_of(star, attention::kPartial), n - 1);
    const Plan reduced =
        lower_exchanges(gather_queries_by_hand(small_problem(n, 2 * n, Pass::Both)), Lowering::Tree)
            .plan;
    EXPECT_EQ(messages_of(reduced, attention::kPartial), 2 * (n - 1));
  }
}

// No member sends or receives more than ceil(log2 n) times.
TEST(Lower, TreesHaveAsManyRoundsAsTheNumberOfMembersHasBits) {
  const Plan star = lower_exchanges(star_by_hand(small_problem(13, 26)), Lowering::Tree).plan;
  EXPECT_EQ(std::ranges::count_if(star.tasks,
                                  [&](const Task& t) {
                                    return is_send(t.kind) && t.worker_index == 0 &&
                                           star.value(t) == attention::kQuery;
                                  }),
            4);
}

TEST(Lower, SaysWhatBecameOfEachForm) {
  const Plan plan = star_by_hand(small_problem(3, 6, Pass::Both));
  const auto said = [&](Lowering how) {
    std::string out;
    for (const LoweredForm& f : lower_exchanges(plan, how).forms)
      out += fmt::format("{} {} {}; ", f.count, to_text(f.form), to_text(f.as));
    return out;
  };
  EXPECT_EQ(said(Lowering::Tree),
            "3 broadcast tree; 1 scatter direct; 1 gather direct; 2 reduce tree; ");
  EXPECT_EQ(said(Lowering::Ring),
            "3 broadcast direct; 1 scatter direct; 1 gather direct; 2 reduce direct; ");
  EXPECT_EQ(said(Lowering::Native),
            "3 broadcast native; 1 scatter native; 1 gather native; 2 reduce native; ");
}

TEST(Lower, NativeChangesNothing) {
  const Plan plan = ulysses_by_hand(small_problem(3, 9, Pass::Both));
  expect_same(lower_exchanges(plan, Lowering::Native).plan, plan);
  const Plan ring = build_plan(small_problem(3, 9), find_schedule("ring"));
  expect_same(lower_exchanges(ring, Lowering::Ring).plan, ring);
}

TEST(Lower, KeepsTheDummyHeads) {
  const Plan plan = build_plan(small_problem(3, 9), find_schedule("ulysses:pad=1"));
  const Plan lowered = lower_exchanges(plan, Lowering::Direct).plan;
  EXPECT_EQ(lowered.without_padding(), plan.without_padding());
  EXPECT_GT(lowered.dummy_heads, 0u);
}

TEST(Lower, KeepsControlEdgesAndSlots) {
  Plan plan = ulysses_by_hand(small_problem(2, 4));
  // The second exchange, of keys, waits for the first; an attend for that of keys.
  plan.controls = {{{0}, {2}}, {{1}, {3}}, {{2}, {4}}};
  const Plan lowered = lower_exchanges(plan, Lowering::Direct).plan;
  EXPECT_EQ(fault_of(lowered), "");
  // Each of 2 messages waits for each of 2 on both workers, and the attend for 2 on worker 0.
  int between_messages = 0, before_attends = 0;
  for (const ControlEdge& e : lowered.controls) {
    const Task &before = lowered.tasks[e.before.value], &after = lowered.tasks[e.after.value];
    EXPECT_EQ(before.worker_index, after.worker_index);
    between_messages += is_transfer(before.kind) && is_transfer(after.kind);
    before_attends += is_transfer(before.kind) && is_attend(after.kind);
  }
  EXPECT_EQ(between_messages, 2 * 2 * 2);
  EXPECT_EQ(before_attends, 2);
}

TEST(Lower, NoJoinIsMadeOfWhatCameInOnePiece) {
  // A tree hands whole tensors on, so worker 0 alone has something of its own to put together.
  const Plan star = lower_exchanges(star_by_hand(small_problem(4, 8)), Lowering::Tree).plan;
  for (const Exchange& r : star.repacks)
    EXPECT_EQ(star.tasks[r.first.value].worker_index, 0) << r.first.value;
}

TEST(Lower, PlanFilesKeepLoweredPlans) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 20; ++i) {
    const Plan native = random_exchange_plan(random);
    const Plan plan = lower_exchanges(native, kLowered[i % 3]).plan;
    expect_round_trip(plan);
  }
}

TEST(Lower, MemoryIsWhatAnOrderOfEventsCanHoldAtMost) {
  for (const PlanByHand& by_hand : kPlansByHand)
    for (const Lowering how : kLowered) {
      const Plan plan = lower_exchanges(by_hand.make(small_problem(2, 4, Pass::Forward)), how).plan;
      const Verification v = verify(plan);
      ASSERT_TRUE(v.holds());
      const std::vector<std::int64_t> most = most_memory(plan);
      for (std::uint32_t w = 0; w < 2; ++w)
        EXPECT_GE(v.peak[w].value, most[w]) << by_hand.name << " " << to_text(how) << " " << w;
    }
}

// The first member of the first repack of this value, of parts of a sum or of complete tensors.
TaskId repack_of(const Plan& plan, ValueId value, bool parts) {
  for (const Exchange& r : plan.repacks)
    if (plan.value(plan.tasks[r.first.value]) == value && adds_up(plan, r) == parts) return r.first;
  return {};
}

TEST(Lower, VerifySaysWhatIsWrongWithARepack) {
  const Plan valid =
      lower_exchanges(gather_queries_by_hand(small_problem(2, 4, Pass::Both)), Lowering::Ring).plan;
  const TaskId joins = repack_of(valid, attention::kPartial, false),
               cuts = repack_of(valid, attention::kPartial, true);
  ASSERT_TRUE(joins.valid() && cuts.valid());
  const auto said = [&](const auto& spoil) {
    Plan plan = valid;
    spoil(plan);
    std::string all;
    for (const Violation& v : verify(plan).violations) all += v.text + "\n";
    return all;
  };
  using testing::HasSubstr;
  // Else what is complete could be added to something, and count twice.
  EXPECT_THAT(said([&](Plan& p) { p.tasks[joins.value].completes = 0; }),
              HasSubstr("what it gets of complete tensors is complete"));
  EXPECT_THAT(said([&](Plan& p) { p.tasks[joins.value + 1].inputs[0] = p.output(joins); }),
              HasSubstr("it uses what another member of its repack makes"));
  EXPECT_THAT(said([&](Plan& p) { p.tasks[joins.value + 1].with_previous = false; }),
              HasSubstr("the members of a repack are one group, which begins with the first"));
  EXPECT_THAT(said([&](Plan& p) { p.tasks[joins.value + 1].lane = Lane::Fetch; }),
              HasSubstr("with different values, lanes or steps"));
  EXPECT_THAT(said([&](Plan& p) { p.tasks[joins.value].exchange = {99}; }),
              HasSubstr("is not a member of the repack that it names"));
  EXPECT_THAT(said([&](Plan& p) { p.repacks.push_back({joins, 0}); }), HasSubstr("has no members"));
  EXPECT_THAT(said([&](Plan& p) { p.tasks[cuts.value].inputs[0] = {}; }),
              HasSubstr("no member of the repack of"));
}

// A part of a sum that is cut loses a chunk, and what it is added to has room for that: only the
// terms tell.
TEST(Lower, ACutThatLosesRowsIsNoticed) {
  const Problem p = small_problem(3, 24, Pass::Backward);
  Plan plan =
      lower_exchanges(build_plan(p, find_schedule("all-gather:shares=zigzag")), Lowering::Ring)
          .plan;
  ASSERT_EQ(fault_of(plan), "");
  std::uint32_t id = 0;  // a reduction of what came and an own piece of two chunks
  const auto own = [&] { return plan.producer(plan.tasks[id].inputs[1]); };
  while (plan.tasks[id].kind != TaskKind::Reduce || !is_repack(plan.tasks[own().value].kind)) ++id;
  const TaskId cut = own();
  const Region rows = plan.regions[plan.rows(plan.tasks[cut.value]).value];
  ASSERT_EQ(rows.count, 2u);
  plan.regions.push_back({rows.first, 1});
  set_rows(plan, plan.tasks[cut.value], {static_cast<std::uint32_t>(plan.regions.size()) - 1});
  restate_work(plan, cut);
  restate_work(plan, {id});
  EXPECT_THAT(fault_of(plan), testing::HasSubstr(" lacks "));
}

// One random change of a repack: of its members, of what they give and get.
std::string mutate_repack(Plan& plan, std::mt19937_64& random) {
  const auto any = [&](std::size_t n) { return static_cast<std::uint32_t>(random() % n); };
  const Exchange r = plan.repacks[any(plan.repacks.size())];
  const TaskId id{r.first.value + any(r.members)};
  Task& t = plan.tasks[id.value];
  const Piece piece = plan.piece(t);
  const auto say = [&](const char* what) { return fmt::format("member {} {}", id.value, what); };
  const auto set = [&](Region rows, ColumnRange columns) {
    plan.regions.push_back(rows);
    const RegionId region{static_cast<std::uint32_t>(plan.regions.size()) - 1};
    set_piece(plan, t, {piece.value, region, columns});
    restate_work(plan, id);
  };
  const Region rows = plan.regions[piece.rows.value];
  switch (any(10)) {
    case 0:
      erase_task(plan, id);
      return say("is dropped");
    case 1:
      repeat_task(plan, id);
      return say("is repeated");
    case 2:
      if (rows.count > 1) set({rows.first, rows.count - 1}, piece.columns);
      return say("loses its last chunk");
    case 3:
      set(rows, {piece.columns.first, std::max(1u, piece.columns.count - 1)});
      return say("loses its last column");
    case 4:
      t.inputs[0] = {};
      return say("gives nothing");
    case 5:
      std::swap(t.inputs[0], plan.tasks[r.first.value + any(r.members)].inputs[0]);
      return say("swaps what it gives");
    case 6:
      t.inputs[0] = plan.tasks[r.first.value + any(r.members)].inputs[0];
      return say("gives what another gives");
    case 7:
      t.completes = !t.completes;
      return say("says the opposite of complete");
    case 8: {
      const Task& other = plan.tasks[r.first.value + any(r.members)];
      t.piece = other.piece;
      t.work = other.work;
      return say("gets what another gets");
    }
    default:
      if (id.value + 1 < plan.tasks.size()) swap_tasks(plan, id, {id.value + 1});
      return say("trades places");
  }
}

// The interpreter decides whether the meaning changed, and verify() must have refused it then.
TEST(Lower, NoSpoiltRepackIsAccepted) {
  const int times = cases_to_run(400, kSanitized ? 4 : 12);
  std::mt19937_64 random(11);
  int changed = 0, harmless = 0;
  for (const PlanByHand& by_hand : kPlansByHand)
    for (const Pass pass : {Pass::Forward, Pass::Both})
      for (const std::uint32_t workers : {2u, 3u})
        for (const Lowering how : kLowered) {
          Problem p = small_problem(workers, 2 * std::int64_t{workers} - 1, pass);
          p.kv_heads = 2;
          const Plan valid = lower_exchanges(by_hand.make(p), how).plan;
          if (valid.repacks.empty()) continue;
          for (int i = 0; i < times; ++i) {
            Plan spoilt = valid;
            const std::string what =
                i % 4 == 0 ? mutate(spoilt, random) : mutate_repack(spoilt, random);
            const bool holds = verify(spoilt).holds();
            const std::string wrong = any_wrong_run(spoilt, holds ? 3 : 1);
            ++(wrong.empty() ? harmless : changed);
            ASSERT_FALSE(holds && !wrong.empty())
                << by_hand.name << " " << to_text(how) << ": " << what << ": " << wrong;
          }
        }
  EXPECT_GT(2 * changed, harmless);  // about as many, here and there fewer
}

TEST(Lower, IsChosenByName) {
  for (const Lowering how : {Lowering::Native, Lowering::Direct, Lowering::Ring, Lowering::Tree})
    EXPECT_EQ(parse_lowering(to_text(how)), how);
  try {
    parse_lowering("rings");
    FAIL();
  } catch (const Error& wrong) {
    EXPECT_THAT(wrong.what(),
                testing::StrEq("--exchanges is 'rings'; use native, direct, ring or tree"));
  }
}

// A member that gets nothing has no result to put out.
TEST(Lower, AFileWithoutOutputsHasNoneOfMembersThatGetNothing) {
  const Plan plan = read_plan(R"({"format": "ringsched-plan", "version": 2,
    "problem": {"workers": 1, "tokens": 4, "heads": 2, "kv_heads": 2, "head_dim": 4,
                "dtype": "fp32", "mask": "causal", "pass": "forward"},
    "tasks": [
      {"do": "attend", "in": ["Q0", "KV0"], "heads": [0, 1], "complete": false},
      {"do": "attend", "in": ["Q0", "KV0"], "heads": [1, 1], "complete": false},
      {"do": "repack", "in": [0], "members": 2, "rows": [0, 1], "heads": [0, 2],
       "complete": true},
      {"do": "repack", "in": [1], "rows": []}]})",
                              "plan.json");
  EXPECT_EQ(plan.tasks.size(), 5u);
  EXPECT_TRUE(verify(plan).holds());
}

// A window leaves partial results to some workers only, of one document to one alone.
TEST(Lower, PartialResultsThatAreOnlyCopiedAreNotAddedUp) {
  for (const char* schedule : {"flash-decode", "flash-decode:to=one"})
    for (const std::int64_t window : {2, 9, 64})
      for (const bool two : {false, true}) {
        Problem p = small_problem(5, 40, Pass::Forward, Mask::window(Tokens{window}));
        if (two) p.mask = Mask::documents({{20}, {20}});
        p.new_tokens = {1};
        const Plan native = build_plan(p, find_schedule(schedule));
        ASSERT_EQ(fault_of(native), "");
        for (const Lowering how : kLowered) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", schedule, window, two, to_text(how)));
          const Lowered lowered = lower_exchanges(native, how);
          EXPECT_EQ(fault_of(lowered.plan), "");
          EXPECT_EQ(interpret(lowered.plan, 7), "");
          if (window > 8 || two || std::string_view(schedule) != "flash-decode") continue;
          ASSERT_EQ(lowered.forms.size(), 1u);
          EXPECT_EQ(lowered.forms[0].form, ExchangeForm::Broadcast);
          EXPECT_EQ(lowered.forms[0].as, how == Lowering::Ring ? Lowering::Direct : how);
        }
      }
}

}  // namespace
}  // namespace ringsched
