#include "ringsched/runtime/session.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backend.hpp"
#include "kept_runs.hpp"
#include "remains.hpp"
#include "ringsched/runtime/link_bench.hpp"
#include "ringsched/runtime/stolen_time.hpp"
#include "ringsched/scheduler/words.hpp"
#include "together.hpp"

namespace ringsched {

using namespace std::chrono_literals;

bool Measured::holds() const {
  return std::all_of(checked.begin(), checked.end(),
                     [](const CheckedResults& c) { return c.holds(); });
}

// What a run consists of. It is asked for its remains when the run fails, so it outlives the
// failure.
struct Session::Job {
  explicit Job(const Plan& plan, const RunOptions& o) : inputs(plan.problem, o.seed, o.inputs) {}

  Inputs inputs;
  std::vector<WorkerId> mine;
  std::unique_ptr<RunBackend> backend;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Execution> execution;
  std::unique_ptr<Remains> remains;
  Execution::Hung hung;
};

Session::Session(const JoinOptions& join, const RunOptions& options, const Launch& launch,
                 World& world, Control& control, Watchdog& watchdog, End& end, Announce announce)
    : join_(join),
      options_(options),
      launch_(launch),
      world_(world),
      control_(control),
      watchdog_(watchdog),
      end_(end),
      announce_(std::move(announce)) {}

Session::~Session() = default;

void Session::stage(std::string_view what, bool shown) {
  if (announce_ && shown) announce_(what);
}

bool Session::agrees(const Facts& facts, const Plan& plan) {
  const std::uint32_t workers = plan.problem.workers;
  watchdog_.waits("waiting for the plans of the other processes");
  std::string wrong = disagreement(world_, facts);
  if (wrong.empty() && world_.size() > workers)
    wrong = fmt::format("{} processes for {}; use at most one process per worker", world_.size(),
                        counted(workers, "worker"));
  if (wrong.empty()) return true;
  refused_ = true;
  refuse_together(world_, end_, wrong);
  return false;
}

// Makes all that the runs need, and runs what devices do once.
void Session::begin(const Plan& plan) {
  const std::uint32_t workers = plan.problem.workers;
  watchdog_.starts("planning its memory and making its inputs");
  job_ = std::make_unique<Job>(plan, options_);
  Job& job = *job_;
  for (std::uint32_t w = 0; w < workers; ++w)
    if (world_.rank_of({w}, workers) == world_.rank()) job.mine.push_back({w});
  CudaOptions cuda;
  cuda.check_finite = options_.check_finite;
  cuda.graph = options_.backend.graph;
  cuda.seed = options_.seed;
  cuda.inputs = options_.inputs;
  watchdog_.waits("joining the other processes");
  job.backend = std::make_unique<RunBackend>(options_.backend, join_, launch_, plan, job.mine,
                                             control_, world_, cuda);
  job.transport = job.backend->transport(options_.deadline);
  watchdog_.starts("planning its memory and making its inputs");
  stage("making the inputs", plan.problem.tokens.value * plan.problem.heads > 100'000);
  job.execution = std::make_unique<Execution>(
      plan, job.mine,
      [&](WorkerId w, std::span<const TaskId> tasks) { return job.backend->device(w, tasks); },
      *job.transport, control_,
      [&](const InitialTensor& t, std::span<std::byte> out) {
        if (t.kind == TensorKind::Partial)
          fill_forward_result(plan, job.inputs, t, out);
        else
          job.inputs.fill(t.kind, plan.layout, plan.regions[t.region.value], out);
      });
  job.execution->name_processes([this, workers](WorkerId w) { return world_.rank_of(w, workers); });
  job.hung = [this](const std::string& why) { end_.now(why); };
  job.remains = std::make_unique<Remains>(world_, plan, options_.timeline);
  end_.finally([&job](const std::string& why) { job.remains->leave(why); });
  stage("getting ready", first());
  watchdog_.runs();
  job.execution->rehearse(options_.deadline, job.hung);
  stage("");
}

Timeline Session::run_once(const Plan& plan, ClockLine& clock, Measured& m) {
  Execution& execution = *job_->execution;
  watchdog_.waits("waiting for the other processes");
  // Rank 0 says when it begins, by its own clock.
  const std::int64_t begin =
      (Clock::now().time_since_epoch() + execution.lead() + 10ms * (world_.size() > 1)).count();
  const std::string agreed = world_.gather(std::to_string(begin))[0];
  watchdog_.runs();
  clock.before = clock.after;
  const std::int64_t zero = std::stoll(agreed) - clock.before.offset;
  job_->remains->run_of(execution, Clock::time_point{Clock::duration(zero)});
  execution.run(Clock::time_point{Clock::duration(zero)}, options_.deadline, job_->hung);
  Timeline own = timeline_of(plan, TimelineSource::Measured, "this machine");
  execution.add_times(own);
  watchdog_.waits("waiting for the times of the other processes");
  clock.after = world_.read_clock();
  Joined all = joined(world_, plan, own, clock, zero);
  m.clock_error = std::max(m.clock_error, all.clock_error);
  m.clock_drift = std::max(m.clock_drift, all.clock_drift);
  return std::move(all.timeline);
}

Measured Session::measure(const Plan& plan) {
  begin(plan);
  Execution& execution = *job_->execution;
  Measured m;
  m.where = job_->backend->where();
  for (const Bytes b : execution.memory().size) m.memory = std::max(m.memory, b);
  m.launch = launch_;
  m.launch.size = world_.size();
  m.transport = world_.name();
  watchdog_.waits("waiting for the other processes");
  ClockLine clock;
  clock.after = world_.read_clock();
  if (world_.size() > 1 && options_.backend.name == "cpu") m.sharing = processes_here(world_);
  const StolenTime stolen;
  KeptRuns runs(options_.repeats, options_.fastest);
  for (std::int64_t r = 0; r < options_.repeats; ++r) {
    stage(fmt::format("run {} of {}", r + 1, options_.repeats), first());
    runs.add(run_once(plan, clock, m));
  }
  m.stolen = stolen.share();
  if (options_.check) {
    stage("checking the numbers", first());
    execution.fetch_results();
    m.checked = checked(world_, watchdog_, plan, job_->inputs, execution,
                        {options_.check_rows, options_.seed});
  }
  stage("");
  m.kernels = job_->backend->kernels();
  m.in_turns = job_->backend->in_turns();
  m.fastest = options_.fastest;
  m.makespans = runs.makespans();
  m.median = runs.median();
  m.timeline = runs.take();
  m.times = run_times(m.timeline);
  job_->remains->all_ended();
  return m;
}

void Session::leave() {
  if (refused_) return;  // they have parted
  watchdog_.waits("taking leave of the other processes");
  world_.leave();
}

int in_session(const JoinOptions& join, const RunOptions& options, Session::Announce announce,
               const std::function<int(Session&)>& body, const std::function<void()>& report) {
  const Launch launch = launched_by(join.launch);
  Control control;
  const Interruptible interruptible(control);
  End end(control, launch);
  Watchdog watchdog(control, end, options.deadline);  // outlives the world, whose end may hang
  watchdog.waits("looking for the other processes");
  std::unique_ptr<World> world = world_of(join, launch, options.deadline, control);
  int code = 0;
  {
    Session session(join, options, launch, *world, control, watchdog, end, std::move(announce));
    try {
      end.finally([&](const std::string& why) { world->last_words({why, {}, false}); });
      code = body(session);
      session.leave();
    } catch (...) {
      // While the job is there to say what is left of it.
      if (world->size() > 1 || session.measuring()) give_up(*world, control, end);
      throw;
    }
    end.finally({});
  }
  watchdog.waits("taking leave of the other processes");
  const bool first = world->rank() == 0;
  world.reset();
  watchdog.works("writing");
  if (first) report();
  return code;
}

}  // namespace ringsched
