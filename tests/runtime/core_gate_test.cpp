#include "backends/cpu/core_gate.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace ringsched {
namespace {

TEST(CoreGate, HasNoMoreTurnsThanCores) {
  const Control control;
  CoreGate gate(3, true, control);
  std::atomic<int> inside{0}, most{0}, turns{0};
  std::vector<CoreGate::Place> places(8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      CoreGate::Place& place = places[static_cast<std::size_t>(t)];
      for (int i = 0; i < 200; ++i) {
        CoreGate::Turn turn(gate, place);
        turn.take(t);
        const int now = ++inside;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::yield();
        --inside;
        ++turns;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(turns, 1600);
  EXPECT_LE(most, 3);
}

// Whoever comes first to a gate that expects others waits for them.
TEST(CoreGate, WhoHasMostLeftGoesFirst) {
  const Control control;
  CoreGate gate(1, true, control);
  for (int round = 0; round < 20; ++round) {
    std::vector<CoreGate::Place> places(5);
    for (CoreGate::Place& p : places) gate.expect(p);
    std::vector<int> order;
    std::vector<std::thread> threads;
    for (int t = 0; t < 5; ++t)
      threads.emplace_back([&, t] {
        CoreGate::Turn turn(gate, places[static_cast<std::size_t>(t)]);
        turn.take(t * 7 % 5);
        order.push_back(t * 7 % 5);
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(order, (std::vector<int>{4, 3, 2, 1, 0}));
  }
}

TEST(CoreGate, WhoHasATurnAndMostLeftHasTheNextOne) {
  const Control control;
  CoreGate gate(1, true, control);
  std::vector<CoreGate::Place> places(3);
  for (CoreGate::Place& p : places) gate.expect(p);
  std::vector<int> order;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      CoreGate::Turn turn(gate, places[static_cast<std::size_t>(t)]);
      for (int left = 10 * t + 12; left > 0; left -= 10) {
        turn.take(left);
        order.push_back(left);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(order, (std::vector<int>{32, 22, 22, 12, 12, 12, 2, 2, 2}));
}

TEST(CoreGate, NobodyWaitsForEverForThoseWhoDoNotCome) {
  Control control;
  CoreGate gate(2, true, control);
  CoreGate::Place absent, here;
  gate.expect(absent);
  bool stopped = false;
  std::thread waits([&] {
    try {
      CoreGate::Turn turn(gate, here);
      turn.take(1);
    } catch (const Stopped&) {
      stopped = true;
    }
  });
  control.stop("enough");
  waits.join();
  EXPECT_TRUE(stopped);
}

}  // namespace
}  // namespace ringsched
