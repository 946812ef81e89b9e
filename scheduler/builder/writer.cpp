#include "writer.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "mistake.hpp"
#include "survey.hpp"

namespace ringsched {

namespace {

class PlanWriter {
 public:
  PlanWriter(PlanParts& parts, const Tape& tape, const Survey& survey, std::uint64_t most_tasks)
      : parts_(parts),
        plan_(parts.plan),
        tape_(tape),
        survey_(survey),
        most_tasks_(most_tasks),
        lanes_(parts.plan),
        made_(tape.size()) {}

  void write(bool backward) {
    begin(backward);
    tape_.for_each([&](CallId id, const Call& c) {
      if (first_step_ + c.step != step_) step(c.step);
      switch (c.what) {
        case Call::What::Given:
          made_[id] = parts_.given(c.of_keys ? attention::kKeyValue : attention::kQuery, owner(c));
          break;
        case Call::What::Begin:
          break;
        case Call::What::Move:
          move(id, c);
          break;
        case Call::What::Attend:
          attend(id, c);
          break;
        case Call::What::MoveResult:
          move_result(id, c);
          break;
        case Call::What::Merge:
          merge(c.from);
          break;
      }
    });
    end();
    write_outputs(result_value(), result_);
    if (!backward) return;
    std::vector<Accumulator> at_home;
    for (std::uint32_t w = 0; w < plan_.problem.workers; ++w)
      at_home.push_back(key_gradient_[tape_.keys_of({w})]);
    write_outputs(attention::kKeyValueGradient, at_home);
  }

 private:
  struct Posted {  // the last group of a lane; open while nothing else comes
    Step step = ~Step{0};
    std::uint32_t computed = 0;
    friend bool operator==(const Posted&, const Posted&) = default;
  };
  struct Accumulator {
    TensorId tensor;
    RegionId rows;
  };

  void begin(bool backward) {
    backward_ = backward;
    attends_ = 0;
    const std::uint64_t moves = survey_.query_moves * (backward ? 2 : 1) +
                                survey_.key_moves * (backward ? 3 : 1) + survey_.returns;
    const std::uint64_t tasks =
        survey_.attends * (backward ? 3 : 2) + 2 * moves + 3 * plan_.problem.workers;
    if (plan_.tasks.size() + tasks > most_tasks_)
      fail("this plan needs more than {} tasks; use fewer workers", most_tasks_);
    plan_.tasks.reserve(plan_.tasks.size() + tasks);

    first_step_ = plan_.tasks.empty() ? 0 : plan_.tasks.back().step + 1;
    step_ = first_step_;
    final_result_ = std::exchange(result_, std::vector<Accumulator>(plan_.problem.workers));
    posted_.assign(lanes_.all, {});
    computed_.assign(plan_.problem.workers, 0);
    if (!backward) return;
    prepared_ = CallColumn<TensorId>(tape_.size());
    key_gradient_ = CallColumn<Accumulator>(tape_.size());
    prepare_gradients();
  }

  void end() {
    add_arrived_gradients();
    if (!finished_.empty()) {
      ++step_;
      send_gradients_home();
      add_arrived_gradients();
    }
    // A schedule may count steps beyond its last task.
    const bool none = plan_.tasks.empty() || plan_.tasks.back().step < first_step_;
    step_ = none ? first_step_ : plan_.tasks.back().step;
  }

  void step(Step s) {
    add_arrived_gradients();
    step_ = first_step_ + s;
    send_gradients_home();
  }

  void move(CallId id, const Call& c) {
    const Survey::Use& use = survey_.uses[id];
    if (!use.any()) return;
    const RegionId share = parts_.share(owner(c));
    const Region read{{use.first}, use.end - use.first};
    const RegionId rows = plan_.regions[share.value] == read ? share : parts_.region(read);
    const ValueId value = c.of_keys ? attention::kKeyValue : attention::kQuery;
    const WorkerId from = worker(tape_[c.from]), to = worker(c);
    made_[id] = transfer(made_[c.from], value, rows, from, to, c.lane);
    if (!backward_) return;
    if (c.of_keys)
      hand_on_gradient(c.from, id);
    else
      prepared_[id] =
          transfer(prepared_[c.from], attention::kPreparedGradient, rows, from, to, c.lane);
  }

