// What a run submits to its streams, and when.
#include <nvtx3/nvtx3.hpp>
#include <thread>

#include "backends/cuda/gate_opener.hpp"
#include "backends/cuda/kernels.hpp"
#include "backends/cuda/run.hpp"
#include "ringsched/scheduler/task_name.hpp"

namespace ringsched::cuda {

namespace {

// This many launches and events of one stream may stand behind the gate, of a thousand or so that
// fit. When its queue is full, submitting blocks, and then nobody would open the gate.
constexpr std::size_t kMostBehindGate = 700;
// At most: cuDNN's backward pass is several kernels; an exchange by NCCL is waits, a kernel,
// events.
constexpr std::size_t kLaunchesOfDeviceCall = 3;
constexpr std::size_t kLaunchesOfExchange = 6;
constexpr std::size_t kQueues = 32;  // CUDA_DEVICE_MAX_CONNECTIONS

struct Domain {  // of profilers
  static constexpr const char* name{"ringsched"};
};
using Range = nvtx3::scoped_range_in<Domain>;

}  // namespace

bool GpuRun::last_of_all() {
  if (++called_ < mine_.size()) return false;
  called_ = 0;
  return true;
}

// Once, when everything is on its lanes.
void GpuRun::prepare() {
  order_ = submission_order(streams_);
  const std::size_t tasks = plan_.tasks.size();
  calls_.resize(tasks);
  names_.resize(tasks);
  begins_.resize(tasks);
  ends_.resize(streams_.events());
  events_.resize(streams_.events());
  for (const Submitted s : order_) {
    const Op& op = streams_.lanes()[s.lane][s.op];
    const Worker& own = worker_of(s.lane);
    own.gpu->make_current();
    if (op.kind == Op::Kind::Begin) {
      for (const TaskId task : streams_.group(op.task)) front_[task.value] = op.task;
      names_[op.task.value] = fmt::format("{}: {}", op.task.value, name_of(plan_, op.task));
      begins_[op.task.value].emplace();
    } else if (op.kind == Op::Kind::End) {
      ends_[op.event].emplace();
      if (options_.graph) events_[op.event].emplace(cudaEventDisableTiming);
    } else if (op.kind == Op::Kind::Record) {
      events_[op.event].emplace(cudaEventDisableTiming);
    } else if (op.kind == Op::Kind::Compute) {
      calls_[op.task.value] = lowering_->calls(op.task, streams_.operands(op), surroundings(own));
    }
  }
  prepared_ = true;
}

// The first launch of a kernel loads it, and may wait for all streams. That must not happen behind
// the gate, in a capture, or while messages wait for another process. So first each computation
// runs alone, on whatever memory holds, and then the run is made without a gate.
void GpuRun::rehearse() {
  if (!last_of_all()) return;
  prepare();
  const auto wait = [&] {
    for (const Gpu& gpu : gpus_) {
      gpu.make_current();
      require(cudaDeviceSynchronize(), "getting ready");
    }
  };
  wait();  // inputs are there
  for (const Submitted s : order_) {
    const Op& op = streams_.lanes()[s.lane][s.op];
    if (op.kind == Op::Kind::Compute) submit_op(s.lane, s.op);
  }
  wait();
  reset();
  const Clock::time_point before = Clock::now();
  for (const Submitted s : order_) submit_op(s.lane, s.op);
  submitting_ = Clock::now() - before;
}

void GpuRun::rehearsed() {
  if (!last_of_all()) return;
  if (control_.stopped()) throw RunFailed(control_.why());
  if (options_.graph) capture();
}

// Before each run.
void GpuRun::reset() {
  looked_ = false;
  for (std::size_t g = 0; options_.check_finite && g < gpus_.size(); ++g) {
    gpus_[g].make_current();
    require(cudaMemset(not_finite_[g].get(), 0xff, 4), "starting");
    require(cudaDeviceSynchronize(), "starting");
  }
}

void GpuRun::start(Clock::time_point zero) {
  if (!last_of_all()) return;
  try {
    reset();
    submit(zero);
  } catch (...) {
    open_gates();  // what was submitted comes to an end
    throw;
  }
}

// Streams stand behind a gate until everything is submitted, so that the run does not wait for the
// host.
void GpuRun::submit(Clock::time_point zero) {
  for (std::size_t g = 0; g < gpus_.size(); ++g) {
    gpus_[g].make_current();
    gates_[g]->close();
  }
  GateOpener gate([this] { open_gates(); });
  const auto begin = [&] {
    std::this_thread::sleep_until(zero - std::chrono::microseconds(200));
    while (Clock::now() < zero) {
    }
    const Clock::time_point opened = gate.open();
    late_ = options_.shared_clock ? opened - zero : std::chrono::nanoseconds(0);
  };
  if (graph_) {
    gpus_[0].make_current();
    require(cudaGraphLaunch(graph_, gates_[0]->stream()), "launching the graph");
    return begin();
  }
  for (const WorkerId w : mine_) {
    const Gpu& gpu = *workers_[w.value].gpu;
    gpu.make_current();
    for (std::uint32_t l = 0; l < plan_.lane_count(); ++l)
      gates_[index_of(gpu)]->hold(stream(w, static_cast<Lane>(l)));
  }
  // Streams beyond the number of hardware queues share them.
  const std::size_t sharing = plan_.lane_count() * mine_.size() / gpus_.size() / kQueues + 1;
  std::vector<std::size_t> behind(streams_.lanes().size(), 0);
  bool open = false;
  for (const Submitted s : order_) {
    const Op& op = streams_.lanes()[s.lane][s.op];
    behind[s.lane] += op.kind == Op::Kind::Compute
                          ? kLaunchesOfDeviceCall * calls_[op.task.value].size()
                      : op.kind == Op::Kind::Call ? kLaunchesOfExchange
                                                  : 1;
    if (!open && behind[s.lane] > kMostBehindGate / sharing) {
      begin();
      open = true;
    }
    submit_op(s.lane, s.op);
  }
  if (!open) begin();
}

void GpuRun::open_gates() {
  for (const auto& gate : gates_) gate->open();
}

void GpuRun::submit_op(std::uint32_t lane, std::uint32_t number) {
  const Op& op = streams_.lanes()[lane][number];
  const Worker& own = worker_of(lane);
  const cudaStream_t on = stream(lane);
  own.gpu->make_current();
  const auto record_time = [&](const Event& event) {
    require(capturing_ ? cudaEventRecordWithFlags(event.get(), on, cudaEventRecordExternal)
                       : cudaEventRecord(event.get(), on),
            "recording an event");
  };
  switch (op.kind) {
    case Op::Kind::Begin:
      return record_time(*begins_[op.task.value]);
    case Op::Kind::End:
      record_time(*ends_[op.event]);
      if (events_[op.event])
        require(cudaEventRecord(events_[op.event]->get(), on), "recording an event");
      return;
    case Op::Kind::Record:
      return require(cudaEventRecord(events_[op.event]->get(), on), "recording an event");
    case Op::Kind::Wait:
      return require(
          cudaStreamWaitEvent(on, (events_[op.event] ? events_ : ends_)[op.event]->get()),
          "waiting for an event");
    case Op::Kind::Compute: {
      const Range range(names_[op.task.value].c_str());
      return compute(own, on, calls_[op.task.value]);
    }
    case Op::Kind::Copy:
      return copy_message(op, on);
    case Op::Kind::Call:
      return streams_.function(op)();
  }
}

void GpuRun::compute(const Worker& own, cudaStream_t on, const std::vector<DeviceCall>& calls) {
  try {
    for (const DeviceCall& call : calls)
      if (!own.library->call(call)) launch(call, on, own.gpu->multiprocessors(own.place));
  } catch (const RunFailed& e) {
    if (!own.gpu->parted()) throw;
    throw RunFailed(
        fmt::format("{}; set RINGSCHED_NO_PARTITIONS=1 to run without partitions", e.what()));
  }
}

void GpuRun::copy_message(const Op& op, cudaStream_t on) {
  const Delivery& d = streams_.delivery(op);
  const Range range(
      fmt::format("{} to worker {}", name_of(plan_, op.task), d.receiver.value).c_str());
  for (const CopiedPiece& piece : pieces(d))
    copy(piece.to, workers_[d.receiver.value].gpu->index(), piece.from,
         workers_[d.sender.value].gpu->index(), piece.bytes, on);
}

}  // namespace ringsched::cuda
