#include "backends/cuda/run.hpp"

#include <algorithm>
#include <nvtx3/nvtx3.hpp>
#include <thread>

#include "backends/cuda/fill.hpp"
#include "backends/cuda/kernels.hpp"
#include "backends/cuda/memory_need.hpp"
#include "backends/cuda/partitions.hpp"
#include "backends/cuda/stream_device.hpp"
#include "ringsched/runtime/tensor_form.hpp"
#include "ringsched/scheduler/task_name.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched::cuda {

namespace {

// So many launches and events of one stream may stand behind the gate, of a thousand or so: when
// its queue is full submitting blocks, and then nobody would open it.
constexpr std::size_t kMostBehindGate = 700;
// What a step comes to, at the most: cuDNN's backward pass is several kernels.
constexpr std::size_t kLaunchesOfStep = 3;

// What CUDA and cuDNN take when kernels are first used.
constexpr std::int64_t kForOthers = 256 << 20;

struct Domain {  // of profilers
  static constexpr const char* name{"ringsched"};
};
using Range = nvtx3::scoped_range_in<Domain>;

}  // namespace

class Run::WorkerDevice final : public StreamDevice {
 public:
  WorkerDevice(Run& run, WorkerId w) : StreamDevice(run.streams_, w), run_(run) {}
  std::byte* allocate(Bytes bytes) override {
    own().gpu->make_current();
    own().block = DeviceMemory(bytes.value);
    return own().block.get();
  }
  void upload(std::byte* to, std::span<const std::byte> from) override {
    own().gpu->make_current();
    require(cudaMemcpy(to, from.data(), from.size(), cudaMemcpyHostToDevice), "writing inputs");
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    own().gpu->make_current();
    require(cudaStreamSynchronize(run_.stream(StreamPlan::lane_of(worker_, Lane::Compute))),
            "reading results");
    require(cudaMemcpy(to.data(), from, to.size(), cudaMemcpyDeviceToHost), "reading results");
  }
  bool fill(std::byte* to, const InitialTensor& tensor) override {
    return run_.fill(worker_, tensor, to);
  }
  bool is_host_memory() const override { return false; }
  void* stream(Lane lane) override { return run_.stream(StreamPlan::lane_of(worker_, lane)); }
  void start(Clock::time_point zero) override { run_.start(zero); }
  bool finished() const override { return run_.finished(worker_); }
  void join() override { run_.look_for_what_is_not_finite(); }
  TaskTime time_of(TaskId task) const override { return run_.time_of(task); }
  LaneState state(Lane lane) const override { return run_.state(worker_, lane); }

 private:
  Worker& own() { return run_.workers_[worker_.value]; }
  Run& run_;
};

Run::Run(const Plan& plan, std::vector<WorkerId> mine, Control& control, const CudaOptions& options)
    : plan_(plan),
      mine_(std::move(mine)),
      control_(control),
      options_(options),
      workers_(plan.problem.workers),
      streams_(plan),
      front_(plan.tasks.size()) {
  choose_gpus();
  lowering_ = std::make_unique<Lowering>(plan_, mine_, [this](const Shape& shape) {
    for (Gpu& gpu : gpus_) {
      gpu.make_current();
      if (std::string why = gpu.library().refusal(shape); !why.empty()) return why;
    }
    return std::string();
  });
  require_room();
  const auto documents = plan_.problem.mask.document_bounds();
  for (const Gpu& gpu : gpus_) {
    gpu.make_current();
    gates_.push_back(std::make_unique<Gate>());
    not_finite_.emplace_back(4);
    bounds_.emplace_back(static_cast<std::int64_t>(documents.size_bytes()));
    if (!documents.empty())
      require(cudaMemcpy(bounds_.back().get(), documents.data(), documents.size_bytes(),
                         cudaMemcpyHostToDevice),
              "writing the bounds of documents");
  }
}

