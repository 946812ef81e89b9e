// Executes any plan, with no line about any schedule. It puts each worker's tasks on the lanes of
// its device in the order of the plan, with waits for what other lanes make; the device and the
// transport do the rest.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ringsched/runtime/control.hpp"
#include "ringsched/runtime/device.hpp"
#include "ringsched/runtime/memory_plan.hpp"
#include "ringsched/runtime/transport.hpp"
#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

class ExchangeMember;
class MessageNumbers;
class RepackMoves;

// A tensor that is a result of the whole computation, on a worker of this process.
struct Result {
  ValueId value;
  WorkerId worker;
  Region region;
  ColumnRange columns;
  const std::byte* data = nullptr;  // in memory of the worker's device, until it is fetched
};

// Writes an initial tensor in the layout of tensor_form(). Called from several threads at once.
using FillTensor = std::function<void(const InitialTensor&, std::span<std::byte>)>;
// Of a worker, for all its tasks in order.
using MakeDevice = std::function<std::unique_ptr<Device>(WorkerId, std::span<const TaskId>)>;

class Execution {
 public:
  // For a plan that verifies; keeps a reference to it. `mine` are the workers of this process.
  // Allocates, fills initial tensors, and puts all tasks on their lanes. Throws RunFailed.
  Execution(const Plan&, std::vector<WorkerId> mine, const MakeDevice&, Transport&, Control&,
            const FillTensor&);
  ~Execution();

  using Hung = std::function<void(const std::string&)>;
  // What devices do at first use, once and together with all processes, because it may send all
  // messages. Ends as run() does. If nobody calls it, run() does, and then its `zero` is long gone.
  void rehearse(std::chrono::nanoseconds deadline, const Hung&);
  // Runs everything from the time `zero` on; may be called again. Throws RunFailed when the run is
  // stopped or has not ended `deadline` later, naming what was pending. Calls `hung` if some lane
  // does not give up even then, and at once if the control was interrupted, because whoever
  // interrupts has no patience; it must not return.
  void run(Clock::time_point zero, std::chrono::nanoseconds deadline, const Hung& hung);
  // How long before `zero` to call run(), so that all lanes are ready.
  std::chrono::nanoseconds lead() const;

  // Times of the last run, of the tasks of this process; the others have none.
  void add_times(Timeline&) const;
  // The same for a run that is still going or was given up: the known times of this process's
  // tasks, in order.
  std::vector<TaskTime> times() const;
  // So that a wait for a worker of another process names that process.
  void name_processes(std::function<std::uint32_t(WorkerId)> of) { process_of_ = std::move(of); }
  // Called about once a second during a run, with the share of its tasks that have ended.
  void tell_progress(std::function<void(double)> tell) { tell_progress_ = std::move(tell); }
  const std::vector<Result>& results() const { return results_; }
  // Copies results to host memory if they are not there; then results() has them.
  void fetch_results();
  const MemoryPlan& memory() const { return memory_; }
  Device& device(WorkerId w) { return *devices_[w.value]; }

 private:
  class Queue;
  void fill_all(const FillTensor&);
  void enqueue(WorkerId, const std::vector<TaskId>& tasks);
  Operands operands(TaskId) const;
  struct Gathered;
  MessageEnd message(TaskId, std::vector<Gathered>&) const;
  ExchangeMember& member(TaskId);
  RepackMoves repack(TaskId first) const;
  std::byte* place(TensorId) const;
  std::byte* staging(TaskId) const;
  std::string pending(std::chrono::nanoseconds after) const;
  std::string name(TaskId) const;
  std::string awaited(TaskId) const;
  void give_up();
  void look(Clock::time_point zero, std::chrono::nanoseconds deadline);
  double share_ended() const;
  void wait_for_all(Clock::time_point zero, std::chrono::nanoseconds deadline, const Hung&);

  const Plan& plan_;
  const std::vector<WorkerId> mine_;
  Transport& transport_;
  Control& control_;
  MemoryPlan memory_;
  const std::unique_ptr<const MessageNumbers> numbers_;
  std::map<TaskId, std::unique_ptr<ExchangeMember>> members_;  // of this process
  std::vector<std::unique_ptr<Device>> devices_;  // by worker; none where another process has it
  std::vector<std::byte*> blocks_;                // likewise
  std::vector<Result> results_;
  std::vector<const std::byte*> result_places_;  // in memory of the device
  std::vector<std::vector<float>> fetched_;
  bool rehearsed_ = false, gave_up_ = false;
  std::function<std::uint32_t(WorkerId)> process_of_;
  std::function<void(double)> tell_progress_;
};

}  // namespace ringsched
