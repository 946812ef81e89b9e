// The calls of attends, forward and backward, by the library or by the kernels for any tile.
#include <algorithm>

#include "backends/cuda/attend_tile.hpp"
#include "backends/cuda/lowering.hpp"
#include "ringsched/runtime/numbers.hpp"
#include "typed_memory.hpp"

namespace ringsched::cuda {

namespace {

// Pieces one after the other, each at a multiple of 256.
class Pieces {
 public:
  std::int64_t add(std::int64_t bytes) {
    const std::int64_t at = size_;
    size_ += (bytes + 255) / 256 * 256;
    return at;
  }
  std::int64_t size() const { return size_; }

 private:
  std::int64_t size_ = 0;
};

// Where things are in scratch memory while the library works.
struct ForwardScratch {
  std::int64_t stats = 0, output = 0, size = 0;

  ForwardScratch(const Shape& s, bool narrow) {
    Pieces p;
    stats = p.add(s.heads * s.rows * 4);
    if (!narrow) output = p.add(s.heads * s.rows * s.head_dim * 2);
    size = p.size();
  }
};

struct BackwardScratch {
  std::int64_t stats = 0, output = 0, gradient = 0, query = 0, key = 0, value = 0, size = 0;

  BackwardScratch(const Shape& s, bool narrow_query, bool narrow_key, bool copies_gradient) {
    const std::int64_t by_query = s.heads * s.rows * s.head_dim * 2;
    const std::int64_t by_key = s.kv_heads * s.keys * s.head_dim * 2;
    Pieces p;
    stats = p.add(s.heads * s.rows * 4);
    output = p.add(by_query);
    if (copies_gradient) gradient = p.add(by_query);
    if (!narrow_query) query = p.add(by_query);
    if (!narrow_key) {
      key = p.add(by_key);
      value = p.add(by_key);
    }
    size = p.size();
  }
};

// The queries, keys and values of a tile, from the first row that the kernel gets.
struct Reads {
  const std::byte *query, *key, *value;
};

Reads reads_of(const Task& task, const AttendTile& a, const Operands& operands,
               std::int64_t dropped) {
  const std::byte* const key_value = operands.inputs[operation(task.kind).inner];
  return {operands.inputs[0] + a.query.at(0, a.query_row + dropped),
          key_value + a.key_value.at(0, a.key_row), key_value + a.key_value.at(1, a.key_row)};
}

AnyTile any_tile(const Plan& plan, const Task& task, const AttendTile& a, const Reads& reads,
                 const Surroundings& around) {
  const Problem& p = plan.problem;
  return {around.mask,
          around.positions(plan.regions[plan.rows(task).value]),
          around.positions(plan.regions[task.keys.value]),
          a.rows,
          a.keys,
          p.heads,
          p.kv_heads,
          p.head_dim,
          p.dtype,
          static_cast<float>(score_scale(p)),
          reads.query,
          reads.key,
          reads.value};
}

}  // namespace

std::int64_t Lowering::scratch_bytes(WorkerId worker) const {
  std::int64_t most = 0;
  for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
    const Task& task = plan_.tasks[id];
    if (!library_[id] || task.worker() != worker) continue;
    const AttendTile a = attend_tile(plan_, task);
    most = std::max(most, a.backward ? BackwardScratch(a.library->shape, narrow({id}, 0),
                                                       narrow({id}, 1), a.copies_gradient())
                                           .size
                                     : ForwardScratch(a.library->shape, narrow({id}, 0)).size);
  }
  return most;
}

void Lowering::add_forward(std::vector<DeviceCall>& out, TaskId id, const Operands& operands,
                           const Surroundings& around) const {
  const Problem& p = plan_.problem;
  const Task& task = plan_.tasks[id.value];
  const AttendTile a = attend_tile(plan_, task);
  const TensorForm made = tensor_form(plan_.program, attention::kPartial, {a.rows});
  std::byte* const output = operands.outputs[0];
  auto* const lse = as<float>(output + made.at(1));
  const bool library = library_[id.value];
  const std::int64_t dropped = library ? a.library->dropped_rows : 0;
  const Reads reads = reads_of(task, a, operands, dropped);
  if (!library) {
    const AnyTile tile = any_tile(plan_, task, a, reads, around);
    out.emplace_back(OwnForward{tile, as<float>(output), lse});
    return;
  }
  const Shape& shape = a.library->shape;
  const bool stays = narrow(id, 0);
  const ForwardScratch at(shape, stays);
  auto* const stats = as<float>(around.scratch + at.stats);
  std::byte* const from =
      stays ? output + dropped * p.heads * p.head_dim * 2 : around.scratch + at.output;
  out.emplace_back(LibraryForward{shape, reads.query, reads.key, reads.value, from, stats});
  out.emplace_back(FinishForward{a.rows, dropped, p.heads, p.head_dim, p.dtype, stats,
                                 stays ? nullptr : from, output, lse});
}

