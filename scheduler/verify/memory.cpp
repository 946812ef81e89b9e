// Memory. A bound that holds under any timing, on any machine.
//
// A tensor is held from the compute task before which it may arrive to the one before which its
// last reader must have ended. Two tensors count separately only if a worker's own order forces
// them apart in time. Positions count a worker's compute tasks; transfers take theirs from the
// order of their lane, their data and their control edges. What only passes through between two
// compute tasks counts between them.
#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <tuple>

#include "happens_before.hpp"
#include "internal.hpp"
#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/lifetimes.hpp"

namespace ringsched {

namespace {

// A plan from anywhere may hold more than 2^63 bytes at once.
__extension__ using WideBytes = __int128;

class MemoryCheck {
 public:
  MemoryCheck(const Plan& plan, Findings& findings)
      : plan_(plan), lanes_(plan), findings_(findings) {
    place_tasks();
    find_earliest();
    find_latest();
  }

  std::vector<Lifetime> lifetimes() const {
    std::vector<Lifetime> out(plan_.initial.size() + 2 * plan_.tasks.size());
    std::fill_n(out.begin(), plan_.initial.size(), Lifetime{0, Lifetime::kAlways});
    for_each_made([&](TaskId id, std::uint32_t output, std::uint32_t freed) {
      const std::uint32_t from = made_at(id);
      // What no task reads is never freed.
      out[plan_.output(id, output).value] = {
          from, freed == 0 ? Lifetime::kAlways : std::max(freed, from)};
    });
    return out;
  }
  Lifetime lifetime_while(TaskId id) const {
    return {made_at(id), std::max(freed_by(id), made_at(id))};
  }
  void check_slots();
  void add_up(Verification&) const;

 private:
  bool computes(TaskId id) const { return plan_.tasks[id.value].lane == Lane::Compute; }

  // start_[t]: how many tasks of its worker's compute lane have surely ended when t starts.
  // ended_before_[t]: the first task of that lane that can only start once t has ended. On the
  // compute lane both are exact; elsewhere they bound a task, or the group it is posted in.
  void place_tasks() {
    start_.resize(plan_.tasks.size());
    ended_before_.resize(plan_.tasks.size());
    compute_tasks_.assign(plan_.problem.workers, 0);
    std::vector<std::uint32_t> group_start(plan_.problem.workers);
    bool groups = false;
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
      const Task& task = plan_.tasks[id];
      if (task.lane != Lane::Compute) continue;
      std::uint32_t& count = compute_tasks_[task.worker_index];
      std::uint32_t& start = group_start[task.worker_index];
      if (!task.with_previous) start = count;
      groups = groups || task.with_previous;
      start_[id] = start;
      ended_before_[id] = ++count;
    }
    if (!groups) return;
    const TaskColumn<std::uint32_t> last = groups_of(plan_);
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id)
      if (computes({id})) ended_before_[id] = ended_before_[last[id]];
  }

  std::uint32_t ended_by_end_of(TaskId id) const {
    return computes(id) ? ended_before_[id.value] : start_[id.value];
  }

