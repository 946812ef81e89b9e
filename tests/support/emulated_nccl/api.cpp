// NCCL's functions.
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>

#include "support/emulated_cuda/faults.hpp"
#include "support/emulated_cuda/shadow.hpp"
#include "support/emulated_nccl/communicator.hpp"

#define EMULATED_NCCL extern "C" __attribute__((visibility("default"))) ncclResult_t

using namespace emulated;

namespace {

using Comm = std::shared_ptr<ncclComm>;

std::map<ncclComm_t, Comm> communicators;
thread_local std::string last_error;

ncclResult_t fail(ncclResult_t result, const std::string& why) {
  last_error = why;
  return result;
}

Comm find(ncclComm_t c) {
  const auto found = communicators.find(c);
  if (found == communicators.end())
    finding("NCCL: a communicator is used that is not there (any more)");
  return found->second;
}

// What this thread has put into a group that has not ended.
struct Group {
  int depth = 0;
  std::vector<std::pair<Comm, std::shared_ptr<Operation>>> operations;
  std::vector<Comm> aborted;
};
thread_local Group group;

// The rules that all calls share.
template <class Body>
ncclResult_t call(const char* name, Body body) {
  Lock lock(state().guard);
  if (const cudaError_t e = before_call(name, kWorksWhenBroken); e != cudaSuccess)
    return fail(static_cast<ncclResult_t>(e), "injected");
  return body(lock);
}

// A communicator that may be called.
template <class Body>
ncclResult_t call_of(const char* name, ncclComm_t handle, Body body) {
  return call(name, [&](Lock& lock) {
    const Comm c = find(handle);
    if (c->end) return fail(ncclInvalidArgument, "the call before this is under way");
    return body(c, lock);
  });
}

// Others go on meanwhile.
template <class Done>
void wait(Lock& lock, Done done) {
  while (!done()) {
    if (step()) continue;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    lock.lock();
  }
}

ncclResult_t set_failed(ncclComm& c, ncclResult_t result) {
  if (result != ncclSuccess && c.failed == ncclSuccess) {
    c.failed = result;
    c.error = last_error;
  }
  return result;
}

// Something that takes its time: without blocking, until it has been asked about often enough.
ncclResult_t start(Lock& lock, const Comm& c, std::function<bool()> can_end,
                   std::function<ncclResult_t()> end) {
  if (c->blocking) {
    wait(lock, can_end);
    return set_failed(*c, end());
  }
  c->polls = static_cast<unsigned>(draw(4));
  c->can_end = std::move(can_end);
  c->end = std::move(end);
  return ncclInProgress;
}

std::string own_gpu(const ncclComm& c) {
  const char* const host = std::getenv("NCCL_HOSTID");
  return std::to_string(c.device) + " of this host" + (host ? std::string(" ") + host : "");
}

bool has_joined(ncclComm& c) {
  if (!has_all_peers(c)) return false;
  if (!std::exchange(c.introduced, true))
    for (int r = 0; r < c.size; ++r) put_frame(c, r, Frame::Hello, Kind::Messages, own_gpu(c));
  move_frames(c);
  return std::all_of(c.links.begin(), c.links.end(),
                     [](const Link& l) { return l.lost || !l.gpu.empty(); });
}

ncclResult_t look_at_peers(const ncclComm& c) {
  std::map<std::string, int> gpus;
  for (int r = 0; r < c.size; ++r) {
    const Link& l = c.links[static_cast<std::size_t>(r)];
    if (l.gpu.empty()) return fail(ncclRemoteError, "rank " + std::to_string(r) + " is gone");
    const auto [other, is_new] = gpus.emplace(l.gpu, r);
    if (!is_new)
      return fail(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(r) +
                                        " and rank " + std::to_string(other->second) +
                                        " both on CUDA device " + l.gpu);
  }
  return ncclSuccess;
}

bool has_left(ncclComm& c) {
  if (!c.operations.empty()) return false;
  if (!std::exchange(c.leaving, true))
    for (int r = 0; r < c.size; ++r) put_frame(c, r, Frame::Leaves);
  move_frames(c);
  return std::all_of(c.links.begin(), c.links.end(),
                     [](const Link& l) { return l.leaves || l.lost; });
}

ncclResult_t end_group(Lock& lock) {
  Group g = std::exchange(group, {});
  ncclResult_t result = ncclSuccess;
  for (auto& [c, op] : g.operations) {
    if (c->end) return fail(ncclInvalidArgument, "the call before this is under way");
    if (c->failed != ncclSuccess) return fail(c->failed, c->error);
    op->fails = static_cast<ncclResult_t>(take_injected_failure());
    const ncclResult_t one = start(
        lock, c, [] { return true; }, [c = c, op = op] { return launch(c, op); });
    if (result == ncclSuccess || result == ncclInProgress)
      result = one == ncclSuccess ? result : one;
  }
  wait(lock, [&] {
    return std::all_of(g.aborted.begin(), g.aborted.end(),
                       [](const Comm& c) { return c->operations.empty(); });
  });
  return result;
}

ncclResult_t add(const char* name, ncclComm_t handle, cudaStream_t stream, Kind kind,
                 std::vector<Transfer> transfers) {
  return call_of(name, handle, [&](const Comm& c, Lock& lock) {
    for (const Transfer& t : transfers)
      if (t.peer < 0 || t.peer >= c->size) return fail(ncclInvalidArgument, "no such rank");
    auto same = std::find_if(group.operations.begin(), group.operations.end(),
                             [&](const auto& o) { return o.first == c; });
    if (same == group.operations.end() || kind != Kind::Messages) {
      group.operations.emplace_back(c, std::make_shared<Operation>());
      same = std::prev(group.operations.end());
      same->second->kind = kind;
      same->second->stream = stream;
    }
    if (same->second->stream != stream) finding("NCCL: two streams in one group: not emulated");
    for (Transfer& t : transfers) same->second->transfers.push_back(t);
    if (group.depth == 0) return end_group(lock);
    return c->blocking || draw(2) == 0 ? ncclSuccess : ncclInProgress;
  });
}

std::size_t size_of(ncclDataType_t type) {
  if (type != ncclInt8 && type != ncclUint8)
    finding("NCCL: only bytes are emulated, no other numbers");
  return 1;
}

}  // namespace

