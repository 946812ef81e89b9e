// A plan on the GPUs of this process: its streams, what is submitted to them, and the resulting
// times.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "backends/cuda/gpu.hpp"
#include "backends/cuda/lowering.hpp"
#include "backends/cuda/stream_plan.hpp"
#include "ringsched/runtime/cuda_backend.hpp"

namespace ringsched::cuda {

class GpuRun final : public CudaBackend {
 public:
  GpuRun(const Plan&, std::vector<WorkerId> mine, Control&, const CudaOptions&);
  ~GpuRun() override;

  std::unique_ptr<Device> device(WorkerId) override;
  std::unique_ptr<Transport> transport() override;
  std::string where() const override;
  std::string kernels() const override;

 private:
  class WorkerDevice;
  // What a worker has.
  struct Worker {
    Gpu* gpu = nullptr;
    std::uint32_t place = 0;  // among those of its GPU
    DeviceMemory block, scratch, workspace;
    std::unique_ptr<Library::Caller> library;
  };

  void choose_gpus();
  void require_room();
  bool fill(WorkerId, const InitialTensor&, std::byte* to);
  const std::int32_t* positions(const Gpu&, Region);
  Surroundings surroundings(const Worker&);

  // Of one worker; the last one does it for all.
  void rehearse();
  void rehearsed();
  void start(Clock::time_point zero);
  bool last_of_all();
  void prepare();
  void reset();
  void submit(Clock::time_point zero);
  void capture();
  void open_gates();
  void submit_op(std::uint32_t lane, std::uint32_t number);
  void compute(const Worker&, cudaStream_t, const std::vector<DeviceCall>&);
  void copy_message(const Op&, cudaStream_t);
  bool finished(WorkerId);
  void look_for_what_is_not_finite();
  std::int64_t since_zero(WorkerId, const Event&) const;
  TaskTime time_of(TaskId) const;
  LaneState state(WorkerId, Lane) const;

  Worker& worker_of(std::uint32_t lane) { return workers_[numbers_.worker(lane).value]; }
  cudaStream_t stream(WorkerId w, Lane lane) const {
    return workers_[w.value].gpu->stream(workers_[w.value].place, lane);
  }
  cudaStream_t stream(std::uint32_t lane) const {
    return stream(numbers_.worker(lane), numbers_.lane(lane));
  }
  std::size_t index_of(const Gpu& gpu) const {
    return static_cast<std::size_t>(&gpu - gpus_.data());
  }

  const Plan& plan_;
  const LaneNumbers numbers_;
  const std::vector<WorkerId> mine_;
  Control& control_;
  const CudaOptions options_;
  std::vector<Gpu> gpus_;
  std::vector<Worker> workers_;  // by WorkerId
  std::unique_ptr<Lowering> lowering_;
  StreamPlan streams_;
  std::vector<std::unique_ptr<Gate>> gates_;  // by GPU; a run begins when they open
  std::vector<DeviceMemory> bounds_;          // by GPU: of documents
  std::vector<DeviceMemory> not_finite_;      // by GPU
  std::map<std::tuple<std::size_t, std::uint32_t, std::uint32_t>, DeviceMemory> positions_;
  std::mutex guard_;  // of the above
  std::size_t called_ = 0;
  bool prepared_ = false, failed_ = false, looked_ = false, capturing_ = false;
  std::vector<Submitted> order_;
  std::vector<std::vector<DeviceCall>> calls_;       // by TaskId
  std::vector<std::optional<Event>> begins_, ends_;  // with times, by the first task of a group
  std::vector<std::optional<Event>> events_;  // for waiting, if those with times do not serve
  std::vector<TaskId> front_;                 // the first task of the group of each
  std::vector<std::string> names_;
  std::chrono::nanoseconds late_{0};        // from when it was to begin to when it did
  std::chrono::nanoseconds submitting_{0};  // how long that took in the rehearsal
  cudaGraphExec_t graph_ = nullptr;
  std::optional<Event> graph_zero_;  // when the graph begins
};

}  // namespace ringsched::cuda
