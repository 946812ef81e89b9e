// Connections for messages: however many are awaited, and whoever else comes.
#include "transports/tcp_mesh.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <mutex>

#include "rendezvous/refusals.hpp"
#include "runtime/rendezvous/world_of_threads.hpp"

namespace ringsched {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Address address_in(const std::string& told) {
  return parse_address(told.substr(told.rfind('\n') + 1), "an address");
}

// Two processes, of which the second one learns of the first one's address after `strangers` came.
struct Pair {
  explicit Pair(std::function<void(const Address&)> strangers, std::chrono::nanoseconds patience)
      : options{"secret", patience} {
    calls = std::async(std::launch::async, [this, strangers] {
      WorldOfThreads world(round, 1, 2);
      world.before_it_knows = [&](auto& all) {
        if (all[0] != "connected") strangers(address_in(all[0]));
      };
      return connect_peers(world, control, {0}, "127.0.0.1", options).size();
    });
    WorldOfThreads world(round, 0, 2);
    awaited = connect_peers(world, control, {1}, "127.0.0.1", options).size();
  }

  Round round{2};
  Control control;
  const TcpOptions options;
  std::size_t awaited = 0;
  std::future<std::size_t> calls;
};

Socket connected(const Address& at) {
  std::string why;
  Socket s;
  while (!s) s = connect_to(at, 5000ms, why);  // the queue of the port may be full
  return s;
}

TEST(TcpMesh, MorePeersThanStrangersMayCome) {
  constexpr std::uint32_t size = 300;  // all but the first one call that
  Round round(size);
  Control control;
  const TcpOptions options{"secret", 60s};
  std::vector<std::future<std::size_t>> all;
  for (std::uint32_t rank = 0; rank < size; ++rank)
    all.push_back(std::async(std::launch::async, [&, rank] {
      std::set<std::uint32_t> peers{0};
      if (rank == 0)
        for (std::uint32_t other = 1; other < size; ++other) peers.insert(other);
      if (rank == 0) peers.erase(0);
      WorldOfThreads world(round, rank, size);
      return connect_peers(world, control, peers, "127.0.0.1", options).size();
    }));
  for (std::uint32_t rank = 0; rank < size; ++rank)
    EXPECT_EQ(all[rank].get(), rank == 0 ? size - 1 : 1u);
}

TEST(TcpMesh, SilentStrangersMakeRoomAndAreToldOfTwentyTimes) {
  std::vector<Socket> silent;
  testing::internal::CaptureStderr();
  Pair pair(
      [&](const Address& at) {
        std::generate_n(std::back_inserter(silent), 300, [&] { return connected(at); });
      },
      60s);
  EXPECT_EQ(pair.awaited, 1u);
  EXPECT_EQ(pair.calls.get(), 1u);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("ringsched: process 0 refused a connection from 127.0.0.1:"));
  EXPECT_THAT(told, HasSubstr("it did not identify itself, and others connected"));
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), Refusals::kMostTold + 1);
}

TEST(TcpMesh, StrangersThatTalkAreRefusedAndToldOfTwentyTimes) {
  std::vector<Socket> talk;
  testing::internal::CaptureStderr();
  Pair pair(
      [&](const Address& at) {
        for (int i = 0; i < 100; ++i) {
          talk.push_back(connected(at));
          send_all(talk.back(), std::string(40, 'x'), std::chrono::steady_clock::now() + 5s);
        }
        char c = 0;  // all have been refused
        for (const Socket& s : talk) receive_all(s, &c, 1, std::chrono::steady_clock::now() + 20s);
      },
      60s);
  EXPECT_EQ(pair.awaited, 1u);
  EXPECT_EQ(pair.calls.get(), 1u);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("it is not one of the awaited processes"));
  EXPECT_THAT(told, HasSubstr("refused more connections; further messages are suppressed"));
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), Refusals::kMostTold + 1);
}

TEST(TcpMesh, OneThatDoesNotComeIsNamed) {
  Round round(2);
  auto other = std::async(std::launch::async, [&] {
    round.gather(1, "\n127.0.0.1:1");
    return true;
  });
  WorldOfThreads world(round, 0, 2);
  Control control;
  const TcpOptions options{"secret", 200ms};
  try {
    connect_peers(world, control, {1}, "127.0.0.1", options);
    ADD_FAILURE();
  } catch (const RunFailed& e) {
    EXPECT_STREQ(e.what(), "process 1 did not connect for messages within 200 ms");
  }
  other.get();
}

}  // namespace
}  // namespace ringsched