  void attend(CallId id, const Call& c) {
    Task& task = add(backward_ ? TaskKind::AttendBackward : TaskKind::Attend, result_value(),
                     worker(c), c.rows, c.work);
    task.keys = c.key_rows;
    made_[id] = last_output();
    if (backward_) {
      task.inputs = {made_[c.from], prepared_[c.from], made_[c.keys]};
      add_key_gradient(c.keys, last_output(1), c.key_rows);
    } else {
      task.inputs = {made_[c.from], made_[c.keys], {}};
    }
    ++attends_;
    if (c.merged) merge(id);
  }

  void move_result(CallId id, const Call& c) {
    made_[id] = transfer(made_[c.from], result_value(), c.rows, worker(tape_[c.from]), worker(c),
                         Lane::Return);
  }

  void merge(CallId result) {
    const Call& c = tape_[result];
    accumulate(result_value(), owner(c), result_[c.owner], {made_[result], c.rows});
  }

  // The backward pass, derived from the calls a schedule makes for the forward one. Query gradients
  // take the way of the partials. A gradient of keys is collected where they were brought: it
  // travels on with them (the ring's way) or, where they go no further, straight home to their
  // owner.
  void prepare_gradients() {
    for (std::uint32_t w = 0; w < plan_.problem.workers; ++w) {
      const TensorId result = final_result_.empty() ? parts_.given(attention::kPartial, WorkerId{w})
                                                    : final_result_[w].tensor;
      if (!result.valid()) continue;  // no query of this worker sees any key
      const RegionId rows = parts_.share({w});
      Task& task = add(TaskKind::Prepare, attention::kPreparedGradient, WorkerId{w}, rows,
                       parts_.work(attention::kOutputGradient, rows));
      task.inputs = {result, parts_.given(attention::kOutputGradient, WorkerId{w}), {}};
      task.completes = 1;
      prepared_[tape_.queries_of({w})] = last_output();
    }
  }

  void add_key_gradient(CallId keys, TensorId gradient, RegionId rows) {
    const Call& c = tape_[keys];
    accumulate(attention::kKeyValueGradient, worker(c), key_gradient_[keys], {gradient, rows});
    if (c.what == Call::What::Given) return;
    const Survey::Path& path = survey_.paths[keys];
    if (path.onward.valid() && attends_ >= survey_.paths[path.onward].attends_when_moved)
      mistake_at(
          step_ - first_step_,
          "worker {} attends the keys of worker {} after it moved them on, when their gradient "
          "has left with them; attend first, then move (or plan --pass forward)",
          c.worker, c.owner);
    if (!path.onward.valid() && path.last_attend == attends_) finished_.push_back(keys);
  }

  void hand_on_gradient(CallId from, CallId to) {
    const Call& there = tape_[from];
    const Accumulator& sum = key_gradient_[from];
    if (there.what == Call::What::Given || survey_.paths[from].onward != to || !sum.tensor.valid())
      return;
    key_gradient_[to] = {transfer(sum.tensor, attention::kKeyValueGradient, sum.rows, worker(there),
                                  worker(tape_[to]), Lane::Return),
                         sum.rows};
  }

  void send_gradients_home() {
    for (const CallId keys : finished_) {
      const Call& c = tape_[keys];
      const Accumulator& sum = key_gradient_[keys];
      const TensorId there = transfer(sum.tensor, attention::kKeyValueGradient, sum.rows, worker(c),
                                      owner(c), Lane::Return);
      arrived_.push_back({tape_.keys_of(owner(c)), {there, sum.rows}});
    }
    finished_.clear();
  }

  void add_arrived_gradients() {
    for (const auto& [keys, gradient] : arrived_)
      accumulate(attention::kKeyValueGradient, owner(tape_[keys]), key_gradient_[keys], gradient);
    arrived_.clear();
  }

  // The task is filled where it stands: building it elsewhere and copying it costs a third of all
  // the time there is.
  Task& add(TaskKind kind, ValueId value, WorkerId worker, RegionId rows, WorkId work,
            Lane lane = Lane::Compute) {
    const PieceId piece = parts_.piece(value, rows);
    bool with_previous = false;
    std::uint32_t& computed = computed_[worker.value];
    if (lane == Lane::Compute) {
      ++computed;
    } else {
      Posted& open = posted_[lanes_.of(worker, lane)];
      with_previous = open == Posted{step_, computed};
      open = {step_, computed};
    }
    Task& task = plan_.tasks.emplace_back();
    task.kind = kind;
    task.lane = lane;
    task.with_previous = with_previous;
    task.worker_index = static_cast<std::uint16_t>(worker.value);
    task.step = step_;
    task.work = work;
    task.piece = piece;
    return task;
  }

