// Streams and events.
#include <algorithm>

#include "support/emulated_cuda/faults.hpp"
#include "support/emulated_cuda/shadow.hpp"

using namespace emulated;

namespace emulated {

std::shared_ptr<Stream> make_stream(int device, bool blocking, std::shared_ptr<Part> part) {
  static int streams = 0;
  const auto s = std::make_shared<Stream>();
  s->number = ++streams;
  s->device = device;
  s->blocking = blocking;
  s->part = std::move(part);
  s->chain = make_chain();
  s->past = *state().host;
  state().streams.push_back(s);
  return s;
}

cudaStream_t handle_of(std::shared_ptr<Stream> s) {
  const auto handle = reinterpret_cast<cudaStream_t>(next_handle());
  state().stream_handles[handle] = std::move(s);
  return handle;
}

std::shared_ptr<Stream> stream_of(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) {
    const int current = this_thread().device;
    auto& legacy = state().devices[static_cast<std::size_t>(current)].legacy;
    if (!legacy) legacy = make_stream(current, false, nullptr);
    return legacy;
  }
  const auto found = state().stream_handles.find(handle);
  if (found == state().stream_handles.end())
    finding("a stream is used that is not there (any more)");
  return found->second;
}

namespace {

std::shared_ptr<Event> event_of(cudaEvent_t handle) {
  const auto found = state().event_handles.find(handle);
  if (found == state().event_handles.end())
    finding("an event is used that is not there (any more)");
  return found->second;
}

cudaError_t create(cudaStream_t* out, unsigned flags) {
  if (flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
  *out = handle_of(make_stream(this_thread().device, flags != cudaStreamNonBlocking, nullptr));
  return cudaSuccess;
}

// A capture forbids to ask about its streams.
bool captured(const Stream& s) {
  if (s.capture) s.capture->invalid = true;
  return s.capture != nullptr;
}

cudaError_t record(cudaEvent_t handle, cudaStream_t on, unsigned flags) {
  const std::shared_ptr<Event> e = event_of(handle);
  const std::shared_ptr<Stream> s = stream_of(on);
  if (e->device != s->device) return cudaErrorInvalidResourceHandle;
  const bool external = flags & cudaEventRecordExternal;
  if (external && !s->capture) return cudaErrorInvalidValue;
  Op op;
  op.work.name = "event";
  op.timed = false;
  if (external) return add_node(s, std::move(op), e);
  if (s->capture) {
    e->capture = s->capture;
    e->nodes = s->last;
    e->latest = nullptr;
    return s->capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  }
  e->capture = nullptr;
  e->latest = std::make_shared<Record>();
  op.records = e->latest;
  return put(s, std::move(op));
}

void join_capture(const std::shared_ptr<Stream>& s, const Event& e) {
  if (!s->capture) {
    s->capture = e.capture;
    s->last.clear();
    e.capture->branches.push_back(s);
  }
  for (const std::size_t node : e.nodes)
    if (std::find(s->last.begin(), s->last.end(), node) == s->last.end()) s->last.push_back(node);
}

bool is_open(const std::shared_ptr<Capture>& c) {
  return std::find(state().captures.begin(), state().captures.end(), c) != state().captures.end();
}

cudaError_t wait(cudaStream_t on, cudaEvent_t handle) {
  const std::shared_ptr<Event> e = event_of(handle);
  const std::shared_ptr<Stream> s = stream_of(on);
  if (e->capture) {
    if (!is_open(e->capture)) return cudaErrorCapturedEvent;
    if (s->capture && s->capture != e->capture) {
      s->capture->invalid = e->capture->invalid = true;
      return cudaErrorStreamCaptureMerge;
    }
    join_capture(s, *e);
    return e->capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  }
  if (s->capture) {
    if (!e->latest) return cudaSuccess;
    s->capture->invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  if (!e->latest) return cudaSuccess;  // never recorded: nothing to wait for
  Op op;
  op.work.name = "wait";
  op.waits = e->latest;
  op.timed = false;
  return put(s, std::move(op));
}

cudaError_t elapsed(float* ms, const Event& a, const Event& b) {
  if (a.device != b.device || !a.has_time || !b.has_time) return cudaErrorInvalidResourceHandle;
  if (a.capture || b.capture) return cudaErrorCapturedEvent;
  if (!a.latest || !b.latest) return cudaErrorInvalidResourceHandle;
  if (!a.latest->done || !b.latest->done) return cudaErrorNotReady;
  if (a.latest->in_graph != b.latest->in_graph) return cudaErrorInvalidValue;
  if (a.latest->position > 0 && b.latest->position > 0 &&
      !b.latest->past.has(a.latest->chain, a.latest->position))
    finding("a time is taken from an event to another that nothing orders after it");
  host_knows(a.latest->past);
  host_knows(b.latest->past);
  *ms = static_cast<float>((b.latest->past.ns - a.latest->past.ns) / 1e6);
  return cudaSuccess;
}

}  // namespace
}  // namespace emulated

EMULATED cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) {
  return call("cudaStreamCreateWithFlags", kAnyTime, [&](Lock&) { return create(s, flags); });
}
EMULATED cudaStreamCreateWithPriority(cudaStream_t* s, unsigned flags, int) {
  return call("cudaStreamCreateWithPriority", kAnyTime, [&](Lock&) { return create(s, flags); });
}

