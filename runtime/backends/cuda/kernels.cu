#include "backends/cuda/kernels.hpp"

#include <algorithm>
#include <type_traits>

#include "backends/cuda/attention_rows.hpp"
#include "ringsched/runtime/control.hpp"

namespace ringsched::cuda {

namespace {

constexpr int kThreads = 256;

// This many threads of one warp, next to each other.
template <int kSize, int kElements>
struct Group {
  static constexpr int kMostElements = kElements;
  int place;  // in the warp
  __device__ static constexpr int size() { return kSize; }
  __device__ int rank() const { return place % kSize; }
  __device__ unsigned members() const {
    return kSize == 32 ? 0xffffffffu : ((1u << kSize % 32) - 1) << (place / kSize * kSize);
  }
  __device__ float sum(float x) const {
    for (int other = kSize / 2; other > 0; other /= 2)
      x += __shfl_xor_sync(members(), x, other, kSize);
    return x;
  }
  __device__ float max(float x) const {
    for (int other = kSize / 2; other > 0; other /= 2)
      x = fmaxf(x, __shfl_xor_sync(members(), x, other, kSize));
    return x;
  }
  __device__ void sync() const { __syncwarp(members()); }
};

template <class G, class S>
__global__ void __launch_bounds__(kThreads) each_row(S s) {
  const G group{static_cast<int>(threadIdx.x % 32)};
  const std::int64_t count = rows_of(s);
  const std::int64_t together = std::int64_t{gridDim.x} * (kThreads / G::size());
  for (std::int64_t r = std::int64_t{blockIdx.x} * (kThreads / G::size()) + threadIdx.x / G::size();
       r < count; r += together)
    row(s, r, group);
}

void require_launched() {
  if (const cudaError_t status = cudaGetLastError(); status != cudaSuccess)
    throw RunFailed(std::string("launching a kernel: ") + cudaGetErrorString(status));
}

template <class G, class S>
void launch_rows(const S& s, cudaStream_t stream, std::int64_t most_blocks) {
  const std::int64_t rows = rows_of(s);
  if (rows == 0) return;
  const std::int64_t each = kThreads / G::size();
  const std::int64_t blocks = std::min((rows + each - 1) / each, most_blocks);
  each_row<G><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(s);
  require_launched();
}

// Passes over memory: sixteen threads take eight numbers each of a head of 128, with enough blocks
// to keep all multiprocessors reading.
template <class S>
void launch_pass(const S& s, cudaStream_t stream, std::uint32_t multiprocessors) {
  launch_rows<Group<16, 0>>(s, stream, std::int64_t{multiprocessors} * 16);
}

// Attention: eight threads hold a row between them, in registers.
template <class S>
void launch_attention(const S& s, cudaStream_t stream) {
  constexpr std::int64_t most = 1 << 24;
  if (s.tile.dim <= 64)
    launch_rows<Group<8, 8>>(s, stream, most);
  else if (s.tile.dim <= 128)
    launch_rows<Group<8, 16>>(s, stream, most);
  else
    launch_rows<Group<8, 32>>(s, stream, most);
}

template <class S>
constexpr bool kAttends = std::is_same_v<S, OwnForward> || std::is_same_v<S, OwnQueryGradient> ||
                          std::is_same_v<S, OwnKeyValueGradient>;
template <class S>
constexpr bool kOfLibrary = std::is_same_v<S, LibraryForward> || std::is_same_v<S, LibraryBackward>;

__global__ void nothing() {}

__global__ void __launch_bounds__(kThreads)
    copy_words(uint4* to, const uint4* from, std::int64_t count) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * kThreads)
    to[i] = from[i];
}

__global__ void probe(std::uint32_t* seen) {
  unsigned id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  seen[id] = 1;
  // Long enough that blocks spread over all multiprocessors.
  for (int i = 0; i < 100; ++i) __nanosleep(1000);
}

}  // namespace

void launch(const DeviceCall& call, cudaStream_t stream, std::uint32_t multiprocessors) {
  std::visit(
      [&](const auto& s) {
        using S = std::remove_cvref_t<decltype(s)>;
        if constexpr (kOfLibrary<S>) {
          throw RunFailed("a call of the library is no kernel of our own");
        } else if constexpr (std::is_same_v<S, Zero>) {
          if (cudaMemsetAsync(s.to, 0, static_cast<std::size_t>(s.bytes), stream) != cudaSuccess)
            require_launched();
        } else if constexpr (std::is_same_v<S, Copy>) {
          if (cudaMemcpyAsync(s.to, s.from, static_cast<std::size_t>(s.bytes),
                              cudaMemcpyDeviceToDevice, stream) != cudaSuccess)
            require_launched();
        } else if constexpr (kAttends<S>) {
          launch_attention(s, stream);
        } else {
          launch_pass(s, stream, multiprocessors);
        }
      },
      call);
}

void launch(const FillInputs& s, cudaStream_t stream, std::uint32_t multiprocessors) {
  launch_pass(s, stream, multiprocessors);
}

void launch_nothing(cudaStream_t stream) {
  nothing<<<1, 1, 0, stream>>>();
  require_launched();
}

void launch_copy(void* to, const void* from, std::int64_t count, cudaStream_t stream,
                 std::uint32_t multiprocessors) {
  copy_words<<<multiprocessors * 16, kThreads, 0, stream>>>(static_cast<uint4*>(to),
                                                            static_cast<const uint4*>(from), count);
  require_launched();
}

void launch_probe(std::uint32_t* seen, std::uint32_t blocks, cudaStream_t stream) {
  probe<<<blocks, 1024, 0, stream>>>(seen);
  require_launched();
}

}  // namespace ringsched::cuda
