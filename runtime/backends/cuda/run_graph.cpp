// A run as a CUDA graph.
#include "backends/cuda/run.hpp"

namespace ringsched::cuda {

// Graphs know two kinds of events: those that order what is captured, and those that are recorded
// when the graph runs, which have times.
void GpuRun::capture() {
  gpus_[0].make_current();
  const cudaStream_t origin = gates_[0]->stream();
  const Event fork(cudaEventDisableTiming);
  std::vector<Event> joins;
  cudaGraph_t graph = nullptr;
  require(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal), "capturing");
  capturing_ = true;
  std::string failed;
  try {
    // Two events have a time between them only if the graph recorded both, or neither.
    graph_zero_.emplace();
    require(cudaEventRecordWithFlags(graph_zero_->get(), origin, cudaEventRecordExternal),
            "recording an event");
    require(cudaEventRecord(fork.get(), origin), "recording an event");
    for (const WorkerId w : mine_)
      for (std::uint32_t l = 0; l < plan_.lane_count(); ++l)
        require(cudaStreamWaitEvent(stream(w, static_cast<Lane>(l)), fork.get()),
                "waiting for an event");
    for (const Submitted s : order_) submit_op(s.lane, s.op);
    for (const WorkerId w : mine_)
      for (std::uint32_t l = 0; l < plan_.lane_count(); ++l) {
        const cudaStream_t s = stream(w, static_cast<Lane>(l));
        workers_[w.value].gpu->make_current();
        joins.emplace_back(cudaEventDisableTiming);
        require(cudaEventRecord(joins.back().get(), s), "recording an event");
        require(cudaStreamWaitEvent(origin, joins.back().get()), "waiting for an event");
      }
  } catch (const RunFailed& e) {
    failed = e.what();
  }
  capturing_ = false;
  const cudaError_t ended = cudaStreamEndCapture(origin, &graph);
  if (failed.empty() && ended != cudaSuccess) failed = cudaGetErrorString(ended);
  if (failed.empty()) {
    const cudaError_t made = cudaGraphInstantiate(&graph_, graph, 0);
    if (made != cudaSuccess) failed = cudaGetErrorString(made);
  }
  if (graph) cudaGraphDestroy(graph);
  if (!failed.empty())
    throw RunFailed(
        fmt::format("cannot capture this run as a CUDA graph: {}; run it without --graph", failed));
  require(cudaGraphUpload(graph_, origin), "uploading the graph");
  require(cudaStreamSynchronize(origin), "uploading the graph");
}

}  // namespace ringsched::cuda
