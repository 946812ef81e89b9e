// Plans with exchanges, run by threads of one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "operations.hpp"
#include "reference.hpp"
#include "ringsched/runtime/numbers.hpp"
#include "ringsched/runtime/tensor_form.hpp"
#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/lower.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "runtime/plans_to_run.hpp"
#include "support/cases.hpp"
#include "support/exchange_cases.hpp"
#include "support/exchange_plans.hpp"

namespace ringsched {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// The workers of a plan as threads of this process, or some of them.
class ThreadedRun {
 public:
  explicit ThreadedRun(const Plan& plan, std::vector<WorkerId> mine = {})
      : plan_(plan),
        inputs_(plan.problem, 7),
        gate_(make_core_gate(2, true, control_)),
        execution_(
            plan, mine.empty() ? all_workers(plan) : mine,
            [&](WorkerId w, std::span<const TaskId> tasks) {
              return make_cpu_device(plan, w, tasks, control_, {true, gate_});
            },
            *transport_, control_, fill_from(plan, inputs_)) {}

  Execution& execute(std::chrono::nanoseconds deadline = 60s) {
    execution_.run(Clock::now() + execution_.lead(), deadline,
                   [](const std::string& why) { FAIL() << "hung: " << why; });
    return execution_;
  }
  std::vector<CheckedResults> check(std::int64_t rows = 0, const ForwardRows& forward = {}) {
    return check_results(plan_, inputs_, execution_.results(), {rows, 3}, forward);
  }
  const Inputs& inputs() const { return inputs_; }

 private:
  const Plan& plan_;
  Control control_;
  const Inputs inputs_;
  const std::unique_ptr<Transport> transport_ = make_local_transport(plan_, control_);
  const std::shared_ptr<CoreGate> gate_;
  Execution execution_;
};

TEST(ExchangeRun, RandomPlansComputeTheRightNumbers) {
  std::mt19937_64 random(22);
  for (int i = 0; i < cases_to_run(100, kSanitized ? 12 : 25) && !testing::Test::HasFailure();
       ++i) {
    const Plan plan = random_exchange_plan(random);
    ASSERT_TRUE(verify(plan).holds()) << described(plan);
    ThreadedRun run(plan);
    const Execution& e = run.execute();
    expect_right(run.check(), fmt::format("{}: {}", i, described(plan)));
    const std::vector<TaskTime> times = e.times();
    for (std::size_t id = 0; id < times.size(); ++id) {
      EXPECT_GE(times[id].start, 0);
      EXPECT_GE(times[id].end, times[id].start);
      const Task& t = plan.tasks[id];  // the first member of a repack has all its time
      if (is_repack(t.kind) && t.with_previous) {
        EXPECT_EQ(times[id].start, times[id].end);
      }
    }
  }
}

// What is added up is so in one order, whichever message comes first.
TEST(ExchangeRun, GivesTheSameBitsEachTime) {
  const Plan plan =
      all_gather_by_hand(problem(5, 60, 4, 2, 8, Dtype::Bf16, Pass::Both, Mask::full()));
  const auto bits = [&](const Execution& e) {
    std::string out;
    for (const Result& r : e.results()) {
      const TensorForm form =
          tensor_form(plan.program, r.value, plan.layout.rows(r.region), r.columns.count);
      out.append(reinterpret_cast<const char*>(r.data), static_cast<std::size_t>(form.at(2)));
    }
    return out;
  };
  ThreadedRun run(plan);
  const std::string first = bits(run.execute());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(bits(run.execute()) == first) << i;
}

TEST(ExchangeRun, BroadcastsScattersAndReductionsRunInAnyForm) {
  for (const Lowering how : {Lowering::Native, Lowering::Direct, Lowering::Ring, Lowering::Tree})
    for (const std::uint32_t workers : {1u, 3u, 6u}) {
      const Plan plan =
          lower_exchanges(star_by_hand(problem(workers, 50, 4, 2, 8, Dtype::Bf16, Pass::Both)), how)
              .plan;
      ThreadedRun run(plan);
      run.execute();
      expect_right(run.check(), fmt::format("{} {}", to_text(how), described(plan)));
    }
}

// Where exchanges only copy, and direct messages that are added up in the same order, the results
// are those of the exchanges, bit for bit.
TEST(ExchangeRun, DirectMessagesGiveTheBitsOfExchanges) {
  for (const auto make : {ulysses_by_hand, gather_queries_by_hand})
    for (const Pass pass : {Pass::Forward, Pass::Both}) {
      const Plan plan = make(problem(5, 61, 7, 7, 8, Dtype::Bf16, pass, Mask::causal()));
      const Plan lowered = lower_exchanges(plan, Lowering::Direct).plan;
      ThreadedRun native(plan), messages(lowered);
      const std::vector<Result>&a = native.execute().results(), &b = messages.execute().results();
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        const Bytes bytes =
            plan.program.bytes(a[i].value, plan.layout.rows(a[i].region), a[i].columns.count);
        EXPECT_EQ(std::memcmp(a[i].data, b[i].data, static_cast<std::size_t>(bytes.value)), 0)
            << plan.schedule << " " << i;
      }
    }
}

