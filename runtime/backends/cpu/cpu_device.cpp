#include "backends/cpu/cpu_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <system_error>

#include "ringsched/scheduler/task_name.hpp"
#include "ringsched/scheduler/words.hpp"
#include "ringsched/scheduler/work_left.hpp"

namespace ringsched {

namespace {

constexpr std::uint32_t kNone = ~0u;

// Repacks only copy, and a thread that waits for others needs no core.
bool takes_turn(TaskKind kind) {
  return !communicates(kind) && !is_repack(kind) && !is_output(kind);
}
constexpr std::size_t kPage = 4096;

// Linux's estimate; elsewhere everything that there may be.
Bytes available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (std::int64_t kib = 0; file >> name >> kib >> unit;)
    if (name == "MemAvailable:") return {kib * 1024};
  return {std::numeric_limits<std::int64_t>::max()};
}

}  // namespace

CpuDevice::CpuDevice(const Plan& plan, WorkerId worker, std::span<const TaskId> tasks,
                     Control& control, const CpuOptions& options)
    : plan_(plan),
      worker_(worker),
      control_(control),
      options_(options),
      memory_(nullptr, [](std::byte* p) { std::free(p); }),
      tasks_(tasks.begin(), tasks.end()),
      lanes_(plan.lane_count()),
      operations_(plan) {
  if (options.gate) work_left_ = work_left(plan, tasks);
  times_ = std::vector<Times>(tasks_.size());
  ended_.resize(tasks_.size());
}

CpuDevice::~CpuDevice() { join(); }

std::byte* CpuDevice::allocate(Bytes bytes) {
  const auto size = (static_cast<std::size_t>(bytes.value) + kPage) / kPage * kPage;
  // Linux promises memory before it has it, and kills a process that touches too much. So check
  // first.
  if (const Bytes there = available_memory(); there < bytes)
    throw RunFailed(
        fmt::format("worker {}: its tensors need {}, but only {} of memory is available",
                    worker_.value, human(bytes), human(there)));
  auto* block = static_cast<std::byte*>(std::aligned_alloc(kPage, size));
  if (!block)
    throw RunFailed(
        fmt::format("worker {}: cannot allocate {} for its tensors", worker_.value, human(bytes)));
  memory_.reset(block);
  std::memset(block, 0, size);  // pages are there before anything is timed
  return block;
}

void CpuDevice::upload(std::byte* to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}
void CpuDevice::download(std::span<std::byte> to, const std::byte* from) {
  if (!to.empty()) std::memcpy(to.data(), from, to.size());
}

std::uint32_t CpuDevice::number(TaskId id) const {
  return static_cast<std::uint32_t>(std::lower_bound(tasks_.begin(), tasks_.end(), id) -
                                    tasks_.begin());
}

std::vector<std::uint32_t> CpuDevice::numbers(std::span<const TaskId> ids) const {
  std::vector<std::uint32_t> out;
  for (const TaskId id : ids) out.push_back(number(id));
  return out;
}

void CpuDevice::wait_for(Lane l, TaskId id) { lane(l).program.emplace_back(Wait{number(id)}); }
void CpuDevice::begin(Lane l, std::span<const TaskId> ids) {
  lane(l).program.emplace_back(Begin{numbers(ids)});
}
void CpuDevice::end(Lane l, std::span<const TaskId> ids) {
  lane(l).program.emplace_back(End{numbers(ids)});
}
void CpuDevice::compute(TaskId id, const Operands& operands) {
  lane(plan_.tasks[id.value].lane).program.emplace_back(Compute{id, operands});
}
void CpuDevice::call(Lane l, std::function<void()> what) {
  lane(l).program.emplace_back(std::move(what));
}

void CpuDevice::start(Clock::time_point zero) {
  join();
  zero_ = zero;
  ended_.assign(ended_.size(), false);
  times_ = std::vector<Times>(tasks_.size());
  place_.last = ~0u;  // the core of a thread that has ended
  if (options_.gate && asks_at_once()) options_.gate->expect(place_);
  for (LaneThread& l : lanes_) {
    if (l.program.empty()) continue;
    l.finished = false;
    try {
      l.thread = std::thread([this, &l] { run(l); });
    } catch (const std::system_error& wrong) {
      l.finished = true;
      throw RunFailed(
          fmt::format("worker {}: cannot start a thread: {}", worker_.value, wrong.what()));
    }
  }
}

