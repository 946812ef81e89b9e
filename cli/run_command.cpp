#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

#include "commands.hpp"
#include "machine_flags.hpp"
#include "measurement.hpp"
#include "outputs.hpp"
#include "problem_flags.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/execution.hpp"
#include "ringsched/runtime/world.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/simulator/predicted_timeline.hpp"
#include "stage.hpp"
#include "terminal.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

using namespace std::chrono_literals;

struct RunCommand {
  ProblemFlags problem;
  MachineFlags machine;
  std::string plan_file, transport, repeat = "3", deadline = "600", inputs = "normal", seed = "1";
  std::string check_rows = "0";
  OutputFlags outputs;
  bool check = false, finite = false, no_chart = false;
  Format format = Format::Text;
};

constexpr int kBadInput = 2, kFailed = 3;  // exit codes, as in main.cpp

// How much longer than the deadline a process waits for others, so that they can say what they hang
// in.
constexpr auto kWaitsOn = 1s;
// The same for an execution that is to give up.
constexpr auto kGivesUp = 4500ms;
// How long a process that was told to end leaves the others to say what they have to say. mpirun
// kills them all a second after it has told them, and sooner if one has ended by then.
constexpr auto kOthersSpeak = 400ms;

std::atomic<Control*> running{nullptr};

