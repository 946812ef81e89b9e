#include "together.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace ringsched {

namespace {

void add_up(World& world, std::vector<double>& column) {
  const std::vector<std::string> all = world.gather(
      std::string(reinterpret_cast<const char*>(column.data()), column.size() * sizeof(double)));
  std::fill(column.begin(), column.end(), 0);
  for (const std::string& text : all)
    for (std::size_t i = 0; i < column.size(); ++i) {
      double x;
      std::copy_n(text.data() + i * sizeof x, sizeof x, reinterpret_cast<char*>(&x));
      column[i] += x;
    }
}

}  // namespace

Joined joined(World& world, const Plan& plan, const Timeline& own, const ClockLine& clock,
              std::int64_t zero) {
  std::string text;
  const auto add = [&](const auto& x) { text.append(reinterpret_cast<const char*>(&x), sizeof x); };
  add(clock.error());
  add(clock.drift());
  // By the clock of process 0, from where it began.
  const auto by_rank_0 = [&](std::int64_t ps) {
    const std::int64_t correction = clock.correction(zero + ps / 1000) - clock.before.offset;
    return std::max<std::int64_t>(0, ps + 1000 * correction);
  };
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (world.rank_of(plan.tasks[id].worker(), plan.problem.workers) == world.rank()) {
      const std::int64_t start = by_rank_0(own.tasks[id].start_ps);
      add(start);
      add(std::max(start, by_rank_0(own.tasks[id].end_ps)));
    }
  const std::vector<std::string> all = world.gather(text);
  Joined out{own, {}, 0};
  std::vector<std::size_t> at(all.size(), 0);
  const auto take = [&](std::uint32_t rank, auto& x) {
    std::copy_n(all.at(rank).data() + at[rank], sizeof x, reinterpret_cast<char*>(&x));
    at[rank] += sizeof x;
  };
  for (std::uint32_t rank = 0; rank < all.size(); ++rank) {
    std::int64_t error = 0;
    double drift = 0;
    take(rank, error);
    take(rank, drift);
    out.clock_error = std::max(out.clock_error, std::chrono::nanoseconds(error));
    out.clock_drift = std::max(out.clock_drift, std::abs(drift));
  }
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const std::uint32_t rank = world.rank_of(plan.tasks[id].worker(), plan.problem.workers);
    take(rank, out.timeline.tasks[id].start_ps);
    take(rank, out.timeline.tasks[id].end_ps);
  }
  return out;
}

std::vector<CheckedResults> checked(World& world, Watchdog& watchdog, const Plan& plan,
                                    const Inputs& inputs, const Execution& run,
                                    const CheckOptions& options) {
  constexpr const char* checks = "checking its numbers";
  constexpr const char* others = "waiting for others that check their numbers";
  watchdog.works(checks);
  ForwardRows forward;
  if (needs_forward_rows(plan.problem, options)) {
    forward = forward_rows(plan, inputs, run.results());
    watchdog.waits(others);
    for (auto* column : {&forward.lse, &forward.delta, &forward.size}) add_up(world, *column);
    watchdog.works(checks);
  }
  // They meet from time to time, so that nobody waits longer than the deadline for one at work.
  const auto meet = [&](const std::string& text) {
    watchdog.waits(others);
    std::vector<std::string> all = world.gather(text);
    watchdog.works(checks);
    return all;
  };
  Clock::time_point met = Clock::now();
  const auto between = [&] {
    if (world.size() == 1 || Clock::now() - met < std::chrono::milliseconds(250)) return;
    meet("");
    met = Clock::now();
  };
  std::vector<CheckedResults> own =
      check_results(plan, inputs, run.results(), options, forward, between);
  if (world.size() == 1) return own;
  std::string text;
  for (const CheckedResults& c : own)
    text += fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\n", c.name, c.rows, c.there, c.largest_error,
                        c.largest_value, c.of_bound, c.worst);
  std::vector<CheckedResults> out;
  std::vector<std::string> all;
  do all = meet(text);
  while (std::find(all.begin(), all.end(), "") != all.end());
  for (const std::string& one : all) {
    std::size_t i = 0, at = 0;
    for (; at < one.size(); ++i) {
      const std::size_t end = one.find('\n', at);
      std::vector<std::string> cells(1);
      for (const char c : one.substr(at, end - at)) {
        if (c == '\t')
          cells.emplace_back();
        else
          cells.back() += c;
      }
      CheckedResults c{cells[0],
                       std::stoll(cells[1]),
                       std::stoll(cells[2]),
                       std::strtod(cells[3].c_str(), nullptr),
                       std::strtod(cells[4].c_str(), nullptr),
                       std::strtod(cells[5].c_str(), nullptr),
                       cells[6]};
      if (i == out.size())
        out.push_back(c);
      else
        out[i].add(c);
      at = end + 1;
    }
  }
  return out;
}

}  // namespace ringsched
