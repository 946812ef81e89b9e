// Partitions of one GPU, each with multiprocessors of its own (CUDA green contexts). They share
// memory, its bandwidth, the L2 cache and the copy engines.
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
  cudaStream_t make_stream(std::uint32_t worker, int priority) const;

 private:
  GreenContexts() = default;
  std::vector<CUgreenCtx> contexts_;
  std::vector<std::uint32_t> sizes_;
};

}  // namespace ringsched::cuda
