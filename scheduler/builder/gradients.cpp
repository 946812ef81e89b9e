// The backward pass, derived from the calls a schedule makes for the forward one. Query gradients
// take the way of the partials. A gradient of keys is collected where their copy is: it travels on
// with the copy (the ring's way) or, where the copy goes no further, straight home to their owner.
#include "mistake.hpp"
#include "writer.hpp"

namespace ringsched {

void PlanWriter::prepare_gradients() {
  const std::uint32_t workers = plan_.problem.workers;
  prepared_.assign(workers, {});
  for (std::uint32_t w = 0; w < workers; ++w) {
    const TensorId result = final_result_.empty() ? parts_.given(attention::kPartial, WorkerId{w})
                                                  : final_result_[w].tensor;
    if (!result.valid()) continue;  // no query of this worker sees any key
    const RegionId rows = parts_.share({w});
    Task& task = add(TaskKind::Prepare, attention::kPreparedGradient, WorkerId{w}, rows,
                     parts_.work(attention::kOutputGradient, rows));
    task.inputs = {result, parts_.given(attention::kOutputGradient, WorkerId{w}), {}};
    task.completes = 1;
    prepared_[w] = last_output();
  }
}

void PlanWriter::add_key_gradient(Place keys, TensorId gradient, RegionId rows) {
  Accumulator& sum =
      keys.at_home() ? home_key_gradient_[keys.owner().value] : copy_key_gradient_[keys.copy()];
  accumulate(attention::kKeyValueGradient, worker(keys), sum, {gradient, rows});
  if (keys.at_home()) return;
  const Survey::Path& path = survey_.paths[keys.copy()];
  if (path.onward != Survey::kNone && attends_ >= path.attends_when_moved_on)
    mistake_at(
        step_ - first_step_,
        "worker {} attends the keys of worker {} after it moved them on, when their gradient "
        "has left with them; attend first, then move (or plan --pass forward)",
        worker(keys).value, owner(keys).value);
  if (path.onward == Survey::kNone && path.last_attend == attends_)
    finished_copies_.push_back(keys.copy());
}

void PlanWriter::hand_on_gradient(Place from, std::uint32_t to) {
  if (from.at_home() || survey_.paths[from.copy()].onward != to) return;
  const Accumulator& sum = copy_key_gradient_[from.copy()];
  if (!sum.tensor.valid()) return;
  copy_key_gradient_[to] = {
      transfer(sum.tensor, attention::kKeyValueGradient, sum.rows, worker(from),
               WorkerId{tape_.copies()[to].worker}, Lane::Return),
      sum.rows};
}

void PlanWriter::send_gradients_home() {
  for (const std::uint32_t copy : finished_copies_) {
    const Accumulator& sum = copy_key_gradient_[copy];
    const Copy& keys = tape_.copies()[copy];
    const WorkerId home{keys.owner};
    const TensorId there = transfer(sum.tensor, attention::kKeyValueGradient, sum.rows,
                                    WorkerId{keys.worker}, home, Lane::Return);
    arrived_.push_back({there, sum.rows, home, home});
  }
  finished_copies_.clear();
}

void PlanWriter::add_arrived_gradients() {
  for (const Result& a : arrived_)
    accumulate(attention::kKeyValueGradient, a.worker, home_key_gradient_[a.owner.value],
               {a.tensor, a.rows});
  arrived_.clear();
}

}  // namespace ringsched
