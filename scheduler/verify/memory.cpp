// Memory. Only what a worker's own order forces apart in time is counted apart: a tensor is held
// from the compute task before which it may arrive to the one before which its last reader must
// have ended. Positions count a worker's compute tasks; transfers take theirs from the order of
// their lane, their data and their control edges. What only passes through between two compute
// tasks is counted between them. The peak is then enough under any timing, on any machine.
#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <tuple>

#include "happens_before.hpp"
#include "internal.hpp"
#include "ringsched/scheduler/lifetimes.hpp"

namespace ringsched {

namespace {

// What a plan from anywhere holds at once may pass 2^63 bytes.
__extension__ using WideBytes = __int128;

class MemoryCheck {
 public:
  MemoryCheck(const Plan& plan, const Lanes& lanes, const ControlIndex& controls,
              Findings& findings)
      : plan_(plan), lanes_(lanes), controls_(controls), findings_(findings) {}

  std::vector<Lifetime> lifetimes() {
    place_tasks();
    find_earliest();
    find_latest();
    std::vector<Lifetime> out(plan_.initial.size() + 2 * plan_.tasks.size());
    std::fill_n(out.begin(), plan_.initial.size(), Lifetime{0, Lifetime::kAlways});
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id)
      for (std::uint32_t n = 0; n < outputs_of(plan_.tasks[id].kind); ++n) {
        // What nobody reads is never freed.
        const std::uint32_t from = made_at({id});
        out[plan_.output({id}, n).value] = {from, Lifetime::kAlways};
      }
    std::vector<std::uint32_t> freed(out.size(), 0);
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id)
      for (const TensorId input : plan_.tasks[id].inputs)
        if (maker_of(input).valid())
          freed[input.value] = std::max(freed[input.value], freed_by({id}));
    for (std::size_t t = plan_.initial.size(); t < out.size(); ++t)
      if (freed[t] > 0) out[t].until = std::max(freed[t], out[t].from);
    return out;
  }

  void run(std::vector<Bytes>& peak) {
    place_tasks();
    find_earliest();
    find_latest();
    check_slots();
    add_up(peak);
  }

 private:
  std::uint32_t compute_tasks(std::uint32_t worker) const {
    const std::size_t lane = std::size_t{worker} * kLanes;
    return lanes_.first[lane + 1] - lanes_.first[lane];
  }
  bool computes(TaskId id) const { return plan_.tasks[id.value].lane == Lane::Compute; }
  TaskId maker_of(TensorId t) const { return t.valid() ? plan_.producer(t) : TaskId{}; }