Run::~Run() {
  open_gates();
  for (const Gpu& gpu : gpus_) {
    cudaSetDevice(gpu.index());
    cudaDeviceSynchronize();
  }
  if (graph_) cudaGraphExecDestroy(graph_);
  for (Worker& w : workers_) w.library.reset();  // before the streams it is called with
}

void Run::choose_gpus() {
  check_for_gpu(plan_.problem);
  const int there = require_gpus();
  const auto workers = static_cast<std::uint32_t>(mine_.size());
  const std::vector<std::uint32_t> on =
      gpu_of_each(workers, options_.gpu >= 0 ? 1 : static_cast<std::uint32_t>(there));
  std::vector<int> used;
  const std::uint32_t count = on.empty() ? 0 : on.back() + 1;
  for (std::uint32_t g = 0; g < count; ++g) {
    const int index = options_.gpu >= 0 ? options_.gpu % there : static_cast<int>(g);
    used.push_back(index);
    gpus_.emplace_back(index, static_cast<std::uint32_t>(std::count(on.begin(), on.end(), g)));
  }
  for (std::uint32_t i = 0; i < workers; ++i) {
    Worker& w = workers_[mine_[i].value];
    w.gpu = &gpus_[on[i]];
    w.place = static_cast<std::uint32_t>(std::count(on.begin(), on.begin() + i, on[i]));
  }
  allow_peers(used);
}

void Run::require_room() {
  const MemoryPlan memory = plan_memory(plan_);
  for (Gpu& gpu : gpus_) {
    std::vector<WorkerId> there;
    for (const WorkerId w : mine_)
      if (workers_[w.value].gpu == &gpu) there.push_back(w);
    require_memory(plan_.problem, static_cast<std::uint32_t>(gpu.index()),
                   memory_needed(plan_, memory, *lowering_, there, gpu.library().workspace_bytes()),
                   gpu.free_bytes() - kForOthers);
  }
}

std::unique_ptr<Device> Run::device(WorkerId w) {
  Worker& own = workers_[w.value];
  own.gpu->make_current();
  own.scratch = DeviceMemory(lowering_->scratch_bytes(w));
  own.workspace = DeviceMemory(own.gpu->library().workspace_bytes());
  own.library = std::make_unique<Library::Caller>(
      own.gpu->library(), own.gpu->stream(own.place, Lane::Compute), own.workspace.get());
  return std::make_unique<WorkerDevice>(*this, w);
}

std::unique_ptr<Transport> Run::transport() { return std::make_unique<StreamTransport>(streams_); }

std::string Run::where() const {
  std::string out = gpu_name(gpus_[0].index());
  if (gpus_.size() > 1) out = fmt::format("{} GPUs: {}", gpus_.size(), out);
  out += fmt::format(", {}, {}", driver_version(), gpus_[0].library().version());
  const std::size_t each = (mine_.size() + gpus_.size() - 1) / gpus_.size();
  if (each == 1) return out + (mine_.size() == 1 ? "; one worker" : "; one worker on each");
  const Gpu& first = gpus_[0];
  if (first.parted())
    return out + fmt::format("; {} workers on each, with {} multiprocessors of their own", each,
                             first.multiprocessors(0));
  return out + fmt::format("; {} workers on each, which share all of it: {}", each, first.shared());
}

std::string Run::kernels() const {
  std::string out = lowering_->summary();
  if (!engines_refused().empty())
    out += fmt::format("; copies take multiprocessors, as the driver gives no copy engine ({})",
                       engines_refused());
  return out;
}

const std::int32_t* Run::positions(const Gpu& gpu, Region region) {
  const std::lock_guard lock(guard_);
  DeviceMemory& there = positions_[{index_of(gpu), region.first.value, region.count}];
  if (there.get()) return there.get<std::int32_t>();
  std::vector<std::int32_t> all;
  for (const TokenRange& range : plan_.layout.ranges(region))
    for (std::int64_t i = 0; i < range.count; ++i)
      all.push_back(static_cast<std::int32_t>(range.position(i)));
  const std::size_t bytes = all.size() * sizeof(std::int32_t);
  there = DeviceMemory(static_cast<std::int64_t>(bytes));
  require(cudaMemcpy(there.get(), all.data(), bytes, cudaMemcpyHostToDevice), "writing positions");
  return there.get<std::int32_t>();
}

