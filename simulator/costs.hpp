// How long each task takes under given conditions: the prices of a workload, with noise.
#pragma once

#include <algorithm>

#include "ringsched/simulator/simulate.hpp"

namespace ringsched {

// A hash whose bits are as good as random (the finaliser of splitmix64).
constexpr std::uint64_t mixed(std::uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// What a message costs: time before the first byte moves, then bytes on its route.
struct MessageCost {
  std::int64_t startup_ps = 0;
  double bytes = 0;
};

// What an exchange takes: the time before its flows start, the time after the last has arrived, and
// by how much the moved bytes are multiplied.
struct ExchangeTimes {
  std::int64_t packing = 0, startup = 0, unpacking = 0;  // ps
  std::int64_t wire = 0;                                 // of the flows alone, ps
  double stretch = 1;

  std::int64_t alone() const { return packing + startup + wire + unpacking; }
};

class Costs {
 public:
  Costs(const Workload&, const Conditions&);

  std::int64_t compute(std::uint32_t id, const Task& task) const {
    std::int64_t ps = amounts_ ? amounts_[id] : compute_[price_of(task)];
    if (!factor_.empty()) ps = scaled(ps, factor_[task.worker_index]);
    return noise_ > 0 ? scaled(ps, noise_at(id)) : ps;
  }
  MessageCost message(std::uint32_t send, const Task& task, Distance distance) const {
    const unsigned transfers = workload_.transfers_of(task);
    MessageCost m = {transfers * startup_[static_cast<std::size_t>(distance)]
                                         [workload_.starts_apart(task) * works_ + task.work.value],
                     amounts_ ? static_cast<double>(amounts_[send]) : bytes_[task.work.value]};
    if (distance == Distance::OtherNode) m.bytes *= far_;
    if (noise_ > 0) {
      const double factor = noise_at(send);
      m = {scaled(m.startup_ps, factor), m.bytes * factor};
    }
    return m;
  }
  // What of a message's start-up does not depend on its size; the same in all draws and under
  // noise.
  std::int64_t latency(const Task& task, Distance distance) const {
    return workload_.transfers_of(task) * workload_.latency[static_cast<std::size_t>(distance)];
  }
  ExchangeTimes exchange(std::uint32_t number) const;
  // The end of a task during which transfers may start, out of what is left at full speed, ps.
  double tail(std::uint32_t id, const Task& task) const {
    const auto ps = static_cast<double>(workload_.tail[price_of(task)]);
    const auto usual = static_cast<double>(workload_.compute[price_of(task)]);
    return ps > 0 && usual > 0 ? ps * static_cast<double>(compute(id, task)) / usual : 0;
  }
  // How long those blocks of a task take that start late, as `groups` transfers held SMs when it
  // started, ps at full speed.
  double late(std::uint32_t id, const Task& task, unsigned groups) const {
    if (groups == 0 || workload_.late[0].empty()) return 0;
    const auto ps = static_cast<double>(workload_.late[groups > 1][price_of(task)]);
    const auto usual = static_cast<double>(workload_.compute[price_of(task)]);
    return ps > 0 && usual > 0 ? ps * static_cast<double>(compute(id, task)) / usual : 0;
  }
  // By how much `groups` transfers that hold SMs slow a task down.
  double slowed(const Task& task, unsigned groups) const {
    return groups == 0 || !slowed_[0] ? 1 : slowed_[groups > 1][price_of(task)];
  }
  // When the host has issued a task, ps.
  bool has_host() const { return issued_ != nullptr; }
  std::int64_t issued(std::uint32_t id) const { return issued_[id]; }
  // How long the host of a worker is busy before it waits for the time that `waits` counts.
  std::int64_t busy(std::uint32_t worker, std::size_t waits) const {
    const std::int64_t ps = workload_.host_busy[worker][waits];
    return deviation_ == Deviation{} ? ps : scaled(ps, deviation_.host);
  }
  // Do the prices alone decide? Then equal tasks cost the same.
  bool by_price() const { return !amounts_ && noise_ <= 0; }

 private:
  std::size_t price_of(const Task& t) const {
    return static_cast<std::size_t>(t.kind) * works_ + t.work.value;
  }
  double noise_at(std::uint32_t id) const;
  void deviate(const Deviation&);
  static std::int64_t scaled(std::int64_t ps, double factor) {
    return static_cast<std::int64_t>(std::min(static_cast<double>(ps) * factor + 0.5, 9e18));
  }

  const Workload& workload_;
  const std::int64_t* compute_;
  const std::int64_t* startup_[kDistances];
  const std::int64_t* amounts_;
  const std::int64_t* issued_;
  const double* slowed_[2];
  std::vector<double> bytes_;  // by work
  // Prices of their own, where figures deviate.
  std::vector<std::int64_t> own_compute_, own_startup_[kDistances];
  TaskColumn<std::int64_t> own_amounts_, own_issued_;
  Deviation deviation_;
  double far_ = 1;              // of bytes between nodes, over those inside one
  std::vector<double> factor_;  // by worker; empty: 1 each
  std::size_t works_;
  double noise_;
  std::uint64_t seed_;
};

}  // namespace ringsched
