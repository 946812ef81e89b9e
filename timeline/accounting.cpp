#include "ringsched/timeline/accounting.hpp"

#include <algorithm>
#include <utility>

#include "intervals.hpp"

namespace ringsched {

// Everything that one worker did, as times.
struct Accounting::Activity {
  Intervals computing;
  Intervals transferring[kMostLanes];  // by lane: from when both ends are posted
  Intervals posted[kMostLanes];        // by lane: from when this end is
  std::int64_t ended = 0;              // when the last computing task had
  std::int64_t for_host = 0;           // waiting since the last task that took time
};

namespace {

Intervals any_lane(Intervals (&lanes)[kMostLanes]) {
  Intervals all;
  for (Intervals& lane : lanes) {
    if (lane.empty()) continue;
    lane.settle();
    all = all.empty() ? lane : united(all, lane);
  }
  return all;
}

double share_of(std::int64_t part, double whole) {
  return whole > 0 ? static_cast<double>(part) / whole : 0;
}

// In double, because a sum over many workers may not fit in an integer.
void count_fractions(RunTimes& r) {
  double idle = 0, hta_idle = 0, transferring = 0, hidden = 0, posted = 0, overlapped = 0;
  for (const WorkerTimes& w : r.workers) {
    idle += static_cast<double>((w.waiting + w.out_of_work).value);
    transferring += static_cast<double>(w.transferring.value);
    hidden += static_cast<double>(w.hidden.value);
    posted += static_cast<double>(w.hta_communication.value);
    overlapped += static_cast<double>(w.hta_overlapped.value);
    hta_idle += share_of((w.hta_span - w.hta_busy).value, static_cast<double>(w.hta_span.value));
  }
  const auto workers = static_cast<double>(r.workers.size());
  if (r.makespan.value > 0)
    r.idle_fraction = idle / (static_cast<double>(r.makespan.value) * workers);
  r.hta_idle_fraction = hta_idle / workers;
  if (transferring > 0) r.overlap_fraction = hidden / transferring;
  if (posted > 0) r.hta_overlap_fraction = overlapped / posted;
  r.exposed_communication = {
      static_cast<std::int64_t>(std::min((transferring - hidden) / workers, 9.2e18))};
}

}  // namespace

std::vector<std::int64_t> kept_by_host(const std::vector<Start>& all) {
  constexpr std::int64_t unknown = -1;
  std::vector<std::int64_t> until(all.size(), unknown);
  std::vector<std::uint32_t> through;  // tasks that waited for the same
  for (std::uint32_t task = 0; task < all.size(); ++task) {
    std::uint32_t at = task;
    while (until[at] == unknown) {
      const Start& s = all[at];
      until[at] = s.by_host ? s.at : 0;
      through.push_back(at);
      if (s.by_host || !s.because.valid()) break;
      const Start& before = all[s.because.value];
      if (!before.posted_last || before.worker != s.worker) break;
      at = s.because.value;
    }
    const std::int64_t found = until[at];
    for (const std::uint32_t id : through) until[id] = found;
    through.clear();
  }
  return until;
}

Accounting::Accounting(std::uint32_t workers) : activities_(workers), workers_(workers) {}
Accounting::~Accounting() = default;

void Accounting::add(TaskKind kind, std::uint32_t worker, Lane in, std::int64_t start,
                     std::int64_t end, std::int64_t both_posted, std::int64_t host_until) {
  Activity& a = activities_[worker];
  WorkerTimes& w = workers_[worker];
  if (!communicates(kind)) {
    a.computing.add(start, end);
    // Computing tasks come in the order of their lane. Time before tasks that take none counts only
    // once a task that takes time follows; after the last of those, the worker is out of work.
    a.for_host += std::max<std::int64_t>(0, std::min(host_until, start) - a.ended);
    a.ended = std::max(a.ended, end);
    if (end > start) w.waiting_for_host.value += std::exchange(a.for_host, 0);
    Picoseconds& sum = is_attend(kind) ? w.attending : w.overhead;
    sum = capped_sum(sum, Picoseconds{end - start});
    return;
  }
  const auto lane = static_cast<std::size_t>(in);
  const std::int64_t begin = std::min(std::max(start, both_posted), end);
  if (is_receive(kind) || is_exchange(kind))
    w.waiting_for_sender = capped_sum(w.waiting_for_sender, Picoseconds{begin - start});
  a.transferring[lane].add(begin, end);
  a.posted[lane].add(start, end);
}

RunTimes Accounting::close(Picoseconds makespan) {
  RunTimes r;
  r.makespan = makespan;
  for (std::size_t i = 0; i < activities_.size(); ++i) {
    Activity& a = activities_[i];
    WorkerTimes& w = workers_[i];
    a.computing.settle();
    const std::int64_t last = a.computing.last();
    w.waiting = {last - a.computing.length()};
    w.out_of_work = makespan - Picoseconds{last};

    const Intervals transferring = any_lane(a.transferring), posted = any_lane(a.posted);
    w.transferring = {transferring.length()};
    w.hidden = {common_length(transferring, a.computing)};
    const Intervals busy = united(a.computing, posted);
    w.hta_span = {busy.last() - busy.first()};
    w.hta_busy = {busy.length()};
    w.hta_communication = {posted.length()};
    w.hta_overlapped = {common_length(posted, a.computing)};
  }
  r.workers = std::move(workers_);
  count_fractions(r);
  return r;
}

std::vector<std::int64_t> moving_from(const Timeline& t) {
  std::vector<std::int64_t> from(t.tasks.size());
  for (std::size_t i = 0; i < t.tasks.size(); ++i) from[i] = t.tasks[i].start_ps;
  for (const TimelineExchange& e : t.exchanges) {  // nothing moves before all are posted
    std::int64_t all = 0;
    for (std::uint32_t i = e.first.value; i < e.end(); ++i)
      all = std::max(all, t.tasks[i].start_ps);
    for (std::uint32_t i = e.first.value; i < e.end(); ++i)
      from[i] = std::min(all, t.tasks[i].end_ps);
  }
  for (std::size_t i = 0; i < t.details.size(); ++i) {
    const TaskId send = t.details[i].needs[0];
    if (!is_receive(t.tasks[i].kind) || !send.valid()) continue;
    const std::int64_t both = std::max(t.tasks[i].start_ps, t.tasks[send.value].start_ps);
    from[i] = std::min(both, t.tasks[i].end_ps);
    from[send.value] = std::min(both, t.tasks[send.value].end_ps);
  }
  return from;
}

std::vector<std::int64_t> moving_until(const Timeline& t) {
  std::vector<std::int64_t> until(t.tasks.size());
  for (std::size_t i = 0; i < t.tasks.size(); ++i) until[i] = t.tasks[i].end_ps;
  for (std::size_t i = 0; i < t.details.size(); ++i) {
    const TaskId send = t.details[i].needs[0];
    if (!is_receive(t.tasks[i].kind) || !send.valid()) continue;
    const std::int64_t first = std::min(t.tasks[i].end_ps, t.tasks[send.value].end_ps);
    until[i] = std::max(first, t.tasks[i].start_ps);
    until[send.value] = std::max(first, t.tasks[send.value].start_ps);
  }
  return until;
}

RunTimes run_times(const Timeline& t) {
  Accounting books(t.problem.workers);
  const std::vector<std::int64_t> from = moving_from(t);
  std::vector<Start> starts(t.details.size());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const TimelineTask& x = t.tasks[i];
    starts[i] = {x.start_ps, x.worker, t.details[i].cause == StartedBy::Host,
                 communicates(x.kind) && from[i] == x.start_ps, t.details[i].because};
  }
  const std::vector<std::int64_t> until = kept_by_host(starts);
  for (std::size_t i = 0; i < t.tasks.size(); ++i) {
    const TimelineTask& x = t.tasks[i];
    books.add(x.kind, x.worker, x.lane, x.start_ps, x.end_ps, from[i],
              until.empty() ? 0 : until[i]);
  }
  return books.close(t.makespan());
}

}  // namespace ringsched
