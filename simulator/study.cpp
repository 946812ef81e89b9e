#include "ringsched/simulator/study.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "ringsched/scheduler/words.hpp"
#include "ringsched/simulator/as_run.hpp"
#include "ringsched/simulator/spread.hpp"
#include "ringsched/simulator/uncertainty.hpp"

namespace ringsched {

namespace {

// Below this, simulating a plan several times more is still quick.
constexpr std::size_t kAskAgain = 200'000;

// Announces a piece of work for as long as it lives, if the work is long.
class Stage {
 public:
  Stage(const Announce& announce, std::string_view what, bool long_work)
      : announce_(long_work && announce ? &announce : nullptr) {
    if (announce_) (*announce_)(what);
  }
  ~Stage() {
    if (announce_) (*announce_)("");
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

 private:
  const Announce* announce_;
};

std::string tasks_of(const Plan& plan) {
  return counted(static_cast<std::int64_t>(plan.tasks.size()), "task");
}

Simulation timed(const Workload& w, const Conditions& c, const Announce& announce) {
  const Stage stage(announce, fmt::format("simulating {}", tasks_of(*w.plan)),
                    w.plan->tasks.size() > kManyTasks);
  return simulate(w, c);
}

std::optional<Picoseconds> as_a_ring(const Study& s) {
  const Plan& plan = *s.plan;
  const std::string name =
      as_run(plan.problem.decodes() ? "ring-decode" : "ring", s.setup.machine.software);
  // A ring has about four tasks for each worker and step, other plans may need fewer.
  const std::size_t of_ring = 4 * std::size_t{plan.problem.workers} * plan.problem.workers;
  if (!s.options.against_ring || plan.schedule == name ||
      std::max(of_ring, plan.tasks.size()) > kManyTasks)
    return std::nullopt;
  const Plan ring = limit_communication(build_plan(plan.without_padding(), find_schedule(name)),
                                        {Overlap::Prefetch, 0});
  const Stage stage(s.options.announce, "simulating ring for comparison",
                    s.setup.runs * ring.tasks.size() > kManyTasks);
  return makespan_of(ring, s.setup, s.options);
}

}  // namespace

Bytes require_proved(const Plan& plan, const std::string& file, const Announce& announce) {
  Verification v;
  {
    const Stage stage(announce, fmt::format("verifying {}", tasks_of(plan)),
                      plan.tasks.size() > kManyTasks);
    v = verify(plan);
  }
  if (!v.holds()) {
    const Violation& first = v.violations.front();
    if (file.empty())
      fail("schedule {} is wrong: its plan does not verify ({}): {}", plan.schedule,
           to_text(first.rule), first.text);
    fail("{} fails verification ({}): {}; see ringsched verify", file, to_text(first.rule),
         first.text);
  }
  const auto fullest = std::max_element(v.peak.begin(), v.peak.end());
  return fullest == v.peak.end() ? Bytes{} : *fullest;
}

ProvedPlan prove(Plan plan, const std::string& file, const Announce& announce) {
  const Bytes peak = require_proved(plan, file, announce);
  return {std::move(plan), peak};
}

Picoseconds makespan_of(const Plan& plan, const Setup& setup, const StudyOptions& options) {
  const Workload w = price(plan, setup.machine, options.diagonal);
  const std::uint32_t runs = runs_of(setup, plan.tasks.size());
  if (runs == 1) return simulate(w, setup.conditions).makespan;
  return percentile(makespans(w, setup.conditions, runs, options.threads), 50);
}

Study study(const Plan& plan, Setup setup, StudyOptions options) {
  Workload workload = price(plan, setup.machine, options.diagonal);
  Study s{&plan, std::move(setup), std::move(options), std::move(workload), {}, {}, {}, {}, {}, {},
          {}};
  s.conditions = s.setup.conditions;
  s.setup.runs = runs_of(s.setup, plan.tasks.size());
  if (s.setup.runs > 1) {
    const Stage stage(s.options.announce, fmt::format("simulating {} runs", s.setup.runs),
                      s.setup.runs * plan.tasks.size() > kManyTasks);
    s.makespans = makespans(s.workload, s.conditions, s.setup.runs, s.options.threads);
    s.conditions = middle_of(s.makespans, s.conditions);
  }
  s.run = timed(s.workload, s.conditions, s.options.announce);
  s.report = report(s.workload, s.run, s.conditions);
  s.one_device = one_device(s.workload, s.setup.machine);
  if (s.options.how_sure)
    s.possible =
        possible_makespans(s.workload, s.setup.machine, s.conditions,
                           draws_for(s.setup.machine, plan.tasks.size()), s.options.threads);
  s.ring = as_a_ring(s);
  return s;
}

std::optional<bool> memory_fits(const Study& s, Bytes peak) {
  if (s.setup.machine.ideal || !(s.setup.machine.memory_gb > 0)) return std::nullopt;
  const double room = s.setup.machine.memory_gb * (std::int64_t{1} << 30);
  return static_cast<double>(peak.value) * s.workload.network.workers_per_device() <= room;
}

Answer ask(const Study& s, const std::string& change) {
  const Setup shown = {s.setup.machine, s.conditions};  // one run: that under the same noise
  return {change, makespan_of(*s.plan, changed(shown, change, s.plan->problem.workers), s.options)};
}

std::vector<Answer> improvements(const Study& s) {
  std::vector<Answer> answers;
  if (s.setup.machine.ideal || s.plan->tasks.size() > kAskAgain) return answers;
  for (const char* change : {"kernels=2x", "bandwidth=2x", "latency=0x", "memory=2x"})
    answers.push_back(ask(s, change));
  if (!s.setup.machine.software.host.issues_in_no_time()) answers.push_back(ask(s, "host=2x"));
  if (has_channels(s.setup.machine.fabric)) answers.push_back(ask(s, "channels=2x"));
  if (s.setup.machine.comm_sms > 0) answers.push_back(ask(s, "communication-sms=0"));
  std::stable_sort(answers.begin(), answers.end(),
                   [](const Answer& a, const Answer& b) { return a.makespan < b.makespan; });
  return answers;
}

}  // namespace ringsched
