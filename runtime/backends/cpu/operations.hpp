// What the tasks of a plan do to memory, on the calling thread.
#pragma once

#include <cstdint>
#include <vector>

#include "attention.hpp"
#include "ringsched/runtime/device.hpp"
#include "ringsched/runtime/tensor_form.hpp"

namespace ringsched {

cpu::Shape cpu_shape(const Problem&);

class CpuOperations {
 public:
  explicit CpuOperations(const Plan&);

  void perform(TaskId, const Operands&, cpu::Scratch&);
  // Throws RunFailed if a number of the task's result is not finite, except the log-sum-exp of rows
  // that see nothing.
  void require_finite(TaskId, const Operands&) const;

 private:
  struct Keys {  // of a tile, in the order of their positions
    std::vector<std::int64_t> positions;
    std::vector<std::int32_t> rows;
    bool in_order = true;  // that is their order in memory, too
  };
  Keys keys(Region part, Region whole) const;
  std::vector<std::int64_t> positions(Region) const;
  using Kernel = void (CpuOperations::*)(const Task&, const Operands&, cpu::Scratch&);
  void attend(const Task&, const Operands&, cpu::Scratch&);
  void attend_backward(const Task&, const Operands&, cpu::Scratch&);
  void prepare(const Task&, const Operands&, cpu::Scratch&);
  void merge(const Task&, const Operands&, cpu::Scratch&);
  void reduce(const Task&, const Operands&, cpu::Scratch&);
  void round(const Task&, const Operands&, cpu::Scratch&);
  std::int64_t rows(RegionId) const;
  TensorForm form(const Tensor&) const;
  std::int64_t offset(const Tensor&, std::size_t matrix, Region part, std::uint32_t column) const;
  struct Heads {  // of queries, and those of keys that they read
    std::uint32_t first, count, kv_first, kv_count;
  };
  std::vector<Heads> heads_of(ColumnRange) const;
  struct Sum {  // of two tensors, and where their rows begin in it
    TensorForm a, b, out;
    std::int64_t first_a, first_b;
  };
  Sum sum_of(const Task&) const;

  const Plan& plan_;
  const cpu::Shape shape_;
  std::vector<float> spare_;
};

}  // namespace ringsched
