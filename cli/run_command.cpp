#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "launch_flags.hpp"
#include "machine_flags.hpp"
#include "measurement.hpp"
#include "outputs.hpp"
#include "problem_flags.hpp"
#include "ringsched/runtime/agreement.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/execution.hpp"
#include "ringsched/runtime/link_bench.hpp"
#include "ringsched/runtime/stolen_time.hpp"
#include "ringsched/runtime/world.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/simulator/predicted_timeline.hpp"
#include "run_backend.hpp"
#include "run_ending.hpp"
#include "run_remains.hpp"
#include "run_world.hpp"
#include "stage.hpp"
#include "terminal.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

using namespace std::chrono_literals;

struct RunCommand {
  ProblemFlags problem;
  MachineFlags machine;
  JoinFlags join;
  BackendFlags backend;
  std::string plan_file, repeat = "3", take = "middle", deadline = "600", inputs = "normal",
                         seed = "1";
  std::string check_rows;
  OutputFlags outputs;
  bool check = false, finite = false, no_chart = false;
  Format format = Format::Text;
};

std::int64_t count(const std::string& text, const char* flag, std::int64_t least,
                   std::int64_t most) {
  const std::int64_t n = parse_count(text, flag);
  if (n < least || n > most) fail("{} is {}, allowed are {} to {}", flag, text, least, most);
  return n;
}

struct Asked {
  std::int64_t repeats = 0, rows = 0;
  std::chrono::seconds deadline{};
  InputKind inputs{};
  std::uint64_t seed = 0;
  OutputKinds kinds;
};

// What all processes must have alike, the most telling first: what was meant, not how it was
// written.
Facts facts_of(const RunCommand& c, const Asked& a, const Plan& plan, const World& world) {
  const Problem& p = plan.problem;
  const bool nccl = c.backend.name == "cuda" && world.size() > 1;
  return {{"the version", RINGSCHED_VERSION},
          {"the version of NCCL", nccl ? nccl_version() : "none"},
          {"the transport", world.name()},
          {"the device", c.backend.name},
          {"the dtype", std::string(to_text(p.dtype))},
          {"the problem", described(p)},
          {"the workers", std::to_string(p.workers)},
          {"the schedule", plan.schedule},
          {"the plan's hash", plan_hash(plan)},
          {"--inputs", c.inputs},
          {"--seed", std::to_string(a.seed)},
          {"--repeat", std::to_string(a.repeats)},
          {"--check", !c.check      ? "no"
                      : a.rows == 0 ? "yes"
                                    : fmt::format("{} rows", a.rows)},
          {"--check-finite", c.finite ? "yes" : "no"}};
}

