#include "together.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "answers.hpp"
#include "clock_fit.hpp"

namespace ringsched {

namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 46;  // so that sums of them do not overflow

void add_up(World& world, std::vector<double>& column) {
  AnswerWriter own;
  for (const double x : column) own.number(x);
  std::fill(column.begin(), column.end(), 0);
  for (AnswerReader& one : gather_answers(world, own.bytes(), "sums")) {
    for (double& sum : column) sum += one.number();
    one.end();
  }
}

void add_checks(AnswerReader& from, std::vector<CheckedResults>& to, bool first) {
  for (CheckedResults& c : to) {
    CheckedResults other;
    other.name = c.name;
    other.there = from.whole(0, kMostRows);
    other.rows = from.whole(0, other.there);
    other.largest_error = from.magnitude();
    other.largest_value = from.finite_magnitude();
    other.of_bound = from.magnitude();
    other.worst = from.text();
    if (first)
      c = other;
    else
      c.add(other);
  }
  from.end();
}

}  // namespace

Joined joined(World& world, const Plan& plan, const Timeline& own, const ClockLine& clock,
              std::int64_t zero) {
  AnswerWriter own_times;
  own_times.whole(clock.error()).number(clock.drift());
  // By the clock of process 0, from where it began.
  const auto by_rank_0 = [&](std::int64_t ps) {
    const std::int64_t correction = clock.correction(zero + ps / 1000) - clock.before.offset;
    return std::max<std::int64_t>(0, ps + 1000 * correction);
  };
  const auto rank_of = [&](const Task& t) {
    return world.rank_of(t.worker(), plan.problem.workers);
  };
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (rank_of(plan.tasks[id]) == world.rank()) {
      const std::int64_t start = by_rank_0(own.tasks[id].start_ps);
      own_times.whole(start).whole(std::max(start, by_rank_0(own.tasks[id].end_ps)));
    }
  std::vector<AnswerReader> all = gather_answers(world, own_times.bytes(), "task times");
  const std::int64_t most = 1000 * (steady_now() - zero + kClockSlack.count());  // all have ended
  Joined out{own, {}, 0};
  for (AnswerReader& one : all) {
    const std::chrono::nanoseconds error(one.whole(0, kClockSlack.count()));
    out.clock_error = std::max(out.clock_error, error);
    const double drift = one.number();
    if (!std::isfinite(drift)) one.refuse();
    out.clock_drift = std::max(out.clock_drift, std::abs(drift));
  }
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    AnswerReader& from = all[rank_of(plan.tasks[id])];
    TimelineTask& task = out.timeline.tasks[id];
    task.start_ps = from.whole(0, most);
    task.end_ps = from.whole(task.start_ps, most);
  }
  for (const AnswerReader& one : all) one.end();
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
  // They meet from time to time, so that nobody waits longer than the deadline for a process that
  // is working.
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
  AnswerWriter results;
  for (const CheckedResults& c : own)
    results.whole(c.there)
        .whole(c.rows)
        .number(c.largest_error)
        .number(c.largest_value)
        .number(c.of_bound)
        .text(c.worst);
  std::vector<std::string> all;
  do all = meet(results.bytes());
  while (std::find(all.begin(), all.end(), "") != all.end());
  for (std::uint32_t rank = 0; rank < all.size(); ++rank) {
    AnswerReader from(std::move(all[rank]), rank, "check results");
    add_checks(from, own, rank == 0);
  }
  return own;
}

}  // namespace ringsched
