// Memory of GPUs and pinned memory, and what copies and fills it.
#include <malloc.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "support/emulated_cuda/faults.hpp"
#include "support/emulated_cuda/shadow.hpp"

using namespace emulated;

namespace emulated {
namespace {

constexpr std::size_t kMemory = std::size_t{16} << 30;  // of a GPU

// What the host has freed does not stay what it was, so that a late copy is seen to be late.
const int host_memory_is_spoilt = mallopt(M_PERTURB, 0xb5);

// Of this process; a finding instead of a crash where it is gone.
void copy_from_host(void* to, const void* from, std::size_t bytes) {
  const iovec there{to, bytes}, here{const_cast<void*>(from), bytes};
  if (bytes < 4096)
    std::memcpy(to, from, bytes);
  else if (process_vm_readv(getpid(), &there, 1, &here, 1, 0) != static_cast<ssize_t>(bytes))
    finding("a copy reads memory of the host that is gone");
}

bool is_gpu(const void* p) { return owner(p, 1) >= 0; }

// One that moves bytes when its turn comes. Memory of the host is read and written then.
Op moving(const char* name, void* to, const void* from, std::size_t bytes) {
  Op op;
  op.work.name = name;
  op.work.run = [to, from, bytes] {
    const bool reads_gpu = owner(from, 1) != -2, writes_gpu = owner(to, 1) != -2;
    if (reads_gpu) touch(from, bytes, Access::Read, "copies from");
    if (writes_gpu) touch(to, bytes, Access::Write, "copies to");
    if (reads_gpu)
      std::memmove(to, from, bytes);
    else
      copy_from_host(to, from, bytes);
  };
  return op;
}

// Copies between GPUs need no peer access, but they are slow without it.
Op between_gpus(const char* name, void* to, const void* from, std::size_t bytes) {
  Op op;
  op.work.name = name;
  const int reads = owner(from, 1), writes = owner(to, 1);
  op.work.run = [=] {
    if (!state().devices[static_cast<std::size_t>(reads)].peers.contains(writes))
      ++state().counts["did copies by way of the host"];
    running()->device = reads;
    touch(from, bytes, Access::Read, "copies from");
    running()->device = writes;
    touch(to, bytes, Access::Write, "copies to");
    std::memmove(to, from, bytes);
  };
  return op;
}

cudaError_t check(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const bool to_gpu = is_gpu(to), from_gpu = is_gpu(from);
  if (kind == cudaMemcpyDefault) return cudaSuccess;
  const bool wants_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool wants_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (to_gpu != wants_to || from_gpu != wants_from) return cudaErrorInvalidValue;
  if ((to_gpu && owner(to, bytes) < 0) || (from_gpu && owner(from, bytes) < 0))
    return cudaErrorInvalidValue;
  return cudaSuccess;
}

Op copying(const char* name, void* to, const void* from, std::size_t bytes) {
  const int reads = owner(from, 1), writes = owner(to, 1);
  return reads >= 0 && writes >= 0 && reads != writes ? between_gpus(name, to, from, bytes)
                                                      : moving(name, to, from, bytes);
}

// From pageable memory it returns once the bytes have left the host, which is not when they have
// arrived; to the host, when all is done.
cudaError_t copy_and_wait(Lock& lock, void* to, const void* from, std::size_t bytes,
                          cudaMemcpyKind kind) {
  if (const cudaError_t e = check(to, from, bytes, kind); e != cudaSuccess) return e;
  if (bytes == 0) return cudaSuccess;
  const std::shared_ptr<Stream> s = stream_of(nullptr);
  if (!is_gpu(from) && is_gpu(to)) {
    const auto* const first = static_cast<const std::byte*>(from);
    const auto stage = std::make_shared<std::vector<std::byte>>(first, first + bytes);
    Op op;
    op.work.name = "cudaMemcpy";
    op.work.run = [stage, to] {
      touch(to, stage->size(), Access::Write, "copies to");
      std::memcpy(to, stage->data(), stage->size());
    };
    const bool pinned = owner(from, 1) == -1;
    const cudaError_t e = put(s, std::move(op));
    if (e != cudaSuccess || !pinned) return e;
  } else {
    if (const cudaError_t e = put(s, copying("cudaMemcpy", to, from, bytes)); e != cudaSuccess)
      return e;
    if (is_gpu(to) && is_gpu(from)) return cudaSuccess;
  }
  wait_until(
      lock, [&] { return s->queue.empty(); }, "cudaMemcpy");
  host_knows(s->past);
  return pending_error(s->device);
}

cudaError_t fill(const char* name, void* to, int value, std::size_t bytes,
                 const std::shared_ptr<Stream>& s) {
  if (bytes == 0) return cudaSuccess;
  if (owner(to, bytes) == -2) return cudaErrorInvalidValue;
  Op op;
  op.work.name = name;
  op.work.run = [=] {
    touch(to, bytes, Access::Write, "fills");
    std::memset(to, value, bytes);
  };
  return put(s, std::move(op));
}

}  // namespace
}  // namespace emulated

