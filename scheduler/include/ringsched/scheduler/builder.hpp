// What a schedule is written against. A schedule is a plain function that says, step by step, who
// attends what and what moves where, in the order its figure is read:
//
//   plan.step(s);                                    what follows belongs to step s
//   Keys kv = plan.move(plan.keys(owner), worker);   first all that moves ...
//   Partial p = plan.attend(plan.queries(w), kv);    ... then all that is computed
//   plan.merge(p);                                   on the owner of the queries
//
// The builder records the calls. finish() makes the plan from them: it puts the steps in order,
// makes ids and sizes, pairs sends with receives, groups what one worker posts together, leaves out
// what the mask empties and what nobody will read, and derives the backward pass from the same
// calls: dQ goes where the partial went, and the gradient of a copy of keys travels on with the
// copy, or home from where it is used last. For a backward pass, a schedule must hand keys on only
// after their last use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

using CallId = Id<struct CallTag>;

// Queries or keys of one owner, at `worker`. A handle may be narrowed to one chunk of the share.
// Workers have the numbers of the view that made the handle.
struct Operand {
  WorkerId owner;
  WorkerId worker;
  Region view;       // chunks meant; there may be more at `worker`
  RegionId view_id;  // none: to be looked up
  CallId brought_by;
  Step since = 0;  // the first step that may use it

  bool valid() const { return worker.valid(); }
};

struct Queries : Operand {
  Queries part(std::uint32_t i) const;  // the i-th chunk
};
struct Keys : Operand {
  Keys part(std::uint32_t i) const;
};

// What an attend made for the queries: a partial result, to be merged once.
struct Partial {
  WorkerId owner;
  WorkerId worker;
  CallId made_by;
  Step since = 0;

  bool valid() const { return worker.valid(); }
};

// When a move is needed, if not in the step that is being written, and on which lane it goes. What
// moves on one lane goes one after the other, so what has more time than the rest needs a lane of
// its own.
struct Timing {
  Lane lane = Lane::Fetch;
  std::optional<Step> needed = {};
};

class PlanBuilder {
 public:
  PlanBuilder(const Problem& problem, Layout layout, std::uint64_t most_tasks = kMostTasks);
  ~PlanBuilder();
  PlanBuilder(PlanBuilder&&) noexcept;

  // Some of the workers, to run a schedule on: worker i of the view is where keys[i] are, and these
  // are its keys. Step 0 of the view is the step that is being written here.
  PlanBuilder view(std::span<const Keys> keys) const;
  Problem problem() const;  // that of the whole plan, with the workers of this view

  // A lane by its name. On a lane made so, what a step needs may move as soon as this worker has
  // begun the last step before that needed something of the lane. A plan has at most eight lanes.
  Lane lane(std::string_view name);

  Queries queries(WorkerId) const;               // the whole share of a worker, at home
  Keys keys(WorkerId) const;                     // likewise; in a view, what it was given
  bool sees(const Queries&, const Keys&) const;  // is any pair visible?

  void step(Step);

  // The same on worker `to`; nothing moves if it is there already, or is none.
  Queries move(const Queries&, WorkerId to, Timing = {});
  Keys move(const Keys&, WorkerId to, Timing = {});
  Partial move(const Partial&, WorkerId to);

  // None where the mask hides every pair. Both operands must be on one worker.
  Partial attend(const Queries&, const Keys&);
  // Folds a partial into the result of its queries. It must be on their owner; none does nothing.
  void merge(const Partial&);

  // Not for schedules: the plan of what was said. Throws Error where it has too many tasks.
  Plan finish(std::string_view schedule) &&;

 private:
  struct Recording;
  explicit PlanBuilder(std::shared_ptr<Recording>);
  // Throws ScheduleMistake for a worker that is not there.
  WorkerId true_number(WorkerId w) const {
    if (w.value >= workers_.size()) no_such_worker(w);
    return workers_[w.value];
  }
  [[noreturn]] void no_such_worker(WorkerId) const;
  template <class T>
  T moved(const T&, WorkerId to, const Timing&);
  void use(const Partial&);

  std::shared_ptr<Recording> recording_;  // views share it
  std::vector<WorkerId> workers_;         // by the number here: the true one
  std::vector<Keys> keys_;                // of a view; else empty
  Step first_ = 0;                        // the true number of step 0
  Step step_ = 0;                         // the true number of the step that is being written
};

}  // namespace ringsched