bool Run::fill(WorkerId worker, const InitialTensor& tensor, std::byte* to) {
  const Problem& p = plan_.problem;
  const Region region = plan_.regions[tensor.region.value];
  const Tokens rows = plan_.layout.rows(region);
  const Worker& own = workers_[worker.value];
  std::vector<Matrix> matrices;
  if (tensor.kind == TensorKind::Query) matrices = {Matrix::Query};
  if (tensor.kind == TensorKind::OutputGradient) matrices = {Matrix::OutputGradient};
  if (tensor.kind == TensorKind::KeyValue) matrices = {Matrix::Key, Matrix::Value};
  if (matrices.empty() || rows.value == 0) return matrices.size() > 0;
  own.gpu->make_current();
  const TensorForm form = tensor_form(p, tensor.kind, rows);
  for (std::size_t m = 0; m < matrices.size(); ++m)
    launch(fill_inputs(p, options_.seed, options_.inputs, matrices[m], positions(*own.gpu, region),
                       rows.value, to + form.at(m)),
           own.gpu->stream(own.place, Lane::Compute), own.gpu->multiprocessors(own.place));
  return true;
}

Surroundings Run::surroundings(const Worker& own) {
  Surroundings around;
  around.scratch = own.scratch.get();
  around.positions = [this, &own](Region r) { return positions(*own.gpu, r); };
  around.mask = mask_view(plan_.problem.mask);
  around.mask.bounds = bounds_[index_of(*own.gpu)].get<std::int64_t>();
  if (options_.check_finite)
    around.not_finite = not_finite_[index_of(*own.gpu)].get<std::uint32_t>();
  return around;
}

// Once, when all is on its lanes.
void Run::prepare() {
  order_ = submission_order(streams_);
  const std::size_t tasks = plan_.tasks.size();
  steps_.resize(tasks);
  names_.resize(tasks);
  begins_.resize(tasks);
  ends_.resize(streams_.events());
  events_.resize(streams_.events());
  for (const Submitted s : order_) {
    const Op& op = streams_.lanes()[s.lane][s.op];
    const Worker& own = workers_[s.lane / kLanes];
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
      steps_[op.task.value] = lowering_->steps(op.task, streams_.operands(op), surroundings(own));
    }
  }
  for (const Gpu& gpu : gpus_) {  // inputs are there
    gpu.make_current();
    require(cudaDeviceSynchronize(), "making inputs");
  }
  warm_up();
  if (options_.graph) capture();
  prepared_ = true;
}

// Kernels are loaded when they are first launched, which may wait for all streams: not what should
// happen behind the gate, or in a capture. So the run is made once without either.
void Run::warm_up() {
  for (const Submitted s : order_) submit_op(s.lane, s.op);
  const auto all_finished = [&] {
    return std::all_of(mine_.begin(), mine_.end(), [&](WorkerId w) { return finished(w); });
  };
  while (!control_.stopped() && !all_finished())
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  if (control_.stopped()) throw RunFailed(control_.why());
}

void Run::start(Clock::time_point zero) {
  if (++started_ < mine_.size()) return;
  started_ = 0;
  looked_ = false;
  try {
    if (!prepared_) prepare();
    for (std::size_t g = 0; options_.check_finite && g < gpus_.size(); ++g) {
      gpus_[g].make_current();
      require(cudaMemset(not_finite_[g].get(), 0xff, 4), "starting");
      require(cudaDeviceSynchronize(), "starting");
    }
    submit(zero);
  } catch (...) {
    open_gates();  // what was submitted comes to an end
    throw;
  }
}

