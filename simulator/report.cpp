#include "ringsched/simulator/report.hpp"

#include <algorithm>
#include <set>

#include "critical_path.hpp"
#include "engines.hpp"
#include "kernel_time.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched {

namespace {

// Until when the host kept each task waiting; empty without a host. What fixed the start of the
// first task of a group fixed that of the others. `posted`: when all members of each exchange were.
std::vector<std::int64_t> waited_for_hosts(const Workload& w, const Simulation& run,
                                           const std::vector<std::int64_t>& posted) {
  if (w.issued.empty()) return {};
  const Plan& plan = *w.plan;
  const LaneNumbers lanes(plan);
  std::vector<Cause> of_group(lanes.all);
  std::vector<Start> starts(plan.tasks.size());
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    Cause& cause = of_group[lanes.of(t)];
    if (!t.with_previous) cause = run.cause[id];
    const bool because = cause.kind == Cause::Data || cause.kind == Cause::Lane ||
                         cause.kind == Cause::Control || cause.kind == Cause::Kernel;
    const bool last = is_transfer(t.kind)   ? run.start[t.peer.value] <= run.start[id]
                      : is_exchange(t.kind) ? posted[t.exchange.value] <= run.start[id]
                                            : false;
    starts[id] = {run.start[id], t.worker_index, cause.kind == Cause::Host, last,
                  because ? TaskId{cause.task} : TaskId{}};
  }
  return kept_by_host(starts);
}

RunTimes times_of(const Workload& w, const Simulation& run) {
  const Plan& plan = *w.plan;
  Accounting books(plan.problem.workers);
  std::vector<std::int64_t> posted(plan.exchanges.size());  // by all members
  for (std::size_t e = 0; e < posted.size(); ++e)
    for (std::uint32_t id = plan.exchanges[e].first.value; id < plan.exchanges[e].end(); ++id)
      posted[e] = std::max(posted[e], run.start[id]);
  const std::vector<std::int64_t> until = waited_for_hosts(w, run, posted);
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    books.add(t.kind, t.worker_index, t.lane, run.start[id], run.end[id],
              is_transfer(t.kind)   ? run.start[t.peer.value]
              : is_exchange(t.kind) ? posted[t.exchange.value]
                                    : 0,
              until.empty() ? 0 : until[id]);
  }
  return books.close(run.makespan);
}

