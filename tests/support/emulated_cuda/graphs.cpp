// Streams captured into graphs, and graphs on streams.
#include <algorithm>

#include "support/emulated_cuda/faults.hpp"

using namespace emulated;

namespace emulated {

// A capture that forbids this thread what might wait for a stream.
std::shared_ptr<Capture> capture_of_this_thread() {
  for (const auto& c : state().captures)
    if (c->mode == cudaStreamCaptureModeGlobal ||
        (c->mode == cudaStreamCaptureModeThreadLocal && c->thread == std::this_thread::get_id()))
      return c;
  return nullptr;
}

cudaError_t add_node(const std::shared_ptr<Stream>& s, Op op, std::shared_ptr<Event> external) {
  Capture& c = *s->capture;
  if (op.work.ready) c.invalid = true;
  if (c.invalid)
    return op.work.ready ? cudaErrorStreamCaptureUnsupported : cudaErrorStreamCaptureInvalidated;
  const auto branch = static_cast<std::size_t>(std::find(c.branches.begin(), c.branches.end(), s) -
                                               c.branches.begin());
  op.host = state().host;
  c.nodes.push_back({std::move(op), branch, s->last, std::move(external)});
  s->last = {c.nodes.size() - 1};
  return cudaSuccess;
}

namespace {

// Whether all that was captured comes before what would follow on the stream that began.
bool joined(const Capture& c) {
  std::vector<bool> before(c.nodes.size(), false);
  std::vector<std::size_t> left = c.origin->last;
  while (!left.empty()) {
    const std::size_t node = left.back();
    left.pop_back();
    if (before[node]) continue;
    before[node] = true;
    left.insert(left.end(), c.nodes[node].after.begin(), c.nodes[node].after.end());
  }
  return std::all_of(c.branches.begin(), c.branches.end(), [&](const auto& s) {
    return std::all_of(s->last.begin(), s->last.end(), [&](std::size_t n) { return before[n]; });
  });
}

cudaError_t begin(const std::shared_ptr<Stream>& s, cudaStreamCaptureMode mode) {
  if (s == state().devices[static_cast<std::size_t>(s->device)].legacy)
    return cudaErrorStreamCaptureUnsupported;
  if (s->capture) return cudaErrorIllegalState;
  const auto c = std::make_shared<Capture>();
  c->origin = s;
  c->branches = {s};
  c->thread = std::this_thread::get_id();
  c->mode = mode;
  s->capture = c;
  s->last.clear();
  state().captures.push_back(c);
  return cudaSuccess;
}

cudaError_t end(const std::shared_ptr<Stream>& s, cudaGraph_t* out) {
  *out = nullptr;
  const std::shared_ptr<Capture> c = s->capture;
  if (!c) return cudaErrorIllegalState;
  if (c->origin != s) {
    c->invalid = true;
    return cudaErrorStreamCaptureUnmatched;
  }
  if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != std::this_thread::get_id())
    return cudaErrorStreamCaptureWrongThread;
  const bool whole = joined(*c);
  for (const auto& branch : c->branches) {
    branch->capture = nullptr;
    branch->last.clear();
  }
  std::erase(state().captures, c);
  if (c->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!whole) return cudaErrorStreamCaptureUnjoined;
  const auto graph = std::make_shared<Graph>();
  graph->nodes = std::move(c->nodes);
  graph->branches = c->branches.size();
  graph->device = s->device;
  *out = reinterpret_cast<cudaGraph_t>(next_handle());
  state().graph_handles[*out] = graph;
  return cudaSuccess;
}

std::shared_ptr<Graph> executable(cudaGraphExec_t handle) {
  const auto found = state().exec_handles.find(handle);
  if (found == state().exec_handles.end()) finding("a graph is used that is not there (any more)");
  return found->second;
}

// In any order that the edges of the graph allow.
void play(Graph& g, Stream& s, const Past& before, std::vector<std::shared_ptr<Record>> records) {
  std::vector<Past> after(g.nodes.size());
  std::vector<std::size_t> waits_for(g.nodes.size());
  std::vector<std::vector<std::size_t>> next(g.nodes.size());
  std::vector<std::size_t> ready;
  for (std::size_t n = 0; n < g.nodes.size(); ++n) {
    waits_for[n] = g.nodes[n].after.size();
    for (const std::size_t other : g.nodes[n].after) next[other].push_back(n);
    if (waits_for[n] == 0) ready.push_back(n);
  }
  Past all = before;
  while (!ready.empty()) {
    std::swap(ready[draw(ready.size())], ready.back());
    const std::size_t n = ready.back();
    ready.pop_back();
    Past& past = after[n];
    past.join(before);
    for (const std::size_t other : g.nodes[n].after) past.join(after[other]);
    Op op = g.nodes[n].op;
    op.records = records[n];
    perform(op, s, g.chains[g.nodes[n].branch], past);
    all.join(past);
    for (const std::size_t other : next[n])
      if (--waits_for[other] == 0) ready.push_back(other);
  }
  s.past.join(all);
}

cudaError_t launch(const std::shared_ptr<Graph>& g, const std::shared_ptr<Stream>& s) {
  std::vector<std::shared_ptr<Record>> records(g->nodes.size());
  for (std::size_t n = 0; n < g->nodes.size(); ++n)
    if (const auto& event = g->nodes[n].external) {
      records[n] = event->latest = std::make_shared<Record>();
      event->latest->in_graph = true;
      event->capture = nullptr;
    }
  Op op;
  op.work.name = "graph";
  Stream* const on = s.get();
  op.work.run = [g, on, records] {
    Thread& t = this_thread();
    t.in_work = false;
    play(*g, *on, Past(on->past), records);
    t.in_work = true;
  };
  op.work.dropped = [records] {
    for (const auto& r : records)
      if (r) r->done = true;
  };
  return put(s, std::move(op));
}

}  // namespace
}  // namespace emulated

