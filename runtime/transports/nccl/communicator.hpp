// An NCCL communicator of all processes.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ringsched/runtime/nccl_transport.hpp"

namespace ringsched::nccl {

void require(cudaError_t, const char* what);

// The GPU of this process is the current one from then on; returns its name. Throws RunFailed if
// there is none.
std::string take_gpu(const NcclOptions&);

// Throws RunFailed if the library is older than the one at build time.
std::string require_version();

class Communicator {
 public:
  // Whether a call of NCCL returns before it is done, and must be polled. So a process that waits
  // for a lost one can be told. It costs a thread of NCCL's for each group.
  enum class Calls { Return, Wait };
  // Together with all processes of the world, on the current GPU.
  Communicator(World&, const Control&, const NcclOptions&, Calls = Calls::Return);
  // Aborts it, unless somebody has left it before.
  ~Communicator();
  Communicator(const Communicator&) = delete;

  // What is sent and received within goes to the stream at once.
  void group(const std::function<void()>&);
  void send(const void* from, std::size_t bytes, int peer, cudaStream_t);
  void receive(void* to, std::size_t bytes, int peer, cudaStream_t);
  // For calls that this class lacks.
  ncclComm_t get() const { return comm_; }
  void require_success(ncclResult_t, const char* what);

  void use_memory(void* first, std::size_t bytes);
  // Waits until the stream has come this far. Throws RunFailed.
  void wait_for(cudaStream_t);
  // Checks for errors since. Throws RunFailed.
  void look() const;
  // All processes leave a communicator together, and several in one order, because NCCL waits for
  // the others. Returns when the GPU has finished.
  void leave();
  // Ends what the GPU does for them, on its own thread, because that may hang. Returns soon.
  static void abort_all(std::vector<std::shared_ptr<Communicator>>);

 private:
  template <class Done>
  void until(Done, const char* what);
  void settle(const char* what);

  const Control& control_;
  const std::chrono::nanoseconds patience_;
  ncclComm_t comm_ = nullptr;
  void* memory_ = nullptr;
  bool leaving_ = false;
  std::atomic<bool> over_{false};  // left or aborted
  // One thread submits; another looks for errors, and aborts, which frees the communicator.
  mutable std::mutex calling_;
};

}  // namespace ringsched::nccl
