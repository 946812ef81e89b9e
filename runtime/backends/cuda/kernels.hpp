// Our own kernels: they execute every call except the library's.
#pragma once

#include <cuda_runtime.h>

#include "backends/cuda/device_calls.hpp"

namespace ringsched::cuda {

// On a part of a GPU with this many multiprocessors. Throws RunFailed.
void launch(const DeviceCall&, cudaStream_t, std::uint32_t multiprocessors);
void launch(const FillInputs&, cudaStream_t, std::uint32_t multiprocessors);

// For measurements: a kernel that does nothing, and one that reads and writes each of `count`
// sixteen-byte words.
void launch_nothing(cudaStream_t);
void launch_copy(void* to, const void* from, std::int64_t count, cudaStream_t,
                 std::uint32_t multiprocessors);
// Sets seen[i] for each multiprocessor i that the stream's kernels run on.
void launch_probe(std::uint32_t* seen, std::uint32_t blocks, cudaStream_t);

}  // namespace ringsched::cuda
