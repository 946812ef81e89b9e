// GPUs in cuDNN's own description, from NVIDIA's data sheets and the table of compute capabilities
// in the CUDA C++ Programming Guide.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <ostream>
#include <string>

namespace ringsched::cuda {

struct DescribedGpu {
  const char* name;
  int capability;  // 90: 9.0
  int multiprocessors;
  int shared_memory;  // of a block at the most, in bytes
  std::int64_t l2_bytes, memory_bytes;
  int blocks, threads;  // of a multiprocessor

  friend void PrintTo(const DescribedGpu& gpu, std::ostream* out) { *out << gpu.name; }

  // In JSON of cuDNN's own.
  std::string description() const {
    return fmt::format(
        R"({{"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
"regsPerBlock": 65536, "multiProcessorCount": {}, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
"maxSharedMemoryPerBlockOptin": {}, "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
"maxCtasPerSM": {}, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": {}, "pciDeviceId": 0,
"isTccDriver": 0, "supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
"l2CacheSize": {}, "deviceVer": {}, "driverVer": 13000, "cudaDeviceId": 0, "totalGlobalMem": {},
"deviceName": "{}"}})",
        multiprocessors, shared_memory, blocks, threads, l2_bytes, 10 * capability, memory_bytes,
        name);
  }
};

inline constexpr DescribedGpu kDescribedGpus[] = {
    {"NVIDIA A100-SXM4-80GB", 80, 108, 166912, 41943040, 85031714816, 32, 2048},
    {"NVIDIA A10", 86, 72, 101376, 6291456, 23826137088, 16, 1536},
    {"NVIDIA L40S", 89, 142, 101376, 100663296, 47810936832, 24, 1536},
    {"NVIDIA H200", 90, 132, 232448, 62914560, 150754820096, 32, 2048},
    {"NVIDIA B200", 100, 148, 232448, 132644864, 191000000000, 32, 2048},
    {"NVIDIA RTX PRO 6000", 120, 188, 101376, 134217728, 101000000000, 24, 1536},
};

}  // namespace ringsched::cuda
