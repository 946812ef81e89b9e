// Partitions of one GPU, each with multiprocessors of its own (CUDA green contexts). Memory, its
// bandwidth, the L2 cache and the copy engines stay common to all.
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
  // All partitions come out of one split of the GPU that is current; null, with the reason in
  // `why`, where it cannot be parted among so many.
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