  void find_earliest() {
    auto edge = plan_.controls.begin();
    std::vector<std::uint32_t> lane_start(lanes_.all, 0);
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
      const Task& task = plan_.tasks[id];
      std::uint32_t& start = lane_start[lanes_.of(task)];
      for (; edge != plan_.controls.end() && edge->after.value == id; ++edge)
        start = std::max(start, ended_by_end_of(edge->before));
      if (task.lane == Lane::Compute) continue;
      for (const TensorId input : task.inputs)
        if (const TaskId maker = maker_of(plan_, input); maker.valid())
          start = std::max(start, ended_by_end_of(maker));
      start_[id] = start;
      ended_before_[id] = compute_tasks_[task.worker_index];
    }
  }

  // If nothing is known of a group yet.
  static constexpr std::uint32_t kOpen = ~0u;

  void find_latest() {
    std::vector<std::uint32_t> lane_start(lanes_.all);
    for (std::uint32_t lane = 0; lane < lanes_.all; ++lane)
      lane_start[lane] = compute_tasks_[lanes_.worker(lane).value];

    auto edge = plan_.controls.rbegin();
    std::vector<std::uint32_t> group_end(lanes_.all, kOpen), group_start(lanes_.all, kOpen);
    for (std::uint32_t next = static_cast<std::uint32_t>(plan_.tasks.size()); next-- > 0;) {
      const Task& task = plan_.tasks[next];
      const std::size_t lane = lanes_.of(task);
      std::uint32_t& latest = ended_before_[next];
      if (task.lane != Lane::Compute) {
        // The members of a group end together, so what follows any of them follows all.
        group_end[lane] = std::min({group_end[lane], latest, lane_start[lane]});
        latest = group_end[lane];
        // They start together, too, and starts rise along a lane: the last knows most.
        if (group_start[lane] == kOpen) group_start[lane] = start_[next];
        start_[next] = group_start[lane];
      }
      const std::uint32_t started = task.lane == Lane::Compute ? start_[next] : latest;
      for (const TensorId input : task.inputs)
        if (const TaskId maker = maker_of(plan_, input); maker.valid())
          ended_before_[maker.value] = std::min(ended_before_[maker.value], started);
      for (; edge != plan_.controls.rend() && edge->after.value == next; ++edge)
        ended_before_[edge->before.value] = std::min(ended_before_[edge->before.value], started);
      if (task.lane != Lane::Compute && !task.with_previous) {
        lane_start[lane] = std::min(lane_start[lane], latest);
        group_end[lane] = group_start[lane] = kOpen;
      }
    }
    // The first member of a group was looked at last and knows most.
    std::vector<std::uint32_t> first(lanes_.all);
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
      const Task& task = plan_.tasks[id];
      if (task.lane == Lane::Compute) continue;
      std::uint32_t& end = first[lanes_.of(task)];
      if (task.with_previous) ended_before_[id] = end;
      end = ended_before_[id];
    }
  }

  void check_overwrite(const BufferSlot& s, TaskId before, TaskId reader) {
    if (ends_before(reader, s.receive)) return;
    const char* const doubt =
        gave_up_ ? ", or verify gave up: the order has too many ways to prove it" : "";
    if (reader == before) {
      findings_.add(Rule::Memory, {s.receive, before},
                    "{} and {} may come into buffer {} in either order{}", name_of(plan_, before),
                    name_of(plan_, s.receive), s.slot, doubt);
    } else {
      findings_.add(Rule::Memory, {s.receive, reader},
                    "{} overwrites buffer {} while {} may still read what {} put there{}",
                    name_of(plan_, s.receive), s.slot, name_of(plan_, reader),
                    name_of(plan_, before), doubt);
    }
  }

  bool ends_before(TaskId reader, TaskId receive) {
    const Task& r = plan_.tasks[reader.value];
    const Task& w = plan_.tasks[receive.value];
    if (!computes(receive) &&
        ended_before_[reader.value] < start_[receive.value] + (computes(reader) ? 1 : 0))
      return true;
    if (r.lane == w.lane && reader < receive && group_[reader.value] != group_[receive.value])
      return true;
    // Not evident from this worker's lanes: look for any chain of waits.
    if (!order_) order_ = std::make_unique<HappensBefore>(plan_);
    // Each search may walk the whole graph: a plan is not worth more than some seconds of that.
    gave_up_ = gave_up_ || order_->visits() > 100'000'000 + 20 * plan_.tasks.size();
    return !gave_up_ && order_->ends_before_start(reader, receive);
  }

  std::uint32_t moments(std::uint32_t worker) const { return 2 * compute_tasks_[worker] + 1; }
  std::uint32_t freed_by(TaskId reader) const;
  std::uint32_t made_at(TaskId maker) const;
  template <class Visit>
  void for_each_made(Visit visit) const;
  template <class Sum>
  void add_up_in(Verification&) const;

  const Plan& plan_;
  const LaneNumbers lanes_;
  Findings& findings_;
  std::vector<std::uint32_t> compute_tasks_;  // by worker
  TaskColumn<std::uint32_t> start_, ended_before_;
  TaskColumn<std::uint32_t> group_;  // groups_of(plan_), if there are slots
  std::unique_ptr<HappensBefore> order_;
  bool gave_up_ = false;
};

