// Wrappers of CUDA's calls: failures become exceptions, and objects release themselves.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "ringsched/runtime/control.hpp"

namespace ringsched::cuda {

inline void require(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw RunFailed(fmt::format("{}: {}", what, cudaGetErrorString(status)));
}

inline void require(CUresult status, const char* what) {
  if (status != CUDA_SUCCESS)
    throw RunFailed(fmt::format("{}: the driver's error {}", what, static_cast<int>(status)));
}

// A function of the driver, which may be absent when this program starts. Null: it is absent.
template <class Function>
Function driver_function(const char* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  if (cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result) !=
          cudaSuccess ||
      result != cudaDriverEntryPointSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  return reinterpret_cast<Function>(found);
}

// Environment variables for when a driver or a tool misbehaves.
inline bool is_set(const char* variable) {
  const char* const text = std::getenv(variable);
  return text && *text && std::string_view(text) != "0";
}

class Event {
 public:
  Event() : Event(cudaEventDefault) {}
  explicit Event(unsigned flags) {
    require(cudaEventCreateWithFlags(&event_, flags), "making an event");
  }
  ~Event() {
    if (event_) cudaEventDestroy(event_);
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Of the current GPU.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::int64_t bytes) {
    if (bytes > 0)
      require(cudaMalloc(&data_, static_cast<std::size_t>(bytes)), "asking for GPU memory");
  }
  ~DeviceMemory() { cudaFree(data_); }
  DeviceMemory(DeviceMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  template <class T = std::byte>
  T* get() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

// When cudaMemcpy returns, unpinned memory has left the host but may not have reached the GPU, and
// the workers' streams do not wait for the stream that carries it.
inline void write(std::byte* to, const void* from, std::size_t bytes, const char* what) {
  if (bytes == 0) return;
  require(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), what);
  require(cudaStreamSynchronize(nullptr), what);
}

// A copy of host memory. Throws RunFailed("writing ...") if it fails.
template <class List>
DeviceMemory on_gpu(const List& from, const char* what) {
  const std::size_t bytes = from.size() * sizeof(from[0]);
  DeviceMemory to(static_cast<std::int64_t>(bytes));
  write(to.get(), from.data(), bytes, what);
  return to;
}

inline float milliseconds(const Event& from, const Event& to) {
  float ms = 0;
  require(cudaEventElapsedTime(&ms, from.get(), to.get()), "reading a time");
  return ms;
}

}  // namespace ringsched::cuda
