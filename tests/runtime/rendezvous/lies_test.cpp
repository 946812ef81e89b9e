// Data from another process counts only if it is well formed: anything else ends the run and names
// the process.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "answers.hpp"
#include "clock_fit.hpp"
#include "rendezvous/frame.hpp"
#include "ringsched/runtime/agreement.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/link_bench.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "runtime/rendezvous/lying_world.hpp"
#include "session/together.hpp"
#include "transports/tcp_mesh.hpp"

namespace ringsched {
namespace {

using namespace std::chrono_literals;

std::string other_bytes() {
  std::string out;
  for (int i = 0; i < 768; ++i) out += static_cast<char>(i);
  return out;
}

// The same with another number in its place, of 8 bytes each.
std::string with_number(std::string bytes, std::size_t at, std::int64_t x) {
  return bytes.replace(8 * at, 8, AnswerWriter().whole(x).bytes());
}
std::string with_number(std::string bytes, std::size_t at, double x) {
  return bytes.replace(8 * at, 8, AnswerWriter().number(x).bytes());
}

Plan ring_of(std::uint32_t workers, std::int64_t tokens, Pass pass) {
  Problem p;
  p.workers = workers;
  p.tokens = {tokens};
  p.heads = p.kv_heads = 1;
  p.head_dim = 8;
  p.mask = Mask::full();  // so that all processes have as many tasks
  p.pass = pass;
  return limit_communication(build_plan(p, find_schedule("ring")), {});
}

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

TEST(Lies, TimesOfTasks) {
  const Plan plan = ring_of(2, 64, Pass::Forward);
  const Timeline own = timeline_of(plan, TimelineSource::Measured, "here");
  const std::int64_t began = steady_now();
  const auto join = [&](World& world) { joined(world, plan, own, {}, began); };
  const auto says = [&](const LyingWorld::Lie& lie) { return failure(join, lie); };
  EXPECT_EQ(says([](auto& t) { return t; }), "");
  EXPECT_EQ(says([](auto& t) { return with_number(t, 3, std::int64_t{1000}); }), "");
  const std::int64_t hour = 3'600'000'000'000'000, ever = std::numeric_limits<std::int64_t>::max();
  for (const LyingWorld::Lie& lie : std::vector<LyingWorld::Lie>{
           [](auto&) { return ""; }, [](auto&) { return other_bytes(); },
           [](auto& t) { return t.substr(0, t.size() - 1); }, [](auto& t) { return t + "x"; },
           [&](auto& t) { return with_number(t, 0, -std::int64_t{1}); },
           [&](auto& t) { return with_number(t, 0, ever); },
           [](auto& t) { return with_number(t, 1, kNotANumber); },
           [](auto& t) { return with_number(t, 2, -std::int64_t{1}); },
           [](auto& t) { return with_number(t, 2, std::int64_t{1}); },  // after its end
           [&](auto& t) { return with_number(t, 3, hour); },
           [&](auto& t) { return with_number(t, 3, ever); }})
    EXPECT_EQ(says(lie), "process 1 sent task times that cannot be read");
}

class CheckLies : public testing::Test {
 protected:
  static constexpr int kSums = 3, kNever = -1;
  // Why the check fails if process 1 lies in the exchange of that number: one of the sums, or the
  // results, before which processes tell each other nothing now and then.
  std::string says(int exchange, const LyingWorld::Lie& lie) {
    int done = 0;
    return failure(
        [&](World& world) {
          checked(world, watchdog_, plan_, inputs_, execution_, CheckOptions{1, 1});
        },
        [&](const std::string& own) {
          const int now = done < kSums ? done++ : own.empty() ? kNever - 1 : kSums;
          return now == exchange ? lie(own) : own;
        });
  }
  void run() {
    execution_.run(Clock::now(), 60s, [](const std::string& why) { FAIL() << why; });
  }

