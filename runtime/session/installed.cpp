#include "ringsched/runtime/installed.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <fstream>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "ringsched/scheduler/printable.hpp"

namespace ringsched {

namespace {

constexpr int kLeastDriver = 13'000;  // the cuda backend is built with CUDA 13
constexpr int kLeastCapability = 8;   // compute capability 8.0

// Libraries stay loaded, because some of them crash if they are loaded twice.
void* loaded(const char* file) { return ::dlopen(file, RTLD_NOW | RTLD_LOCAL); }

template <class Function>
Function function_of(void* library, const char* name) {
  return library ? reinterpret_cast<Function>(::dlsym(library, name)) : nullptr;
}

std::string first_line(std::string_view text) {
  return printable(std::string(text.substr(0, text.find_first_of("\n,"))), 60);
}

// NVIDIA's functions, by name, because this file is also built without CUDA. All return 0 on
// success.
struct Driver {
  void* library = loaded("libcuda.so.1");
  int (*start)(unsigned) = function_of<int (*)(unsigned)>(library, "cuInit");
  int (*version)(int*) = function_of<int (*)(int*)>(library, "cuDriverGetVersion");
  int (*count)(int*) = function_of<int (*)(int*)>(library, "cuDeviceGetCount");
  int (*name)(char*, int, int) = function_of<int (*)(char*, int, int)>(library, "cuDeviceGetName");
  int (*attribute)(int*, int, int) = function_of<int (*)(int*, int, int)>(library,
                                                                          "cuDeviceGetAttribute");
  int (*memory)(std::size_t*, int) = function_of<int (*)(std::size_t*, int)>(library,
                                                                             "cuDeviceTotalMem_v2");

  bool whole() const { return start && version && count && name && attribute && memory; }
};

struct GpuKind {
  std::string name;
  int major, minor;
  std::size_t gib;
  auto operator<=>(const GpuKind&) const = default;
};

GpuKind kind_of(const Driver& driver, int gpu) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
  std::array<char, 256> name{};
  std::size_t bytes = 0;
  GpuKind out{};
  driver.name(name.data(), static_cast<int>(name.size()) - 1, gpu);
  driver.attribute(&out.major, kMajor, gpu);
  driver.attribute(&out.minor, kMinor, gpu);
  driver.memory(&bytes, gpu);
  out.name = first_line(name.data());
  out.gib = (bytes + (std::size_t{1} << 29)) >> 30;
  return out;
}

// "580.65.06", which only the kernel's module knows.
std::string driver_release() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string text;
  std::getline(file, text);
  return text.empty() ? "" : " " + first_line(text);
}

std::string cuda_number(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// A module of ours, which the program loads on request.
std::string absence(const char* module) {
  if (loaded(module)) return {};
  const std::string why = ::dlerror();
  if (why.find(std::string(module) + ": cannot open") != why.npos)
    return "this ringsched was built without it";
  return printable(why, 200);
}

}  // namespace

Installed installed_mpi() {
  if (std::string why = absence("libringsched_mpi.so"); !why.empty()) return {"", std::move(why)};
  const auto version =
      function_of<int (*)(char*, int*)>(loaded("libringsched_mpi.so"), "MPI_Get_library_version");
  std::vector<char> text(8193);  // MPI_MAX_LIBRARY_VERSION_STRING of MPICH, the longest
  int length = 0;
  if (!version || version(text.data(), &length) != 0) return {"MPI", ""};
  return {first_line(text.data()), ""};
}

Installed installed_gpus() {
  const Driver driver;
  if (!driver.library) return {"", "no NVIDIA driver (libcuda.so.1)"};
  if (!driver.whole()) return {"", "the NVIDIA driver is too old or incomplete"};
  int version = 0, count = 0;
  driver.version(&version);
  const std::string release =
      fmt::format("NVIDIA driver{} for CUDA {}", driver_release(), cuda_number(version));
  if (const int error = driver.start(0); error != 0)
    return {release, fmt::format("the driver finds no GPU (cuInit: error {})", error)};
  if (driver.count(&count) != 0 || count == 0) return {release, "the driver finds no GPU"};

  std::map<GpuKind, int> kinds;
  std::string found, missing;
  for (int gpu = 0; gpu < count; ++gpu) {
    const GpuKind kind = kind_of(driver, gpu);
    ++kinds[kind];
    if (kind.major < kLeastCapability && missing.empty())
      missing = fmt::format("GPU {} has compute capability {}.{}, but this needs {}.0 or more", gpu,
                            kind.major, kind.minor, kLeastCapability);
  }
  for (const auto& [kind, n] : kinds)
    found += fmt::format("{} x {} ({} GiB, compute capability {}.{}), ", n, kind.name, kind.gib,
                         kind.major, kind.minor);
  if (version < kLeastDriver)
    missing = fmt::format("the driver is too old: it supports CUDA {}, but this needs {}",
                          cuda_number(version), cuda_number(kLeastDriver));
  return {found + release, missing};
}

Installed installed_cuda() {
  std::string why = absence("libringsched_cuda.so");
  return why.empty() ? Installed{"built in", ""} : Installed{"", std::move(why)};
}

Installed installed_cudnn() {
  void* const library = loaded("libcudnn.so.9");
  const auto version = function_of<std::size_t (*)()>(library, "cudnnGetVersion");
  if (!version) return {"", "no cuDNN 9 (libcudnn.so.9)"};
  const std::size_t v = version();
  return {fmt::format("{}.{}.{}", v / 10'000, v / 100 % 100, v % 100), ""};
}

Installed installed_nccl() {
  void* const library = loaded("libnccl.so.2");
  const auto version = function_of<int (*)(int*)>(library, "ncclGetVersion");
  int v = 0;
  if (!version || version(&v) != 0) return {"", "no NCCL (libnccl.so.2)"};
  return {fmt::format("{}.{}.{}", v / 10'000, v / 100 % 100, v % 100),
          absence("libringsched_nccl.so")};
}

}  // namespace ringsched
