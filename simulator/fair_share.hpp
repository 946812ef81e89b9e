// Messages share links max-min fairly: none could go faster without slowing one that is no faster.
// Messages with the same limits (the same shared links, the same private rate) have the same speed,
// so they form one class with one clock, which counts the bytes that each of them has moved.
// A class keeps its messages in a queue ordered by that clock, so a change of rates updates a few
// classes instead of all messages.
//
// If processors copy a message, it moves at most at their copying rate, times the share of a core
// that it gets at the slower end.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <queue>
#include <span>
#include <vector>

#include "ringsched/simulator/network.hpp"
#include "ringsched/simulator/simulate.hpp"

namespace ringsched {

class FairShare {
 public:
  // How processors copy a message: bytes per picosecond on its own cores.
  struct Copying {
    double rate = std::numeric_limits<double>::infinity();
    std::array<std::uint32_t, 2> devices = {~0u, ~0u};  // of both ends
    friend auto operator<=>(const Copying&, const Copying&) = default;
  };

  FairShare(const Network&, std::uint32_t devices);

  // A message sets out. The caller chooses `flow`, a small number.
  void start(std::uint32_t flow, const Route&, const Copying&, double bytes, std::int64_t now);
  // What part of a core each copy on this device gets; 1 at first.
  void share_cores(std::uint32_t device, double share);

  // Solves the rates after all these calls. Call it before time goes on.
  void solve(std::int64_t now);
  // The next instant at which some message is done; classes_changed() says which classes to ask
  // for.
  struct Due {
    std::int64_t at = 0;
    std::uint32_t group = 0;    // the class
    std::uint32_t version = 0;  // older announcements of the class are void
  };
  std::vector<Due>& due() { return due_; }  // announced by solve(); for the caller to take
  bool current(const Due& d) const { return classes_[d.group].version == d.version; }
  // The messages of a class that are done now; they are stopped.
  void finished(const Due&, std::int64_t now, std::vector<std::uint32_t>& flows);

  const std::vector<LinkUse>& use() const { return use_; }

 private:
  struct Flow {
    Route route;
    Copying copying;
    std::uint32_t group = ~0u;
    std::uint32_t stamp = 0;  // entries of the queue with an older one are void
    double until = 0;         // by the clock of its class
    double bytes = 0;
  };
  struct Entry {
    double until;
    std::uint32_t flow, stamp;
    bool operator>(const Entry& o) const {
      return until > o.until || (until == o.until && flow > o.flow);
    }
  };
  // A flow's rate over the links it has to itself, how it is copied, and the links it shares.
  struct Key {
    double alone = 0;
    Copying copying;
    std::array<std::uint32_t, 6> shared{};
    std::uint32_t count = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Class {
    Key key;
    std::uint32_t flows = 0;
    double most = 0;   // limit of each flow's rate, whatever it shares
    double rate = 0;   // of each flow
    double clock = 0;  // bytes
    std::int64_t clock_at = 0;
    std::uint32_t version = 0;
    std::uint32_t mark = 0;  // of the last solve that reached it
    bool fixed = false, changed = false;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  };
  struct Link {
    double capacity = 0;
    std::uint32_t flows = 0;
    std::uint32_t sole = 0;  // all flows on it, combined by exclusive or: the flow, if it is one
    std::uint32_t mark = 0;
    double left = 0;                     // while solving
    std::uint32_t open = 0;              // flows whose rate is not fixed yet
    std::vector<std::uint32_t> classes;  // that share it
    std::int64_t busy_since = 0;
  };

  void join(std::uint32_t flow, double bytes, std::int64_t now);
  double leave(std::uint32_t flow, std::int64_t now);
  void stop(std::uint32_t flow, std::int64_t now);
  void reclassify(std::uint32_t flow, std::int64_t now);
  std::uint32_t class_of(const Flow&);
  void advance(Class&, std::int64_t now);
  void touch(std::uint32_t group);
  class Tightest;
  void fix(std::uint32_t group, double rate, std::int64_t now);
  void fill(std::int64_t now);
  void announce(std::uint32_t group, std::int64_t now);

  std::vector<Link> links_;
  std::vector<double> core_shares_;  // by device
  std::vector<LinkUse> use_;
  std::vector<Flow> flows_;
  std::vector<Class> classes_;
  std::vector<std::uint32_t> free_classes_;
  std::map<Key, std::uint32_t> by_key_;
  std::vector<std::uint32_t> touched_;  // classes whose members changed
  std::vector<std::uint32_t> dirty_links_;
  std::vector<std::uint32_t> part_classes_, part_links_;  // what the last solve reached
  std::uint32_t mark_ = 0;
  std::vector<Due> due_;
};

}  // namespace ringsched
