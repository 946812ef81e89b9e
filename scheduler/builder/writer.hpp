// A pass over the tape that writes tasks: the forward pass, or the backward pass derived from the
// same calls (gradients.cpp). It makes sizes, pairs sends with receives, groups what one worker
// posts together, and leaves out moves of what nobody reads.
#pragma once

#include <span>
#include <vector>

#include "parts.hpp"
#include "survey.hpp"

namespace ringsched {

class PlanWriter {
 public:
  PlanWriter(PlanParts&, const Tape&, const Survey&, std::uint64_t most_tasks);

  void write(bool backward);

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

  void begin(bool backward);
  void end();

  void step(Step);
  void move(CallId, const Call&);
  void attend(CallId, const Call&);
  void move_result(CallId, const Call&);
  void merge(CallId result);

  Task& add(TaskKind, ValueId, WorkerId, RegionId rows, WorkId, Lane = Lane::Compute);
  TensorId last_output(std::uint32_t index = 0) const {
    return plan_.output({static_cast<std::uint32_t>(plan_.tasks.size()) - 1}, index);
  }
  TensorId transfer(TensorId, ValueId, RegionId rows, WorkerId from, WorkerId to, Lane);
  void accumulate(ValueId, WorkerId, Accumulator&, Accumulator added);
  void write_outputs(ValueId, std::span<const Accumulator>);

  ValueId result_value() const {
    return backward_ ? attention::kQueryGradient : attention::kPartial;
  }
  static WorkerId worker(const Call& c) { return {c.worker}; }
  static WorkerId owner(const Call& c) { return {c.owner}; }

  void prepare_gradients();
  void add_key_gradient(CallId keys, TensorId, RegionId rows);
  void hand_on_gradient(CallId from, CallId to);
  void send_gradients_home();
  void add_arrived_gradients();

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
  std::vector<CallId> finished_;           // keys whose gradients go home next step
  // Key gradients that came home to these keys, to be added once this step's attends are done.
  std::vector<std::pair<CallId, Accumulator>> arrived_;
};

}  // namespace ringsched