void interrupt(int signal) {
  if (Control* control = running.load()) {
    control->interrupt(signal);
    return;
  }
  remove_unfinished_files();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// While it lives, signals that ask the process to end stop the run instead, which then says what
// was pending.
class Interruptible {
 public:
  explicit Interruptible(Control& control) {
    running = &control;
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction before {};  // what was to be ignored (nohup) still is
      if (::sigaction(number, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
        std::signal(number, interrupt);
    }
  }
  ~Interruptible() { running = nullptr; }
};

// How a process of a run ends that cannot go on.
class End {
 public:
  End(const Control& control, const Launch& launch)
      : control_(control),
        others_(launch.size > 1),
        self_(others_ ? fmt::format("ringsched: process {}", launch.rank) : "ringsched") {}

  // Says why, and leaves nothing half-done behind.
  void say(std::string why) const {
    std::replace(why.begin(), why.end(), '\n', ' ');
    std::fprintf(stderr, "%s: %s\n", self_.c_str(), why.c_str());
    remove_unfinished_files();
  }
  // The same, and ends whatever hangs. The launcher ends the others for that.
  [[noreturn]] void now(const std::string& why, int code = kFailed) const {
    say(why);
    if (others_ && control_.interrupted() != 0) std::this_thread::sleep_for(kOthersSpeak);
    std::_Exit(code);
  }

 private:
  const Control& control_;
  const bool others_;
  const std::string self_;
};

// Ends the process if it waits for others for too long, whatever it hangs in, or if a signal asks
// for an end where nobody else looks for it.
class Watchdog {
 public:
  Watchdog(const Control& control, const End& end, std::chrono::nanoseconds deadline)
      : control_(control), end_(end), deadline_(deadline) {
    thread_ = std::thread([this] { watch(); });
  }
  ~Watchdog() {
    {
      const std::lock_guard lock(guard_);
      over_ = true;
    }
    news_.notify_all();
    thread_.join();
  }
  // What the process does from now on: something of its own, which has an end;
  void works(const char* what) { enter(what, Clock::time_point::max(), 0s); }
  // something that has one only if the others come to it;
  void waits(const char* what) { enter(what, Clock::now() + deadline_ + kWaitsOn, 0s); }
  // or the execution, which looks at time and signals itself, and knows what is pending.
  void runs() { enter("running", Clock::now() + deadline_ + kGivesUp, 1s); }

 private:
  void enter(const char* what, Clock::time_point ends, std::chrono::seconds grace) {
    const std::lock_guard lock(guard_);
    what_ = what;
    ends_ = ends;
    grace_ = grace;
    interrupted_at_ = {};
  }

  void watch() {
    constexpr auto look = 20ms;  // a signal handler cannot wake anybody
    std::unique_lock lock(guard_);
    while (!news_.wait_for(lock, look, [&] { return over_; })) {
      const Clock::time_point now = Clock::now();
      if (now > ends_) end_.now(fmt::format("not done in time, still {}", what_));
      if (control_.interrupted() == 0) continue;
      if (interrupted_at_ == Clock::time_point{}) interrupted_at_ = now;
      if (now - interrupted_at_ >= grace_)
        end_.now(fmt::format("ended by signal {}, still {}", control_.interrupted(), what_));
    }
  }

  const Control& control_;
  const End& end_;
  const std::chrono::nanoseconds deadline_;
  std::mutex guard_;
  std::condition_variable news_;
  const char* what_ = "starting";
  Clock::time_point ends_ = Clock::time_point::max(), interrupted_at_;
  std::chrono::seconds grace_{};
  bool over_ = false;
  std::thread thread_;
};

std::unique_ptr<World> mpi_world() {
  void* module = ::dlopen("libringsched_mpi.so", RTLD_NOW | RTLD_GLOBAL);
  if (!module)
    fail(
        "the mpi transport is not there: {}; install libopenmpi-dev and openmpi-bin and build "
        "again",
        ::dlerror());
  const auto make = reinterpret_cast<MakeWorld>(::dlsym(module, "ringsched_make_mpi_world"));
  if (!make) fail("the mpi transport is not there: {}", ::dlerror());
  return std::unique_ptr<World>(make());
}

// Whether whoever has started this process left something by which MPI finds the others. Open MPI
// ends a process of srun at once if there is nothing, so this is asked before.
bool mpi_can_connect() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_FD"})
    if (std::getenv(name)) return true;
  return false;
}

std::unique_ptr<World> world_of(const std::string& transport, const Launch& launch) {
  const std::string name = !transport.empty() ? transport : launch.size > 1 ? "mpi" : "local";
  if (name == "local") {
    if (launch.size > 1)
      fail("{} has started {} processes, and --transport local runs in one; use --transport mpi",
           launch.launcher, launch.size);
    return make_local_world();
  }
  if (name != "mpi") fail("--transport is '{}', allowed are local and mpi", name);
  const auto alone = [&] {
    fail(
        "{} has started {} processes, but MPI knows of one; start them with mpirun -n {}, or with "
        "srun --mpi=pmix",
        launch.launcher, launch.size, launch.size);
  };
  if (launch.size > 1 && !mpi_can_connect()) alone();
  std::unique_ptr<World> world = mpi_world();
  if (world->size() == 1 && launch.size > 1) alone();
  return world;
}

// Ends this process for the exception that is being handled, and the others. It must not leave as
// from a good run: MPI_Finalize waits for the others, who wait for it.
[[noreturn]] void give_up(World& world, const Control& control, const End& end) {
  int code = kFailed;
  std::string why;
  try {
    throw;
  } catch (const Error& wrong) {
    code = kBadInput;
    why = wrong.what();
  } catch (const std::bad_alloc&) {
    why = "out of memory";
  } catch (const std::exception& failed) {
    why = failed.what();
  }
  if (control.interrupted() != 0) end.now(why, code);  // whoever does that sees to the others
  end.say(why);
  // Should the launcher not answer. A thread may not be had if memory is short.
  std::signal(SIGALRM, [](int) { std::_Exit(kFailed); });
  ::alarm(2);
  world.abort(code);
  std::_Exit(code);
}

std::int64_t count(const std::string& text, const char* flag, std::int64_t least,
                   std::int64_t most) {
  const std::int64_t n = parse_count(text, flag);
  if (n < least || n > most) fail("{} is {}, allowed are {} to {}", flag, text, least, most);
  return n;
}

std::string where(const World& world, std::uint32_t workers, Dtype dtype) {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  return fmt::format(
      "this machine: {}, {}; {} {}", counted(cores, "core"), cpu_instructions(dtype),
      counted(workers, "worker"),
      world.size() == 1 ? "as threads" : fmt::format("in {} processes, through MPI", world.size()));
}

// Text of what the processes know, put together on each.
Timeline joined(World& world, const Plan& plan, const Timeline& own) {
  std::string text;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (world.rank_of(plan.tasks[id].worker(), plan.problem.workers) == world.rank()) {
      const std::int64_t times[2] = {own.tasks[id].start_ps, own.tasks[id].end_ps};
      text.append(reinterpret_cast<const char*>(times), sizeof times);
    }
  const std::vector<std::string> all = world.gather(text);
  std::vector<std::size_t> at(all.size(), 0);
  Timeline out = own;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const std::uint32_t rank = world.rank_of(plan.tasks[id].worker(), plan.problem.workers);
    std::int64_t times[2];
    std::copy_n(all[rank].data() + at[rank], sizeof times, reinterpret_cast<char*>(times));
    at[rank] += sizeof times;
    out.tasks[id].start_ps = times[0];
    out.tasks[id].end_ps = times[1];
  }
  return out;
}

void add_up(World& world, std::vector<double>& column) {
  const std::vector<std::string> all = world.gather(
      std::string(reinterpret_cast<const char*>(column.data()), column.size() * sizeof(double)));
  std::fill(column.begin(), column.end(), 0);
  for (const std::string& text : all)
    for (std::size_t i = 0; i < column.size(); ++i) {
      double x;
      std::copy_n(text.data() + i * sizeof x, sizeof x, reinterpret_cast<char*>(&x));
      column[i] += x;
    }
}