TEST(ExchangeRun, OutputsInTheProblemsDtypeHaveNoLogSumExpToCheck) {
  for (const Dtype dtype : {Dtype::Fp32, Dtype::Bf16, Dtype::Fp16}) {
    const Plan plan = ulysses_by_hand(problem(3, 40, 6, 3, 16, dtype, Pass::Both));
    ThreadedRun run(plan);
    run.execute();
    const std::vector<CheckedResults> all = run.check();
    expect_right(all, described(plan));
    std::vector<std::string> names;
    for (const CheckedResults& c : all) names.push_back(c.name);
    const std::string how =
        dtype == Dtype::Fp32 ? "" : fmt::format(", rounded to {}", to_text(dtype));
    EXPECT_THAT(names, testing::ElementsAre("output" + how, "query gradient" + how,
                                            "key gradient" + how, "value gradient" + how));
  }
}

// A number of a result that is wrong by two spacings of its dtype is found.
TEST(ExchangeRun, AWrongRoundedNumberIsFound) {
  const Plan plan = ulysses_by_hand(problem(2, 30, 2, 2, 8, Dtype::Bf16, Pass::Forward));
  ThreadedRun run(plan);
  std::vector<Result> results = run.execute().results();
  const Result& r = results[0];
  std::vector<std::byte> changed(
      static_cast<std::size_t>(plan.program.bytes(r.value, plan.layout.rows(r.region)).value));
  std::memcpy(changed.data(), r.data, changed.size());
  const float was = number_at(changed.data(), Dtype::Bf16, 5);
  put_number(changed.data(), Dtype::Bf16, 5, was * 1.25f + 0.25f);
  results[0].data = changed.data();
  const std::vector<CheckedResults> all = check_results(plan, run.inputs(), results, {0, 3}, {});
  EXPECT_FALSE(all[0].holds());
  EXPECT_EQ(all[0].worst, "token 0, head 0, on worker 0");
}

// The key gradients of a large problem need each query's log-sum-exp, which is not put out.
TEST(ExchangeRun, LargeProblemsAreCheckedToo) {
  const Plan plan = ulysses_by_hand(problem(2, 2100, 2, 1, 8, Dtype::Bf16, Pass::Both));
  ASSERT_TRUE(needs_forward_rows(plan.problem, {}));
  ThreadedRun run(plan);
  const ForwardRows forward = forward_rows(plan, run.inputs(), run.execute().results());
  expect_right(run.check(6, forward), described(plan));
}

// No number that was within its bound is outside of the rounded one, and the bound is no wider than
// it has to be.
TEST(ExchangeRun, RoundedNumbersHaveTheBoundOfTheirRounding) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> part(-1, 1), size(-16, 3);
  for (const Dtype dtype : {Dtype::Fp32, Dtype::Bf16, Dtype::Fp16}) {
    double most = 0, most_exact = 0;
    for (int i = 0; i < 20000; ++i) {
      const double value = part(random) * std::exp(size(random)),
                   bound = i % 2 == 0 ? 0 : std::abs(value) * std::exp(size(random) - 3);
      const auto found = static_cast<float>(value + bound * part(random));
      std::byte stored[4];
      put_number(stored, dtype, 0, found);
      const double error = std::abs(static_cast<double>(number_at(stored, dtype, 0)) - value);
      const double allowed = rounded_bound(dtype, value, bound) + 0x1p-23 * std::abs(value);
      most = std::max(most, error / allowed);
      if (bound == 0) most_exact = std::max(most_exact, error / allowed);
    }
    EXPECT_LE(most, 1) << to_text(dtype);
    EXPECT_GT(most_exact, dtype == Dtype::Fp32 ? 0.4 : 0.9) << to_text(dtype);
  }
}