EMULATED cudaMalloc(void** out, std::size_t bytes) {
  return call("cudaMalloc", kNotInCapture, [&](Lock&) {
    Device& d = state().devices[static_cast<std::size_t>(this_thread().device)];
    *out = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (d.used + bytes > kMemory) return cudaErrorMemoryAllocation;
    *out = allocate(bytes, this_thread().device);
    if (!*out) return cudaErrorMemoryAllocation;
    d.used += bytes;
    return cudaSuccess;
  });
}

// Waits for the GPU that has the memory, as cuMemFree does.
EMULATED cudaFree(void* at) {
  return call("cudaFree", at ? kNotInCapture : kAnyTime, [&](Lock& lock) {
    if (!at) return cudaSuccess;
    const int device = owner(at, 1);
    const std::size_t bytes = size_of_allocation(at);
    if (device < 0 || bytes == 0) return cudaErrorInvalidValue;
    wait_until(
        lock, [&] { return idle(device); }, "cudaFree");
    host_knows_all_of(device);
    release(at, "cudaFree");
    state().devices[static_cast<std::size_t>(device)].used -= bytes;
    return cudaSuccess;
  });
}

EMULATED cudaHostAlloc(void** out, std::size_t bytes, unsigned) {
  return call("cudaHostAlloc", kNotInCapture, [&](Lock&) {
    *out = allocate(bytes, -1);
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
  });
}
EMULATED cudaFreeHost(void* at) {
  return call("cudaFreeHost", kNotInCapture, [&](Lock&) {
    if (at && owner(at, 1) != -1) return cudaErrorInvalidValue;
    for (const auto& s : state().streams)
      for (const Op& op : s->queue)
        if (at && op.watches == at) finding("cudaFreeHost of memory that a stream waits for");
    return !at || release(at, "cudaFreeHost") ? cudaSuccess : cudaErrorInvalidValue;
  });
}

EMULATED cudaMemGetInfo(std::size_t* there, std::size_t* all) {
  return call("cudaMemGetInfo", kAnyTime, [&](Lock&) {
    *all = kMemory;
    *there = kMemory - state().devices[static_cast<std::size_t>(this_thread().device)].used;
    return cudaSuccess;
  });
}

EMULATED cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return call("cudaMemcpy", kNotInCapture,
              [&](Lock& lock) { return copy_and_wait(lock, to, from, bytes, kind); });
}

EMULATED cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                         cudaStream_t stream) {
  return call("cudaMemcpyAsync", kAnyTime, [&](Lock&) {
    const cudaError_t e = check(to, from, bytes, kind);
    if (e != cudaSuccess || bytes == 0) return e;
    return put(stream_of(stream), copying("cudaMemcpyAsync", to, from, bytes));
  });
}

EMULATED cudaMemcpyPeerAsync(void* to, int to_gpu, const void* from, int from_gpu,
                             std::size_t bytes, cudaStream_t stream) {
  return call("cudaMemcpyPeerAsync", kAnyTime, [&](Lock&) {
    if (owner(to, bytes) != to_gpu || owner(from, bytes) != from_gpu) return cudaErrorInvalidValue;
    return put(stream_of(stream), copying("cudaMemcpyPeerAsync", to, from, bytes));
  });
}

EMULATED cudaMemset(void* to, int value, std::size_t bytes) {
  return call("cudaMemset", kNotInCapture,
              [&](Lock&) { return fill("cudaMemset", to, value, bytes, stream_of(nullptr)); });
}
EMULATED cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return call("cudaMemsetAsync", kAnyTime,
              [&](Lock&) { return fill("cudaMemsetAsync", to, value, bytes, stream_of(stream)); });
}
