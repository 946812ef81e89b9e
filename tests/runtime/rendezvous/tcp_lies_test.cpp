// Messages between two processes, one of which breaks the protocol.
#include <gtest/gtest.h>

#include <future>

#include "ringsched/runtime/device.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "runtime/rendezvous/world_of_threads.hpp"
#include "transports/tcp.hpp"
#include "transports/tcp_header.hpp"
#include "transports/tcp_mesh.hpp"

namespace ringsched {
namespace {

using namespace std::chrono_literals;

// Calls at once what it is to call.
class CallingDevice final : public Device {
 public:
  std::byte* allocate(Bytes) override { return nullptr; }
  void upload(std::byte*, std::span<const std::byte>) override {}
  void download(std::span<std::byte>, const std::byte*) override {}
  void wait_for(Lane, TaskId) override {}
  void begin(Lane, std::span<const TaskId>) override {}
  void end(Lane, std::span<const TaskId>) override {}
  void compute(TaskId, const Operands&) override {}
  void call(Lane, std::function<void()> what) override {
    what_ = std::move(what);  // for as long as a transport may look at it
    what_();
  }
  void start(Clock::time_point) override {}
  bool finished() const override { return true; }
  void join() override {}
  TaskTime time_of(TaskId) const override { return {}; }
  LaneState state(Lane) const override { return {}; }

 private:
  std::function<void()> what_;
};

Plan plan_with_messages() {
  Problem p;
  p.workers = 2;
  p.tokens = {8};
  p.heads = p.kv_heads = 1;
  p.head_dim = 8;
  p.mask = Mask::full();
  return limit_communication(build_plan(p, find_schedule("ring")), {});
}

TaskId send_of_worker_0(const Plan& plan) {
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (plan.tasks[id].kind == TaskKind::Send && plan.tasks[id].worker().value == 0) return {id};
  return {};
}

class TcpLies : public testing::Test {
 protected:
  // Process 1 is ready for a message, and says so again: at once, or while the message comes.
  // Why process 0 gives up.
  std::string ready_twice(bool while_it_comes) {
    Round round(2);
    auto zero = std::async(std::launch::async, [&] { return send_a_message(round); });
    WorldOfThreads one(round, 1, 2);
    Control control;
    const auto sockets = connect_peers(one, control, {0}, "127.0.0.1", options_);
    const Socket& s = sockets.at(0);
    const std::string ready = TcpHeader{TcpHeader::Kind::Ready, send_.value}.text();
    const auto until = std::chrono::steady_clock::now() + 20s;
    EXPECT_TRUE(send_all(s, while_it_comes ? ready : ready + ready, until));
    char c = 0;
    if (while_it_comes) {
      EXPECT_TRUE(receive_all(s, &c, 1, until));
      EXPECT_TRUE(send_all(s, ready, until));
    }
    return zero.get();
  }

 private:
  std::string send_a_message(Round& round) {
    WorldOfThreads world(round, 0, 2);
    Control control;
    CallingDevice device;
    const auto transport = make_tcp_transport(plan_, control, world, "127.0.0.1", options_);
    MessageEnd message;
    message.sends = true;
    message.task = send_;
    message.number = send_.value;
    message.peer = {1};
    message.piece[0] = bytes_.data();
    message.bytes[0] = static_cast<std::int64_t>(bytes_.size());
    auto sends = std::async(std::launch::async, [&] {
      EXPECT_THROW(transport->exchange(device, {0}, Lane::Fetch, {message}), Stopped);
    });
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (!control.abandoned() && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    control.stop("over");
    sends.get();
    return control.abandoned_why();
  }

  const Plan plan_ = plan_with_messages();
  const TaskId send_ = send_of_worker_0(plan_);
  const TcpOptions options_{"secret", 60s};
  std::vector<std::byte> bytes_ = std::vector<std::byte>(std::size_t{64} << 20);  // fills sockets
};

TEST_F(TcpLies, AMessageIsAskedForOnce) {
  for (const bool while_it_comes : {false, true})
    EXPECT_EQ(ready_twice(while_it_comes), "process 1 is gone: it sent unreadable data");
}

}  // namespace
}  // namespace ringsched