// Nothing must happen before its first computing task.
bool CpuDevice::asks_at_once() const {
  const std::vector<Instruction>& program = lane(Lane::Compute).program;
  return program.size() > 1 && std::holds_alternative<Begin>(program[0]) &&
         std::holds_alternative<Compute>(program[1]);
}

bool CpuDevice::finished() const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const LaneThread& l) { return l.finished.load(); });
}

void CpuDevice::join() {
  for (LaneThread& l : lanes_)
    if (l.thread.joinable()) l.thread.join();
}

std::int64_t CpuDevice::now() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - zero_).count();
}

TaskTime CpuDevice::time_of(TaskId id) const {
  const Times& t = times_[number(id)];
  return {t.start.load(), t.end.load()};
}

LaneState CpuDevice::state(Lane l) const {
  const std::uint32_t at = lane(l).at.load(std::memory_order_acquire);
  return at == kNone ? LaneState{}
                     : LaneState{tasks_[at], lane(l).since.load(), lane(l).for_core.load()};
}

void CpuDevice::run(LaneThread& l) {
  try {
    std::this_thread::sleep_until(zero_);
    std::optional<CoreGate::Turn> turn;
    if (options_.gate && &l == &lane(Lane::Compute)) turn.emplace(*options_.gate, place_);
    for (const Instruction& one : l.program) execute(l, one, turn ? &*turn : nullptr);
  } catch (const Stopped&) {
  } catch (const std::exception& e) {
    const std::uint32_t at = l.at.load();
    control_.stop(at == kNone ? e.what()
                              : fmt::format("{}: {}", name_of(plan_, tasks_[at]), e.what()));
  }
  l.finished = true;
}

void CpuDevice::wait(LaneThread& l, std::uint32_t task, CoreGate::Turn* turn) {
  std::unique_lock lock(guard_);
  if (ended_[task]) return;
  l.awaits = task;
  lock.unlock();
  if (turn) turn->give_back();
  lock.lock();
  wait_until(control_, l.news, lock, [&] { return ended_[task]; });
}

// Wakes only the lanes that wait for these tasks: with a thousand workers, a wake-up that finds
// nothing to do costs as much as the task itself.
void CpuDevice::ended(const std::vector<std::uint32_t>& tasks) {
  std::array<bool, kMostLanes> wake{};
  {
    const std::lock_guard lock(guard_);
    for (const std::uint32_t task : tasks) {
      ended_[task] = true;
      for (std::size_t i = 0; i < lanes_.size(); ++i) wake[i] = wake[i] || lanes_[i].awaits == task;
    }
  }
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    if (wake[i]) lanes_[i].news.notify_one();
}

// `turn`: of the computing lane, if cores are shared. It keeps its turn from task to task while it
// need not wait.
void CpuDevice::execute(LaneThread& l, const Instruction& one, CoreGate::Turn* turn) {
  if (const auto* waits = std::get_if<Wait>(&one)) {
    wait(l, waits->task, turn);
  } else if (const auto* begins = std::get_if<Begin>(&one)) {
    if (control_.stopped()) throw Stopped{};
    const std::int64_t start = now();
    // A computing task begins when it has a core.
    for (const std::uint32_t task : begins->tasks)
      if (!turn || !takes_turn(plan_.tasks[tasks_[task].value].kind)) times_[task].start = start;
    l.since = start;
    l.at.store(begins->tasks.front(), std::memory_order_release);
  } else if (const auto* ends = std::get_if<End>(&one)) {
    const std::int64_t end = now();
    for (const std::uint32_t task : ends->tasks) {
      if (times_[task].start == TaskTime::kNotYet) times_[task].start = end;
      times_[task].end = end;
    }
    l.at.store(kNone, std::memory_order_release);
    ended(ends->tasks);
  } else if (const auto* work = std::get_if<Compute>(&one)) {
    const std::uint32_t task = number(work->task);
    if (turn) {
      l.for_core = true;
      turn->take(work_left_[task]);
      if (control_.stopped()) throw Stopped{};  // the core is free because all give up
      l.for_core = false;
      times_[task].start = now();
    }
    cpu::Scratch& scratch = turn ? turn->scratch() : scratch_;
    scratch.on_pause([this] {
      if (control_.stopped()) throw Stopped{};
    });
    operations_.perform(work->task, work->operands, scratch);
    if (options_.check_finite) operations_.require_finite(work->task, work->operands);
  } else {
    if (turn) turn->give_back();  // a transfer on this lane waits for others
    std::get<std::function<void()>>(one)();
  }
}

}  // namespace ringsched
