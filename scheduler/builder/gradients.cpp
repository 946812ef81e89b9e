// The backward pass, derived from the calls a schedule makes for the forward one. Query gradients
// take the way of the partials. A gradient of keys is collected where their copy is: it travels on
// with the copy (the ring's way) or, where the copy goes no further, straight home to their owner.
#include "mistake.hpp"
#include "writer.hpp"

namespace ringsched {

void PlanWriter::prepare_gradients() {
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

void PlanWriter::add_key_gradient(CallId keys, TensorId gradient, RegionId rows) {
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

void PlanWriter::hand_on_gradient(CallId from, CallId to) {
  const Call& there = tape_[from];
  const Accumulator& sum = key_gradient_[from];
  if (there.what == Call::What::Given || survey_.paths[from].onward != to || !sum.tensor.valid())
    return;
  key_gradient_[to] = {transfer(sum.tensor, attention::kKeyValueGradient, sum.rows, worker(there),
                                worker(tape_[to]), Lane::Return),
                       sum.rows};
}

void PlanWriter::send_gradients_home() {
  for (const CallId keys : finished_) {
    const Call& c = tape_[keys];
    const Accumulator& sum = key_gradient_[keys];
    const TensorId there = transfer(sum.tensor, attention::kKeyValueGradient, sum.rows, worker(c),
                                    owner(c), Lane::Return);
    arrived_.push_back({tape_.keys_of(owner(c)), {there, sum.rows}});
  }
  finished_.clear();
}

void PlanWriter::add_arrived_gradients() {
  for (const auto& [keys, gradient] : arrived_)
    accumulate(attention::kKeyValueGradient, owner(tape_[keys]), key_gradient_[keys], gradient);
  arrived_.clear();
}

}  // namespace ringsched
