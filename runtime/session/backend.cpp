#include "backend.hpp"

#include <fmt/format.h>

#include "ringsched/runtime/link_bench.hpp"
#include "ringsched/runtime/modules.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/task_name.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

void BackendOptions::require_valid(const std::string& transport) const {
  check_choice("--backend", name, {"cpu", "cuda"});
  if (graph && name != "cuda") fail("--graph is only for --backend cuda");
  if (transport == "nccl" && name != "cuda") fail("--transport nccl needs --backend cuda");
  if ((transport == "tcp" || transport == "mpi") && name == "cuda")
    fail("--transport {} needs --backend cpu; GPUs of several processes use nccl", transport);
  if (name == "cpu") cpu_instructions(Dtype::Fp32);
}

namespace {

// The GPU kernels take all heads of a tensor, and NCCL has only sends and receives.
void require_gpus_run(const Plan& plan) {
  if (plan.problem.decodes())
    fail("--backend cuda does not decode, but the plan has {}; use --backend cpu",
         counted(plan.problem.new_tokens.value, "new token"));
  const auto has_all_heads = [&](const Piece& p) {
    return p.columns == plan.program[p.value].all_columns();
  };
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    const char* const what =
        is_exchange(task.kind)             ? "exchanges (collectives), whatever --exchanges says"
        : is_repack(task.kind)             ? "exchanges (collectives), whatever --exchanges says"
        : task.kind == TaskKind::Round     ? "rounded results"
        : !has_all_heads(plan.piece(task)) ? "tasks of some heads"
                                           : nullptr;
    if (what)
      fail(
          "--backend cuda does not support {}, and the first such task of the plan is {}; use "
          "--backend cpu",
          what, name_of(plan, {id}));
  }
  for (const InitialTensor& t : plan.initial)
    if (!has_all_heads(plan.piece(t)))
      fail(
          "--backend cuda does not support tensors of some heads, but the plan has {} {} on worker "
          "{}; use "
          "--backend cpu",
          plan.name(plan.piece(t).value),
          name_of(plan.program[plan.piece(t).value].columns, plan.piece(t).columns),
          t.worker.value);
}

}  // namespace

RunBackend::RunBackend(const BackendOptions& flags, const JoinOptions& join, const Launch& launch,
                       const Plan& plan, const std::vector<WorkerId>& mine, Control& control,
                       World& world, CudaOptions options)
    : join_(join),
      launch_(launch),
      plan_(plan),
      control_(control),
      world_(world),
      finite_(options.check_finite),
      place_(launch.local_rank.value_or(0)) {
  if (flags.name == "cuda") {
    require_gpus_run(plan);
    if (world.size() > 1) {
      place_ = place_here(world, launch.local_rank);
      options.gpu = static_cast<int>(place_);
      options.shared_clock = true;
    }
    const auto make =
        reinterpret_cast<MakeCudaBackend>(cuda_function("ringsched_make_cuda_backend"));
    cuda_.reset(make(plan, mine, control, options));
    return;
  }
  const unsigned cores = usable_cores();
  in_turns_ = mine.size() > cores;
  if (mine.size() >= cores) gate_ = make_core_gate(cores, world.size() == 1, control);
}

std::unique_ptr<Device> RunBackend::device(WorkerId w, std::span<const TaskId> tasks) {
  return cuda_ ? cuda_->device(w) : make_cpu_device(plan_, w, tasks, control_, {finite_, gate_});
}

std::unique_ptr<Transport> RunBackend::transport(std::chrono::nanoseconds patience) {
  if (cuda_ && world_.size() == 1 && join_.transport != "nccl") return cuda_->transport();
  JoinOptions join = join_;
  if (cuda_) join.transport = "nccl";
  return transport_of(join, place_, world_, plan_, control_, patience);
}

// The name of such a GPU says what it is.
TimelineSource RunBackend::source() const {
  return cuda_ && cuda_->where().find("emulated GPU") != std::string::npos
             ? TimelineSource::Emulated
             : TimelineSource::Measured;
}

std::string RunBackend::machine() const {
  return source() == TimelineSource::Emulated ? "emulated GPU" : "this machine";
}

std::string RunBackend::where() const {
  const std::string processes = fmt::format("in {} processes over {} (set by {})", world_.size(),
                                            cuda_ ? "nccl" : world_.name(), set_by(launch_));
  if (cuda_) return cuda_->where() + (world_.size() == 1 ? "" : ", " + processes);
  return fmt::format("this machine: {}, {}; {} {}", counted(usable_cores(), "core"),
                     cpu_instructions(plan_.problem.dtype),
                     counted(plan_.problem.workers, "worker"),
                     world_.size() > 1            ? processes
                     : plan_.problem.workers == 1 ? "as a thread"
                                                  : "as threads");
}

}  // namespace ringsched