// A round of some heads of a tensor, which here has 3 rows of 2 heads of 3 numbers.
struct OneRound {
  explicit OneRound(Dtype dtype)
      : plan(ulysses_by_hand(problem(1, 3, 2, 2, 3, dtype, Pass::Forward, Mask::full()))) {
    while (plan.tasks[id.value].kind != TaskKind::Round) ++id.value;
  }
  void perform(bool finite) {
    CpuOperations operations(plan);
    cpu::Scratch scratch;
    Operands at;
    at.inputs[0] = reinterpret_cast<const std::byte*>(given.data());
    at.outputs[0] = made.data();
    operations.perform(id, at, scratch);
    if (finite) operations.require_finite(id, at);
  }
  Plan plan;
  TaskId id{0};
  std::vector<float> given = std::vector<float>(3 * 2 * 4);  // a log-sum-exp behind them
  std::vector<std::byte> made = std::vector<std::byte>(3 * 2 * 3 * 4);
};

TEST(ExchangeRun, RoundsAsNumbersDo) {
  constexpr float none = std::numeric_limits<float>::quiet_NaN();
  constexpr float numbers[] = {0,        -0.0f,    1,     1 + 0x1p-8f, 1 + 0x3p-8f, 1 + 0x1p-11f,
                               -1e-7f,   0x1p-25f, 3e-8f, 65519,       65521,       -1e30f,
                               3.39e38f, none,     -none, 1e-40f,      0.1f,        -7};
  for (const Dtype dtype : {Dtype::Fp32, Dtype::Bf16, Dtype::Fp16}) {
    OneRound round(dtype);
    std::copy(std::begin(numbers), std::end(numbers), round.given.begin());
    round.perform(false);
    for (std::int64_t i = 0; i < 18; ++i) {
      std::byte expected[4];
      put_number(expected, dtype, 0, numbers[i]);
      EXPECT_EQ(std::memcmp(expected, round.made.data() + i * size_of(dtype),
                            static_cast<std::size_t>(size_of(dtype))),
                0)
          << to_text(dtype) << " " << numbers[i];
    }
  }
}

TEST(ExchangeRun, RoundsSomeHeadsOfSomeRows) {
  OneRound round(Dtype::Bf16);
  const Piece whole = round.plan.piece(round.plan.tasks[round.id.value]);
  Task& task = round.plan.tasks[round.id.value];
  round.plan.pieces.push_back({whole.value, whole.rows, {1, 1}});
  task.piece = {static_cast<std::uint32_t>(round.plan.pieces.size() - 1)};
  for (int i = 0; i < 18; ++i) round.given[static_cast<std::size_t>(i)] = static_cast<float>(i);
  round.perform(true);
  for (std::int64_t row = 0; row < 3; ++row)
    for (std::int64_t d = 0; d < 3; ++d)
      EXPECT_EQ(number_at(round.made.data(), Dtype::Bf16, 3 * row + d),
                static_cast<float>(6 * row + 3 + d));
}

TEST(ExchangeRun, ARoundedNumberThatIsNotFiniteEndsTheRun) {
  OneRound round(Dtype::Fp16);
  round.given[18] = -std::numeric_limits<float>::infinity();  // the log-sum-exp stays behind
  EXPECT_NO_THROW(round.perform(true));
  round.given[4] = 1e6f;  // more than fp16 has
  EXPECT_THROW(round.perform(true), RunFailed);
}

TEST(ExchangeRun, StagingIsPlannedWithTheTensors) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 60; ++i) {
    const Plan plan = random_exchange_plan(random);
    const Verification v = verify(plan);
    const MemoryPlan memory = plan_memory(plan);
    for (std::uint32_t w = 0; w < plan.problem.workers; ++w) {
      EXPECT_GE(memory.size[w], v.peak[w]) << described(plan);
      // A start at a multiple of 64 bytes for each of few small tensors.
      EXPECT_LE(static_cast<double>(memory.size[w].value),
                1.2 * static_cast<double>(v.peak[w].value) + 64 * 40)
          << described(plan);
    }
    for (const Exchange& e : plan.exchanges) {
      const std::vector<Staging> staging = staging_of(plan, e, shares_of(plan, e));
      for (std::uint32_t m = 0; m < e.members; ++m)
        EXPECT_EQ(memory.staging.contains(e.first.value + m),
                  (staging[m].given + staging[m].got).value > 0);
    }
  }
}

TEST(ExchangeRun, AMemberThatWaitsSaysForWhom) {
  // Workers 1 and 3 are of a process that is not there.
  const Plan plan = ulysses_by_hand(problem(4, 64, 4, 4, 8, Dtype::Fp32, Pass::Forward));
  ThreadedRun run(plan, {{0}, {2}});
  try {
    run.execute(200ms);
    FAIL();
  } catch (const RunFailed& failed) {
    EXPECT_THAT(failed.what(), HasSubstr("(worker 0, step 0, exchange of query chunks 0-3, waiting "
                                         "for worker 1, worker 3), for "));
  }
}

}  // namespace
}  // namespace ringsched
