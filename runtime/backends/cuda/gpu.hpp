// The GPUs of this process, and what its workers have of them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/api.hpp"
#include "backends/cuda/green_contexts.hpp"
#include "backends/cuda/library.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched::cuda {

// How many there are. Throws RunFailed, in one line, if there is none, or none is usable.
int require_gpus();
// "NVIDIA H200"
std::string gpu_name(int gpu);
std::string driver_version();  // "driver for CUDA 13.0"

// A GPU, and its partitions for workers.
class Gpu {
 public:
  // Makes it current. One worker gets all of it. If workers cannot have a partition each, all share
  // all of it, and shared() says why.
  Gpu(int index, std::uint32_t workers, std::uint32_t lanes);
  ~Gpu();
  Gpu(Gpu&&) noexcept = default;

  int index() const { return index_; }
  void make_current() const { require(cudaSetDevice(index_), "choosing a GPU"); }
  std::uint32_t multiprocessors(std::uint32_t worker) const {
    return parts_ ? parts_->multiprocessors(worker) : all_;
  }
  std::uint32_t all_multiprocessors() const { return all_; }
  bool parted() const { return parts_ != nullptr; }
  // That only messages use; 0: they use those of their receivers.
  std::uint32_t message_multiprocessors() const {
    return parts_ ? parts_->message_multiprocessors() : 0;
  }
  const std::string& shared() const { return shared_; }
  // Of a worker's lane; transfers take precedence over computing.
  cudaStream_t stream(std::uint32_t worker, Lane lane) const {
    return streams_[worker][static_cast<std::size_t>(lane)];
  }
  Library& library() { return *library_; }
  const Library& library() const { return *library_; }
  std::int64_t free_bytes() const;
  // "8 partitions in 0.01 s, 8 handles of cuDNN in 0.2 s, 14 plans in 8.4 s"
  std::string costs() const;

 private:
  int index_;
  std::uint32_t all_ = 0;
  std::string shared_;
  Spent parting_;
  std::unique_ptr<GreenContexts> parts_;
  std::vector<std::vector<cudaStream_t>> streams_;  // by worker and lane
  std::unique_ptr<Library> library_;
};

// Copies between the memory of two GPUs, or within one. Within one it takes multiprocessors: those
// of the stream's partition.
void copy(std::byte* to, int to_gpu, const std::byte* from, int from_gpu, std::int64_t bytes,
          cudaStream_t);
void allow_peers(const std::vector<int>& gpus);

// Holds streams of one GPU back until the host releases them, all at once. One ordinary stream
// waits for the host; the others wait for that stream.
class Gate {
 public:
  // Of the current GPU.
  Gate();
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // It does not hold with RINGSCHED_OPEN_GATE, for tools that make launches wait for the GPU, nor
  // if the driver cannot do it.
  void close();
  void hold(cudaStream_t) const;  // what follows on that stream, until it is opened
  void open();
  const Event& opened() const { return opened_; }  // with its time
  cudaStream_t stream() const { return stream_; }  // which stands behind it, too

 private:
  std::uint32_t* flag_ = nullptr;
  std::uint32_t round_ = 0;
  decltype(&cuStreamWaitValue32) wait_ = nullptr;
  cudaStream_t stream_ = nullptr;
  Event opened_;
};

// Why some runs started before everything was submitted, so that their times include the host's;
// empty: none did.
std::string gates_failed();

}  // namespace ringsched::cuda
