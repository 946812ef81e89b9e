// Whole runs over sockets: each process is a thread here, so that sanitizers see both ends. The
// same with processes is in tests/multi_process_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "rendezvous/socket.hpp"
#include "ringsched/runtime/check.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/execution.hpp"
#include "ringsched/runtime/link_bench.hpp"
#include "ringsched/runtime/world.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {
namespace {

using namespace std::chrono_literals;

std::string free_address() { return local_address(listen_at({"127.0.0.1", 0})).text(); }

// What one process of a run does; its checked results.
std::vector<CheckedResults> take_part(const Plan& plan, std::uint32_t rank, std::uint32_t size,
                                      const std::string& master) {
  Control control;
  Launch launch;
  launch.rank = rank;
  launch.size = size;
  launch.master = master;
  const std::unique_ptr<World> world = make_tcp_world(launch, {"secret", 60s}, control);
  const std::unique_ptr<Transport> transport = world->transport(plan, control);
  const Inputs inputs(plan.problem, 7);
  std::vector<WorkerId> mine;
  for (std::uint32_t w = 0; w < plan.problem.workers; ++w)
    if (world->rank_of({w}, plan.problem.workers) == rank) mine.push_back({w});
  Execution e(
      plan, mine,
      [&](WorkerId w, std::span<const TaskId> tasks) {
        return make_cpu_device(plan, w, tasks, control, {});
      },
      *transport, control,
      [&](const InitialTensor& t, std::span<std::byte> out) { inputs.fill(plan, t, out); });
  for (int repeat = 0; repeat < 2; ++repeat) {
    world->gather("ready");
    e.run(Clock::now() + e.lead(), 60s, [](const std::string& why) { FAIL() << why; });
  }
  EXPECT_EQ(world->read_clock().offset, 0);  // one clock
  auto checked = check_results(plan, inputs, e.results(), {0, 3}, {});
  world->gather("done");
  world->leave();
  return checked;
}

TEST(TcpWorld, EveryScheduleComputesWhatItShould) {
  for (const char* name : {"ring", "striped", "zigzag", "balanced", "balanced-split"})
    for (const std::uint32_t size : {2u, 3u}) {
      Problem p;
      p.workers = 5;
      p.tokens = {103};
      p.heads = 4;
      p.kv_heads = 2;
      p.head_dim = 16;
      p.pass = Pass::Both;
      const Plan plan = limit_communication(build_plan(p, find_schedule(name)), {});
      const std::string master = free_address();
      std::vector<std::future<std::vector<CheckedResults>>> all;
      for (std::uint32_t r = 0; r < size; ++r)
        all.push_back(std::async(std::launch::async, take_part, std::cref(plan), r, size, master));
      std::int64_t rows = 0;
      for (auto& one : all)
        for (const CheckedResults& c : one.get()) {
          EXPECT_TRUE(c.holds()) << name << " " << size << ": " << c.name << ", " << c.worst;
          if (c.name == "output") rows += c.rows;
        }
      EXPECT_EQ(rows, 103 * 4) << name;
    }
}

// Which of the processes of this machine each is: all know it, or their order decides.
TEST(TcpWorld, ProcessesOfAMachineHaveAPlaceEach) {
  using Said = std::vector<std::optional<std::uint32_t>>;
  const auto places = [](const Said& said) {
    const std::string master = free_address();
    std::vector<std::future<std::uint32_t>> all;
    for (std::uint32_t r = 0; r < said.size(); ++r)
      all.push_back(std::async(std::launch::async, [&, r] {
        Control control;
        Launch launch;
        launch.rank = r;
        launch.size = static_cast<std::uint32_t>(said.size());
        launch.master = master;
        const auto world = make_tcp_world(launch, {"", 60s}, control);
        const std::uint32_t place = place_here(*world, said[r]);
        EXPECT_EQ(processes_here(*world), said.size());
        world->leave();
        return place;
      }));
    std::vector<std::uint32_t> out;
    for (auto& one : all) out.push_back(one.get());
    return out;
  };
  const std::optional<std::uint32_t> nothing;
  EXPECT_EQ(places({nothing, nothing, nothing}), (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(places({2, 0, 0}), (std::vector<std::uint32_t>{2, 0, 0}));
  EXPECT_EQ(places({2, nothing, 0}), (std::vector<std::uint32_t>{0, 1, 2}));
}

}  // namespace
}  // namespace ringsched
