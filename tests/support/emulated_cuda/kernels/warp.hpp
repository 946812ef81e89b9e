// What a file of kernels needs to be compiled for a CPU: threads of a block are fibers, 32 of them
// a warp. A lane that shuffles waits for all lanes of its mask; if one of them never comes, that is
// a finding. Loads and stores of the file are reported to the runtime by the compiler
// (accesses.cpp).
//
// kernels_as_host_code.py rewrites launches; everything else compiles as it is.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <typeinfo>
#include <variant>

#include "ringsched/runtime/control.hpp"

namespace emulated {

struct Thread3 {
  uint3 thread, block;
  dim3 threads, blocks;
};
Thread3& indices();  // of the lane that runs

struct Grid {
  std::string name;
  dim3 blocks, threads;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
  char *shared_first = nullptr, *shared_end = nullptr;
  std::shared_ptr<const void> arguments;  // which the kernel may read on the host
  std::size_t arguments_bytes = 0;
  void (*each_thread)(const void* arguments) = nullptr;
};
void launch_grid(const Grid&);
std::string kernel_name(const char* kernel, const char* argument_type);

enum class Shuffle : std::uint8_t { Xor, Down, Up, From, Sync, Ballot };
std::uint32_t collective(Shuffle, unsigned mask, std::uint32_t bits, int argument, int width);
void block_barrier();
unsigned multiprocessor();
unsigned special_register(const char* name);
// As reads: only plain stores may not be beside them.
std::uint32_t atomic(std::uint32_t*, std::uint32_t (*)(std::uint32_t, std::uint32_t),
                     std::uint32_t);

template <class T>
T shuffled(Shuffle how, unsigned mask, T x, int argument, int width) {
  static_assert(sizeof(T) == 4);
  return std::bit_cast<T>(collective(how, mask, std::bit_cast<std::uint32_t>(x), argument, width));
}

// What is left of `kernel<<<grid, block, shared, stream>>>`; the arguments follow.
template <class Kernel>
struct Launch {
  const char* name;
  Kernel kernel;
  dim3 blocks, threads;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;

  template <class... Arguments>
  void operator()(Arguments... arguments) const;
};
template <class Kernel>
Launch(const char*, Kernel, dim3, dim3, std::size_t = 0, cudaStream_t = nullptr) -> Launch<Kernel>;

}  // namespace emulated

extern "C" {
extern char __start_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_emulated_shared[] __attribute__((weak, visibility("hidden")));
}

template <class Kernel>
template <class... Arguments>
void emulated::Launch<Kernel>::operator()(Arguments... arguments) const {
  using All = std::tuple<Arguments...>;
  auto all = std::make_shared<const All>(arguments...);
  const char* type = "";
  if constexpr (sizeof...(Arguments) > 0) type = typeid(std::tuple_element_t<0, All>).name();
  launch_grid({kernel_name(name, type), blocks, threads, shared, stream, __start_emulated_shared,
               __stop_emulated_shared, all, sizeof(All),
               [](const void* given) { std::apply(Kernel(), *static_cast<const All*>(given)); }});
}

#undef __launch_bounds__
#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#define __launch_bounds__(...)
#define __global__
#define __device__
#define __host__
#define __shared__ static __attribute__((section("emulated_shared")))
#define __CUDACC__
#define __CUDA_ARCH__ 900

#define threadIdx emulated::indices().thread
#define blockIdx emulated::indices().block
#define blockDim emulated::indices().threads
#define gridDim emulated::indices().blocks
#define __shfl_xor_sync(mask, x, with, width) \
  emulated::shuffled(emulated::Shuffle::Xor, mask, x, with, width)
#define __shfl_down_sync(mask, x, by, width) \
  emulated::shuffled(emulated::Shuffle::Down, mask, x, by, width)
#define __shfl_up_sync(mask, x, by, width) \
  emulated::shuffled(emulated::Shuffle::Up, mask, x, by, width)
#define __shfl_sync(mask, x, lane, width) \
  emulated::shuffled(emulated::Shuffle::From, mask, x, lane, width)
#define __ballot_sync(mask, x) \
  emulated::collective(emulated::Shuffle::Ballot, mask, (x) ? 1u : 0u, 0, 32)
#define __syncwarp(mask) ((void)emulated::collective(emulated::Shuffle::Sync, mask, 0, 0, 32))
#define __syncthreads() emulated::block_barrier()
#define __nanosleep(ns) ((void)(ns))

inline std::uint32_t atomicMin(std::uint32_t* at, std::uint32_t x) {
  return emulated::atomic(
      at, [](std::uint32_t a, std::uint32_t b) { return std::min(a, b); }, x);
}
inline std::uint32_t atomicMax(std::uint32_t* at, std::uint32_t x) {
  return emulated::atomic(
      at, [](std::uint32_t a, std::uint32_t b) { return std::max(a, b); }, x);
}
inline std::uint32_t atomicAdd(std::uint32_t* at, std::uint32_t x) {
  return emulated::atomic(
      at, [](std::uint32_t a, std::uint32_t b) { return a + b; }, x);
}
