// The GPUs, their attributes, which reach each other, and their partitions (green contexts).
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "support/emulated_cuda/faults.hpp"
#include "support/emulated_cuda/shadow.hpp"

using namespace emulated;

namespace emulated {
namespace {

constexpr unsigned kLeastOfPart = 2, kStepOfPart = 2;  // multiprocessors
constexpr int kVersion = 13000;

int gpus() { return static_cast<int>(state().devices.size()); }
bool there(int device) { return device >= 0 && device < gpus(); }

int attribute(cudaDeviceAttr a) {
  switch (a) {
    case cudaDevAttrComputeCapabilityMajor:
      return 9;
    case cudaDevAttrComputeCapabilityMinor:
      return 0;
    case cudaDevAttrMultiProcessorCount:
      return kMultiprocessors;
    case cudaDevAttrL2CacheSize:
      return 1 << 17;
    default:
      return 1;
  }
}

// The first multiprocessor of a resource, where its maker may keep what it likes.
unsigned& first_of(CUdevResource& r) { return *reinterpret_cast<unsigned*>(r._internal_padding); }

// A function of the driver fails like those of the runtime.
CUresult driver_fault(const char* name) {
  const Lock lock(state().guard);
  return static_cast<CUresult>(before_call(name, kWorksWhenBroken));
}

CUresult device_get(CUdevice* out, int index) {
  if (const CUresult e = driver_fault("cuDeviceGet"); e != CUDA_SUCCESS) return e;
  *out = index;
  return there(index) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult resource(CUdevice device, CUdevResource* out, CUdevResourceType type) {
  if (const CUresult e = driver_fault("cuDeviceGetDevResource"); e != CUDA_SUCCESS) return e;
  if (!there(device) || type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_VALUE;
  *out = {};
  out->type = type;
  out->sm.smCount = kMultiprocessors;
  out->sm.minSmPartitionSize = kLeastOfPart;
  out->sm.smCoscheduledAlignment = kStepOfPart;
  return CUDA_SUCCESS;
}

CUresult split(CUdevResource* out, unsigned* count, const CUdevResource* in, CUdevResource* rest,
               unsigned, unsigned least) {
  if (const CUresult e = driver_fault("cuDevSmResourceSplitByCount"); e != CUDA_SUCCESS) return e;
  const unsigned each =
      std::max(kLeastOfPart, (least + kStepOfPart - 1) / kStepOfPart * kStepOfPart);
  const unsigned most = in->sm.smCount / each;
  if (!out) {
    *count = most;
    return CUDA_SUCCESS;
  }
  if (most == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  *count = std::min(*count, most);
  CUdevResource whole = *in;
  const unsigned first = first_of(whole);
  for (unsigned i = 0; i < *count; ++i) {
    out[i] = *in;
    out[i].sm.smCount = each;
    first_of(out[i]) = first + i * each;
  }
  if (rest) {
    *rest = *in;
    rest->sm.smCount = in->sm.smCount - *count * each;
    first_of(*rest) = first + *count * each;
  }
  return CUDA_SUCCESS;
}

// A description is never given back; there are few.
CUresult describe(CUdevResourceDesc* out, CUdevResource* resources, unsigned count) {
  if (const CUresult e = driver_fault("cuDevResourceGenerateDesc"); e != CUDA_SUCCESS) return e;
  if (count != 1) return CUDA_ERROR_INVALID_VALUE;
  static std::deque<CUdevResource> all;
  all.push_back(*resources);
  *out = reinterpret_cast<CUdevResourceDesc>(&all.back());
  return CUDA_SUCCESS;
}

CUresult create(CUgreenCtx* out, CUdevResourceDesc description, CUdevice device, unsigned flags) {
  const Lock lock(state().guard);
  if (const CUresult e = driver_fault("cuGreenCtxCreate"); e != CUDA_SUCCESS) return e;
  if (flags != CU_GREEN_CTX_DEFAULT_STREAM || !there(device)) return CUDA_ERROR_INVALID_VALUE;
  auto& from = *reinterpret_cast<CUdevResource*>(description);
  *out = reinterpret_cast<CUgreenCtx>(next_handle());
  state().part_handles[*out] =
      std::make_shared<Part>(Part{device, first_of(from), from.sm.smCount, true});
  return CUDA_SUCCESS;
}

CUresult destroy(CUgreenCtx context) {
  const Lock lock(state().guard);
  const auto found = state().part_handles.find(context);
  if (found == state().part_handles.end())
    finding("a green context is destroyed that is not there");
  found->second->alive = false;
  state().part_handles.erase(found);
  return CUDA_SUCCESS;
}

CUresult stream_of_part(CUstream* out, CUgreenCtx context, unsigned flags, int) {
  const Lock lock(state().guard);
  if (const CUresult e = driver_fault("cuGreenCtxStreamCreate"); e != CUDA_SUCCESS) return e;
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  const auto found = state().part_handles.find(context);
  if (found == state().part_handles.end()) finding("a green context is used that is not there");
  *out = handle_of(make_stream(found->second->device, false, found->second));
  return CUDA_SUCCESS;
}

// The host opens it by writing to its own memory.
CUresult wait_for_value(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags) {
  const Lock lock(state().guard);
  if (const CUresult e = driver_fault("cuStreamWaitValue32"); e != CUDA_SUCCESS) return e;
  if (flags != CU_STREAM_WAIT_VALUE_GEQ) return CUDA_ERROR_NOT_SUPPORTED;
  if (owner(reinterpret_cast<void*>(at), 4) == -2) return CUDA_ERROR_INVALID_VALUE;
  Op op;
  op.work.name = "wait for a value";
  op.watches = reinterpret_cast<const void*>(at);
  op.timed = false;
  op.work.ready = [at, value] {
    auto& word = *reinterpret_cast<std::uint32_t*>(at);
    const std::uint32_t now = std::atomic_ref(word).load(std::memory_order_acquire);
    return static_cast<std::int32_t>(now - value) >= 0;
  };
  if (op.work.ready()) ++state().counts["did wait for a value that was there"];
  return put(stream_of(stream), std::move(op)) == cudaSuccess
             ? CUDA_SUCCESS
             : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

struct Function {
  std::string_view name;
  unsigned since;
  void* code;
};
template <class F>
Function function(const char* name, unsigned since, F* code) {
  return {name, since, reinterpret_cast<void*>(code)};
}

}  // namespace
}  // namespace emulated

EMULATED cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned version,
                                          unsigned long long,
                                          cudaDriverEntryPointQueryResult* result) {
  return call("cudaGetDriverEntryPointByVersion", kAnyTime, [&](Lock&) {
    static const Function all[] = {function("cuDeviceGet", 2000, device_get),
                                   function("cuDeviceGetDevResource", 12040, resource),
                                   function("cuDevSmResourceSplitByCount", 12040, split),
                                   function("cuDevResourceGenerateDesc", 12040, describe),
                                   function("cuGreenCtxCreate", 12040, create),
                                   function("cuGreenCtxDestroy", 12040, destroy),
                                   function("cuGreenCtxStreamCreate", 12050, stream_of_part),
                                   function("cuStreamWaitValue32", 12000, wait_for_value)};
    const auto* const found = std::find_if(std::begin(all), std::end(all),
                                           [&](const Function& f) { return f.name == name; });
    const bool known = found != std::end(all), old = known && version < found->since;
    *out = known && !old ? found->code : nullptr;
    if (result)
      *result = !known ? cudaDriverEntryPointSymbolNotFound
                : old  ? cudaDriverEntryPointVersionNotSufficent
                       : cudaDriverEntryPointSuccess;
    return cudaSuccess;
  });
}

EMULATED cudaDriverGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}
EMULATED cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

EMULATED cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", kWorksWhenBroken, [&](Lock&) {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    *count = visible && !*visible ? 0 : gpus();
    return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
  });
}
EMULATED cudaGetDevice(int* device) {
  *device = this_thread().device;
  return cudaSuccess;
}
EMULATED cudaSetDevice(int device) {
  return call("cudaSetDevice", kWorksWhenBroken, [&](Lock&) {
    if (!there(device)) return cudaErrorInvalidDevice;
    this_thread().device = device;
    return cudaSuccess;
  });
}
EMULATED cudaDeviceGetAttribute(int* value, cudaDeviceAttr a, int device) {
  return call("cudaDeviceGetAttribute", kWorksWhenBroken, [&](Lock&) {
    *value = attribute(a);
    return there(device) ? cudaSuccess : cudaErrorInvalidDevice;
  });
}
EMULATED cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  return call("cudaGetDeviceProperties", kWorksWhenBroken, [&](Lock&) {
    if (!there(device)) return cudaErrorInvalidDevice;
    *out = {};
    std::strcpy(out->name, "emulated GPU (measures nothing)");
    out->multiProcessorCount = kMultiprocessors;
    out->major = 9;
    return cudaSuccess;
  });
}
EMULATED cudaDeviceGetPCIBusId(char* out, int size, int device) {
  std::snprintf(out, static_cast<std::size_t>(size), "0000:%02x:00.0", device);
  return there(device) ? cudaSuccess : cudaErrorInvalidDevice;
}
EMULATED cudaDeviceGetStreamPriorityRange(int* low, int* high) {
  return call("cudaDeviceGetStreamPriorityRange", kAnyTime, [&](Lock&) {
    *low = 0;
    *high = -5;
    return cudaSuccess;
  });
}
EMULATED cudaDeviceCanAccessPeer(int* can, int from, int to) {
  return call("cudaDeviceCanAccessPeer", kAnyTime, [&](Lock&) {
    *can = from != to && environment("RINGSCHED_EMULATED_PEERS", 1);
    return there(from) && there(to) ? cudaSuccess : cudaErrorInvalidDevice;
  });
}
EMULATED cudaDeviceEnablePeerAccess(int to, unsigned) {
  return call("cudaDeviceEnablePeerAccess", kAnyTime, [&](Lock&) {
    if (!there(to) || to == this_thread().device) return cudaErrorInvalidDevice;
    const bool is_new =
        state().devices[static_cast<std::size_t>(this_thread().device)].peers.insert(to).second;
    return is_new ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

EMULATED cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", kNotInCapture, [&](Lock& lock) {
    const int device = this_thread().device;
    wait_until(
        lock, [&] { return idle(device); }, "cudaDeviceSynchronize");
    host_knows_all_of(device);
    return pending_error(device);
  });
}