  TensorId transfer(TensorId tensor, ValueId value, RegionId rows, WorkerId from, WorkerId to,
                    Lane lane) {
    const WorkId work = parts_.work(value, rows);
    const TaskId send{static_cast<std::uint32_t>(plan_.tasks.size())}, receive{send.value + 1};
    Task& sending = add(TaskKind::Send, value, from, rows, work, lane);
    sending.inputs[0] = tensor;
    sending.peer = receive;
    Task& receiving = add(TaskKind::Receive, value, to, rows, work, lane);
    receiving.peer = send;
    receiving.completes = lane != Lane::Return;  // operands are complete; what returns is a part
    return plan_.output(receive);
  }

  void accumulate(ValueId value, WorkerId worker, Accumulator& sum, Accumulator added) {
    if (!sum.tensor.valid()) {
      sum = added;
      return;
    }
    RegionId into = sum.rows;
    if (sum.rows != added.rows) {
      const Region a = plan_.regions[sum.rows.value], b = plan_.regions[added.rows.value];
      const std::uint32_t first = std::min(a.first.value, b.first.value);
      into = parts_.region({{first}, std::max(a.end(), b.end()) - first});
      // Add the smaller to the larger, which can then be done in place.
      if (into == added.rows) std::swap(sum, added);
    }
    const TaskKind kind = value == attention::kPartial ? TaskKind::Merge : TaskKind::Reduce;
    Task& task = add(kind, value, worker, into, parts_.work(value, added.rows));
    task.inputs[0] = sum.tensor;
    task.inputs[1] = added.tensor;
    sum = {last_output(), into};
  }

  void write_outputs(ValueId value, std::span<const Accumulator> results) {
    for (std::uint32_t w = 0; w < results.size(); ++w) {
      if (!results[w].tensor.valid()) continue;
      const RegionId rows = results[w].rows;
      mark_complete(plan_, results[w].tensor);
      add(TaskKind::Output, value, WorkerId{w}, rows, parts_.work(value, rows)).inputs[0] =
          results[w].tensor;
    }
  }

  TensorId last_output(std::uint32_t index = 0) const {
    return plan_.output({static_cast<std::uint32_t>(plan_.tasks.size()) - 1}, index);
  }
  ValueId result_value() const {
    return backward_ ? attention::kQueryGradient : attention::kPartial;
  }
  static WorkerId worker(const Call& c) { return {c.worker}; }
  static WorkerId owner(const Call& c) { return {c.owner}; }

  PlanParts& parts_;
  Plan& plan_;
  const Tape& tape_;
  const Survey& survey_;
  const std::uint64_t most_tasks_;
  bool backward_ = false;
  Step step_ = 0;
  Step first_step_ = 0;        // of the pass being written
  std::uint32_t attends_ = 0;  // so far
  const LaneNumbers lanes_;
  std::vector<Posted> posted_;           // per worker and lane
  std::vector<std::uint32_t> computed_;  // per worker: the tasks that were not transfers

  CallColumn<TensorId> made_;              // what each call gives, brings or makes
  CallColumn<TensorId> prepared_;          // the prepared gradient, beside queries
  CallColumn<Accumulator> key_gradient_;   // of the keys that a call gives or brings
  std::vector<Accumulator> result_;        // per worker: O, or dQ
  std::vector<Accumulator> final_result_;  // per worker: the forward pass's O, for prepare
  std::vector<CallId> finished_;           // keys that send their gradients home next step
  // Key gradients that came home to these keys, to be added once this step's attends are done.
  std::vector<std::pair<CallId, Accumulator>> arrived_;
};

}  // namespace

void write_tasks(PlanParts& parts, const Tape& tape, std::uint64_t most_tasks) {
  const Pass pass = parts.plan.problem.pass;
  const Survey survey(tape, parts.plan, pass != Pass::Forward);
  PlanWriter writer(parts, tape, survey, most_tasks);
  if (pass != Pass::Backward) writer.write(false);
  if (pass != Pass::Forward) writer.write(true);
}

}  // namespace ringsched