void count_links(const Workload& w, const Simulation& run, Report& r) {
  for (std::uint32_t l = 0; l < run.links.size(); ++l) {
    const LinkUse& use = run.links[l];
    if (use.bytes <= 0) continue;
    const double carried = (use.bytes - use.saved) / w.network.capacity({l});
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

// Lower bounds for any run of this plan, from the prices alone.
void count_bounds(const Workload& w, const Costs& costs, LowerBounds& bounds) {
  const Plan& plan = *w.plan;
  std::vector<std::int64_t> own(plan.problem.workers);
  TaskColumn<std::int64_t> chain(plan.tasks.size());  // when each task could end, nothing shared
  const auto ready_at = [&](const Task& task) {
    const auto id = static_cast<std::size_t>(&task - plan.tasks.data());
    std::int64_t ready = w.issued.empty() ? 0 : w.issued[id];
    for (const TensorId input : task.inputs) {
      if (!input.valid()) continue;
      const TaskId maker = plan.producer(input);
      if (maker.valid()) ready = std::max(ready, chain[maker.value]);
    }
    return ready;
  };
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    std::int64_t ready = ready_at(task);
    if (is_receive(task.kind)) {
      const std::uint32_t send = task.peer.value;
      const Task& sender = plan.tasks[send];
      const Route route = w.network.route(sender.worker(), task.worker());
      const MessageCost m = costs.message(send, sender, route.distance);
      ready = std::max(ready, chain[send]) + m.startup_ps + flow_ps(m.bytes, w.network.rate(route));
    } else if (is_exchange(task.kind)) {
      const Exchange& e = plan.exchange(task);
      if (id == e.first.value) {
        for (std::uint32_t m = id; m < e.end(); ++m)
          ready = std::max(ready, ready_at(plan.tasks[m]));
        ready += costs.exchange(task.exchange.value).alone();
      } else {
        ready = chain[e.first.value];
      }
    } else if (!is_send(task.kind)) {
      const std::int64_t duration = costs.compute(id, task);
      own[task.worker_index] += duration;
      if (is_repack(task.kind)) {  // all members are done with the first
        const Exchange& r = plan.exchange(task);
        for (std::uint32_t m = id; id == r.first.value && m < r.end(); ++m)
          ready = std::max(ready, ready_at(plan.tasks[m]));
        if (id != r.first.value) ready = chain[r.first.value];
      }
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
  for (std::uint32_t first = 0; first < workers; first += per_device) {
    const double most = std::min({per_device, workers - first, w.concurrency});
    // One kernel alone, if several slow each other so much that this is faster.
    lanes += std::max(1.0, most / slowdown_of(w, most));
  }
  bounds.work.value = static_cast<std::int64_t>(all / lanes);
}

// Similar exchanges count as one, in the order of the first of each.
std::vector<ExchangeReport> exchanges_of(const Workload& w) {
  std::vector<ExchangeReport> out;
  for (std::size_t e = 0; e < w.exchanges.size(); ++e) {
    const ExchangeCost& cost = w.exchanges[e];
    const ExchangeReport one = {
        cost.form, w.plan->exchanges[e].members, cost.nodes, cost.per_node, 0, 0, cost.row,
        cost.calls};
    const auto found = std::find_if(out.begin(), out.end(), [&](const ExchangeReport& r) {
      return r.form == one.form && r.members == one.members && r.nodes == one.nodes &&
             r.per_node == one.per_node && r.row == one.row && r.calls == one.calls;
    });
    ExchangeReport& r = found != out.end() ? *found : out.emplace_back(one);
    ++r.count;
    r.bytes += cost.bytes;
  }
  return out;
}

// All new tokens against all keys.
Work decoded(const Problem& p) {
  std::vector<TokenRange> rows = documents_of(p);
  const TokenRange all = {0, 1, p.tokens.value};
  for (TokenRange& r : rows) r = {r.start + r.count - p.new_tokens.value, 1, p.new_tokens.value};
  const Tile tile = p.mask.tile(TokenSet(rows), TokenSet({&all, 1}));
  return {tile.rows, tile.keys, tile.pairs, tile.form, p.heads, {}};
}

}  // namespace

Picoseconds LowerBounds::best() const { return std::max({work, worker, chain, link}); }

Report report(const Workload& w, const Simulation& run, const Conditions& conditions) {
  const Costs costs(w, conditions);
  Report r;
  static_cast<RunTimes&>(r) = times_of(w, run);
  count_bounds(w, costs, r.bounds);
  count_links(w, run, r);
  critical_path(w, run, costs, r.path, r.path_steps);
  r.exchanges = exchanges_of(w);
  return r;
}

std::string_view attends_bound_by(const Plan& plan, const Machine& machine) {
  if (!plan.problem.decodes() || machine.ideal) return "";
  const Work* longest = nullptr;
  for (const Task& t : plan.tasks)
    if (const Work& w = plan.works[t.work.value];
        is_attend(t.kind) && (longest == nullptr || w.pairs > longest->pairs))
      longest = &w;
  if (longest == nullptr) return "";
  return KernelTimes(machine, plan.problem).is_bound_by_memory(*longest) ? "memory" : "compute";
}

Picoseconds one_device(const Workload& w, const Machine& machine, const Deviation& deviation) {
  const Plan& plan = *w.plan;
  if (machine.ideal) {
    Picoseconds sum;
    const Costs costs(w, {});
    // In decoding several workers may attend the same keys; one device does so once.
    std::set<RegionId> attended;
    for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
      const Task& t = plan.tasks[id];
      if (plan.problem.decodes() && is_attend(t.kind) && !attended.insert(t.keys).second) continue;
      sum.value += costs.compute(id, t);
    }
    // Each head has as many blocks.
    const double wanted = static_cast<double>(plan.wanted_heads()) / plan.problem.heads;
    if (plan.dummy_heads > 0) sum.value = rounded_ps(static_cast<double>(sum.value) * wanted);
    return sum;
  }
  const Problem& p = plan.problem;
  const TokenRange all = {0, 1, p.tokens.value};
  const Tile tile = p.mask.tile(TokenSet({&all, 1}), TokenSet({&all, 1}));
  const Work whole = {tile.rows, tile.keys, tile.pairs, tile.form, plan.wanted_heads(), {}};
  KernelTimes kernels(machine, p);
  if (p.mask.kind() == Mask::Kind::Documents && whole.form == TileForm::Other) {
    const std::vector<DocumentCut> cut = cut_by_document(p.mask, {&all, 1});
    kernels.know_parts(whole, parts_by_document(p.mask, cut, cut, whole.columns));
  }
  const auto pass = [&](bool backward) {
    return kernels.ps(whole, backward) *
           deviation.attending(backward, whole.form, kernels.doubt(whole, backward));
  };
  double ps = 0;
  if (p.decodes())
    ps = kernels.decode_ps(decoded(p)) *
         deviation.attending(false, TileForm::Full, kernels.doubt(whole, false));
  else if (p.pass != Pass::Backward)
    ps += pass(false);
  if (p.pass != Pass::Forward) ps += pass(true);
  if (!(ps < 2.0 * static_cast<double>(kLatest)))
    fail("one device would take {:.0f} days for this problem; use a smaller one",
         ps * 1e-12 / 86400);
  return {static_cast<std::int64_t>(ps)};
}

}  // namespace ringsched