  // start_[t]: how many tasks of its worker's compute lane have surely ended when t starts.
  // ended_before_[t]: the first task of that lane that can only start once t has ended.
  void place_tasks() {
    start_.assign(plan_.tasks.size(), 0);
    ended_before_.assign(plan_.tasks.size(), 0);
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id)
      ended_before_[id] = compute_tasks(plan_.tasks[id].worker_index);
    // On the compute lane both are exact: the bounds of a task, or of the group it is posted in.
    for (std::size_t lane = 0; lane < lanes_.count(); lane += kLanes) {
      const std::uint32_t first = lanes_.first[lane], last = lanes_.first[lane + 1];
      for (std::uint32_t i = first; i < last; ++i) {
        const std::uint32_t t = lanes_.tasks[i].value;
        start_[t] = plan_.tasks[t].with_previous ? start_[lanes_.tasks[i - 1].value] : i - first;
      }
      for (std::uint32_t i = last; i-- > first;) {
        const bool ends_group =
            i + 1 == last || !plan_.tasks[lanes_.tasks[i + 1].value].with_previous;
        ended_before_[lanes_.tasks[i].value] =
            ends_group ? i + 1 - first : ended_before_[lanes_.tasks[i + 1].value];
      }
    }
  }

  std::uint32_t ended_by_end_of(TaskId id) const {
    return computes(id) ? ended_before_[id.value] : start_[id.value];
  }

  void find_earliest() {
    std::vector<std::uint32_t> lane_start(lanes_.count(), 0);
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
      const Task& task = plan_.tasks[id];
      if (task.lane == Lane::Compute) continue;
      std::uint32_t& start = lane_start[Lanes::of(task)];
      for (const TensorId input : task.inputs)
        if (const TaskId maker = maker_of(input); maker.valid())
          start = std::max(start, ended_by_end_of(maker));
      for (const ControlEdge& e : controls_.before({id}))
        start = std::max(start, ended_by_end_of(e.before));
      start_[id] = start;
    }
    // The members of a group start together, and starts rise along a lane: the last knows most.
    for (std::size_t lane = 0; lane < lanes_.count(); ++lane) {
      if (lane % kLanes == 0) continue;
      for (std::uint32_t i = lanes_.first[lane + 1]; i-- > lanes_.first[lane] + 1;)
        if (plan_.tasks[lanes_.tasks[i].value].with_previous)
          start_[lanes_.tasks[i - 1].value] = start_[lanes_.tasks[i].value];
    }
  }

  void find_latest() {
    std::vector<std::uint32_t> lane_start(lanes_.count());
    for (std::uint32_t w = 0; w < plan_.problem.workers; ++w)
      for (std::uint32_t l = 0; l < kLanes; ++l)
        lane_start[std::size_t{w} * kLanes + l] = compute_tasks(w);

    std::vector<std::uint32_t> group_end(lanes_.count(), ~0u);
    for (std::uint32_t next = static_cast<std::uint32_t>(plan_.tasks.size()); next-- > 0;) {
      const Task& task = plan_.tasks[next];
      const std::size_t lane = Lanes::of(task);
      std::uint32_t& latest = ended_before_[next];
      if (task.lane != Lane::Compute) {
        // The members of a group end together, so what follows any of them follows all.
        group_end[lane] = std::min({group_end[lane], latest, lane_start[lane]});
        latest = group_end[lane];
      }
      const std::uint32_t started = task.lane == Lane::Compute ? start_[next] : latest;
      for (const TensorId input : task.inputs)
        if (const TaskId maker = maker_of(input); maker.valid())
          ended_before_[maker.value] = std::min(ended_before_[maker.value], started);
      for (const ControlEdge& e : controls_.before({next}))
        ended_before_[e.before.value] = std::min(ended_before_[e.before.value], started);
      if (task.lane != Lane::Compute && !task.with_previous) {
        lane_start[lane] = std::min(lane_start[lane], latest);
        group_end[lane] = ~0u;
      }
    }
    spread_over_groups();
  }

  // The first member of a group was looked at last and knows most.
  void spread_over_groups() {
    for (std::size_t lane = 0; lane < lanes_.count(); ++lane) {
      if (lane % kLanes == 0) continue;
      for (std::uint32_t i = lanes_.first[lane] + 1; i < lanes_.first[lane + 1]; ++i) {
        const TaskId id = lanes_.tasks[i];
        if (plan_.tasks[id.value].with_previous)
          ended_before_[id.value] =
              std::min(ended_before_[id.value], ended_before_[lanes_.tasks[i - 1].value]);
      }
    }
  }

  void check_slots() {
    if (plan_.slots.empty()) return;
    // The receive that used a slot last, by (worker, kind, slot).
    std::map<std::tuple<std::uint32_t, TensorKind, std::uint32_t>, TaskId> occupant;
    std::vector<std::vector<TaskId>> readers = readers_of_receives();
    std::vector<std::uint32_t> ordinal = receive_ordinals();
    for (const BufferSlot& s : plan_.slots) {
      if (findings_.full()) return;
      const Task& receive = plan_.tasks[s.receive.value];
      TaskId& before = occupant[{receive.worker_index, receive.makes, s.slot}];
      if (before.valid()) {
        for (const TaskId reader : readers[ordinal[before.value]]) {
          if (findings_.full()) return;
          check_overwrite(s, before, reader);
        }
        // Even what nobody reads must have come in, or it comes in on top of the next.
        if (readers[ordinal[before.value]].empty()) check_overwrite(s, before, before);
      }
      before = s.receive;
    }
  }

  void check_overwrite(const BufferSlot& s, TaskId before, TaskId reader) {
    if (ends_before(reader, s.receive)) return;
    if (reader == before) {
      findings_.add(Rule::Memory, {s.receive, before},
                    "{} and {} may come into buffer {} in either order", name_of(plan_, before),
                    name_of(plan_, s.receive), s.slot);
    } else {
      findings_.add(Rule::Memory, {s.receive, reader},
                    "{} overwrites buffer {} while {} may still read what {} put there{}",
                    name_of(plan_, s.receive), s.slot, name_of(plan_, reader),
                    name_of(plan_, before),
                    gave_up_ ? " (or the order is too entangled to prove)" : "");
    }
  }

  // Each search may walk the whole graph: a plan is not worth more than some seconds of that.
  std::uint64_t most_visits() const { return 100'000'000 + 20 * plan_.tasks.size(); }

  std::vector<std::uint32_t> receive_ordinals() const {
    std::vector<std::uint32_t> ordinal(plan_.tasks.size());
    std::uint32_t receives = 0;
    for (std::size_t id = 0; id < plan_.tasks.size(); ++id)
      if (plan_.tasks[id].kind == TaskKind::Receive) ordinal[id] = receives++;
    return ordinal;
  }

  std::vector<std::vector<TaskId>> readers_of_receives() const {
    const std::vector<std::uint32_t> ordinal = receive_ordinals();
    std::vector<std::vector<TaskId>> readers(plan_.tasks.size());
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id)
      for (const TensorId input : plan_.tasks[id].inputs)
        if (const TaskId maker = maker_of(input);
            maker.valid() && plan_.tasks[maker.value].kind == TaskKind::Receive)
          readers[ordinal[maker.value]].push_back({id});
    return readers;
  }

  bool ends_before(TaskId reader, TaskId receive) {
    const Task& r = plan_.tasks[reader.value];
    const Task& w = plan_.tasks[receive.value];
    if (computes(reader) && !computes(receive) &&
        ended_before_[reader.value] <= start_[receive.value])
      return true;
    if (!computes(reader) && !computes(receive) &&
        ended_before_[reader.value] < start_[receive.value])
      return true;
    if (r.lane == w.lane && reader < receive && !same_group(reader, receive)) return true;
    // Not evident from this worker's lanes: look for any chain of waits at all.
    if (!order_) order_ = std::make_unique<HappensBefore>(plan_);
    gave_up_ = gave_up_ || order_->visits() > most_visits();
    return !gave_up_ && order_->ends_before_start(reader, receive);
  }

  bool same_group(TaskId a, TaskId b) const {
    const std::size_t lane = Lanes::of(plan_.tasks[b.value]);
    auto at = std::lower_bound(lanes_.tasks.begin() + lanes_.first[lane],
                               lanes_.tasks.begin() + lanes_.first[lane + 1], b);
    while (*at != a && plan_.tasks[at->value].with_previous) --at;
    return *at == a;
  }

  std::uint32_t moments(std::uint32_t worker) const { return 2 * compute_tasks(worker) + 1; }
  std::uint32_t freed_by(TaskId reader) const;
  std::uint32_t made_at(TaskId maker) const;
  void add_up(std::vector<Bytes>& peak);

  const Plan& plan_;
  const Lanes& lanes_;
  const ControlIndex& controls_;
  Findings& findings_;
  std::vector<std::uint32_t> start_, ended_before_;
  std::unique_ptr<HappensBefore> order_;
  bool gave_up_ = false;
};

