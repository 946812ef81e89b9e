#include "ringsched/runtime/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "answers.hpp"
#include "backend.hpp"
#include "clock_fit.hpp"
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

// The parts of a run. A failed run asks for its remains, so it outlives the failure.
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

Session::Session(Meeting& meeting, const RunOptions& options, Announce announce)
    : meeting_(meeting), options_(options), announce_(std::move(announce)) {}

void Session::stage(std::string_view what, bool shown) {
  if (announce_ && shown) announce_(what);
}

bool Session::agrees(const Facts& facts, const Plan& plan) {
  const std::uint32_t workers = plan.problem.workers, processes = meeting_.world.size();
  meeting_.watchdog.waits("waiting for the plans of the other processes");
  std::string wrong = disagreement(meeting_.world, facts);
  if (wrong.empty() && processes > workers)
    wrong = fmt::format("{} processes for {}; use at most one process per worker", processes,
                        counted(workers, "worker"));
  if (!wrong.empty()) meeting_.refuse(wrong);
  return wrong.empty();
}

// Makes everything that the runs need, and runs the devices' first-use step.
void Session::begin(const Plan& plan) {
  const std::uint32_t workers = plan.problem.workers;
  World& world = meeting_.world;
  Watchdog& watchdog = meeting_.watchdog;
  watchdog.starts("planning memory and making inputs");
  meeting_.work = job_ = std::make_shared<Job>(plan, options_);
  Job& job = *job_;
  for (std::uint32_t w = 0; w < workers; ++w)
    if (world.rank_of({w}, workers) == world.rank()) job.mine.push_back({w});
  CudaOptions cuda;
  cuda.check_finite = options_.check_finite;
  cuda.graph = options_.backend.graph;
  cuda.seed = options_.seed;
  cuda.inputs = options_.inputs;
  watchdog.waits("joining the other processes");
  job.backend = std::make_unique<RunBackend>(options_.backend, meeting_.join, meeting_.launch, plan,
                                             job.mine, meeting_.control, world, cuda);
  job.transport = job.backend->transport(options_.deadline);
  watchdog.starts("planning memory and making inputs");
  stage("making the inputs", plan.problem.tokens.value * plan.problem.heads > 100'000);
  job.execution = std::make_unique<Execution>(
      plan, job.mine,
      [&](WorkerId w, std::span<const TaskId> tasks) { return job.backend->device(w, tasks); },
      *job.transport, meeting_.control,
      [&](const InitialTensor& t, std::span<std::byte> out) {
        if (plan.piece(t).value == attention::kPartial)
          fill_forward_result(plan, job.inputs, t, out);
        else
          job.inputs.fill(plan, t, out);
      });
  job.execution->name_processes(
      [&world, workers](WorkerId w) { return world.rank_of(w, workers); });
  job.hung = [&end = meeting_.end](const std::string& why) { end.now(why); };
  job.remains = std::make_unique<Remains>(
      world, timeline_of(plan, job.backend->source(), job.backend->machine()), plan,
      options_.timeline);
  meeting_.end.finally([&job](const std::string& why, int code) { job.remains->leave(why, code); });
  stage("getting ready", first());
  watchdog.runs();
  job.execution->rehearse(options_.deadline, job.hung);
  stage("");
}

namespace {

// Steady clocks do not jump: a jump would make every time of the run meaningless.
ClockReading read_clock(World& world) {
  const ClockReading reading = world.read_clock();
  if (reading.error > kClockSlack.count())
    throw RunFailed("process 0 sent times of its clock that cannot be read");
  return reading;
}

}  // namespace

Timeline Session::run_once(const Plan& plan, ClockLine& clock, Measured& m) {
  Execution& execution = *job_->execution;
  meeting_.watchdog.waits("waiting for the other processes");
  // Rank 0 says when it begins, by its own clock.
  const std::int64_t begin =
      (Clock::now().time_since_epoch() + execution.lead() + 10ms * (meeting_.world.size() > 1))
          .count();
  AnswerReader agreed = std::move(
      gather_answers(meeting_.world, AnswerWriter().whole(begin).bytes(), "a start time")[0]);
  meeting_.watchdog.runs();
  clock.before = clock.after;
  // Process 0 announced it no longer ago than this process has waited, and nobody waits longer.
  const std::int64_t now = steady_now() + clock.before.offset,
                     most = (execution.lead() + options_.deadline + kClockSlack).count();
  const std::int64_t zero = agreed.whole(now - most, now + most) - clock.before.offset;
  agreed.end();
  job_->remains->run_of(execution, Clock::time_point{Clock::duration(zero)});
  execution.run(Clock::time_point{Clock::duration(zero)}, options_.deadline, job_->hung);
  Timeline own = timeline_of(plan, job_->backend->source(), job_->backend->machine());
  execution.add_times(own);
  meeting_.watchdog.waits("waiting for the times of the other processes");
  clock.after = read_clock(meeting_.world);
  if (std::abs(clock.after.offset - clock.before.offset) > kClockSlack.count())
    throw RunFailed("the clock of process 0 jumped during the run");
  Joined all = joined(meeting_.world, plan, own, clock, zero);
  m.clock_error = std::max(m.clock_error, all.clock_error);
  m.clock_drift = std::max(m.clock_drift, all.clock_drift);
  return std::move(all.timeline);
}

namespace {

// A GPU that works without a pause exceeds its power limit after about 50 ms, and then lowers its
// clock. So runs would depend on those before them.
void let_it_cool(Picoseconds makespan) {
  using std::chrono::nanoseconds;
  std::this_thread::sleep_for(
      std::min<nanoseconds>(nanoseconds(2 * (makespan.value / 1000)), std::chrono::seconds(2)));
}

}  // namespace

Measured Session::measure(const Plan& plan) {
  begin(plan);
  Execution& execution = *job_->execution;
  Measured m;
  m.where = job_->backend->where();
  for (const Bytes b : execution.memory().size) m.memory = std::max(m.memory, b);
  m.launch = meeting_.launch;
  m.launch.size = meeting_.world.size();
  m.transport = meeting_.world.name();
  meeting_.watchdog.waits("waiting for the other processes");
  ClockLine clock;
  clock.after = read_clock(meeting_.world);
  if (meeting_.world.size() > 1 && options_.backend.name == "cpu")
    m.sharing = processes_here(meeting_.world);
  const StolenTime stolen;
  KeptRuns runs(options_.repeats, options_.fastest);
  for (std::int64_t r = 0; r < options_.repeats; ++r) {
    const std::string name = fmt::format("run {} of {}", r + 1, options_.repeats);
    if (meeting_.first())
      execution.tell_progress([this, name](double ended) {
        stage(fmt::format("{}: {:.0f}% of the tasks have ended", name, 100 * ended));
      });
    stage(name, first());
    if (r > 0 && options_.backend.name == "cuda") let_it_cool(runs.makespans().back());
    runs.add(run_once(plan, clock, m));
  }
  m.stolen = stolen.share();
  if (options_.check) {
    stage("checking the numbers", first());
    execution.fetch_results();
    m.checked = checked(meeting_.world, meeting_.watchdog, plan, job_->inputs, execution,
                        {options_.check_rows, options_.seed});
  }
  stage("");
  m.kernels = job_->backend->kernels();
  m.exchanges = job_->transport->exchanges();
  m.in_turns = job_->backend->in_turns();
  m.fastest = options_.fastest;
  m.makespans = runs.makespans();
  m.median = runs.median();
  m.timeline = runs.take();
  m.times = run_times(m.timeline);
  job_->remains->all_ended();
  return m;
}

int in_session(const JoinOptions& join, const RunOptions& options, Session::Announce announce,
               const std::function<int(Session&)>& body, const std::function<void()>& report) {
  return meet(
      join, options.deadline,
      [&](Meeting& meeting) {
        Session session(meeting, options, std::move(announce));
        return body(session);
      },
      report);
}

}  // namespace ringsched
