// Partitions of one GPU, each with multiprocessors of its own (CUDA green contexts). They share
// memory, its bandwidth and the L2 cache. Messages use the multiprocessors that stay free, if there
// are any: a copy on those of a worker would wait until its attention kernel ends.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ringsched::cuda {

class GreenContexts {
 public:
  // All partitions come from one split of the current GPU. Null, with the reason in `why`, if it
  // cannot be split into this many.
  static std::unique_ptr<GreenContexts> make(int gpu, std::uint32_t workers, std::string& why);
  ~GreenContexts();

  std::uint32_t multiprocessors(std::uint32_t worker) const { return sizes_[worker]; }
  std::uint32_t message_multiprocessors() const { return message_multiprocessors_; }
  cudaStream_t make_stream(std::uint32_t worker, int priority) const;
  cudaStream_t make_message_stream(std::uint32_t receiver, int priority) const;

 private:
  GreenContexts() = default;
  std::vector<CUgreenCtx> contexts_;
  std::vector<std::uint32_t> sizes_;
  CUgreenCtx messages_ = nullptr;
  std::uint32_t message_multiprocessors_ = 0;
};

}  // namespace ringsched::cuda
