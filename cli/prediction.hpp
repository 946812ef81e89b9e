// A plan, its price on a machine, its run and the report of it, with what is compared to it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "problem_flags.hpp"
#include "ringsched/scheduler/plan.hpp"
#include "ringsched/simulator/report.hpp"
#include "ringsched/simulator/what_if.hpp"

namespace ringsched {

// A plan that has been proved, from flags or from a file.
struct ProvedPlan {
  Plan plan;
  Bytes peak;  // on the fullest worker
};
ProvedPlan proved_plan(const ProblemFlags&);
ProvedPlan proved_plan(const std::string& file);  // throws Error if it does not verify

struct Answer {
  std::string change;
  Picoseconds makespan;
};

struct Prediction {
  const ProvedPlan& proved;
  Setup setup;
  double diagonal = 0.5;
  Workload workload;
  std::vector<Picoseconds> makespans;  // by seed, where several runs were asked for; else empty
  Conditions conditions;               // of the run, which is the middle one of them
  std::string figures;  // which of the machine's, and the conditions, for people; may be empty
  Simulation run;
  Report report;
  Picoseconds one_device;
  std::optional<Picoseconds> ring;  // the same problem as `ring` does it; none: this is it

  // Of this run alone: what changes is compared under the same noise.
  Setup shown() const { return {setup.machine, conditions}; }
};
Prediction predict(const ProvedPlan&, Setup, double diagonal, const std::string& figures);
// Of the middle one of its runs.
Picoseconds makespan_of(const Plan&, const Setup&, double diagonal);

// What each of the changes worth a thought would take; empty for plans too long to ask again.
std::vector<Answer> improvements(const Prediction&);

// What fixed when a task started: "data", "lane", "buffers", "SMs" or "nothing".
const char* to_text(Cause::Kind);

// Where each worker's time went.
std::string worker_table(const RunTimes&);
std::string workers_json(const RunTimes&);

std::string prediction_text(const Prediction&, const std::vector<Answer>& answers,
                            const std::vector<Answer>& improvements, bool path);
std::string prediction_json(const Prediction&, const std::vector<Answer>& answers,
                            const std::vector<Answer>& improvements, bool path);

}  // namespace ringsched