void MemoryCheck::check_slots() {
  if (plan_.slots.empty()) return;
  group_ = groups_of(plan_);
  // By task, of receives.
  std::vector<std::vector<TaskId>> readers(plan_.tasks.size());
  for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id)
    for (const TensorId input : plan_.tasks[id].inputs)
      if (const TaskId maker = maker_of(plan_, input);
          maker.valid() && is_receive(plan_.tasks[maker.value].kind))
        readers[maker.value].push_back({id});
  // The receive that used a slot last, by (worker, kind, slot).
  std::map<std::tuple<std::uint32_t, ValueId, std::uint32_t>, TaskId> occupant;
  for (const BufferSlot& s : plan_.slots) {
    const Task& receive = plan_.tasks[s.receive.value];
    const TaskId before =
        std::exchange(occupant[{receive.worker_index, plan_.value(receive), s.slot}], s.receive);
    if (!before.valid()) continue;
    std::vector<TaskId>& all = readers[before.value];
    // Even what no task reads must have come in, or it overlaps with the next.
    if (all.empty()) all = {before};
    for (const TaskId reader : all) {
      if (findings_.full()) return;
      check_overwrite(s, before, reader);
    }
  }
}

// When a tensor is freed, in moments: 2i is between a worker's compute tasks i - 1 and i, 2i + 1
// while i runs. A transfer that has ended before task i starts may last until just then.
std::uint32_t MemoryCheck::freed_by(TaskId reader) const {
  const Task& task = plan_.tasks[reader.value];
  if (is_output(task.kind)) return moments(task.worker_index);
  return 2 * ended_before_[reader.value] + (computes(reader) ? 0 : 1);
}

std::uint32_t MemoryCheck::made_at(TaskId maker) const {
  const Task& task = plan_.tasks[maker.value];
  if (!computes(maker)) return 2 * start_[maker.value];
  const std::uint8_t into = operation(task.kind).overwrites;
  const bool in_place =
      into != Operation::kNone && plan_.tensor(task.inputs[into]).rows == plan_.rows(task);
  return 2 * start_[maker.value] + (in_place ? 2 : 1);
}

// Calls visit(task, output, when it is freed) for everything that tasks make; 0: no task reads it.
// Back from the last task: whatever reads a tensor comes after its maker.
template <class Visit>
void MemoryCheck::for_each_made(Visit visit) const {
  TaskColumn<std::uint32_t> freed(plan_.tasks.size()), freed_second;
  if (plan_.problem.pass != Pass::Forward) freed_second.resize(plan_.tasks.size());
  const auto first_output = static_cast<std::uint32_t>(plan_.initial.size());
  for (auto id = static_cast<std::uint32_t>(plan_.tasks.size()); id-- > 0;) {
    const Task& task = plan_.tasks[id];
    for (const TensorId input : task.inputs)
      if (const TaskId maker = maker_of(plan_, input); maker.valid()) {
        auto& last = (input.value - first_output) % 2 == 0 ? freed : freed_second;
        last[maker.value] = std::max(last[maker.value], freed_by({id}));
      }
    const std::uint32_t outputs = outputs_of(task.kind);
    if (outputs > 0) visit(TaskId{id}, 0, freed[id]);
    if (outputs > 1) visit(TaskId{id}, 1, freed_second[id]);
  }
}

