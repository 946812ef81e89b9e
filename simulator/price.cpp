// What a plan's tasks cost on a machine, before anything is shared.
#include <algorithm>
#include <cmath>

#include "engines.hpp"
#include "kernel_time.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/simulator/simulate.hpp"

namespace ringsched {

namespace {

constexpr double kBlockPs = 1e6;  // a full block of the block model takes 1 us

std::int64_t rounded(double ps) {
  if (!(ps >= 0 && ps <= static_cast<double>(kLatest))) too_late();
  return static_cast<std::int64_t>(ps + 0.5);
}

// Of a tile, how much is computed.
double visible_share(const Work& work, double diagonal) {
  switch (work.form) {
    case TileForm::Empty:
      return 0.0;
    case TileForm::Full:
      return 1.0;
    case TileForm::Causal:
    case TileForm::StrictlyCausal:
      return diagonal;
    case TileForm::Other:
      break;
  }
  return static_cast<double>(work.pairs.value) /
         (static_cast<double>(work.rows) * static_cast<double>(work.keys));
}

// The block model: a tile costs its share of a block, whatever the number of its tokens. Equal work
// is then mostly, not always, an equal share of a block: only where it is not, tasks have prices of
// their own.
void price_blocks(Workload& out, double diagonal) {
  const Plan& plan = *out.plan;
  const std::size_t works = plan.works.size();
  std::vector<double> shares;  // by region: of all that its owner has
  for (const Region& r : plan.regions)
    shares.push_back(static_cast<double>(r.count) /
                     plan.layout.share(plan.layout.owner(r.first)).count);
  std::vector<double> visible;
  for (const Work& w : plan.works) visible.push_back(visible_share(w, diagonal));
  const auto price_of = [&](const Task& t) {
    const double heads = static_cast<double>(plan.works[t.work.value].columns) / plan.problem.heads;
    return rounded(visible[t.work.value] * shares[plan.rows(t).value] * shares[t.keys.value] *
                   heads * kBlockPs);
  };

  std::vector<bool> known(out.compute.size());
  const bool alike = std::all_of(plan.tasks.begin(), plan.tasks.end(), [&](const Task& t) {
    if (!is_attend(t.kind)) return true;
    const std::size_t at = static_cast<std::size_t>(t.kind) * works + t.work.value;
    if (!known[at]) out.compute[at] = price_of(t);
    known[at] = true;
    return out.compute[at] == price_of(t);
  });
  if (alike) return;
  out.amounts.resize(plan.tasks.size());
  for (std::size_t id = 0; id < plan.tasks.size(); ++id)
    if (is_attend(plan.tasks[id].kind)) out.amounts[id] = price_of(plan.tasks[id]);
}

double pass_ps(const Machine& m, double elements, double bytes_per_element,
               std::uint32_t launches) {
  const double moved =
      m.memory_gb_per_s > 0 ? elements * bytes_per_element / (m.memory_gb_per_s * 1e-3) : 0;
  return moved + launches * m.launch_us * 1e6;
}

double compute_ps(const Plan& plan, const Machine& m, const KernelTimes& kernels, TaskKind kind,
                  const Work& w) {
  const Problem& p = plan.problem;
  const double rows = static_cast<double>(w.rows);
  const double query_elements = rows * w.columns * p.head_dim;
  const double gradient_elements = static_cast<double>(w.bytes.value) / 4;
  switch (kind) {
    case TaskKind::Attend:
    case TaskKind::AttendBackward:
      return kernels.ps(w, kind == TaskKind::AttendBackward) + m.software.step_us * 1e6;
    case TaskKind::Merge:
      return pass_ps(m, query_elements, m.software.merge_bytes, m.software.merge_launches);
    case TaskKind::Reduce:
      return pass_ps(m, gradient_elements, m.software.reduce_bytes, 1);
    case TaskKind::Prepare:
      return pass_ps(m, query_elements, m.software.prepare_bytes, 1);
    case TaskKind::Output:
      // A partial's log-sum-exp is no part of the result.
      return m.software.output_bytes > 0
                 ? pass_ps(m,
                           w.bytes == plan.program.bytes(attention::kPartial, {w.rows}, w.columns)
                               ? query_elements
                               : gradient_elements,
                           m.software.output_bytes, 1)
                 : 0;
    case TaskKind::Send:
    case TaskKind::Receive:
      break;
  }
  return 0;
}

// A library that merges into a slice of its result copies the slice out and in again: where a tile
// has only a part of a worker's rows, or is strictly causal and so has nothing for the first row.
bool is_slice(const Plan& plan, const Task& merge) {
  const Region r = plan.regions[plan.rows(merge).value];
  const TaskId maker = plan.producer(merge.inputs[1]);
  if (r.count < plan.layout.share(plan.layout.owner(r.first)).count) return true;
  return maker.valid() && is_attend(plan.tasks[maker.value].kind) &&
         plan.works[plan.tasks[maker.value].work.value].form == TileForm::StrictlyCausal;
}

// Prices by task, for what a task's work alone does not tell.
void price_slices(Workload& out, const Machine& m) {
  const Plan& plan = *out.plan;
  const std::size_t works = plan.works.size();
  out.amounts.resize(plan.tasks.size());
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    const Work& w = plan.works[t.work.value];
    if (t.kind == TaskKind::Send) {
      out.amounts[id] = w.bytes.value;
      continue;
    }
    out.amounts[id] = out.compute[static_cast<std::size_t>(t.kind) * works + t.work.value];
    if (t.kind == TaskKind::Merge && is_slice(plan, t))
      out.amounts[id] +=
          rounded(pass_ps(m, static_cast<double>(w.rows) * w.columns * plan.problem.head_dim,
                          m.software.slice_bytes, 0));
  }
}

}  // namespace