EMULATED_NCCL ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

extern "C" __attribute__((visibility("default"))) const char* ncclGetErrorString(ncclResult_t r) {
  switch (r) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError:
      return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

extern "C" __attribute__((visibility("default"))) const char* ncclGetLastError(ncclComm_t handle) {
  const Lock lock(state().guard);
  const auto found = communicators.find(handle);
  if (found != communicators.end() && !found->second->error.empty())
    last_error = found->second->error;
  return last_error.c_str();
}

EMULATED_NCCL ncclGetUniqueId(ncclUniqueId* id) {
  return call("ncclGetUniqueId", [&](Lock&) {
    std::random_device device;
    std::string name = "emulated-nccl";
    for (int i = 0; i < 4; ++i) name += "-" + std::to_string(device());
    std::memset(id->internal, 0, sizeof id->internal);
    std::memcpy(id->internal, name.data(), name.size());
    return ncclSuccess;
  });
}

EMULATED_NCCL ncclCommInitRankConfig(ncclComm_t* out, int size, ncclUniqueId id, int rank,
                                     ncclConfig_t* config) {
  return call("ncclCommInitRankConfig", [&](Lock& lock) {
    if (rank < 0 || rank >= size) return fail(ncclInvalidArgument, "no such rank");
    const auto c = std::make_shared<ncclComm>();
    c->rank = rank;
    c->size = size;
    c->device = this_thread().device;
    c->id = std::string(id.internal, ::strnlen(id.internal, 80));
    c->blocking = !config || config->blocking != 0;
    c->sees_losses = draw(2) == 0;
    listen_for_peers(*c);
    communicators[c.get()] = c;
    *out = c.get();
    return start(
        lock, c, [c] { return has_joined(*c); }, [c] { return look_at_peers(*c); });
  });
}

EMULATED_NCCL ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* out) {
  return call("ncclCommGetAsyncError", [&](Lock&) {
    const Comm c = find(handle);
    some_steps(16);
    if (c->end) {
      if (c->polls > 0) {
        --c->polls;
      } else if (c->can_end()) {
        const auto end = std::exchange(c->end, nullptr);
        set_failed(*c, end());
      }
    }
    *out = c->failed != ncclSuccess ? c->failed : c->end ? ncclInProgress : ncclSuccess;
    return ncclSuccess;
  });
}

