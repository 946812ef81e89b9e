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

// The GPU of this process is the current one from then on; returns its name. Throws RunFailed where
// there is none.
std::string take_gpu(const NcclOptions&);

// Throws RunFailed where the library is older than what this was built against.
std::string require_version();

class Communicator {
 public:
  // Whether a call of NCCL returns before it is done, and NCCL is asked whether it is: so that a
  // process that waits for one that is gone can be told. That is a thread of NCCL's for each group.
  enum class Calls { Return, Wait };
  // Together with all processes of the world, on the GPU that is current.
  Communicator(World&, const Control&, const NcclOptions&, Calls = Calls::Return);
  // Aborts it, if nobody has left it before.
  ~Communicator();
  Communicator(const Communicator&) = delete;

  // What is sent and received within goes to the stream at once.
  void group(const std::function<void()>&);
  void send(const void* from, std::size_t bytes, int peer, cudaStream_t);
  void receive(void* to, std::size_t bytes, int peer, cudaStream_t);
  // For calls that this class has not.
  ncclComm_t get() const { return comm_; }
  void require_success(ncclResult_t, const char* what);

  void use_memory(void* first, std::size_t bytes);
  // Waits until the stream has come so far. Throws RunFailed.
  void wait_for(cudaStream_t);
  // Of what happened since. Throws RunFailed.
  void look() const;
  // All processes leave a communicator together, and several in one order: NCCL waits for the
  // others. Returns when the GPU has done what it has to.
  void leave();
  // Ends what the GPU does for them, on a thread of its own, since that may hang. Returns soon.
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