void Lowering::add_backward(std::vector<DeviceCall>& out, TaskId id, const Operands& operands,
                            const Surroundings& around) const {
  const Problem& p = plan_.problem;
  const Task& task = plan_.tasks[id.value];
  const AttendTile a = attend_tile(plan_, task);
  const TensorForm made = tensor_form(plan_.program, attention::kKeyValueGradient, {a.keys});
  const bool library = library_[id.value];
  const std::int64_t dropped = library ? a.library->dropped_rows : 0;
  const std::int64_t first = a.gradient_row + dropped;
  const Reads reads = reads_of(task, a, operands, dropped);
  const auto* const lse = as<float>(operands.inputs[1] + a.gradient.at(0, first));
  const auto* const delta = as<float>(operands.inputs[1] + a.gradient.at(1, first));
  const std::byte* gradient = operands.inputs[1] + a.gradient.at(2, first);
  std::byte* const query_out = operands.outputs[0];
  std::byte* const key_out = operands.outputs[1];
  if (!library) {
    const AnyTile tile = any_tile(plan_, task, a, reads, around);
    out.emplace_back(OwnQueryGradient{tile, gradient, lse, delta, as<float>(query_out)});
    out.emplace_back(OwnKeyValueGradient{tile, gradient, lse, delta, as<float>(key_out),
                                         as<float>(key_out + made.at(1))});
    return;
  }
  const Shape& shape = a.library->shape;
  const bool narrow_query = narrow(id, 0), narrow_key = narrow(id, 1);
  const BackwardScratch at(shape, narrow_query, narrow_key, a.copies_gradient());
  if (a.copies_gradient()) {
    out.emplace_back(
        Copy{around.scratch + at.gradient, gradient, shape.rows * p.heads * p.head_dim * 2});
    gradient = around.scratch + at.gradient;
  }
  auto* const stats = as<float>(around.scratch + at.stats);
  std::byte* const output = around.scratch + at.output;
  out.emplace_back(PrepareBackward{shape.rows, p.heads, p.head_dim, p.dtype, gradient, lse, delta,
                                   output, stats});
  const std::int64_t query_row = std::int64_t{p.heads} * p.head_dim * 2;
  const std::int64_t key_row = std::int64_t{p.kv_heads} * p.head_dim * 2;
  std::byte* const dq = narrow_query ? query_out + dropped * query_row : around.scratch + at.query;
  std::byte* const dk = narrow_key ? key_out : around.scratch + at.key;
  std::byte* const dv = narrow_key ? key_out + made.at(1) : around.scratch + at.value;
  out.emplace_back(LibraryBackward{shape, reads.query, reads.key, reads.value, output, gradient,
                                   stats, dq, dk, dv});
  // Keys and values that the library did not get have no gradient.
  const auto zero = [&](std::byte* to, std::int64_t bytes) {
    if (bytes > 0) out.emplace_back(Zero{to, bytes});
  };
  if (narrow_query)
    zero(query_out, dropped * query_row);
  else
    out.emplace_back(Add{{dq, nullptr, p.dtype, dropped, shape.rows, 0},
                         {},
                         a.rows,
                         1,
                         p.heads,
                         p.head_dim,
                         query_out,
                         0});
  if (narrow_key) {
    zero(dk + shape.keys * key_row, (a.keys - shape.keys) * key_row);
    zero(dv + shape.keys * key_row, (a.keys - shape.keys) * key_row);
  } else {
    out.emplace_back(Add{{dk, nullptr, p.dtype, 0, shape.keys, dv - dk},
                         {},
                         a.keys,
                         2,
                         p.kv_heads,
                         p.head_dim,
                         key_out,
                         made.at(1)});
  }
}

}  // namespace ringsched::cuda