EMULATED_NCCL ncclCommFinalize(ncclComm_t handle) {
  return call_of("ncclCommFinalize", handle, [&](const Comm& c, Lock& lock) {
    return start(
        lock, c, [c] { return has_left(*c); }, [] { return ncclSuccess; });
  });
}

EMULATED_NCCL ncclCommDestroy(ncclComm_t handle) {
  return call_of("ncclCommDestroy", handle, [&](const Comm& c, Lock& lock) {
    wait(lock, [&] { return has_left(*c); });
    close_all(*c);
    communicators.erase(handle);
    return ncclSuccess;
  });
}

EMULATED_NCCL ncclCommAbort(ncclComm_t handle) {
  return call("ncclCommAbort", [&](Lock& lock) {
    const Comm c = find(handle);
    c->aborted = true;
    c->end = nullptr;
    close_all(*c);
    communicators.erase(handle);
    group.aborted.push_back(c);
    return group.depth == 0 ? end_group(lock) : ncclSuccess;
  });
}

EMULATED_NCCL ncclCommRegister(ncclComm_t handle, void* first, std::size_t bytes, void** out) {
  return call_of("ncclCommRegister", handle, [&](const Comm& c, Lock&) {
    if (owner(first, bytes) != c->device)
      finding("NCCL: memory is registered that is not all on the communicator's GPU");
    *out = new std::pair(first, bytes);
    return ncclSuccess;
  });
}

EMULATED_NCCL ncclCommDeregister(ncclComm_t handle, void* registered) {
  return call_of("ncclCommDeregister", handle, [&](const Comm& c, Lock&) {
    const auto* const memory = static_cast<std::pair<void*, std::size_t>*>(registered);
    if (owner(memory->first, memory->second) != c->device)
      finding("NCCL: memory was freed before it was deregistered");
    delete memory;
    return ncclSuccess;
  });
}

EMULATED_NCCL ncclGroupStart() {
  return call("ncclGroupStart", [&](Lock&) {
    ++group.depth;
    return ncclSuccess;
  });
}
EMULATED_NCCL ncclGroupEnd() {
  return call("ncclGroupEnd", [&](Lock& lock) {
    if (group.depth == 0) return fail(ncclInvalidUsage, "no group has begun");
    return --group.depth > 0 ? ncclSuccess : end_group(lock);
  });
}

EMULATED_NCCL ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer,
                       ncclComm_t c, cudaStream_t stream) {
  return add("ncclSend", c, stream, Kind::Messages, {{peer, from, nullptr, count * size_of(type)}});
}
EMULATED_NCCL ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                       cudaStream_t stream) {
  return add("ncclRecv", c, stream, Kind::Messages, {{peer, nullptr, to, count * size_of(type)}});
}

EMULATED_NCCL ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                            ncclComm_t c, cudaStream_t stream) {
  const std::size_t bytes = count * size_of(type);
  std::vector<Transfer> all;
  for (int r = 0; r < find(c)->size; ++r) {
    all.push_back({r, from, nullptr, bytes});
    all.push_back(
        {r, nullptr, static_cast<std::byte*>(to) + static_cast<std::size_t>(r) * bytes, bytes});
  }
  return add("ncclAllGather", c, stream, Kind::AllGather, std::move(all));
}

EMULATED_NCCL ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t c, cudaStream_t stream) {
  if (op != ncclSum) finding("NCCL: no other reduction than a sum is emulated");
  const std::size_t bytes = count * size_of(type);
  std::vector<Transfer> all;
  for (int r = 0; r < find(c)->size; ++r) {
    all.push_back({r, static_cast<const std::byte*>(from) + static_cast<std::size_t>(r) * bytes,
                   nullptr, bytes});
    all.push_back({r, nullptr, to, bytes});
  }
  return add("ncclReduceScatter", c, stream, Kind::ReduceScatter, std::move(all));
}
