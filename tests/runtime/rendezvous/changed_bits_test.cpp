// Runs of two processes (threads here) whose messages pass through a proxy that changes one bit: no
// such run may finish with wrong numbers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <future>
#include <random>

#include "rendezvous/socket.hpp"
#include "ringsched/runtime/check.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/execution.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "runtime/rendezvous/world_of_threads.hpp"
#include "transports/tcp.hpp"

namespace ringsched {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::HasSubstr;

constexpr std::size_t kGreeting = 40, kAnswer = 32;  // before messages, from and to who calls

// Stands between one that calls and one that listens. Direction 0 is from who calls.
class Between {
 public:
  // Flips a bit of that direction; none: `bit` is -1.
  Between(int direction, std::int64_t bit) : direction_(direction), bit_(bit) {}
  ~Between() {
    bell_.ring();
    if (thread_.joinable()) thread_.join();
  }
  std::string in_front_of(const std::string& address) {
    there_ = parse_address(address, "an address");
    thread_ = std::thread([this] { pass_on(); });
    return local_address(listening_).text();
  }
  std::int64_t passed(int direction) const { return passed_[direction]; }

 private:
  void pass_on() {
    Socket ends[2];
    while (true) {
      pollfd polled[] = {{bell_.fd(), POLLIN, 0},
                         {listening_.fd(), POLLIN, 0},
                         {ends[0].fd(), POLLIN, 0},
                         {ends[1].fd(), POLLIN, 0}};
      ::poll(polled, 4, -1);
      if (polled[0].revents != 0) return;
      if (polled[1].revents != 0) {
        std::string why;
        ends[0] = accept_from(listening_);
        ends[1] = connect_to(there_, 5000ms, why);
        continue;
      }
      for (int from : {0, 1})
        if (ends[0] && polled[2 + from].revents != 0 &&
            !pass_some(ends[from], ends[1 - from], from))
          for (Socket& s : ends) s.close();
    }
  }
  bool pass_some(const Socket& from, const Socket& to, int direction) {
    char part[1 << 16];
    const std::ptrdiff_t got = receive_some(from, part, sizeof part);
    if (got < 0) return false;
    const std::int64_t at = bit_ / 8 - passed_[direction];
    if (direction == direction_ && bit_ >= 0 && at >= 0 && at < got)
      part[at] = static_cast<char>(part[at] ^ 1 << bit_ % 8);
    passed_[direction] += got;
    return send_all(to, {part, static_cast<std::size_t>(got)},
                    std::chrono::steady_clock::now() + 20s);
  }

  const int direction_;
  const std::int64_t bit_;
  Socket listening_ = listen_at({"127.0.0.1", 0});
  Address there_;
  Bell bell_;
  std::atomic<std::int64_t> passed_[2] = {0, 0};
  std::thread thread_;
};

Plan small_plan() {
  Problem p;
  p.workers = 2;
  p.tokens = {1200};
  p.heads = p.kv_heads = 2;
  p.head_dim = 128;  // so messages have some pieces
  p.mask = Mask::full();
  return limit_communication(build_plan(p, find_schedule("ring")), {});
}

// Why the run failed; empty: its results are as they should be.
std::string exchange_in(const Plan& plan, const Inputs& inputs, WorldOfThreads& world) {
  Control control;
  const TcpOptions options{"secret", 60s};
  try {
    const auto transport = make_tcp_transport(plan, control, world, "127.0.0.1", options);
    Execution e(
        plan, {{world.rank()}},
        [&](WorkerId w, std::span<const TaskId> tasks) {
          return make_cpu_device(plan, w, tasks, control, {});
        },
        *transport, control,
        [&](const InitialTensor& t, std::span<std::byte> out) { inputs.fill(plan, t, out); });
    e.run(Clock::now() + e.lead(), 60s, [](const std::string& why) { FAIL() << why; });
    for (const CheckedResults& c : check_results(plan, inputs, e.results(), {20, 3}, {}))
      if (!c.holds()) return "wrong numbers in " + c.name;
    return "";
  } catch (const RunFailed& failed) {
    return failed.what();
  }
}

class ChangedBits : public testing::Test {
 protected:
  // What the processes say.
  std::vector<std::string> run(Between& between) {
    Round round(2);
    WorldOfThreads zero(round, 0, 2), one(round, 1, 2);
    one.before_it_knows = [&](std::vector<std::string>& all) {
      const std::size_t line = all[0].rfind('\n');
      if (line != std::string::npos)
        all[0].replace(line + 1, std::string::npos, between.in_front_of(all[0].substr(line + 1)));
    };
    auto first = std::async(std::launch::async, [&] { return exchange_in(plan_, inputs_, zero); });
    const std::string second = exchange_in(plan_, inputs_, one);
    if (!second.empty()) round.end();
    return {first.get(), second};
  }

  const Plan plan_ = small_plan();
  const Inputs inputs_{plan_.problem, 7};
};

TEST_F(ChangedBits, OfMessagesEndTheRunAndNameTheMessage) {
  Between nobody(0, -1);
  EXPECT_EQ(run(nobody), (std::vector<std::string>{"", ""}));
  const std::int64_t bytes[] = {nobody.passed(0), nobody.passed(1)},
                     before[] = {kGreeting, kAnswer};
  ASSERT_GT(bytes[0], 600'000);
  std::mt19937_64 random(19);
  for (int trial = 0; trial < 60; ++trial) {
    const int direction = trial % 2;
    // Some among the first bytes, where headers are; others anywhere.
    const std::int64_t most = trial % 4 < 2 ? before[direction] + 48 : bytes[direction];
    const std::int64_t bit =
        std::uniform_int_distribution<std::int64_t>(8 * before[direction], 8 * most - 1)(random);
    Between between(direction, bit);
    const std::vector<std::string> said = run(between);
    SCOPED_TRACE(fmt::format("direction {}, bit {} of {}: '{}', '{}'", direction, bit,
                             8 * bytes[direction], said[0], said[1]));
    const std::string& finds = said[direction];  // process 1 calls, so 0 gets direction 0
    EXPECT_THAT(finds, HasSubstr(fmt::format("from process {} to process {} was changed on the way",
                                             1 - direction, direction)));
    EXPECT_THAT(finds, HasSubstr("checksum"));
    EXPECT_THAT(finds, AnyOf(HasSubstr("the message of task "), HasSubstr("the header of ")));
  }
}

TEST_F(ChangedBits, OfAnAnswerAreNotTrusted) {
  Between between(1, 8 * 20 + 3);
  EXPECT_THAT(run(between)[1], HasSubstr("answers, but not as process 0 of this run"));
}

TEST_F(ChangedBits, OfAGreetingMakeItCallAgain) {
  Between between(0, 8 * 20 + 3);
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(between), (std::vector<std::string>{"", ""}));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("ringsched: process 0 refused "));
}

}  // namespace
}  // namespace ringsched
