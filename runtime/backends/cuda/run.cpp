#include "backends/cuda/run.hpp"

#include <algorithm>

#include "backends/cuda/fill.hpp"
#include "backends/cuda/kernels.hpp"
#include "backends/cuda/memory_need.hpp"
#include "backends/cuda/partitions.hpp"
#include "backends/cuda/stream_device.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched::cuda {

namespace {

// Memory that CUDA and cuDNN allocate when kernels are first used.
constexpr std::int64_t kForOthers = 256 << 20;

}  // namespace

class GpuRun::WorkerDevice final : public StreamDevice {
 public:
  WorkerDevice(GpuRun& run, WorkerId w) : StreamDevice(run.streams_, w), run_(run) {}
  std::byte* allocate(Bytes bytes) override {
    own().gpu->make_current();
    own().block = DeviceMemory(bytes.value);
    return own().block.get();
  }
  void upload(std::byte* to, std::span<const std::byte> from) override {
    own().gpu->make_current();
    write(to, from.data(), from.size(), "writing inputs");
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    own().gpu->make_current();
    require(cudaStreamSynchronize(run_.stream(worker_, Lane::Compute)), "reading results");
    require(cudaMemcpy(to.data(), from, to.size(), cudaMemcpyDeviceToHost), "reading results");
  }
  bool fill(std::byte* to, const InitialTensor& tensor) override {
    return run_.fill(worker_, tensor, to);
  }
  bool is_host_memory() const override { return false; }
  void* stream(Lane lane) override { return run_.stream(worker_, lane); }
  bool rehearse() override {
    run_.rehearse();
    return true;
  }
  void rehearsed() override { run_.rehearsed(); }
  std::chrono::nanoseconds lead() const override { return 2 * run_.submitting_; }
  void start(Clock::time_point zero) override { run_.start(zero); }
  bool finished() const override { return run_.finished(worker_); }
  void join() override { run_.look_for_what_is_not_finite(); }
  TaskTime time_of(TaskId task) const override { return run_.time_of(task); }
  LaneState state(Lane lane) const override { return run_.state(worker_, lane); }

 private:
  Worker& own() { return run_.workers_[worker_.value]; }
  GpuRun& run_;
};

GpuRun::GpuRun(const Plan& plan, std::vector<WorkerId> mine, Control& control,
               const CudaOptions& options)
    : plan_(plan),
      numbers_(plan),
      mine_(std::move(mine)),
      control_(control),
      options_(options),
      workers_(plan.problem.workers),
      streams_(plan),
      front_(plan.tasks.size()) {
  for (const Piece& piece : plan.pieces)
    if (piece.columns != plan.program[piece.value].all_columns())
      fail("GPUs run plans in which each task takes all heads; this one has a {} of heads {} to {}",
           plan.name(piece.value), piece.columns.first, piece.columns.end() - 1);
  choose_gpus();
  if (options_.graph && gpus_.size() > 1)
    fail(
        "--graph needs one GPU, but this run uses {}: set CUDA_VISIBLE_DEVICES "
        "to one GPU",
        gpus_.size());
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
    bounds_.push_back(on_gpu(documents, "writing the bounds of documents"));
  }
}

GpuRun::~GpuRun() {
  open_gates();
  for (const Gpu& gpu : gpus_) {
    cudaSetDevice(gpu.index());
    cudaDeviceSynchronize();
  }
  if (graph_) cudaGraphExecDestroy(graph_);
  for (Worker& w : workers_) w.library.reset();  // before the streams it is called with
}

void GpuRun::choose_gpus() {
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
    gpus_.emplace_back(index, static_cast<std::uint32_t>(std::count(on.begin(), on.end(), g)),
                       plan_.lane_count());
  }
  for (std::uint32_t i = 0; i < workers; ++i) {
    Worker& w = workers_[mine_[i].value];
    w.gpu = &gpus_[on[i]];
    w.place = static_cast<std::uint32_t>(std::count(on.begin(), on.begin() + i, on[i]));
  }
  allow_peers(used);
}

void GpuRun::require_room() {
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

std::unique_ptr<Device> GpuRun::device(WorkerId w) {
  Worker& own = workers_[w.value];
  own.gpu->make_current();
  own.scratch = DeviceMemory(lowering_->scratch_bytes(w));
  own.workspace = DeviceMemory(own.gpu->library().workspace_bytes());
  own.library = std::make_unique<Library::Caller>(
      own.gpu->library(), own.gpu->stream(own.place, Lane::Compute), own.workspace.get());
  return std::make_unique<WorkerDevice>(*this, w);
}

std::unique_ptr<Transport> GpuRun::transport() {
  return std::make_unique<StreamTransport>(streams_);
}

std::string GpuRun::where() const {
  std::string out = gpu_name(gpus_[0].index());
  if (gpus_.size() > 1) out = fmt::format("{} GPUs: {}", gpus_.size(), out);
  out += fmt::format(", {}, {}", driver_version(), gpus_[0].library().version());
  const std::size_t each = (mine_.size() + gpus_.size() - 1) / gpus_.size();
  if (each == 1) return out + (mine_.size() == 1 ? "; one worker" : "; one worker on each");
  const Gpu& first = gpus_[0];
  if (first.parted())
    return out +
           fmt::format("; {} workers on each, with {} of its {} multiprocessors of their own{}",
                       each, first.multiprocessors(0), first.all_multiprocessors(),
                       first.message_multiprocessors() > 0
                           ? fmt::format(", and {} for messages", first.message_multiprocessors())
                           : "");
  return out + fmt::format("; {} workers on each, which share all of it: {}", each, first.shared());
}

std::string GpuRun::kernels() const {
  std::string out = lowering_->summary();
  if (const std::string why = gates_failed(); !why.empty())
    out += fmt::format("; times include the host's: {}", why);
  return out;
}

const std::int32_t* GpuRun::positions(const Gpu& gpu, Region region) {
  const std::lock_guard lock(guard_);
  DeviceMemory& there = positions_[{index_of(gpu), region.first.value, region.count}];
  if (there.get()) return there.get<std::int32_t>();
  there = on_gpu(positions_of(plan_.layout, region), "writing positions");
  return there.get<std::int32_t>();
}

bool GpuRun::fill(WorkerId worker, const InitialTensor& tensor, std::byte* to) {
  const Region region = plan_.regions[plan_.piece(tensor).rows.value];
  if (matrices_of(plan_.piece(tensor).value).empty()) return false;
  if (plan_.layout.rows(region).value == 0) return true;
  const Worker& own = workers_[worker.value];
  own.gpu->make_current();
  for (const FillInputs& fill :
       fills_of(plan_, tensor, options_.seed, options_.inputs, positions(*own.gpu, region), to))
    launch(fill, own.gpu->stream(own.place, Lane::Compute), own.gpu->multiprocessors(own.place));
  return true;
}

Surroundings GpuRun::surroundings(const Worker& own) {
  Surroundings around;
  around.scratch = own.scratch.get();
  around.positions = [this, &own](Region r) { return positions(*own.gpu, r); };
  around.mask = mask_view(plan_.problem.mask);
  around.mask.bounds = bounds_[index_of(*own.gpu)].get<std::int64_t>();
  if (options_.check_finite)
    around.not_finite = not_finite_[index_of(*own.gpu)].get<std::uint32_t>();
  return around;
}

}  // namespace ringsched::cuda