Asked asked(const RunCommand& c) {
  Asked a;
  a.repeats = count(c.repeat, "--repeat", 1, 10'000);
  if (c.take != "middle" && c.take != "fastest")
    fail("--take is '{}', allowed are middle and fastest", c.take);
  a.deadline = std::chrono::seconds{count(c.deadline, "--deadline", 1, 1'000'000)};
  if (!c.check_rows.empty()) {
    if (!c.check) fail("--check-rows says how many rows --check looks at; add --check");
    a.rows = count(c.check_rows, "--check-rows", 1, 1'000'000'000);
  }
  a.inputs = parse_input_kind(c.inputs);
  a.seed = static_cast<std::uint64_t>(count(c.seed, "--seed", 0, INT64_MAX));
  c.join.check(c.backend.name == "cuda");
  c.backend.check(c.join.transport);
  a.kinds = c.outputs.check({c.plan_file, c.machine.file()});
  if (!c.machine.given() && !c.machine.figures().empty())
    fail("{}: that describes a machine to predict for; add --machine", c.machine.figures());
  if (!c.plan_file.empty()) c.problem.refuse_beside(c.plan_file);
  return a;
}

// What a run consists of: it is asked for its remains when it fails, so it outlives its failure.
struct Job {
  std::unique_ptr<RunBackend> backend;
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Execution> execution;
  std::unique_ptr<Remains> remains;
};

void measure(const RunCommand& c, const Asked& a, const ProvedPlan& proved,
             const Prediction* prediction, World& world, const Launch& launch, Control& control,
             Watchdog& watchdog, End& end, Job& job, ExitCode& code) {
  const Plan& plan = proved.plan;
  const std::uint32_t workers = plan.problem.workers;
  watchdog.works("making its inputs");
  const Inputs inputs(plan.problem, a.seed, a.inputs);
  std::vector<WorkerId> mine;
  Bytes memory;
  for (std::uint32_t w = 0; w < workers; ++w)
    if (world.rank_of({w}, workers) == world.rank()) mine.push_back({w});
  CudaOptions options;
  options.check_finite = c.finite;
  options.graph = c.backend.graph;
  options.seed = a.seed;
  options.inputs = a.inputs;
  watchdog.waits("joining the other processes");
  job.backend =
      std::make_unique<RunBackend>(c.backend, c.join, launch, plan, mine, control, world, options);
  RunBackend& backend = *job.backend;
  job.transport = backend.transport(a.deadline);
  watchdog.works("making its inputs");
  std::unique_ptr<Execution>& execution = job.execution;
  {
    const Stage stage("making the inputs",
                      plan.problem.tokens.value * plan.problem.heads > 100'000);
    execution = std::make_unique<Execution>(
        plan, mine, [&](WorkerId w) { return backend.device(w); }, *job.transport, control,
        [&](const InitialTensor& t, std::span<std::byte> out) {
          if (t.kind == TensorKind::Partial)
            fill_forward_result(plan, inputs, t, out);
          else
            inputs.fill(t.kind, plan.layout, plan.regions[t.region.value], out);
        });
  }
  for (const Bytes b : execution->memory().size) memory = std::max(memory, b);
  execution->name_processes([&world, workers](WorkerId w) { return world.rank_of(w, workers); });
  const auto hung = [&](const std::string& why) { end.now(why); };
  job.remains = std::make_unique<Remains>(world, plan, c.outputs.timeline());
  end.finally([&job](const std::string& why) { job.remains->leave(why); });
  {
    const Stage stage("getting ready", world.rank() == 0);
    watchdog.runs();
    execution->rehearse(a.deadline, hung);
  }
  watchdog.waits("waiting for the other processes");
  ClockLine clock;
  clock.after = world.read_clock();
  std::vector<Timeline> runs;
  Measurement m{proved, backend.where(), {}, {}, {}, memory, {}, prediction};
  m.launch = launch;
  m.launch.size = world.size();
  m.transport = world.name();
  if (world.size() > 1 && c.backend.name == "cpu") m.sharing = processes_here(world);
  const StolenTime stolen;
  for (std::int64_t r = 0; r < a.repeats; ++r) {
    const Stage stage(fmt::format("run {} of {}", r + 1, a.repeats), world.rank() == 0);
    watchdog.waits("waiting for the other processes");
    // Rank 0 says when it begins, by its own clock.
    const std::int64_t begin =
        (Clock::now().time_since_epoch() + execution->lead() + 10ms * (world.size() > 1)).count();
    const std::string agreed = world.gather(std::to_string(begin))[0];
    watchdog.runs();
    clock.before = clock.after;
    const std::int64_t zero = std::stoll(agreed) - clock.before.offset;
    job.remains->run_of(*execution, Clock::time_point{Clock::duration(zero)});
    execution->run(Clock::time_point{Clock::duration(zero)}, a.deadline, hung);
    Timeline t = timeline_of(plan, TimelineSource::Measured, "this machine");
    execution->add_times(t);
    watchdog.waits("waiting for the times of the other processes");
    clock.after = world.read_clock();
    Joined all = joined(world, plan, t, clock, zero);
    runs.push_back(std::move(all.timeline));
    m.clock_error = std::max(m.clock_error, all.clock_error);
    m.clock_drift = std::max(m.clock_drift, all.clock_drift);
  }
  m.stolen = stolen.share();
  std::vector<CheckedResults> numbers;
  if (c.check) {
    const Stage stage("checking the numbers", world.rank() == 0);
    execution->fetch_results();
    numbers = checked(world, watchdog, plan, inputs, *execution, {a.rows, a.seed});
  }
  m.checked = std::move(numbers);
  m.kernels = backend.kernels();
  m.in_turns = backend.in_turns();
  for (const Timeline& t : runs) m.makespans.push_back(t.makespan());
  std::sort(runs.begin(), runs.end(),
            [](const Timeline& x, const Timeline& y) { return x.makespan() < y.makespan(); });
  m.fastest = c.take == "fastest";
  m.timeline = std::move(runs[m.fastest ? 0 : runs.size() / 2]);
  m.times = run_times(m.timeline);
  if (!m.holds()) code = 1;
  if (world.rank() != 0) return;
  watchdog.works("writing");
  job.remains->all_ended();
  const bool text = c.format == Format::Text;
  fmt::print("{}", text ? measurement_text(m) : measurement_json(m));
  if (text && !c.no_chart && workers <= kChartWorkers)
    fmt::print("\n{}", terminal_chart(m.timeline));
  std::fflush(stdout);  // before a file that cannot be written ends it
  if (c.outputs.any()) {
    std::vector<Timeline> shown;
    if (prediction) {
      shown.push_back(predicted_timeline(prediction->study.workload, prediction->study.run,
                                         prediction->study.setup.machine,
                                         prediction->study.report.path_steps));
      shown.back().conditions = described(prediction->study.conditions, c.machine.figures());
    }
    shown.push_back(m.timeline);
    const std::string written = c.outputs.write(a.kinds, plan, shown);
    if (text) fmt::print("\n{}", written);
  }
}

void run_in(World& world, const RunCommand& c, const Asked& a, const Launch& launch,
            Control& control, Watchdog& watchdog, End& end, ExitCode& code) {
  watchdog.works("proving its plan");
  const ProvedPlan proved = c.plan_file.empty() ? proved_plan(c.problem) : proved_plan(c.plan_file);
  const std::uint32_t workers = proved.plan.problem.workers;
  std::unique_ptr<Prediction> prediction;
  if (c.machine.given()) {
    const Machine machine = c.machine.machine();
    const double diagonal = c.machine.diagonal();
    if (world.rank() > 0)
      price(proved.plan, machine, diagonal);  // refuses what the first process does
    else
      prediction = std::make_unique<Prediction>(
          predict(proved, c.machine.setup(machine, workers), diagonal, c.machine.figures(machine)));
  }
  watchdog.waits("waiting for the plans of the other processes");
  std::string wrong = disagreement(world, facts_of(c, a, proved.plan, world));
  if (wrong.empty() && world.size() > workers)
    wrong = fmt::format("{} processes for {}: at most one process for each worker", world.size(),
                        counted(workers, "worker"));
  if (!wrong.empty()) return refuse_together(world, end, wrong, code);
  Job job;
  try {
    measure(c, a, proved, prediction.get(), world, launch, control, watchdog, end, job, code);
    watchdog.waits("taking leave of the other processes");
    world.leave();
  } catch (...) {
    give_up(world, control, end);  // while the job is there to say what is left of it
  }
  end.finally({});
}

void run(const RunCommand& c, ExitCode& code) {
  const Asked a = asked(c);
  if (c.machine.given() && c.machine.machine().ideal)
    fail(
        "--machine ideal counts blocks, and a run takes seconds; ringsched calibrate makes a "
        "profile "
        "of this machine");
  const Launch launch = launched_by(c.join.launch);
  Control control;
  const Interruptible interruptible(control);
  End end(control, launch);
  Watchdog watchdog(control, end, a.deadline);  // outlives the world, whose end may hang
  watchdog.waits("looking for the other processes");
  const std::unique_ptr<World> world = world_of(c.join, launch, a.deadline, control);
  try {
    end.finally([&](const std::string& why) { world->last_words({why, {}, false}); });
    run_in(*world, c, a, launch, control, watchdog, end, code);
  } catch (...) {
    if (world->size() > 1) give_up(*world, control, end);
    throw;
  }
  end.finally({});
  watchdog.waits("taking leave of the other processes");
}

}  // namespace

void add_run_command(CLI::App& program, ExitCode& code) {
  CLI::App* app = program.add_subcommand("run", "Execute a plan for real and measure it");
  auto command = std::make_shared<RunCommand>();
  command->problem.use_small_problem();
  app->add_option("PLAN", command->plan_file,
                  "a plan file, in place of the flags that describe one")
      ->type_name("");
  command->problem.add_to(*app);
  command->backend.add_to(*app);
  command->join.add_to(*app, true);
  app->add_flag("--check", command->check, "check the numbers against double precision");
  app->add_option("--check-rows", command->check_rows,
                  "so many rows of each result, at random (all of a\nsmall problem, else 64)")
      ->type_name("N");
  app->add_flag("--check-finite", command->finite, "stop at the first number that is not finite");
  app->add_option("--inputs", command->inputs, "normal, large, equal or nan (normal)")
      ->type_name("KIND");
  app->add_option("--seed", command->seed, "of the inputs (1)")->type_name("N");
  app->add_option("--repeat", command->repeat, "run so often, and take the middle one (3)")
      ->type_name("N");
  app->add_option(
         "--take", command->take,
         "of these runs: middle, or fastest, where the machine\nhas others to serve (middle)")
      ->type_name("NAME");
  app->add_option("--deadline", command->deadline,
                  "seconds that a run may take, and each wait for other\nprocesses (600)")
      ->type_name("SECONDS");
  command->machine.add_machine_to(*app, "");
  command->outputs.add_to(*app);
  app->add_flag("--no-chart", command->no_chart, "no chart of the run below the table");
  add_format_flag(*app, command->format);
  app->callback([command, &code] { run(*command, code); });
}

}  // namespace ringsched
