// Messages of more lanes than three, between processes.
#include <gtest/gtest.h>

#include <future>

#include "ringsched/runtime/cpu_backend.hpp"
#include "runtime/plans_to_run.hpp"
#include "runtime/rendezvous/world_of_threads.hpp"
#include "support/more_lanes.hpp"
#include "transports/tcp.hpp"

namespace ringsched {
namespace {

using namespace std::chrono_literals;

TEST(TcpLanes, MayBeEight) {
  constexpr std::uint32_t kProcesses = 2;
  const Plan plan =
      on_more_lanes(plan_of(problem(4, 90, 4, 2, 16, Dtype::Fp32, Pass::Both), "balanced"));
  Round round(kProcesses);
  std::vector<std::future<std::vector<CheckedResults>>> all;
  for (std::uint32_t rank = 0; rank < kProcesses; ++rank)
    all.push_back(std::async(std::launch::async, [&, rank] {
      WorldOfThreads world(round, rank, kProcesses);
      Control control;
      const Inputs inputs(plan.problem, 7, InputKind::Normal);
      const auto transport =
          make_tcp_transport(plan, control, world, "127.0.0.1", TcpOptions{"secret", 60s});
      std::vector<WorkerId> mine;
      for (std::uint32_t w = 0; w < plan.problem.workers; ++w)
        if (world.rank_of({w}, plan.problem.workers) == rank) mine.push_back({w});
      Execution e(
          plan, mine,
          [&](WorkerId w, std::span<const TaskId> tasks) {
            return make_cpu_device(plan, w, tasks, control, {});
          },
          *transport, control, fill_from(plan, inputs));
      e.run(Clock::now() + e.lead(), 60s, [](const std::string& why) { FAIL() << why; });
      auto checked = check_results(plan, inputs, e.results(), {0, 3}, {});
      world.gather("done");  // nobody leaves before the others have all they are sent
      return checked;
    }));
  for (auto& process : all) expect_right(process.get(), described(plan));
}

}  // namespace
}  // namespace ringsched
