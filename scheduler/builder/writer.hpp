// A pass over the tape that writes tasks: the forward pass, or the backward pass derived from the
// same calls (gradients.cpp). It makes sizes, pairs sends with receives, groups what one worker
// posts together, and leaves out moves of what nobody reads.
#pragma once

#include <memory>
#include <vector>

#include "parts.hpp"
#include "survey.hpp"

namespace ringsched {

// A table by number. Few of its entries are ever used; the others take no memory.
template <class T>
class SparseTable {
 public:
  T& operator[](std::uint32_t i) {
    if (pages_.size() <= i / kPage) pages_.resize(i / kPage + 1);
    auto& page = pages_[i / kPage];
    if (!page) page = std::make_unique<T[]>(kPage);
    return page[i % kPage];
  }

 private:
  static constexpr std::uint32_t kPage = 1024;
  std::vector<std::unique_ptr<T[]>> pages_;
};

class PlanWriter {
 public:
  PlanWriter(PlanParts&, const Tape&, const Survey&, std::uint64_t most_tasks);

  void write_forward();
  void write_backward();

  // What the tape calls.
  void step(Step);
  void move(std::uint32_t copy, bool of_keys, Lane);
  void move_result(std::uint32_t from, std::uint32_t to, WorkerId);
  void attend(const Tape::Attend&);
  void merge(std::uint32_t result);

 private:
  // A partial result, or in the backward pass a gradient, that is not merged yet.
  struct Result {
    TensorId tensor;
    RegionId rows;
    WorkerId owner, worker;
  };
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

  Task& add(TaskKind, ValueId, WorkerId, RegionId rows, WorkId, Lane = Lane::Compute);
  TensorId last_output(std::uint32_t index = 0) const {
    return plan_.output({static_cast<std::uint32_t>(plan_.tasks.size()) - 1}, index);
  }
  TensorId transfer(TensorId, ValueId, RegionId rows, WorkerId from, WorkerId to, Lane);
  void accumulate(ValueId, WorkerId, Accumulator&, Accumulator added);
  void merge(const Result&);
  void write_outputs(ValueId, const std::vector<Accumulator>&);

  WorkerId owner(Place p) const {
    return p.at_home() ? p.owner() : WorkerId{tape_.copies()[p.copy()].owner};
  }
  WorkerId worker(Place p) const {
    return p.at_home() ? p.owner() : WorkerId{tape_.copies()[p.copy()].worker};
  }
  TensorId tensor(ValueId value, Place p) const {
    return p.at_home() ? parts_.given(value, p.owner()) : copy_tensor_[p.copy()];
  }
  TensorId prepared(Place p) {
    return p.at_home() ? prepared_[p.owner().value] : copy_prepared_[p.copy()];
  }

  void prepare_gradients();
  void add_key_gradient(Place keys, TensorId, RegionId rows);
  void hand_on_gradient(Place from, std::uint32_t to);
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

  std::vector<TensorId, PageAllocator<TensorId>> copy_tensor_;  // per copy
  SparseTable<TensorId> copy_prepared_;                         // per copy of queries
  SparseTable<Result> waiting_;                                 // by number on the tape
  std::vector<Accumulator> result_;                             // per worker: O, or dQ
  std::vector<Accumulator> final_result_;       // per worker: the forward pass's O, for prepare
  std::vector<TensorId> prepared_;              // per worker
  std::vector<Accumulator> home_key_gradient_;  // per worker
  std::vector<Accumulator> copy_key_gradient_;  // per copy
  std::vector<std::uint32_t> finished_copies_;  // their gradients go home next step
  // Key gradients that came home, to be added once this step's attends are done.
  std::vector<Result> arrived_;
};

}  // namespace ringsched
