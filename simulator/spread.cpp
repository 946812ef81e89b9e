#include "ringsched/simulator/spread.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

#include "ringsched/scheduler/stop.hpp"

namespace ringsched {

void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work,
                 unsigned threads) {
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  threads = static_cast<unsigned>(std::min<std::size_t>(threads, count));
  std::atomic<std::size_t> next = 0;
  std::mutex guard;
  std::exception_ptr first;
  std::size_t first_at = count;
  const auto run = [&, flag = stop_flag()] {
    const StopWhen asked(flag);
    for (std::size_t i; (i = next++) < count;) {
      try {
        stop_here();
        work(i);
      } catch (...) {
        const std::lock_guard lock(guard);
        if (i < first_at) {
          first_at = i;
          first = std::current_exception();
        }
      }
    }
  };
  std::vector<std::jthread> others;
  for (unsigned t = 1; t < threads; ++t) others.emplace_back(run);
  run();
  others.clear();  // waits for them
  if (first) std::rethrow_exception(first);
}

std::vector<Picoseconds> makespans(const Workload& workload, Conditions conditions,
                                   std::uint32_t runs, unsigned threads) {
  std::vector<Picoseconds> all(runs);
  in_parallel(
      runs,
      [&](std::size_t i) {
        Conditions c = conditions;
        c.seed += i;
        all[i] = simulate(workload, c).makespan;
      },
      threads);
  return all;
}

std::uint32_t runs_of(const Setup& s, std::size_t tasks) {
  constexpr std::size_t most_tasks = 1'000'000;
  if (s.runs > 0) return s.runs;
  if (s.conditions.noise <= 0 || tasks == 0) return 1;
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(most_tasks / tasks, 1, kMostRuns));
}

Conditions middle_of(const std::vector<Picoseconds>& makespans, Conditions c) {
  const Picoseconds middle = percentile(makespans, 50);
  c.seed += static_cast<std::uint64_t>(std::find(makespans.begin(), makespans.end(), middle) -
                                       makespans.begin());
  return c;
}

Picoseconds percentile(std::vector<Picoseconds> values, double percent) {
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(percent / 100 * static_cast<double>(values.size()));
  const auto at = static_cast<std::size_t>(std::max(1.0, rank)) - 1;
  return values[std::min(at, values.size() - 1)];
}

}  // namespace ringsched