std::vector<CheckedResults> checked(World& world, Watchdog& watchdog, const Plan& plan,
                                    const Inputs& inputs, const Execution& run,
                                    const CheckOptions& options) {
  constexpr const char* checks = "checking its numbers";
  constexpr const char* others = "waiting for others that check their numbers";
  watchdog.works(checks);
  ForwardRows forward;
  if (needs_forward_rows(plan.problem, options)) {
    forward = forward_rows(plan, inputs, run.results());
    watchdog.waits(others);
    for (auto* column : {&forward.lse, &forward.delta, &forward.size}) add_up(world, *column);
    watchdog.works(checks);
  }
  std::vector<CheckedResults> own = check_results(plan, inputs, run.results(), options, forward);
  if (world.size() == 1) return own;
  std::string text;
  for (const CheckedResults& c : own)
    text += fmt::format("{}\t{}\t{}\t{}\t{}\t{}\n", c.name, c.rows, c.largest_error,
                        c.largest_value, c.of_bound, c.worst);
  std::vector<CheckedResults> out;
  watchdog.waits(others);
  const std::vector<std::string> all = world.gather(text);
  for (const std::string& one : all) {
    std::size_t i = 0, at = 0;
    for (; at < one.size(); ++i) {
      const std::size_t end = one.find('\n', at);
      std::vector<std::string> cells(1);
      for (const char c : one.substr(at, end - at)) {
        if (c == '\t')
          cells.emplace_back();
        else
          cells.back() += c;
      }
      CheckedResults c{cells[0],
                       std::stoll(cells[1]),
                       std::strtod(cells[2].c_str(), nullptr),
                       std::strtod(cells[3].c_str(), nullptr),
                       std::strtod(cells[4].c_str(), nullptr),
                       cells[5]};
      if (i == out.size())
        out.push_back(c);
      else
        out[i].add(c);
      at = end + 1;
    }
  }
  return out;
}

struct Asked {
  std::int64_t repeats = 0, rows = 0;
  std::chrono::seconds deadline{};
  InputKind inputs{};
  std::uint64_t seed = 0;
  OutputKinds kinds;
};