  const Plan plan_ = ring_of(1, 3000, Pass::Both);  // not small: sums are exchanged
  const Inputs inputs_{plan_.problem, 7};
  Control control_;
  Launch launch_;
  End end_{control_, launch_};
  Watchdog watchdog_{control_, end_, 600s};
  const std::unique_ptr<Transport> transport_ = make_local_transport(plan_, control_);
  Execution execution_{
      plan_,
      {{0}},
      [this](WorkerId w, std::span<const TaskId> tasks) {
        return make_cpu_device(plan_, w, tasks, control_, {});
      },
      *transport_,
      control_,
      [this](const InitialTensor& t, std::span<std::byte> out) { inputs_.fill(plan_, t, out); }};
};

TEST_F(CheckLies, SumsAndResults) {
  run();
  EXPECT_EQ(says(kNever, {}), "");
  for (int sums = 0; sums < kSums; ++sums)
    for (const LyingWorld::Lie& lie : std::vector<LyingWorld::Lie>{
             [](auto&) { return ""; }, [](auto&) { return other_bytes(); },
             [](auto& t) { return t.substr(1); }, [](auto& t) { return t + "x"; }})
      EXPECT_EQ(says(sums, lie), "process 1 sent sums that cannot be read");
  for (const LyingWorld::Lie& lie : std::vector<LyingWorld::Lie>{
           [](auto&) { return "output\t1\t1\t0\t0\t0\tx"; }, [](auto&) { return "output\t1\n"; },
           [](auto&) { return other_bytes(); }, [](auto& t) { return t.substr(0, t.size() - 1); },
           [](auto& t) { return t + "x"; },
           [](auto& t) { return with_number(t, 0, -std::int64_t{1}); },
           [](auto& t) { return with_number(t, 1, std::int64_t{1} << 40); },  // of fewer
           [](auto& t) { return with_number(t, 2, -1.0); },
           [](auto& t) { return with_number(t, 3, kNotANumber); },
           [](auto& t) { return with_number(t, 4, -1.0); },
           [](auto& t) { return with_number(t, 5, std::int64_t{1} << 62); }})
    EXPECT_EQ(says(kSums, lie), "process 1 sent check results that cannot be read");
}

TEST(Lies, WhatTheRunIs) {
  const auto agree = [](World& world) { disagreement(world, {{"x", "1"}, {"y", "2"}}); };
  EXPECT_EQ(failure(agree, [](auto& t) { return t; }), "");
  EXPECT_EQ(failure(agree, [](auto&) { return ""; }), "");  // knows nothing
  std::string many;
  for (int i = 0; i < 33; ++i) many += fmt::format("name {}", i) + '\0' + "value" + '\0';
  for (const std::string& lie : {std::string("x"), std::string("x\0", 2), std::string("x\0001", 3),
                                 std::string("x\0001\0y", 5), many})
    EXPECT_EQ(failure(agree, [&](auto&) { return lie; }),
              "process 1 sent a description of its run that cannot be read");
  LyingWorld world([](auto&) { return std::string("\x1b[1m\0001\0", 7); });
  EXPECT_EQ(disagreement(world, {}),
            "the processes do not agree on ?[1m: none in process 0, '1' in process 1");
}

TEST(Lies, AddressesForMessages) {
  const auto connect = [](World& world) {
    Control control;
    connect_peers(world, control, {1}, "127.0.0.1", {"", 100ms});
  };
  for (const char* lie : {"", "\n", "x", "\n127.0.0.1", "\n127.0.0.1:0", "\nlocalhost:5",
                          "\n[::1:5", "127.0.0.1:5", "\n:5"})
    EXPECT_EQ(failure(connect, [&](auto&) { return lie; }),
              "process 1 sent an address that cannot be read")
        << lie;
  EXPECT_EQ(failure(connect, [&](auto&) { return "\n127.0.0.1:5"; }),
            "process 1 did not connect for messages within 100 ms");
}

TEST(Lies, Samples) {
  const auto measure = [](World& world) {
    settled_point(world, 8, 1, [] { return LinkSample{1e-6, 0}; });
  };
  EXPECT_EQ(failure(measure, [](auto& t) { return t; }), "");
  for (const LyingWorld::Lie& lie : std::vector<LyingWorld::Lie>{
           [](auto&) { return ""; }, [](auto&) { return "nan 0"; }, [](auto& t) { return t + "x"; },
           [](auto& t) { return with_number(t, 0, kNotANumber); },
           [](auto& t) { return with_number(t, 0, -1.0); },
           [](auto& t) { return with_number(t, 1, -std::int64_t{1}); }})
    EXPECT_EQ(failure(measure, lie), "process 1 sent a sample that cannot be read");
  EXPECT_EQ(failure([](World& world) { place_here(world, {}); }, [](auto&) { return ""; }),
            "process 1 sent a host name that cannot be read");
}

TEST(Lies, Clocks) {
  const std::string refused = "process 0 sent a time of its clock that cannot be read";
  for (const std::int64_t theirs : {std::numeric_limits<std::int64_t>::min(), std::int64_t{-1},
                                    std::numeric_limits<std::int64_t>::max()})
    EXPECT_EQ(failure([&](World&) { ClockFit().add(1, theirs, 2); }, {}), refused);
  ClockLine line;  // which jumps by an hour within a microsecond
  line.after = {1000, 3'600'000'000'000, 0};
  EXPECT_EQ(line.correction(std::numeric_limits<std::int64_t>::max() / 2), 1'000'000'000'000'000);
}

}  // namespace
}  // namespace ringsched
