#include "ringsched/runtime/execution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "exchange_member.hpp"
#include "message_numbers.hpp"
#include "rectangle.hpp"
#include "repack_moves.hpp"
#include "ringsched/runtime/tensor_form.hpp"
#include "ringsched/scheduler/task_name.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

namespace {

using namespace std::chrono_literals;

// How long lanes may take to give up: nothing interrupts a running kernel.
constexpr auto kGivingUp = 4s;

}  // namespace

Execution::Execution(const Plan& plan, std::vector<WorkerId> mine, const MakeDevice& make_device,
                     Transport& transport, Control& control, const FillTensor& fill)
    : plan_(plan),
      mine_(std::move(mine)),
      transport_(transport),
      control_(control),
      memory_(plan_memory(plan)),
      numbers_(std::make_unique<MessageNumbers>(plan)),
      devices_(plan.problem.workers),
      blocks_(plan.problem.workers) {
  std::vector<std::vector<TaskId>> tasks(plan.problem.workers);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    tasks[plan.tasks[id].worker_index].push_back({id});
  for (const WorkerId w : mine_) {
    devices_[w.value] = make_device(w, tasks[w.value]);
    blocks_[w.value] = devices_[w.value]->allocate(memory_.size[w.value]);
  }
  fill_all(fill);
  for (std::uint32_t t = 0; t < plan.initial.size(); ++t) {
    const InitialTensor& tensor = plan.initial[t];
    if (!devices_[tensor.worker.value]) continue;
    const Piece& piece = plan.piece(tensor);
    if (piece.value == attention::kPartial)  // a plan of the backward pass alone begins with it
      results_.push_back(
          {piece.value, tensor.worker, plan.regions[piece.rows.value], piece.columns, place({t})});
  }
  for (const WorkerId w : mine_) enqueue(w, tasks[w.value]);
}

Execution::~Execution() {
  const bool failed = control_.stopped();
  control_.stop("the run was given up");
  for (const WorkerId w : mine_)
    if (devices_[w.value]) devices_[w.value]->join();
  if (failed) give_up();  // it may still be at a message in memory that goes now
}

void Execution::give_up() {
  if (!std::exchange(gave_up_, true)) transport_.give_up();
}