// Streams stand behind a gate until all is submitted, so that the run does not wait for the host.
void Run::submit(Clock::time_point zero) {
  for (std::size_t g = 0; g < gpus_.size(); ++g) {
    gpus_[g].make_current();
    gates_[g]->close();
  }
  if (graph_) {
    gpus_[0].make_current();
    require(cudaGraphLaunch(graph_, gates_[0]->stream()), "launching the graph");
    return open_gates(zero);
  }
  for (const WorkerId w : mine_) {
    const Gpu& gpu = *workers_[w.value].gpu;
    gpu.make_current();
    for (std::uint32_t l = 0; l < kLanes; ++l)
      gates_[index_of(gpu)]->hold(stream(StreamPlan::lane_of(w, static_cast<Lane>(l))));
  }
  std::vector<std::size_t> behind(streams_.lanes().size(), 0);
  bool open = false;
  for (const Submitted s : order_) {
    const Op& op = streams_.lanes()[s.lane][s.op];
    behind[s.lane] +=
        op.kind == Op::Kind::Compute ? kLaunchesOfStep * steps_[op.task.value].size() : 1;
    if (!open && behind[s.lane] > kMostBehindGate) {
      open_gates(zero);
      open = true;
    }
    submit_op(s.lane, s.op);
  }
  if (!open) open_gates(zero);
}

void Run::open_gates() {
  for (const auto& gate : gates_) gate->open();
}

void Run::open_gates(Clock::time_point zero) {
  std::this_thread::sleep_until(zero - std::chrono::microseconds(200));
  while (Clock::now() < zero) {
  }
  open_gates();
  late_ = options_.shared_clock ? Clock::now() - zero : std::chrono::nanoseconds(0);
}

// Graphs know events of two kinds: those that order what is captured, and those that are recorded
// when the graph runs, which have times.
void Run::capture() {
  const cudaStream_t origin = gates_[0]->stream();
  const Event fork(cudaEventDisableTiming);
  std::vector<Event> joins;
  cudaGraph_t graph = nullptr;
  gpus_[0].make_current();
  require(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal), "capturing");
  capturing_ = true;
  std::string failed;
  try {
    require(cudaEventRecord(fork.get(), origin), "recording an event");
    for (const WorkerId w : mine_)
      for (std::uint32_t l = 0; l < kLanes; ++l)
        require(
            cudaStreamWaitEvent(stream(StreamPlan::lane_of(w, static_cast<Lane>(l))), fork.get()),
            "waiting for an event");
    for (const Submitted s : order_) submit_op(s.lane, s.op);
    for (const WorkerId w : mine_)
      for (std::uint32_t l = 0; l < kLanes; ++l) {
        const cudaStream_t s = stream(StreamPlan::lane_of(w, static_cast<Lane>(l)));
        workers_[w.value].gpu->make_current();
        joins.emplace_back(cudaEventDisableTiming);
        require(cudaEventRecord(joins.back().get(), s), "recording an event");
        require(cudaStreamWaitEvent(origin, joins.back().get()), "waiting for an event");
      }
  } catch (const RunFailed& e) {
    failed = e.what();
  }
  capturing_ = false;
  const cudaError_t ended = cudaStreamEndCapture(origin, &graph);
  if (failed.empty() && ended != cudaSuccess) failed = cudaGetErrorString(ended);
  if (failed.empty()) {
    const cudaError_t made = cudaGraphInstantiate(&graph_, graph, 0);
    if (made != cudaSuccess) failed = cudaGetErrorString(made);
  }
  if (graph) cudaGraphDestroy(graph);
  if (!failed.empty())
    throw RunFailed(
        fmt::format("no graph can be made of this run: {}; run it without --graph", failed));
  require(cudaGraphUpload(graph_, origin), "uploading the graph");
  require(cudaStreamSynchronize(origin), "uploading the graph");
}

