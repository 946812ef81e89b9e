// Run: a simulated run of a plan on a machine.
#include <fmt/format.h>

#include "asked.hpp"
#include "cli/prediction.hpp"
#include "held.hpp"
#include "module.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/simulator/predicted_timeline.hpp"
#include "ringsched/viz/gantt.hpp"
#include "timelines.hpp"
#include "work.hpp"

namespace ringsched::python {

namespace {

class HeldRun {
 public:
  HeldRun(PlanPointer plan, Prediction p, std::string conditions)
      : plan_(std::move(plan)), prediction_(std::move(p)), conditions_(std::move(conditions)) {}
  const PlanPointer& plan() const { return plan_; }
  const Prediction& prediction() const { return prediction_; }
  const Report& report() const { return prediction_.study.report; }
  const Study& study() const { return prediction_.study; }
  TimelinePointer timeline() const;

 private:
  PlanPointer plan_;
  Prediction prediction_;
  std::string conditions_;
  mutable std::mutex guard_;
  mutable TimelinePointer timeline_;
};
using RunPointer = std::shared_ptr<const HeldRun>;

TimelinePointer HeldRun::timeline() const {
  const std::lock_guard lock(guard_);
  if (!timeline_) {
    const Study& s = study();
    Timeline t = predicted_timeline(s);
    t.conditions = conditions_;
    timeline_ = std::make_shared<const Timeline>(std::move(t));
  }
  return timeline_;
}

double us(Picoseconds p) { return static_cast<double>(p.value) / 1e6; }

RunPointer simulated(const PlanPointer& plan, const nb::object& machine, const MachineAsked& asked,
                     const nb::object& calibrate_with) {
  std::optional<std::string> measured;
  if (!calibrate_with.is_none()) measured = text_of("--calibrate-with", calibrate_with);
  const MachineFlags flags = machine_flags(asked);
  const Machine* given = nullptr;
  std::string name;
  if (!nb::try_cast(machine, given) || given == nullptr) name = text_of("--machine", machine);
  return aside([&] {
    const Machine m = given ? flags.with_figures(*given) : flags.machine(name);
    const ProvedPlan& proved = plan->proved();
    Setup setup = flags.setup(m, proved.plan.problem.workers);
    flags.check_runs(varies(setup.conditions));
    std::optional<Fit> fitted;
    if (measured) {
      if (m.ideal) fail("calibrate_with has no meaning on machine 'ideal', which has no figures");
      fitted = fit(proved.plan, setup, measured_time(*measured));
      setup.machine = fitted->machine;
    }
    Prediction p = predict(proved, std::move(setup), flags.diagonal(), flags.figures(m));
    p.fit = std::move(fitted);
    std::string conditions = described(p.study.conditions, flags.figures());
    return std::make_shared<const HeldRun>(plan, std::move(p), std::move(conditions));
  });
}

std::string text_of_run(const HeldRun& r) {
  return aside([&] { return prediction_text(r.prediction(), {}, improvements(r.study()), false); });
}

nb::dict dict_of_run(const HeldRun& r) {
  const std::string json =
      aside([&] { return prediction_json(r.prediction(), {}, improvements(r.study()), false); });
  return nb::cast<nb::dict>(nb::module_::import_("json").attr("loads")(json));
}

Table path_table(const RunPointer& r) {
  const std::vector<PathStep>& steps = r->report().path_steps;
  const PathStep none;
  const PathStep& s = steps.empty() ? none : steps[0];
  std::vector<std::string> causes;
  for (const PathStep& x : steps) causes.emplace_back(to_text(x.cause));
  return Table("steps", steps.size(), r)
      .view("task", &s.task.value, sizeof s)
      .view("start_ps", &s.start.value, sizeof s)
      .view("end_ps", &s.end.value, sizeof s)
      .text("waited_for", causes);
}

Table links_table(const HeldRun& r) {
  std::vector<std::string> names;
  std::vector<double> bytes, used;
  std::vector<std::int64_t> busy;
  for (const LinkReport& l : r.report().links) {
    names.push_back(r.study().workload.network.name(l.link));
    bytes.push_back(l.bytes);
    busy.push_back(l.busy.value);
    used.push_back(l.utilisation);
  }
  return Table("links", names.size())
      .text("link", names)
      .numbers("bytes", bytes)
      .numbers("busy_ps", busy)
      .numbers("utilisation", used);
}

Table answers_table(const std::vector<Answer>& answers) {
  std::vector<std::string> changes;
  std::vector<std::int64_t> makespans;
  for (const Answer& a : answers) {
    changes.push_back(a.change);
    makespans.push_back(a.makespan.value);
  }
  return Table("changes", changes.size()).text("change", changes).numbers("makespan_ps", makespans);
}

std::string run_html(const HeldRun& r) {
  const TimelinePointer t = r.timeline();
  std::string text = text_of_run(r);
  text.resize(text.find("\nworker ") == text.npos ? text.size() : text.find("\nworker "));
  return fmt::format("{}<pre>{}</pre>", svg(gantt(*t)), escaped_html(text));
}

nb::dict bounds_of(const HeldRun& r) {
  const LowerBounds& b = r.report().bounds;
  nb::dict out;
  out["work_us"] = us(b.work);
  out["worker_us"] = us(b.worker);
  out["chain_us"] = us(b.chain);
  out["link_us"] = us(b.link);
  out["best_us"] = us(b.best());
  return out;
}

nb::dict critical_path(const HeldRun& r) {
  const PathShare& p = r.report().path;
  nb::dict out;
  out["attending_us"] = us(p.attending);
  out["overhead_us"] = us(p.overhead);
  out["wire_us"] = us(p.wire);
  out["startup_us"] = us(p.startup);
  out["below_link_speed_us"] = us(p.below_speed);
  out["contention_us"] = us(p.contention);
  out["host_us"] = us(p.host);
  out["waiting_us"] = us(p.waiting);
  return out;
}

void bind_figures(nb::class_<HeldRun>& c) {
  c.def_prop_ro("plan", [](const HeldRun& r) { return r.plan(); })
      .def_prop_ro("machine", [](const HeldRun& r) { return r.study().setup.machine; })
      .def_prop_ro(
          "unit",
          [](const HeldRun& r) {
            return r.prediction().unit() == TimeUnit::Blocks ? "blocks" : "us";
          },
          "What the times count: microseconds, or blocks on the machine 'ideal'.")
      .def_prop_ro("makespan_us", [](const HeldRun& r) { return us(r.report().makespan); })
      .def_prop_ro("idle_fraction", [](const HeldRun& r) { return r.report().idle_fraction; })
      .def_prop_ro("overlap_fraction", [](const HeldRun& r) { return r.report().overlap_fraction; })
      .def_prop_ro("exposed_communication_us",
                   [](const HeldRun& r) { return us(r.report().exposed_communication); })
      .def_prop_ro("one_device_us", [](const HeldRun& r) { return us(r.study().one_device); })
      .def_prop_ro(
          "speedup",
          [](const HeldRun& r) {
            return static_cast<double>(r.study().one_device.value) /
                   static_cast<double>(r.report().makespan.value);
          },
          "Over one device.")
      .def_prop_ro(
          "ring_us",
          [](const HeldRun& r) -> std::optional<double> {
            if (!r.study().ring) return std::nullopt;
            return us(*r.study().ring);
          },
          "The same problem by the schedule ring; None if this is one.")
      .def_prop_ro(
          "peak_bytes", [](const HeldRun& r) { return r.prediction().proved.peak.value; },
          "On the fullest worker, whatever the timing.")
      .def_prop_ro("bounds", &bounds_of, "Lower bounds of the makespan.")
      .def_prop_ro("critical_path", &critical_path, "What the time on the longest path went to.")
      .def_prop_ro(
          "makespans_us",
          [](const HeldRun& r) {
            std::vector<double> all;
            for (const Picoseconds p : r.study().makespans) all.push_back(us(p));
            return all;
          },
          "Of each run, by seed, where several were simulated.");
}

}  // namespace

void bind_run(nb::module_& m) {
  nb::class_<HeldRun> run(m, "Run",
                          "A simulated run of a plan. print(run) shows what the command shows.");
  bind_figures(run);
  run.def_prop_ro("timeline", [](const HeldRun& r) { return aside([&] { return r.timeline(); }); })
      .def_prop_ro("by_worker", [](const RunPointer& r) { return workers_table(r->report(), r); })
      .def_prop_ro("path", &path_table, "The tasks on the critical path.")
      .def_prop_ro("links", &links_table, "The links that carried something, busiest first.")
      .def(
          "what_if",
          [](const HeldRun& r, const std::string& change) {
            return us(aside([&] { return ask(r.study(), change); }).makespan);
          },
          "change"_a, "The makespan after a change such as 'bandwidth=2x', in microseconds.")
      .def(
          "improvements",
          [](const HeldRun& r) {
            return answers_table(aside([&] { return improvements(r.study()); }));
          },
          "What would help, best first.")
      .def("gantt", [](const HeldRun& r) { return gantt(*r.timeline()); })
      .def(
          "save", [](const HeldRun& r, const std::string& path) { save(*r.timeline(), path); },
          "path"_a, "By the ending: .json a timeline file, .html a page, .svg a chart.")
      .def(
          "to_perfetto",
          [](nb::handle self, const std::string& path) {
            self.attr("timeline").attr("to_perfetto")(path);
          },
          "path"_a)
      .def("to_dict", &dict_of_run, "As `ringsched simulate --format json` prints it.")
      .def("__str__", &text_of_run)
      .def("__repr__",
           [](const HeldRun& r) { return fmt::format("<Run {}>", described_run(*r.timeline())); })
      .def("_repr_html_", &run_html);
  const nb::object none = nb::none();
  m.def(
      "simulate",
      [](const PlanPointer& plan, const nb::object& machine, const nb::object& kernels,
         const nb::object& software, const nb::object& nccl_ctas, const nb::object& diagonal,
         const nb::object& noise, const nb::object& stragglers, const nb::object& slow_workers,
         const nb::object& seed, const nb::object& runs, const nb::object& calibrate_with) {
        return simulated(
            plan, machine,
            {kernels, software, nccl_ctas, diagonal, noise, stragglers, slow_workers, seed, runs},
            calibrate_with);
      },
      "plan"_a, "machine"_a = "ideal", nb::kw_only(), "kernels"_a.none() = none,
      "software"_a.none() = none, "nccl_ctas"_a.none() = none, "diagonal"_a.none() = none,
      "noise"_a.none() = none, "stragglers"_a.none() = none, "slow_workers"_a.none() = none,
      "seed"_a.none() = none, "runs"_a.none() = none, "calibrate_with"_a.none() = none,
      nb::sig(
          "def simulate(plan: Plan, machine: str | Machine = 'ideal', *, kernels: str | None = "
          "None, software: str | None = None, nccl_ctas: int | None = None, diagonal: float | str "
          "| "
          "None = None, noise: float | str | None = None, stragglers: str | None = None, "
          "slow_workers: dict[int, float] | None = None, seed: int | None = None, runs: int | None "
          "= None, calibrate_with: str | None = None) -> Run"),
      "Predicts how long a plan takes on a machine. Verifies the plan first. The arguments are the "
      "flags of `ringsched simulate`; with calibrate_with, such as \"ms=12.3\", the run's machine "
      "is "
      "the calibrated one.");
}

}  // namespace ringsched::python