EMULATED cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCapture", kAnyTime, [&](Lock&) { return begin(stream_of(s), mode); });
}
// Ends it, whatever came before.
EMULATED cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph) {
  return call("cudaStreamEndCapture", kAnyTime, [&](Lock&) { return end(stream_of(s), graph); });
}

EMULATED cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus* status) {
  return call("cudaStreamIsCapturing", kAnyTime, [&](Lock&) {
    const auto c = stream_of(s)->capture;
    *status = !c           ? cudaStreamCaptureStatusNone
              : c->invalid ? cudaStreamCaptureStatusInvalidated
                           : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

EMULATED cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t handle, unsigned long long) {
  return call("cudaGraphInstantiate", kNotInCapture, [&](Lock&) {
    const auto found = state().graph_handles.find(handle);
    if (found == state().graph_handles.end()) return cudaErrorInvalidValue;
    const auto g = std::make_shared<Graph>(*found->second);
    for (std::size_t b = 0; b < g->branches; ++b) g->chains.push_back(make_chain());
    *out = reinterpret_cast<cudaGraphExec_t>(next_handle());
    state().exec_handles[*out] = g;
    return cudaSuccess;
  });
}

EMULATED cudaGraphDestroy(cudaGraph_t handle) {
  return call("cudaGraphDestroy", kAnyTime, [&](Lock&) {
    return state().graph_handles.erase(handle) == 1 ? cudaSuccess : cudaErrorInvalidValue;
  });
}

EMULATED cudaGraphExecDestroy(cudaGraphExec_t handle) {
  return call("cudaGraphExecDestroy", kWorksWhenBroken, [&](Lock&) {
    for (const std::uint32_t chain : executable(handle)->chains) retire_chain(chain);
    state().exec_handles.erase(handle);
    return cudaSuccess;
  });
}

EMULATED cudaGraphUpload(cudaGraphExec_t g, cudaStream_t s) {
  return call("cudaGraphUpload", kNotInCapture, [&](Lock&) {
    executable(g)->uploaded = true;
    Op op;
    op.work.name = "upload of a graph";
    return put(stream_of(s), std::move(op));
  });
}

EMULATED cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s) {
  return call("cudaGraphLaunch", kNotInCapture,
              [&](Lock&) { return launch(executable(g), stream_of(s)); });
}