// When a tensor is freed, in moments: 2i is between a worker's compute tasks i - 1 and i, 2i + 1
// while i runs. A transfer that has ended before task i starts may last until just then.
std::uint32_t MemoryCheck::freed_by(TaskId reader) const {
  const Task& task = plan_.tasks[reader.value];
  if (task.kind == TaskKind::Output) return moments(task.worker_index);
  return 2 * ended_before_[reader.value] + (computes(reader) ? 0 : 1);
}

std::uint32_t MemoryCheck::made_at(TaskId maker) const {
  const Task& task = plan_.tasks[maker.value];
  if (!computes(maker)) return 2 * start_[maker.value];
  // A merge into a tensor of the same extent is done in place.
  const bool in_place = (task.kind == TaskKind::Merge || task.kind == TaskKind::Reduce) &&
                        plan_.tensor(task.inputs[0]).region == task.region;
  return 2 * start_[maker.value] + (in_place ? 2 : 1);
}

// The bytes held at each moment, as differences, worker by worker. What nobody reads is never
// freed.
void MemoryCheck::add_up(std::vector<Bytes>& peak) {
  const RegionRows rows(plan_);
  std::vector<std::uint32_t> freed(plan_.tasks.size(), 0), freed_second;
  if (plan_.problem.pass != Pass::Forward) freed_second.assign(plan_.tasks.size(), 0);
  const auto first_output = static_cast<std::uint32_t>(plan_.initial.size());
  for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id)
    for (const TensorId input : plan_.tasks[id].inputs)
      if (const TaskId maker = maker_of(input); maker.valid()) {
        auto& last = (input.value - first_output) % 2 == 0 ? freed : freed_second;
        last[maker.value] = std::max(last[maker.value], freed_by({id}));
      }

  peak.assign(plan_.problem.workers, {});
  for (const InitialTensor& t : plan_.initial)
    peak[t.worker.value] += tensor_bytes(plan_.problem, t.kind, rows[t.region]);
  std::vector<WideBytes> change;
  for (std::uint32_t w = 0; w < plan_.problem.workers; ++w) {
    change.assign(moments(w) + 1, 0);
    const std::size_t lane = std::size_t{w} * kLanes;
    for (std::uint32_t i = lanes_.first[lane]; i < lanes_.first[lane + kLanes]; ++i) {
      const TaskId id = lanes_.tasks[i];
      const std::uint32_t n = outputs_of(plan_.tasks[id.value].kind);
      for (std::uint32_t out = 0; out < n; ++out) {
        const Tensor made = plan_.tensor(plan_.output(id, out));
        const std::int64_t size = tensor_bytes(plan_.problem, made.kind, rows[made.region]).value;
        const std::uint32_t until = (out == 0 ? freed : freed_second)[id.value];
        change[made_at(id)] += size;
        change[until == 0 ? moments(w) : std::max(until, made_at(id))] -= size;
      }
    }
    WideBytes held = 0, most = 0;
    for (const WideBytes c : change) most = std::max(most, held += c);
    constexpr WideBytes limit = std::numeric_limits<std::int64_t>::max();
    peak[w] = capped_sum(peak[w], Bytes{static_cast<std::int64_t>(std::min(most, limit))});
  }
}

}  // namespace

void verify_memory(const Plan& plan, const Lanes& lanes, const ControlIndex& controls,
                   Findings& findings, std::vector<Bytes>& peak) {
  MemoryCheck(plan, lanes, controls, findings).run(peak);
}

std::vector<Lifetime> lifetimes(const Plan& plan) {
  Findings none(plan, 1);
  const Lanes lanes(plan);
  const ControlIndex controls(plan);
  return MemoryCheck(plan, lanes, controls, none).lifetimes();
}

}  // namespace ringsched
