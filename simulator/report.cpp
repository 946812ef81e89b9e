#include "ringsched/simulator/report.hpp"

#include <algorithm>

#include "critical_path.hpp"
#include "engines.hpp"
#include "intervals.hpp"
#include "kernel_time.hpp"

namespace ringsched {

namespace {

// All that one worker did, as times.
struct Activity {
  Intervals computing;
  Intervals transferring[kLanes];  // by lane: from when both ends are posted
  Intervals posted[kLanes];        // by lane: from when this end is
};

std::vector<Activity> activities(const Plan& plan, const Simulation& run,
                                 std::vector<WorkerReport>& workers) {
  std::vector<Activity> all(plan.problem.workers);
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    Activity& a = all[task.worker_index];
    WorkerReport& w = workers[task.worker_index];
    const std::int64_t start = run.start[id], end = run.end[id];
    if (!is_transfer(task.kind)) {
      a.computing.add(start, end);
      (is_attend(task.kind) ? w.attending : w.overhead).value += end - start;
      continue;
    }
    const auto lane = static_cast<std::size_t>(task.lane);
    const std::int64_t begin = std::max(start, run.start[task.peer.value]);
    if (task.kind == TaskKind::Receive)
      w.waiting_for_sender = capped_sum(w.waiting_for_sender, {std::min(begin, end) - start});
    a.transferring[lane].add(std::min(begin, end), end);
    a.posted[lane].add(start, end);
  }
  for (Activity& a : all)
    for (std::size_t l = 0; l < kLanes; ++l) {
      a.transferring[l].settle();
      a.posted[l].settle();
    }
  return all;
}

Intervals any_lane(const Intervals (&lanes)[kLanes]) {
  Intervals all = lanes[0];
  for (std::size_t l = 1; l < kLanes; ++l) all = united(all, lanes[l]);
  return all;
}

void count_worker(const Activity& a, Picoseconds makespan, WorkerReport& w) {
  const std::int64_t computing = a.computing.length();
  const std::int64_t last = a.computing.last();
  w.waiting = {last - computing};
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

double share_of(double part, double whole) { return whole > 0 ? part / whole : 0; }

// All workers together can take more picoseconds than 63 bits count.
void count_fractions(Report& r) {
  double idle = 0, transferring = 0, hidden = 0, communication = 0, overlapped = 0, hta_idle = 0;
  const auto add = [](double& sum, Picoseconds x) { sum += static_cast<double>(x.value); };
  for (const WorkerReport& w : r.workers) {
    add(idle, w.waiting + w.out_of_work);
    add(transferring, w.transferring);
    add(hidden, w.hidden);
    add(communication, w.hta_communication);
    add(overlapped, w.hta_overlapped);
    hta_idle += share_of(static_cast<double>((w.hta_span - w.hta_busy).value),
                         static_cast<double>(w.hta_span.value));
  }
  const auto workers = static_cast<double>(r.workers.size());
  r.idle_fraction = share_of(idle, static_cast<double>(r.makespan.value) * workers);
  r.hta_idle_fraction = hta_idle / workers;
  if (transferring > 0) r.overlap_fraction = hidden / transferring;
  if (communication > 0) r.hta_overlap_fraction = overlapped / communication;
  r.exposed_communication = {static_cast<std::int64_t>((transferring - hidden) / workers)};
}

void count_links(const Workload& w, const Simulation& run, Report& r) {
  for (std::uint32_t l = 0; l < run.links.size(); ++l) {
    const LinkUse& use = run.links[l];
    if (use.bytes <= 0) continue;
    const double carried = use.bytes / w.network.capacity({l});
    r.links.push_back({{l},
                       use.bytes,
                       use.busy,
                       r.makespan.value > 0 ? carried / static_cast<double>(r.makespan.value) : 0});
    r.bounds.link.value = std::max(r.bounds.link.value, static_cast<std::int64_t>(carried));
  }
  std::stable_sort(r.links.begin(), r.links.end(), [](const LinkReport& a, const LinkReport& b) {
    return a.utilisation > b.utilisation;
  });
}

// Bounds of any run of this plan, from the prices alone.
void count_bounds(const Workload& w, const Costs& costs, LowerBounds& bounds) {
  const Plan& plan = *w.plan;
  std::vector<std::int64_t> own(plan.problem.workers);
  TaskColumn<std::int64_t> chain(plan.tasks.size());  // when each task could end, nothing shared
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    std::int64_t ready = 0;
    for (const TensorId input : task.inputs) {
      if (!input.valid()) continue;
      const TaskId maker = plan.producer(input);
      if (maker.valid()) ready = std::max(ready, chain[maker.value]);
    }
    if (task.kind == TaskKind::Receive) {
      const std::uint32_t send = task.peer.value;
      const Task& sender = plan.tasks[send];
      const Route route = w.network.route(sender.worker(), task.worker());
      const Message m = costs.message(send, sender, route.distance);
      ready = chain[send] + m.startup_ps + flow_ps(m.bytes, w.network.rate(route));
    } else if (task.kind != TaskKind::Send) {
      const std::int64_t duration = costs.compute(id, task);
      own[task.worker_index] += duration;
      ready += duration;
    }
    chain[id] = ready;
    bounds.chain.value = std::max(bounds.chain.value, ready);
  }
  const auto workers = static_cast<std::uint32_t>(own.size());
  double all = 0;
  for (const std::int64_t o : own) {
    bounds.worker.value = std::max(bounds.worker.value, o);
    all += static_cast<double>(o);
  }
  // Workers that share a device share its time too.
  const std::uint32_t per_device = w.network.workers_per_device();
  double lanes = 0;
  for (std::uint32_t first = 0; first < workers; first += per_device)
    lanes += std::min({per_device, workers - first, w.concurrency});
  bounds.work.value = static_cast<std::int64_t>(all / lanes);
}

}  // namespace

Picoseconds LowerBounds::best() const { return std::max({work, worker, chain, link}); }

Report report(const Workload& w, const Simulation& run, const Conditions& conditions) {
  const Plan& plan = *w.plan;
  const Costs costs(w, conditions);
  Report r;
  r.makespan = run.makespan;
  r.workers.resize(plan.problem.workers);
  {
    const std::vector<Activity> all = activities(plan, run, r.workers);
    for (std::size_t i = 0; i < all.size(); ++i) count_worker(all[i], r.makespan, r.workers[i]);
  }
  count_fractions(r);
  count_bounds(w, costs, r.bounds);
  count_links(w, run, r);
  critical_path(w, run, costs, conditions, r.path, r.path_steps);
  return r;
}

Picoseconds one_device(const Workload& w, const Machine& machine) {
  const Plan& plan = *w.plan;
  if (machine.ideal) {
    Picoseconds sum;
    for (const std::int64_t ps : w.amounts) sum.value += ps;
    return sum;
  }
  const Problem& p = plan.problem;
  const TokenRange all = {0, 1, p.tokens.value};
  const Tile tile = p.mask.tile(TokenSet({&all, 1}), TokenSet({&all, 1}));
  const Work whole = {tile.rows, tile.keys, tile.pairs, tile.form, {}};
  const KernelTimes kernels(machine, p);
  double ps = 0;
  if (p.pass != Pass::Backward) ps += kernels.ps(whole, false);
  if (p.pass != Pass::Forward) ps += kernels.ps(whole, true);
  return {static_cast<std::int64_t>(within_time(ps))};
}

}  // namespace ringsched
