// The backward pass, derived from the calls a schedule makes for the forward one. Query gradients
// take the way of the partials. A gradient of keys is collected where their copy is: it travels on
// with the copy (the ring's way) or, where the copy goes no further, straight home to their owner.
#include "mistake.hpp"
#include "ringsched/scheduler/builder.hpp"

namespace ringsched {

void PlanBuilder::prepare_gradients() {
  const std::uint32_t workers = plan_.problem.workers;
  prepared_.assign(workers, {});
  for (std::uint32_t w = 0; w < workers; ++w) {
    const TensorId given{3 * workers +
                         w};  // the forward result, when there is no forward pass here
    const TensorId result = final_result_.empty() ? given : final_result_[w].tensor;
    if (!result.valid()) continue;  // no query of this worker sees any key
    Task& task = add(TaskKind::Prepare, TensorKind::PreparedGradient, WorkerId{w}, RegionId{w},
                     work_of_rows(TensorKind::OutputGradient, RegionId{w}));
    task.inputs = {result, TensorId{2 * workers + w}, {}};
    prepared_[w] = last_output();
  }
}

void PlanBuilder::add_key_gradient(const Keys& keys, TensorId gradient, RegionId region) {
  Accumulator& sum =
      keys.at_home() ? home_key_gradient_[keys.owner.value] : copy_key_gradient_[keys.copy];
  accumulate(TaskKind::Reduce, TensorKind::KeyValueGradient, keys.worker, sum, gradient, region);
  if (keys.at_home()) return;
  const CopyPath& use = paths_[keys.copy];
  if (use.onward != ~0u && next_attend_ >= use.attends_when_moved_on)
    mistake_at(
        step_ - first_step_,
        "worker {} attends the keys of worker {} after it moved them on, when their gradient "
        "has left with them; attend first, then move (or plan --pass forward)",
        keys.worker.value, keys.owner.value);
  if (use.onward == ~0u && use.last_attend == next_attend_) finished_keys_.push_back(keys);
}

void PlanBuilder::hand_on_gradient(const Keys& from, const Keys& to) {
  if (from.at_home() || paths_[from.copy].onward != to.copy) return;
  const Accumulator& sum = copy_key_gradient_[from.copy];
  if (!sum.tensor.valid()) return;
  copy_key_gradient_[to.copy] = {transfer(sum.tensor, TensorKind::KeyValueGradient, sum.region,
                                          from.worker, to.worker, Lane::Return),
                                 sum.region};
}

void PlanBuilder::send_gradients_home() {
  for (const Keys& keys : finished_keys_) {
    const Accumulator& sum = copy_key_gradient_[keys.copy];
    arrived_.push_back({keys.owner,
                        transfer(sum.tensor, TensorKind::KeyValueGradient, sum.region, keys.worker,
                                 keys.owner, Lane::Return),
                        sum.region});
  }
  finished_keys_.clear();
}

void PlanBuilder::add_arrived_gradients() {
  for (const Arrival& a : arrived_)
    accumulate(TaskKind::Reduce, TensorKind::KeyValueGradient, a.owner,
               home_key_gradient_[a.owner.value], a.tensor, a.region);
  arrived_.clear();
}

}  // namespace ringsched
