#include "backends/cuda/gpu.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "backends/cuda/gate_opener.hpp"

namespace ringsched::cuda {

namespace {

constexpr int kLeastCapability = 8;

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

std::atomic<int> no_waiting{0};  // the driver's error, where streams cannot wait for memory

}  // namespace

int require_gpus() {
  // Streams that share a hardware queue wait for each other. CUDA reads this when it starts; a
  // value that is already set stays.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  int driver = 0, runtime = 0, count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) throw RunFailed("no GPU: no NVIDIA driver is installed");
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver)
    throw RunFailed(
        fmt::format("the NVIDIA driver is too old: it supports CUDA {}, but this needs {} (on a "
                    "data-centre GPU "
                    "a cuda-compat package is enough)",
                    version(driver), version(runtime)));
  if (status != cudaSuccess) throw RunFailed(fmt::format("no GPU: {}", cudaGetErrorString(status)));
  if (count == 0) throw RunFailed("no GPU: the driver finds none");
  for (int gpu = 0; gpu < count; ++gpu) {
    int major = 0, minor = 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu);
    if (major < kLeastCapability)
      throw RunFailed(
          fmt::format("GPU {} ({}) has compute capability {}.{}, but this needs {}.0 or more", gpu,
                      gpu_name(gpu), major, minor, kLeastCapability));
  }
  return count;
}

std::string gpu_name(int gpu) {
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, gpu), "asking for a GPU's name");
  return properties.name;
}

std::string driver_version() {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  return fmt::format("driver for CUDA {}", version(driver));
}

Gpu::Gpu(int index, std::uint32_t workers, std::uint32_t lanes) : index_(index) {
  make_current();
  require(cudaFree(nullptr), "starting CUDA");
  int all = 0;
  require(cudaDeviceGetAttribute(&all, cudaDevAttrMultiProcessorCount, index),
          "asking for a GPU's multiprocessors");
  all_ = static_cast<std::uint32_t>(all);
  library_ = std::make_unique<Library>();
  int low = 0, high = 0;
  require(cudaDeviceGetStreamPriorityRange(&low, &high), "asking for priorities");
  if (is_set("RINGSCHED_NO_PARTITIONS")) {
    shared_ = "RINGSCHED_NO_PARTITIONS is set";
  } else if (workers > 1) {
    const Spent::Here spending(parting_, static_cast<int>(workers));
    parts_ = GreenContexts::make(index, workers, shared_);
  }
  if (parts_) {
    const cudaStream_t stream = parts_->make_stream(0, low);
    if (!library_->takes(stream)) shared_ = "cuDNN accepts no stream of a partition";
    cudaStreamDestroy(stream);
    if (!shared_.empty()) parts_.reset();
  }
  for (std::uint32_t w = 0; w < workers; ++w) {
    std::vector<cudaStream_t>& own = streams_.emplace_back(lanes);
    for (std::uint32_t l = 0; l < lanes; ++l) {
      const int priority = static_cast<Lane>(l) == Lane::Compute ? low : high;
      if (parts_)
        own[l] = static_cast<Lane>(l) == Lane::Compute ? parts_->make_stream(w, priority)
                                                       : parts_->make_message_stream(w, priority);
      else
        require(cudaStreamCreateWithPriority(&own[l], cudaStreamNonBlocking, priority),
                "making a stream");
    }
  }
}

Gpu::~Gpu() {
  library_.reset();
  for (const auto& own : streams_)
    for (const cudaStream_t stream : own) cudaStreamDestroy(stream);
}

std::int64_t Gpu::free_bytes() const {
  make_current();
  std::size_t there = 0, all = 0;
  require(cudaMemGetInfo(&there, &all), "asking for free memory");
  return static_cast<std::int64_t>(there);
}

std::string Gpu::costs() const {
  return fmt::format("{} partitions in {:.2g} s, {}", parting_.count, parting_.seconds,
                     library_->costs());
}

void copy(std::byte* to, int to_gpu, const std::byte* from, int from_gpu, std::int64_t bytes,
          cudaStream_t stream) {
  const auto size = static_cast<std::size_t>(bytes);
  if (to_gpu != from_gpu)
    require(cudaMemcpyPeerAsync(to, to_gpu, from, from_gpu, size, stream), "copying between GPUs");
  else
    require(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToDevice, stream), "copying");
}

void allow_peers(const std::vector<int>& gpus) {
  for (const int from : gpus)
    for (const int to : gpus) {
      int can = 0;
      if (from == to || cudaDeviceCanAccessPeer(&can, from, to) != cudaSuccess || can == 0)
        continue;
      require(cudaSetDevice(from), "choosing a GPU");
      if (cudaDeviceEnablePeerAccess(to, 0) != cudaSuccess) cudaGetLastError();  // it was already
    }
}

Gate::Gate() {
  wait_ = driver_function<decltype(wait_)>("cuStreamWaitValue32", 12000);
  if (!wait_) throw RunFailed("the NVIDIA driver is too old: its streams cannot wait for memory");
  require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
  void* flag = nullptr;
  require(cudaHostAlloc(&flag, sizeof *flag_, cudaHostAllocPortable | cudaHostAllocMapped),
          "asking for pinned memory");
  flag_ = static_cast<std::uint32_t*>(flag);
  *flag_ = 0;
}

Gate::~Gate() {
  if (!flag_) return;
  open();
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
  cudaFreeHost(flag_);
}

void Gate::close() {
  ++round_;
  const CUresult held =
      wait_(stream_, reinterpret_cast<CUdeviceptr>(flag_), round_, CU_STREAM_WAIT_VALUE_GEQ);
  if (held == CUDA_ERROR_NOT_SUPPORTED)
    no_waiting = held;
  else
    require(held, "holding a stream");
  require(cudaEventRecord(opened_.get(), stream_), "recording an event");
  if (is_set("RINGSCHED_OPEN_GATE")) open();
}

void Gate::hold(cudaStream_t stream) const {
  require(cudaStreamWaitEvent(stream, opened_.get()), "waiting for an event");
}

void Gate::open() { std::atomic_ref(*flag_).store(round_, std::memory_order_release); }

std::string gates_failed() {
  if (no_waiting)
    return fmt::format("streams cannot wait for memory here (error {})", no_waiting.load());
  if (const int times = GateOpener::opened_by_clock(); times > 0)
    return fmt::format("submitting waited for the GPU {} times", times);
  return {};
}

}  // namespace ringsched::cuda