// What is on it is still done.
EMULATED cudaStreamDestroy(cudaStream_t handle) {
  return call("cudaStreamDestroy", kAnyTime, [&](Lock&) {
    if (!handle) return cudaErrorInvalidResourceHandle;
    const std::shared_ptr<Stream> s = stream_of(handle);
    if (captured(*s)) return cudaErrorStreamCaptureUnsupported;
    state().stream_handles.erase(handle);
    s->destroyed = true;
    if (s->queue.empty()) {
      state().devices[static_cast<std::size_t>(s->device)].ended.join(s->past);
      retire_chain(s->chain);
      std::erase(state().streams, s);
    }
    return cudaSuccess;
  });
}

EMULATED cudaStreamQuery(cudaStream_t handle) {
  return call("cudaStreamQuery", kWorksWhenBroken | kNotInCapture, [&](Lock&) {
    const std::shared_ptr<Stream> s = stream_of(handle);
    if (captured(*s)) return cudaErrorStreamCaptureUnsupported;
    some_steps(600);
    if (const cudaError_t e = pending_error(s->device); e != cudaSuccess) return e;
    if (!s->queue.empty()) return cudaErrorNotReady;
    host_knows(s->past);
    return cudaSuccess;
  });
}

EMULATED cudaStreamSynchronize(cudaStream_t handle) {
  return call("cudaStreamSynchronize", kWorksWhenBroken | kNotInCapture, [&](Lock& lock) {
    const std::shared_ptr<Stream> s = stream_of(handle);
    if (captured(*s)) return cudaErrorStreamCaptureUnsupported;
    wait_until(
        lock, [&] { return s->queue.empty(); }, "cudaStreamSynchronize");
    host_knows(s->past);
    return pending_error(s->device);
  });
}

EMULATED cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return call("cudaLaunchHostFunc", kAnyTime, [&](Lock&) {
    Op op;
    op.work = {"host function", [=] { function(data); }, {}, {}};
    return put(stream_of(stream), std::move(op));
  });
}

EMULATED cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  return call("cudaEventCreateWithFlags", kAnyTime, [&](Lock&) {
    const auto e = std::make_shared<Event>();
    e->device = this_thread().device;
    e->has_time = !(flags & cudaEventDisableTiming);
    *out = reinterpret_cast<cudaEvent_t>(next_handle());
    state().event_handles[*out] = e;
    return cudaSuccess;
  });
}

EMULATED cudaEventDestroy(cudaEvent_t handle) {
  return call("cudaEventDestroy", kWorksWhenBroken, [&](Lock&) {
    event_of(handle);
    state().event_handles.erase(handle);
    return cudaSuccess;
  });
}

EMULATED cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned flags) {
  return call("cudaEventRecordWithFlags", kAnyTime, [&](Lock&) { return record(e, s, flags); });
}
EMULATED cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  return call("cudaEventRecord", kAnyTime,
              [&](Lock&) { return record(e, s, cudaEventRecordDefault); });
}
EMULATED cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  return call("cudaStreamWaitEvent", kAnyTime, [&](Lock&) { return wait(s, e); });
}

EMULATED cudaEventQuery(cudaEvent_t handle) {
  return call("cudaEventQuery", kWorksWhenBroken | kNotInCapture, [&](Lock&) {
    const std::shared_ptr<Event> e = event_of(handle);
    if (e->capture) return cudaErrorCapturedEvent;
    some_steps(8);
    if (const cudaError_t error = pending_error(e->device); error != cudaSuccess) return error;
    if (!e->latest) return cudaSuccess;
    if (!e->latest->done) return cudaErrorNotReady;
    host_knows(e->latest->past);
    return cudaSuccess;
  });
}

EMULATED cudaEventSynchronize(cudaEvent_t handle) {
  return call("cudaEventSynchronize", kWorksWhenBroken | kNotInCapture, [&](Lock& lock) {
    const std::shared_ptr<Event> e = event_of(handle);
    if (e->capture) return cudaErrorCapturedEvent;
    const std::shared_ptr<Record> r = e->latest;
    if (!r) return cudaSuccess;
    wait_until(
        lock, [&] { return r->done; }, "cudaEventSynchronize");
    host_knows(r->past);
    return pending_error(e->device);
  });
}

EMULATED cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
  return call("cudaEventElapsedTime", kWorksWhenBroken,
              [&](Lock&) { return elapsed(ms, *event_of(a), *event_of(b)); });
}
