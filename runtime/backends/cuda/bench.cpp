#include "backends/cuda/bench.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "backends/cuda/fill.hpp"
#include "backends/cuda/gate_opener.hpp"
#include "backends/cuda/kernels.hpp"
#include "ringsched/scheduler/builder.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched::cuda {

Plan bench_plan(const Problem& p) { return build_plan(p, find_schedule("ring")); }

TaskId first_task(const Plan& plan, TaskKind kind, ValueId makes) {
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    if (t.kind == kind && plan.value(t) == makes && t.worker_index == 0) return {id};
  }
  throw RunFailed("a plan to be measured lacks its task");
}

Bench::Bench(Gpu& gpu, std::uint32_t place, const Plan& plan, bool narrow)
    : gpu_(gpu),
      place_(place),
      plan_(plan),
      lowering_(
          plan, {{0}}, [&gpu](const Shape& s) { return gpu.library().refusal(s); }, narrow),
      memory_(plan_memory(plan)),
      block_(memory_.size[0].value),
      scratch_(lowering_.scratch_bytes({0})),
      workspace_(gpu.library().workspace_bytes()),
      library_(std::make_unique<Library::Caller>(gpu.library(), stream(), workspace_.get())) {}

const std::int32_t* Bench::positions(Region region) {
  positions_.push_back(on_gpu(positions_of(plan_.layout, region), "writing positions"));
  return positions_.back().get<std::int32_t>();
}

const std::vector<DeviceCall>& Bench::calls(TaskId id) {
  const auto [at, is_new] = calls_.try_emplace(id.value);
  if (!is_new) return at->second;
  const Task& task = plan_.tasks[id.value];
  const auto place = [&](TensorId t) { return block_.get() + memory_.offset[t.value]; };
  Operands operands;
  for (std::size_t i = 0; i < task.inputs.size(); ++i)
    if (task.inputs[i].valid()) operands.inputs[i] = place(task.inputs[i]);
  for (std::uint32_t n = 0; n < outputs_of(task.kind); ++n)
    operands.outputs[n] = place(plan_.output(id, n));
  Surroundings around;
  around.scratch = scratch_.get();
  around.positions = [this](Region r) { return positions(r); };
  around.mask = mask_view(plan_.problem.mask);
  return at->second = lowering_.calls(id, operands, around);
}

void Bench::perform(TaskId id) {
  for (const DeviceCall& call : calls(id))
    if (!library_->call(call)) launch(call, stream(), gpu_.multiprocessors(place_));
}

void Bench::perform_library(TaskId id) {
  for (const DeviceCall& call : calls(id)) library_->call(call);
}

void Bench::come_to(TaskId task) {
  for (std::uint32_t t = 0; t < plan_.initial.size(); ++t) {
    const InitialTensor& tensor = plan_.initial[t];
    for (const FillInputs& fill : fills_of(plan_, tensor, 1, InputKind::Normal,
                                           positions(plan_.regions[plan_.piece(tensor).rows.value]),
                                           block_.get() + memory_.offset[t]))
      launch(fill, stream(), gpu_.multiprocessors(place_));
  }
  for (std::uint32_t id = 0; id < task.value; ++id) perform({id});
  require(cudaStreamSynchronize(stream()), "coming to a task");
}

void Bench::fill_all() {
  Problem p = plan_.problem;
  p.dtype = Dtype::Fp32;
  p.heads = 1;
  p.head_dim = 64;
  const std::int64_t rows = memory_.size[0].value / (64 * 4);
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int32_t>(i);
  const DeviceMemory positions = on_gpu(numbers, "writing positions");
  launch(fill_inputs(p, 1, InputKind::Normal, Matrix::Query, positions.get<std::int32_t>(), rows,
                     block_.get()),
         stream(), gpu_.multiprocessors(place_));
  require(cudaStreamSynchronize(stream()), "filling memory");
}

namespace {

// Of each stream for one call, when it makes this many.
std::vector<double> measured(const std::vector<cudaStream_t>& streams,
                             const std::function<void(std::size_t)>& work, int times) {
  Gate gate;
  std::vector<Event> begins(streams.size()), ends(streams.size());
  try {
    gate.close();
    GateOpener opener([&gate] { gate.open(); });
    for (std::size_t i = 0; i < streams.size(); ++i) {
      gate.hold(streams[i]);
      require(cudaEventRecord(begins[i].get(), streams[i]), "recording an event");
    }
    for (int t = 0; t < times; ++t)
      for (std::size_t i = 0; i < streams.size(); ++i) work(i);
    for (std::size_t i = 0; i < streams.size(); ++i)
      require(cudaEventRecord(ends[i].get(), streams[i]), "recording an event");
    opener.open();
  } catch (...) {
    gate.open();
    cudaDeviceSynchronize();
    throw;
  }
  require(cudaDeviceSynchronize(), "measuring");
  std::vector<double> out;
  for (std::size_t i = 0; i < streams.size(); ++i)
    out.push_back(1e-3 * static_cast<double>(milliseconds(begins[i], ends[i])) / times);
  return out;
}

}  // namespace

namespace {

// A stream's queue holds no more behind a gate.
int times_for(double seconds, double each) {
  return std::clamp(static_cast<int>(seconds / std::max(each, 1e-6)), 2, 25);
}

double longest(const std::vector<double>& seconds) {
  return *std::max_element(seconds.begin(), seconds.end());
}

constexpr double kEnough = 0.015;  // seconds

}  // namespace

// After each measurement the GPU rests for twice as long. An H100 that works without a pause
// exceeds its power limit within 50 ms, and then lowers its clock: what is measured would depend on
// what was measured before.
std::vector<double> seconds_together(const std::vector<cudaStream_t>& streams,
                                     const std::function<void(std::size_t)>& work) {
  for (std::size_t i = 0; i < streams.size(); ++i) work(i);  // loads what it needs
  require(cudaDeviceSynchronize(), "measuring");
  const std::vector<double> first = measured(streams, work, 1);
  const int times = times_for(kEnough, longest(first));
  std::vector<double> out = measured(streams, work, times);
  std::this_thread::sleep_for(std::chrono::duration<double>(2 * times * longest(out)));
  return out;
}

double load_slowdown(const std::vector<cudaStream_t>& streams,
                     const std::function<void(std::size_t)>& work) {
  constexpr double until_steady = 0.6;  // seconds
  const double at_first = longest(seconds_together(streams, work));
  const int times = times_for(kEnough, at_first);
  double spent = 0, last = at_first;
  for (; spent < until_steady; spent += times * last)
    last = longest(measured(streams, work, times));
  return last / at_first;
}

}  // namespace ringsched::cuda