Asked asked(const RunCommand& c) {
  Asked a;
  a.repeats = count(c.repeat, "--repeat", 1, 10'000);
  a.deadline = std::chrono::seconds{count(c.deadline, "--deadline", 1, 1'000'000)};
  a.rows = count(c.check_rows, "--check-rows", 0, 1'000'000'000);
  a.inputs = parse_input_kind(c.inputs);
  a.seed = static_cast<std::uint64_t>(count(c.seed, "--seed", 0, INT64_MAX));
  a.kinds = c.outputs.check({c.plan_file});
  if (a.rows > 0 && !c.check) fail("--check-rows says how many rows --check looks at; add --check");
  if (!c.plan_file.empty()) c.problem.refuse_beside(c.plan_file);
  return a;
}

void measure(const RunCommand& c, const Asked& a, const ProvedPlan& proved,
             const Prediction* prediction, World& world, Control& control, Watchdog& watchdog,
             const End& end, ExitCode& code) {
  const Plan& plan = proved.plan;
  const std::uint32_t workers = plan.problem.workers;
  watchdog.works("making its inputs");
  const Inputs inputs(plan.problem, a.seed, a.inputs);
  const std::unique_ptr<Transport> transport = world.transport(plan, control);
  std::vector<WorkerId> mine;
  Bytes memory;
  for (std::uint32_t w = 0; w < workers; ++w)
    if (world.rank_of({w}, workers) == world.rank()) mine.push_back({w});
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const std::shared_ptr<CoreGate> gate =
      mine.size() > cores ? make_core_gate(cores, control) : nullptr;
  std::unique_ptr<Execution> execution;
  {
    const Stage stage("making the inputs",
                      plan.problem.tokens.value * plan.problem.heads > 100'000);
    execution = std::make_unique<Execution>(
        plan, mine,
        [&](WorkerId w) {
          return make_cpu_device(plan, w, control, {c.finite, gate});
        },
        *transport, control,
        [&](const InitialTensor& t, std::span<std::byte> out) {
          if (t.kind == TensorKind::Partial)
            fill_forward_result(plan, inputs, t, out);
          else
            inputs.fill(t.kind, plan.layout, plan.regions[t.region.value], out);
        });
  }
  for (const Bytes b : execution->memory().size) memory = std::max(memory, b);
  const auto hung = [&](const std::string& why) { end.now(why); };
  watchdog.waits("waiting for the other processes");
  const std::chrono::nanoseconds offset = world.clock_offset();
  std::vector<Timeline> runs;
  for (std::int64_t r = 0; r < a.repeats; ++r) {
    const Stage stage(fmt::format("run {} of {}", r + 1, a.repeats), world.rank() == 0);
    watchdog.waits("waiting for the other processes");
    // Rank 0 says when it begins, by its own clock.
    const std::int64_t begin =
        (Clock::now().time_since_epoch() + execution->lead() + 10ms * (world.size() > 1)).count();
    const std::string agreed = world.gather(std::to_string(begin))[0];
    watchdog.runs();
    const Clock::time_point zero{Clock::duration(std::stoll(agreed)) - offset};
    execution->run(zero, a.deadline, hung);
    Timeline t = timeline_of(plan, TimelineSource::Measured, "this machine");
    execution->add_times(t);
    watchdog.waits("waiting for the times of the other processes");
    runs.push_back(joined(world, plan, t));
  }
  std::vector<CheckedResults> numbers;
  if (c.check) {
    const Stage stage("checking the numbers", world.rank() == 0);
    numbers = checked(world, watchdog, plan, inputs, *execution, {a.rows, a.seed});
  }
  Measurement m{
      proved,    where(world, workers, plan.problem.dtype), {}, {}, {}, memory, std::move(numbers),
      prediction};
  for (const Timeline& t : runs) m.makespans.push_back(t.makespan());
  std::sort(runs.begin(), runs.end(),
            [](const Timeline& x, const Timeline& y) { return x.makespan() < y.makespan(); });
  m.timeline = std::move(runs[runs.size() / 2]);
  m.times = run_times(m.timeline);
  if (!m.holds()) code = 1;
  if (world.rank() != 0) return;
  watchdog.works("writing");
  std::string written;
  if (c.outputs.any()) {
    std::vector<Timeline> shown;
    if (prediction) {
      shown.push_back(predicted_timeline(prediction->workload, prediction->run,
                                         prediction->setup.machine, prediction->report.path_steps));
      shown.back().conditions = described(prediction->setup.conditions, c.machine.figures());
    }
    shown.push_back(m.timeline);
    written = c.outputs.write(a.kinds, plan, shown);
  }
  if (c.format == Format::Json) {
    fmt::print("{}", measurement_json(m));
    return;
  }
  fmt::print("{}", measurement_text(m));
  if (!c.no_chart && workers <= kChartWorkers) fmt::print("\n{}", terminal_chart(m.timeline));
  if (!written.empty()) fmt::print("\n{}", written);
}

void run(const RunCommand& c, ExitCode& code) {
  const Asked a = asked(c);
  const ProvedPlan proved = c.plan_file.empty() ? proved_plan(c.problem) : proved_plan(c.plan_file);
  const std::uint32_t workers = proved.plan.problem.workers;
  std::unique_ptr<Prediction> prediction;
  if (c.machine.given())
    prediction = std::make_unique<Prediction>(predict(
        proved, {c.machine.machine(), c.machine.conditions(workers)}, c.machine.diagonal()));

  const Launch launch = launched_by();
  Control control;
  const Interruptible interruptible(control);
  const End end(control, launch);
  Watchdog watchdog(control, end, a.deadline);  // outlives the world, whose end may hang
  watchdog.waits("looking for the other processes");
  const std::unique_ptr<World> world = world_of(c.transport, launch);
  if (world->size() > workers) {
    // Once for all, and before any of them ends: mpirun then ends the rest.
    if (world->rank() == 0)
      std::fprintf(stderr, "ringsched: %u processes for %s: at most one process for each worker\n",
                   world->size(), counted(workers, "worker").c_str());
    world->gather("");
    code = kBadInput;
    return;
  }
  try {
    measure(c, a, proved, prediction.get(), *world, control, watchdog, end, code);
  } catch (...) {
    if (world->size() == 1) throw;
    give_up(*world, control, end);
  }
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
  app->add_option("--transport", command->transport,
                  "local: workers are threads of this process; mpi:\nthey are spread over the "
                  "processes that mpirun or\nsrun has started (mpi if there are any)")
      ->type_name("NAME");
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
  app->add_option("--deadline", command->deadline, "seconds that a run may take (600)")
      ->type_name("SECONDS");
  command->machine.add_machine_to(*app, "");
  command->outputs.add_to(*app);
  app->add_flag("--no-chart", command->no_chart, "no chart of the run below the table");
  add_format_flag(*app, command->format);
  app->callback([command, &code] { run(*command, code); });
}

}  // namespace ringsched