// The bytes held at each moment, as differences: those of all workers one after the other. What no
// task reads is never freed.
template <class Sum>
void MemoryCheck::add_up_in(Verification& result) const {
  const std::vector<Tokens> rows = rows_of_regions(plan_);
  std::vector<std::size_t> first{0};  // of each worker's moments
  for (std::uint32_t w = 0; w < plan_.problem.workers; ++w)
    first.push_back(first.back() + moments(w) + 1);
  TaskColumn<Sum> change(first.back());
  for_each_made([&](TaskId id, std::uint32_t output, std::uint32_t freed) {
    const Task& task = plan_.tasks[id.value];
    const Piece made = output == 0 ? plan_.piece(task) : plan_.second_piece(task);
    const Sum size =
        plan_.program.bytes(made.value, rows[made.rows.value], made.columns.count).value;
    if (is_receive(task.kind) && freed == 0) ++result.unread;
    if (is_attend(task.kind) && output == 0 && plan_.works[task.work.value].pairs.value == 0)
      ++result.hidden;
    const std::uint32_t w = task.worker_index, from = made_at(id);
    change[first[w] + from] += size;
    change[first[w] + (freed == 0 ? moments(w) : std::max(freed, from))] -= size;
  });
  for (const Exchange& e : plan_.exchanges) {
    const std::vector<Staging> staging = staging_of(plan_, e, shares_of(plan_, e));
    for (std::uint32_t m = 0; m < e.members; ++m) {
      const TaskId id{e.first.value + m};
      const std::uint32_t w = plan_.tasks[id.value].worker_index;
      const Lifetime life = lifetime_while(id);
      const Sum size = Sum{staging[m].given.value} + staging[m].got.value;
      change[first[w] + life.from] += size;
      change[first[w] + life.until] -= size;
    }
  }
  for (std::uint32_t w = 0; w < plan_.problem.workers; ++w) {
    Sum held = 0, most = 0;
    for (std::size_t m = first[w]; m < first[w + 1]; ++m) most = std::max(most, held += change[m]);
    constexpr Sum limit = std::numeric_limits<std::int64_t>::max();
    Bytes& peak = result.peak[w];
    peak = capped_sum(peak, Bytes{static_cast<std::int64_t>(std::min(most, limit))});
  }
}

void MemoryCheck::add_up(Verification& result) const {
  result.peak.assign(plan_.problem.workers, {});
  const std::vector<Tokens> rows = rows_of_regions(plan_);
  for (const InitialTensor& t : plan_.initial)
    result.peak[t.worker.value] += plan_.program.bytes(
        plan_.piece(t).value, rows[plan_.piece(t).rows.value], plan_.piece(t).columns.count);
  // No tensor is larger than one of all tokens.
  std::int64_t largest = 1;
  for (std::uint32_t v = 0; v < plan_.program.size(); ++v)
    largest = std::max(largest, plan_.program.bytes(ValueId{v}, plan_.problem.tokens).value);
  const std::int64_t limit = std::numeric_limits<std::int64_t>::max() / largest / 2;
  if (static_cast<std::uint64_t>(limit) > plan_.tasks.size())
    add_up_in<std::int64_t>(result);
  else
    add_up_in<WideBytes>(result);
}

}  // namespace

void verify_memory(const Plan& plan, Findings& findings, Verification& result) {
  MemoryCheck check(plan, findings);
  check.check_slots();
  check.add_up(result);
}

std::vector<Lifetime> lifetimes(const Plan& plan) {
  Findings none(plan, 1);
  return MemoryCheck(plan, none).lifetimes();
}

std::vector<Lifetime> lifetimes_while(const Plan& plan, const std::vector<TaskId>& tasks) {
  Findings none(plan, 1);
  const MemoryCheck check(plan, none);
  std::vector<Lifetime> out;
  for (const TaskId id : tasks) out.push_back(check.lifetime_while(id));
  return out;
}

}  // namespace ringsched
