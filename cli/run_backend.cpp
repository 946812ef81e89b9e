#include "run_backend.hpp"

#include <fmt/format.h>

#include "cuda_module.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

void BackendFlags::add_to(CLI::App& app) {
  app.add_option("--backend", name, "cpu, or cuda: NVIDIA GPUs (cpu)")->type_name("NAME");
  app.add_flag("--graph", graph, "cuda: capture the run once as a graph, and launch\nthat");
}

void BackendFlags::check() const {
  if (name != "cpu" && name != "cuda") fail("--backend is '{}', allowed are cpu and cuda", name);
  if (graph && name != "cuda") fail("--graph is for --backend cuda");
}

RunBackend::RunBackend(const BackendFlags& flags, const Plan& plan,
                       const std::vector<WorkerId>& mine, Control& control, const World& world,
                       const CudaOptions& options)
    : plan_(plan), control_(control), finite_(options.check_finite) {
  if (flags.name == "cuda") {
    if (world.size() > 1)
      fail("--backend cuda runs in one process, and {} were started", world.size());
    const auto make =
        reinterpret_cast<MakeCudaBackend>(cuda_function("ringsched_make_cuda_backend"));
    cuda_.reset(make(plan, mine, control, options));
    return;
  }
  const unsigned cores = usable_cores();
  if (mine.size() >= cores) gate_ = make_core_gate(cores, control);
}

std::unique_ptr<Device> RunBackend::device(WorkerId w) {
  return cuda_ ? cuda_->device(w) : make_cpu_device(plan_, w, control_, {finite_, gate_});
}

std::unique_ptr<Transport> RunBackend::transport(World& world) {
  return cuda_ ? cuda_->transport() : world.transport(plan_, control_);
}

std::string RunBackend::where(const World& world) const {
  if (cuda_) return cuda_->where();
  return fmt::format(
      "this machine: {}, {}; {} {}", counted(usable_cores(), "core"),
      cpu_instructions(plan_.problem.dtype), counted(plan_.problem.workers, "worker"),
      world.size() == 1 ? "as threads" : fmt::format("in {} processes, through MPI", world.size()));
}

}  // namespace ringsched