void Run::submit_op(std::uint32_t lane, std::uint32_t number) {
  const Op& op = streams_.lanes()[lane][number];
  const Worker& own = workers_[lane / kLanes];
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
      return compute(own, on, steps_[op.task.value]);
    }
    case Op::Kind::Copy:
      return copy_message(op, on);
    case Op::Kind::Call:
      return streams_.function(op)();
  }
}

void Run::compute(const Worker& own, cudaStream_t on, const std::vector<Step>& steps) {
  for (const Step& step : steps)
    if (const auto* forward = std::get_if<LibraryForward>(&step))
      own.library->call(*forward);
    else if (const auto* backward = std::get_if<LibraryBackward>(&step))
      own.library->call(*backward);
    else
      launch(step, on, own.gpu->multiprocessors(own.place));
}

void Run::copy_message(const Op& op, cudaStream_t on) {
  const Delivery& d = streams_.delivery(op);
  const Range range(
      fmt::format("{} to worker {}", name_of(plan_, op.task), d.receiver.value).c_str());
  for (const CopiedPiece& piece : pieces(d))
    copy(piece.to, workers_[d.receiver.value].gpu->index(), piece.from,
         workers_[d.sender.value].gpu->index(), piece.bytes, !capturing_, on);
}

bool Run::finished(WorkerId w) {
  if (failed_) return true;
  for (std::uint32_t l = 0; l < kLanes; ++l) {
    const std::size_t lane = StreamPlan::lane_of(w, static_cast<Lane>(l));
    const cudaError_t status = cudaStreamQuery(graph_ ? gates_[0]->stream() : stream(lane));
    if (status == cudaErrorNotReady) return false;
    if (status == cudaSuccess) continue;
    failed_ = true;
    control_.stop(fmt::format("GPU {}: {}", workers_[lane / kLanes].gpu->index(),
                              cudaGetErrorString(status)));
    return true;
  }
  return true;
}

void Run::look_for_what_is_not_finite() {
  if (looked_ || failed_ || !options_.check_finite || !prepared_) return;
  looked_ = true;
  std::uint32_t first = ~0u;
  for (std::size_t g = 0; g < gpus_.size(); ++g) {
    std::uint32_t found = ~0u;
    cudaSetDevice(gpus_[g].index());
    if (cudaMemcpy(&found, not_finite_[g].get(), 4, cudaMemcpyDeviceToHost) == cudaSuccess)
      first = std::min(first, found);
  }
  if (first != ~0u)
    control_.stop(fmt::format("{}: it made a number that is not finite", name_of(plan_, {first})));
}

std::int64_t Run::since_zero(WorkerId w, const Event& event) const {
  const Event& zero = gates_[index_of(*workers_[w.value].gpu)]->opened();
  float ms = 0;
  if (cudaEventElapsedTime(&ms, zero.get(), event.get()) != cudaSuccess) {
    cudaGetLastError();
    return TaskTime::kNotYet;
  }
  return late_.count() + static_cast<std::int64_t>(std::max(0.0, 1e6 * static_cast<double>(ms)));
}

TaskTime Run::time_of(TaskId task) const {
  const TaskId front = front_[task.value];
  if (!prepared_) return {};
  const WorkerId w = plan_.tasks[task.value].worker();
  return {since_zero(w, *begins_[front.value]), since_zero(w, *ends_[streams_.end_event(front)])};
}

LaneState Run::state(WorkerId w, Lane lane) const {
  if (!prepared_) return {};
  for (const Op& op : streams_.lanes()[StreamPlan::lane_of(w, lane)]) {
    if (op.kind != Op::Kind::Begin) continue;
    const Event& begin = *begins_[op.task.value];
    if (cudaEventQuery(begin.get()) != cudaSuccess) return {};
    if (cudaEventQuery(ends_[streams_.end_event(op.task)]->get()) == cudaErrorNotReady)
      return {op.task, since_zero(w, begin)};
  }
  return {};
}

}  // namespace ringsched::cuda
