// The interface for schedules. A schedule is a plain function that says, step by step, which worker
// attends what and what moves where, in the order its figure is read:
//
//   plan.step(s);                                    what follows belongs to step s
//   Keys kv = plan.move(plan.keys(owner), worker);   first all that moves ...
//   Partial p = plan.attend(plan.queries(w), kv);    ... then all that is computed
//   plan.merge(p);                                   on the owner of the queries
//
// The builder records the calls. finish() makes the plan from them: it puts the steps in order,
// makes ids and sizes, pairs sends with receives, groups what one worker posts together, and drops
// what the mask empties and what no task reads. It derives the backward pass from the same calls:
// dQ goes where the partial went, and the gradient of a copy of keys travels on with the copy, or
// home from its last use. For a backward pass, a schedule must hand keys on only after their last
// use.
//
// An exchange is one call for all members: each gives queries, or none, and says which rows and
// heads it wants of everything given. It uses what it gets like its own share:
//
//   std::vector<Queries> q = plan.exchange(given, wanted);   e.g. all rows of some heads each
//   PlanBuilder inside = plan.view(q, kv);                   a schedule runs on these
//   plan.exchange(inside.merged(), wanted);                 and the results go home
//
// In decoding, queries(w) are worker w's copy of the new tokens' queries, the same on all workers.
// A partial that moves to another worker is one of the queries there; two of them on one worker
// become one by combine(), and those of several workers by an exchange of partials.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
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
  ColumnRange heads;
  CallId brought_by;
  std::uint32_t parts = 1;  // that the layout cuts it into
  Step since = 0;           // the first step that may use it

  bool valid() const { return worker.valid(); }
};

struct Queries : Operand {
  Queries part(std::uint32_t i) const;  // the i-th of what the layout cuts a share into
  Queries half(std::uint32_t i) const;  // of the chunks of a share, the front (0) or back ones
};
struct Keys : Operand {
  Keys part(std::uint32_t i) const;
  Keys half(std::uint32_t i) const;
};

// The result of some queries, once everything has been merged.
struct Merged {
  WorkerId worker;  // by its number in the whole plan
  Region view;
  ColumnRange heads;
  CallId of;  // the queries, or the exchange that brought it

  bool valid() const { return worker.valid(); }
};

// What a worker gets in an exchange; nothing if it has no rows or no heads. Heads of keys are
// key/value heads.
struct Wanted {
  WorkerId worker;
  Region rows;
  ColumnRange heads;
};

struct Exchanging {
  Lane lane = Lane::Fetch;
  bool again = false;  // for the backward pass anew; else that begins with what came
};

// The result of an attend for the queries: a partial result, to be merged once. In decoding, where
// all workers have the same queries, it is merged on its own worker.
struct Partial {
  WorkerId owner;
  WorkerId worker;
  CallId made_by;
  Step since = 0;

  bool valid() const { return worker.valid(); }
};

// When a move is needed, if not in the current step, and on which lane it goes. Moves on one lane
// run one after the other, so a move that has more time than the rest needs its own lane.
struct Timing {
  Lane lane = Lane::Fetch;
  std::optional<Step> needed = {};
  // Even where nobody reads it any more; and all of its gradient goes with it, that of its owner's
  // attends too. So do libraries for rings, which send the same on all workers.
  bool always = false;
};

class PlanBuilder {
 public:
  PlanBuilder(const Problem& problem, Layout layout, std::uint64_t most_tasks = kMostTasks);
  ~PlanBuilder();
  PlanBuilder(PlanBuilder&&) noexcept;

  // Some of the workers, to run a schedule on: worker i of the view is where keys[i] are, and these
  // are its keys. Step 0 of the view is the current step here.
  PlanBuilder view(std::span<const Keys> keys) const;
  // The same with other queries, which the schedule that runs there treats as a share.
  PlanBuilder view(std::span<const Queries> queries, std::span<const Keys> keys) const;
  Problem problem() const;  // that of the whole plan, with the workers of this view

  // A lane by its name. On such a lane, what a step needs may move as soon as this worker has begun
  // the last earlier step that needed something of the lane. A plan has at most eight lanes.
  Lane lane(std::string_view name);

  Queries queries(WorkerId) const;  // the whole share of a worker, at home
  Keys keys(WorkerId) const;        // likewise; in a view, what it was given
  // Some heads of queries that have not moved; their results are separate.
  Queries only(const Queries&, ColumnRange heads);
  bool sees(const Queries&, const Keys&) const;  // is any pair visible?

  void step(Step);
  Step steps() const;  // the number of steps so far, from step 0 of this view on

  // The same on worker `to`; nothing moves if it is there already, or is empty.
  Queries move(const Queries&, WorkerId to, Timing = {});
  Keys move(const Keys&, WorkerId to, Timing = {});
  Partial move(const Partial&, WorkerId to);

  // Member i gives given[i], or nothing, and gets what wanted[i] says of everything given. given[i]
  // must not have moved, nor be a part.
  std::vector<Queries> exchange(std::span<const Queries> given, std::span<const Wanted>,
                                Exchanging = {});
  std::vector<Keys> exchange(std::span<const Keys> given, std::span<const Wanted>, Exchanging = {});
  // Of results, rounded to the problem's dtype. What is wanted must be at home with its worker
  // unless it goes to another exchange.
  std::vector<Merged> exchange(std::span<const Merged> given, std::span<const Wanted>);
  // Of partials of the same queries, each on another worker: they are combined on the way. The
  // result is in fp32. For a forward pass only.
  std::vector<Merged> exchange(std::span<const Partial> given, std::span<const Wanted>);
  std::vector<Merged> merged() const;  // by worker: of the queries it has in this view

  // Empty if the mask hides every pair. Both operands must be on one worker.
  Partial attend(const Queries&, const Keys&);
  // Two partials of the same queries on one worker, as one. An empty one adds nothing.
  Partial combine(const Partial&, const Partial&);
  // Folds a partial into the result of its queries. It must be on their owner; an empty one does
  // nothing.
  void merge(const Partial&);

  // Not for schedules: the plan of the recorded calls. Throws Error if it has too many tasks.
  Plan finish(std::string_view schedule) &&;

 private:
  struct Recording;
  enum class Gives : std::uint8_t { Queries, Keys, Results, Partials };
  explicit PlanBuilder(std::shared_ptr<Recording>);
  // Throws ScheduleMistake for a worker that does not exist.
  WorkerId true_number(WorkerId w) const {
    if (w.value >= workers_.size()) no_such_worker(w);
    return workers_[w.value];
  }
  [[noreturn]] void no_such_worker(WorkerId) const;
  template <class T>
  T moved(const T&, WorkerId to, const Timing&);
  template <class T>
  std::vector<T> exchanged(std::span<const T> given, std::span<const Wanted>, const Exchanging&);
  CallId say_member(std::uint32_t number, const Wanted&, CallId given, CallId first,
                    const Exchanging&, Gives);
  void check_wanted(std::span<const Wanted>, std::size_t given, bool keys) const;
  void check_lane(Lane) const;
  std::string heads_text(ColumnRange, bool keys) const;
  void use(const Partial&);

  std::shared_ptr<Recording> recording_;  // views share it
  std::vector<WorkerId> workers_;         // by the number here: the true one
  std::vector<Keys> keys_;                // of a view; else empty
  std::vector<Queries> queries_;          // of a view that has its own; else empty
  Step first_ = 0;                        // the true number of step 0
  Step step_ = 0;                         // the true number of the step that is being written
};

}  // namespace ringsched
