// The study of a plan on a machine: price it, simulate it, report on it, and compare it.
// `simulate`, `sweep`, `run --machine` and `validate` all ask here, so they cannot differ in what
// they call a prediction.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/scheduler/lower.hpp"
#include "ringsched/scheduler/plan.hpp"
#include "ringsched/simulator/report.hpp"
#include "ringsched/simulator/what_if.hpp"

namespace ringsched {

// Called with the name of each long piece of work as it begins, and with "" as it ends.
using Announce = std::function<void(std::string_view)>;

// About one second of work for the planner, the verifier or the simulator.
inline constexpr std::size_t kManyTasks = 2'000'000;

// A plan that verify has proved.
struct ProvedPlan {
  Plan plan;
  Bytes peak;                             // on the fullest worker
  std::vector<LoweredForm> lowered = {};  // if its exchanges became messages: which, and how
  Lowering exchanges = Lowering::Native;  // what the user asked for
};
// Throws Error naming the first violation. `file`: the plan's file; empty if a schedule made the
// plan.
ProvedPlan prove(Plan, const std::string& file = {}, const Announce& = {});
// The same without taking the plan: its memory on the fullest worker.
Bytes require_proved(const Plan&, const std::string& file = {}, const Announce& = {});

struct StudyOptions {
  double diagonal = 0.5;      // what a block on the diagonal costs on the machine `ideal`
  bool against_ring = false;  // simulate `ring` for the same problem, too
  unsigned threads = 0;       // for several runs; 0: one for each core
  bool how_sure = false;      // also simulate other figures that the machine may have
  Announce announce;
};

struct Study {
  const Plan* plan = nullptr;
  Setup setup;
  StudyOptions options;
  Workload workload;
  std::vector<Picoseconds> makespans;  // by seed, if there are several runs; else empty
  Conditions conditions;               // of the run shown, which is their median
  Simulation run;
  Report report;
  Picoseconds one_device;
  std::vector<Picoseconds> possible;  // makespans by draw of the machine's figures; may be none
  std::optional<Picoseconds> ring;    // absent if not asked for, or if the plan is a ring
};

// Keeps a reference to the plan.
Study study(const Plan&, Setup, StudyOptions = {});

// The median makespan of a setup's runs, and nothing else.
Picoseconds makespan_of(const Plan&, const Setup&, const StudyOptions& = {});

// Whether the workers of one device fit in its memory, each with this much; empty if the machine
// does not say how large that is. Weights and activations are not counted.
std::optional<bool> memory_fits(const Study&, Bytes peak);

struct Answer {
  std::string change;
  Picoseconds makespan;
};
// "What if": the same run, with the same noise, on a machine after this change.
Answer ask(const Study&, const std::string& change);
// The answers to all changes that could help, best first; empty for plans too long to simulate
// again.
std::vector<Answer> improvements(const Study&);

}  // namespace ringsched
