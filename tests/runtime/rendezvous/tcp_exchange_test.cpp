// Plans with exchanges between processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <set>

#include "message_numbers.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "runtime/plans_to_run.hpp"
#include "runtime/rendezvous/world_of_threads.hpp"
#include "support/cases.hpp"
#include "support/exchange_cases.hpp"
#include "support/exchange_plans.hpp"
#include "transports/tcp.hpp"

namespace ringsched {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto kDeadline = 60s;

// What one process of a run comes to.
class Process {
 public:
  Process(const Plan& plan, Round& round, std::uint32_t rank, std::uint32_t size)
      : plan_(plan), world_(round, rank, size), inputs_(plan.problem, 7) {
    for (std::uint32_t w = 0; w < plan.problem.workers; ++w)
      if (rank_of({w}) == rank) mine_.push_back({w});
  }
  std::vector<CheckedResults> run() {
    transport_ =
        make_tcp_transport(plan_, control_, world_, "127.0.0.1", TcpOptions{"secret", kDeadline});
    Execution e(
        plan_, mine_,
        [&](WorkerId w, std::span<const TaskId> tasks) {
          return make_cpu_device(plan_, w, tasks, control_, {});
        },
        *transport_, control_, fill_from(plan_, inputs_));
    e.name_processes([&](WorkerId w) { return rank_of(w); });
    for (int i = 0; i < 2; ++i) {
      e.run(Clock::now() + e.lead(), kDeadline, [](const std::string& why) { FAIL() << why; });
      world_.gather("ran");  // nobody begins again before the others have all they are sent
    }
    return check_results(plan_, inputs_, e.results(), {0, 3}, {});
  }
  // Is there, and gone.
  void leave() {
    transport_ =
        make_tcp_transport(plan_, control_, world_, "127.0.0.1", TcpOptions{"secret", kDeadline});
    transport_.reset();
  }

 private:
  std::uint32_t rank_of(WorkerId w) const { return world_.rank_of(w, plan_.problem.workers); }

  const Plan& plan_;
  WorldOfThreads world_;
  Control control_;
  const Inputs inputs_;
  std::vector<WorkerId> mine_;
  std::unique_ptr<Transport> transport_;
};

TEST(TcpExchange, RandomPlansComputeTheRightNumbers) {
  std::mt19937_64 random(23);
  for (int i = 0; i < cases_to_run(60, 12) && !testing::Test::HasFailure(); ++i) {
    const Plan plan = random_exchange_plan(random);
    const auto processes = static_cast<std::uint32_t>(1 + random() % plan.problem.workers);
    Round round(processes);
    std::vector<std::future<std::vector<CheckedResults>>> all;
    for (std::uint32_t rank = 0; rank < processes; ++rank)
      all.push_back(std::async(std::launch::async,
                               [&, rank] { return Process(plan, round, rank, processes).run(); }));
    for (auto& process : all)
      expect_right(process.get(),
                   fmt::format("{}: {} processes, {}", i, processes, described(plan)));
  }
}

TEST(TcpExchange, AProcessThatGoesIsNamedWithTheTasksThatWaitForIt) {
  const Plan plan =
      ulysses_by_hand(problem(4, 64, 4, 4, 8, Dtype::Fp32, Pass::Forward, Mask::full()));
  Round round(2);
  auto goes = std::async(std::launch::async, [&] { Process(plan, round, 1, 2).leave(); });
  try {
    Process(plan, round, 0, 2).run();
    FAIL();
  } catch (const RunFailed& failed) {
    EXPECT_THAT(failed.what(), HasSubstr("process 1 is gone: "));
    // Either worker of this process may have come, or not yet.
    EXPECT_THAT(failed.what(),
                testing::ContainsRegex("\\(worker [01], step 0, exchange of query chunks 0-3, "
                                       "waiting for (worker [01], )?worker 2 of process 1, "
                                       "worker 3 of process 1\\), for "));
  }
  goes.get();
}

TEST(MessageNumbers, EachShareBetweenTwoWorkersHasItsOwn) {
  const Plan plan = ulysses_by_hand(problem(3, 60, 3, 3, 8, Dtype::Bf16, Pass::Forward));
  const MessageNumbers numbers(plan);
  std::set<std::uint32_t> of_exchanges;
  for (std::uint32_t e = 0; e < plan.exchanges.size(); ++e) {
    const MessageNumbers::Shares& shares = numbers.of({e});
    for (std::uint32_t i = 0; i < shares.all.size(); ++i) {
      const std::uint32_t n = shares.first + i;
      EXPECT_GE(n, plan.tasks.size());
      EXPECT_LT(n, numbers.end());
      EXPECT_TRUE(of_exchanges.insert(n).second);
      const Share& s = shares.all[i];
      const auto message = numbers.message(n);
      ASSERT_EQ(message.has_value(), s.from != s.to);
      if (!message) continue;
      const Exchange& x = plan.exchanges[e];
      EXPECT_EQ(message->task.value, x.first.value + s.from);
      EXPECT_EQ(message->from, plan.tasks[x.first.value + s.from].worker());
      EXPECT_EQ(message->to, plan.tasks[x.first.value + s.to].worker());
    }
  }
  EXPECT_EQ(of_exchanges.size(), plan.exchanges.size() * 9);
  EXPECT_FALSE(numbers.message(numbers.end()).has_value());
  EXPECT_FALSE(numbers.message(0).has_value());  // a member of an exchange, not a send
}

}  // namespace
}  // namespace ringsched