void Execution::fill_all(const FillTensor& fill) {
  std::atomic<std::uint32_t> next{0};
  std::exception_ptr wrong;
  std::mutex guard;
  const auto work = [&] {
    std::vector<std::byte> host;
    try {
      for (std::uint32_t t = next++; t < plan_.initial.size(); t = next++) {
        const InitialTensor& tensor = plan_.initial[t];
        Device* const device = devices_[tensor.worker.value].get();
        if (!device) continue;
        if (device->fill(place({t}), tensor)) continue;
        host.resize(static_cast<std::size_t>(plan_.bytes(plan_.piece(tensor)).value));
        fill(tensor, host);
        device->upload(place({t}), host);
      }
    } catch (...) {
      const std::lock_guard lock(guard);
      wrong = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(std::thread::hardware_concurrency());
  try {
    for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(work);
  } catch (const std::system_error&) {  // those that are there do it
  }
  work();
  for (std::thread& t : threads) t.join();
  if (wrong) std::rethrow_exception(wrong);
}

std::byte* Execution::place(TensorId t) const {
  return blocks_[plan_.tensor(t).worker.value] + memory_.offset[t.value];
}

Operands Execution::operands(TaskId id) const {
  const Task& task = plan_.tasks[id.value];
  Operands out;
  for (std::size_t i = 0; i < task.inputs.size(); ++i)
    if (task.inputs[i].valid()) out.inputs[i] = place(task.inputs[i]);
  for (std::uint32_t n = 0; n < outputs_of(task.kind); ++n)
    out.outputs[n] = place(plan_.output(id, n));
  return out;
}

std::byte* Execution::staging(TaskId id) const {
  const auto at = memory_.staging.find(id.value);
  return at == memory_.staging.end() ? nullptr
                                     : blocks_[plan_.tasks[id.value].worker_index] + at->second;
}

struct Execution::Gathered {
  Rectangle from, to;
};

// The rows of a tensor that a transfer moves. A receive makes a tensor of just these. If only some
// columns move, they are gathered before the send.
MessageEnd Execution::message(TaskId id, std::vector<Gathered>& gathered) const {
  const Task& task = plan_.tasks[id.value];
  MessageEnd m;
  m.sends = is_send(task.kind);
  m.task = m.sends ? id : task.peer;
  m.number = m.task.value;
  m.peer = plan_.tasks[task.peer.value].worker();
  const Region region = plan_.regions[plan_.rows(task).value];
  const TensorId tensor = m.sends ? task.inputs[0] : plan_.output(id);
  const Tensor held = plan_.tensor(tensor);
  const ColumnRange columns = plan_.piece(task).columns;
  Rectangle at =
      rectangle(plan_, place(tensor), {held.value, held.rows, held.columns}, region, columns);
  if (held.columns != columns) {
    gathered.push_back({at, packed(plan_, staging(id), held.value, region, columns)});
    at = gathered.back().to;
  }
  set_place(m, at);
  return m;
}

ExchangeMember& Execution::member(TaskId id) {
  const Task& task = plan_.tasks[id.value];
  const ExchangeMember::Memory memory{task.inputs[0].valid() ? place(task.inputs[0]) : nullptr,
                                      place(plan_.output(id)), staging(id)};
  return *members_.emplace(id, std::make_unique<ExchangeMember>(plan_, *numbers_, id, memory))
              .first->second;
}

RepackMoves Execution::repack(TaskId first) const {
  return {plan_, plan_.exchange(plan_.tasks[first.value]), [&](TensorId t) { return place(t); }};
}

// Puts the tasks of one worker on its lanes, group by group.
class Execution::Queue {
 public:
  Queue(Execution& run, WorkerId worker)
      : run_(run), plan_(run.plan_), worker_(worker), device_(*run.devices_[worker.value]) {}

  void add(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    if (!task.with_previous) close(task.lane);
    if (communicates(task.kind) || is_repack(task.kind)) {
      open(task.lane).push_back(id);
      return;
    }
    wait_for_needs({id}, task.lane);
    device_.begin(task.lane, {&id, 1});
    if (operation(task.kind).does != Operation::Does::Deliver)
      device_.compute(id, run_.operands(id));
    device_.end(task.lane, {&id, 1});
  }
  void close_all() {
    for (std::uint32_t lane = 0; lane < plan_.lane_count(); ++lane) close(static_cast<Lane>(lane));
  }

 private:
  std::vector<TaskId>& open(Lane lane) { return open_[static_cast<std::size_t>(lane)]; }

  void close(Lane lane) {
    const std::vector<TaskId> members = std::exchange(open(lane), {});
    if (members.empty()) return;
    wait_for_needs(members, lane);
    const TaskKind kind = plan_.tasks[members[0].value].kind;
    // The first member of a repack has all its time; the others begin when all end.
    device_.begin(lane, std::span(members).first(is_repack(kind) ? 1 : members.size()));
    if (is_exchange(kind))
      run_.transport_.exchange_as_member(device_, worker_, lane, run_.member(members[0]));
    else if (is_repack(kind))
      device_.call(lane, [moves = run_.repack(members[0])] { moves.run(); });
    else
      transfer(lane, members);
    device_.end(lane, members);
  }

  void transfer(Lane lane, const std::vector<TaskId>& members) {
    std::vector<MessageEnd> messages;
    std::vector<Gathered> gathered;
    for (const TaskId id : members) messages.push_back(run_.message(id, gathered));
    if (!gathered.empty())
      device_.call(lane, [gathered] {
        for (const Gathered& g : gathered) copy(g.from, g.to);
      });
    run_.transport_.exchange(device_, worker_, lane, std::move(messages));
  }

  // For each other lane, the last task that is needed: those before it have ended as well.
  void wait_for_needs(const std::vector<TaskId>& tasks, Lane lane) {
    std::array<TaskId, kMostLanes> latest{};
    const auto need = [&](TaskId other) {
      const Lane there = plan_.tasks[other.value].lane;
      TaskId& last = latest[static_cast<std::size_t>(there)];
      if (there != lane && (!last.valid() || last < other)) last = other;
    };
    for (const TaskId id : tasks) {
      for (const TensorId input : plan_.tasks[id.value].inputs)
        if (input.valid() && plan_.producer(input).valid()) need(plan_.producer(input));
      const auto [first, end] = std::equal_range(
          plan_.controls.begin(), plan_.controls.end(), ControlEdge{{}, id},
          [](const ControlEdge& a, const ControlEdge& b) { return a.after < b.after; });
      for (auto e = first; e != end; ++e) need(e->before);
    }
    for (std::size_t there = 0; there < kMostLanes; ++there) {
      if (!latest[there].valid()) continue;
      // The awaited task must be on its lane already: a stream cannot wait for what it does not
      // know yet.
      if (!open_[there].empty() && open_[there].front() <= latest[there])
        close(static_cast<Lane>(there));
      device_.wait_for(lane, latest[there]);
    }
  }

  Execution& run_;
  const Plan& plan_;
  const WorkerId worker_;
  Device& device_;
  std::array<std::vector<TaskId>, kMostLanes> open_;  // groups that may still grow
};

void Execution::enqueue(WorkerId worker, const std::vector<TaskId>& tasks) {
  Queue queue(*this, worker);
  for (const TaskId id : tasks) {
    queue.add(id);
    const Task& task = plan_.tasks[id.value];
    if (!is_output(task.kind)) continue;
    const Tensor made = plan_.tensor(task.inputs[0]);
    results_.push_back(
        {made.value, worker, plan_.regions[made.rows.value], made.columns, place(task.inputs[0])});
  }
  queue.close_all();
}

// The lanes that have been at one task for longest: what a hanging run waits for.
std::string Execution::pending(std::chrono::nanoseconds after) const {
  constexpr std::size_t kNamed = 4;
  std::vector<LaneState> states;
  for (const WorkerId w : mine_)
    for (std::uint32_t lane = 0; lane < plan_.lane_count(); ++lane)
      if (const LaneState s = devices_[w.value]->state(static_cast<Lane>(lane)); s.task.valid())
        states.push_back(s);
  std::stable_sort(states.begin(), states.end(),
                   [](const LaneState& a, const LaneState& b) { return a.since < b.since; });
  std::string out;
  for (std::size_t i = 0; i < std::min(kNamed, states.size()); ++i)
    out += fmt::format("{}{}, for {}{}", out.empty() ? "" : "; ", name(states[i].task),
                       duration({1000 * (after.count() - states[i].since)}),
                       states[i].for_core ? ", waiting for a core" : "");
  if (states.size() > kNamed) out += fmt::format("; and {} more", states.size() - kNamed);
  return out.empty() ? "nothing" : out;
}

// The workers that a member of an exchange waits for.
std::string Execution::awaited(TaskId id) const {
  constexpr std::size_t kNamed = 4;
  const auto member = members_.find(id);
  if (member == members_.end()) return {};
  const std::vector<WorkerId> all = member->second->awaited();
  std::string out;
  for (std::size_t i = 0; i < std::min(kNamed, all.size()); ++i) {
    out += fmt::format("{}worker {}", out.empty() ? ", waiting for " : ", ", all[i].value);
    if (process_of_ && process_of_(all[i]) != process_of_(plan_.tasks[id.value].worker()))
      out += fmt::format(" of process {}", process_of_(all[i]));
  }
  if (all.size() > kNamed) out += fmt::format(" and {} more", all.size() - kNamed);
  return out;
}

std::string Execution::name(TaskId id) const {
  const Task& t = plan_.tasks[id.value];
  std::string out = name_of(plan_, id);
  if (is_exchange(t.kind)) return out.insert(out.size() - 1, awaited(id));
  if (!process_of_ || !is_transfer(t.kind)) return out;
  const std::uint32_t there = process_of_(plan_.tasks[t.peer.value].worker());
  if (there != process_of_(t.worker()))
    out.insert(out.size() - 1, fmt::format(" of process {}", there));
  return out;
}

std::chrono::nanoseconds Execution::lead() const {
  std::chrono::nanoseconds longest = 2ms + plan_.lane_count() * mine_.size() * 100us;
  for (const WorkerId w : mine_) longest = std::max(longest, devices_[w.value]->lead());
  return longest;
}

// Whether there is a reason to stop.
void Execution::look(Clock::time_point zero, std::chrono::nanoseconds deadline) {
  try {
    transport_.look();
  } catch (const RunFailed& wrong) {
    control_.abandon(wrong.what());
  }
  if (control_.stopped()) return;
  const std::chrono::nanoseconds after = Clock::now() - zero;
  std::string why;
  if (control_.interrupted() != 0)
    why = fmt::format("stopped by signal {}", control_.interrupted());
  else if (control_.abandoned())
    why = control_.abandoned_why();
  else if (after > deadline)
    why = fmt::format("not finished after {}", duration({1000 * deadline.count()}));
  else
    return;
  control_.stop(fmt::format("{}; pending: {}", why, pending(after)));
}

void Execution::rehearse(std::chrono::nanoseconds deadline, const Hung& hung) {
  if (std::exchange(rehearsed_, true)) return;
  const Clock::time_point zero = Clock::now();
  transport_.begin_run();
  bool any = false;
  for (const WorkerId w : mine_) any |= devices_[w.value]->rehearse();
  if (!any) return;
  wait_for_all(zero, deadline, hung);
  for (const WorkerId w : mine_) devices_[w.value]->rehearsed();
}

void Execution::run(Clock::time_point zero, std::chrono::nanoseconds deadline, const Hung& hung) {
  rehearse(deadline, hung);
  transport_.begin_run();
  for (const WorkerId w : mine_) devices_[w.value]->start(zero);
  wait_for_all(zero, deadline, hung);
}

// Of the tasks of workers whose times are known during the run.
double Execution::share_ended() const {
  std::size_t all = 0, ended = 0;
  for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
    const auto& device = devices_[plan_.tasks[id].worker_index];
    if (!device || !device->is_host_memory()) continue;
    ++all;
    if (device->time_of({id}).end != TaskTime::kNotYet) ++ended;
  }
  return all == 0 ? 0 : static_cast<double>(ended) / static_cast<double>(all);
}

void Execution::wait_for_all(Clock::time_point zero, std::chrono::nanoseconds deadline,
                             const Hung& hung) {
  const auto all_finished = [&] {
    return std::all_of(mine_.begin(), mine_.end(),
                       [&](WorkerId w) { return devices_[w.value]->finished(); });
  };
  auto nap = 20us;
  Clock::time_point stopped_at{}, told_at = Clock::now();
  while (!all_finished()) {
    look(zero, deadline);
    if (control_.stopped()) {
      const Clock::time_point now = Clock::now();
      if (stopped_at == Clock::time_point{}) {
        stopped_at = now;
        give_up();
      }
      if (control_.interrupted() != 0 || now - stopped_at > kGivingUp) hung(control_.why());
    }
    if (tell_progress_ && Clock::now() - told_at > 1s) {
      tell_progress_(share_ended());
      told_at = Clock::now();
    }
    std::this_thread::sleep_for(nap);
    nap = std::min<std::chrono::microseconds>(2 * nap, 2ms);
  }
  for (const WorkerId w : mine_) devices_[w.value]->join();
  if (control_.stopped()) throw RunFailed(control_.why());
}

void Execution::fetch_results() {
  fetched_.resize(results_.size());
  result_places_.resize(results_.size());
  for (std::size_t i = 0; i < results_.size(); ++i) {
    Result& r = results_[i];
    Device& device = *devices_[r.worker.value];
    if (device.is_host_memory()) continue;
    if (fetched_[i].empty()) {
      const TensorForm form =
          tensor_form(plan_.program, r.value, plan_.layout.rows(r.region), r.columns.count);
      fetched_[i].resize(static_cast<std::size_t>(form.at(2) / 4));  // a result has two at the most
      result_places_[i] = std::exchange(r.data, reinterpret_cast<std::byte*>(fetched_[i].data()));
    }
    device.download(std::as_writable_bytes(std::span(fetched_[i])), result_places_[i]);
  }
}

std::vector<TaskTime> Execution::times() const {
  std::vector<TaskTime> out;
  for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id)
    if (const auto& device = devices_[plan_.tasks[id].worker_index])
      out.push_back(device->time_of({id}));
  return out;
}

void Execution::add_times(Timeline& timeline) const {
  for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
    const auto& device = devices_[plan_.tasks[id].worker_index];
    if (!device) continue;
    const TaskTime t = device->time_of({id});
    timeline.tasks[id].start_ps = 1000 * t.start;
    timeline.tasks[id].end_ps = 1000 * t.end;
  }
}

}  // namespace ringsched