Workload price(const Plan& plan, const Machine& machine, double diagonal) {
  Workload out{&plan, Network(machine, plan.problem.workers), {}, {}, false, 1, false, 1, {}, 0, {},
               {}};
  const std::size_t works = plan.works.size();
  out.compute.assign(kTaskKinds * works, 0);
  for (auto& startup : out.startup) startup.assign(works, 0);
  if (machine.ideal) {
    price_blocks(out, diagonal);
    return out;
  }

  // Which kinds occur with which work: only those have a price.
  std::vector<bool> occurs(kTaskKinds * works);
  for (const Task& t : plan.tasks)
    occurs[static_cast<std::size_t>(t.kind) * works + t.work.value] = true;

  const KernelTimes kernels(machine, plan.problem);
  const bool interferes = machine.comm_sms > 0 || machine.comm_slowdown > 1;
  out.waits_for_kernel = machine.comm_waits_for_kernel;
  out.concurrency = machine.concurrency;
  out.turns = machine.turns;
  out.full_slowdown = machine.full_slowdown;
  out.copy_cores = machine.comm_cores;
  if (interferes)
    for (auto& slowed : out.slowed) slowed.assign(kTaskKinds * works, 1);
  for (std::size_t k = 0; k < kTaskKinds; ++k)
    for (std::size_t w = 0; w < works; ++w) {
      if (!occurs[k * works + w]) continue;
      const auto kind = static_cast<TaskKind>(k);
      out.compute[k * works + w] = rounded(compute_ps(plan, machine, kernels, kind, plan.works[w]));
      if (interferes && !is_transfer(kind))
        for (std::uint32_t groups : {1u, 2u})
          out.slowed[groups - 1][k * works + w] =
              is_attend(kind)
                  ? kernels.slowed(plan.works[w], kind == TaskKind::AttendBackward, groups)
                  : machine.comm_slowdown;
    }
  for (std::size_t d = 0; d < kDistances; ++d) {
    out.latency[d] = rounded(out.network.startup_ps(static_cast<Distance>(d), 0));
    for (std::size_t w = 0; w < works; ++w)
      if (occurs[static_cast<std::size_t>(TaskKind::Send) * works + w])
        out.startup[d][w] = rounded(out.network.startup_ps(
            static_cast<Distance>(d), static_cast<double>(plan.works[w].bytes.value)));
  }
  if (machine.software.slice_bytes > 0) price_slices(out, machine);
  return out;
}

}  // namespace ringsched
