#include "backends/cuda/lowering.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/rows.hpp"
#include "ringsched/runtime/numbers.hpp"
#include "ringsched/runtime/tensor_form.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched::cuda {

namespace {

// What the library wants of addresses.
constexpr std::int64_t kAlignment = 16;

template <class T>
const T* as(const std::byte* p) {
  return reinterpret_cast<const T*>(p);
}
template <class T>
T* as(std::byte* p) {
  return reinterpret_cast<T*>(p);
}

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

}  // namespace

std::optional<LibraryTile> library_tile(const Problem& p, TileForm form, std::int64_t rows,
                                        std::int64_t keys, bool backward) {
  Shape s{p.dtype, backward, false, p.heads, p.kv_heads, p.head_dim, rows, keys};
  switch (form) {
    case TileForm::Full:
      return LibraryTile{s, 0};
    case TileForm::Causal:
      s.keys = std::min(rows, keys);
      s.causal = s.keys > 1;  // one key is seen by all
      return LibraryTile{s, 0};
    case TileForm::StrictlyCausal:
      s.rows = rows - 1;
      s.keys = std::min(s.rows, keys);
      s.causal = s.keys > 1;
      return LibraryTile{s, 1};
    case TileForm::Empty:
    case TileForm::Other:
      break;
  }
  return std::nullopt;
}

std::string refusal(const Problem& p) {
  if (p.dtype == Dtype::Fp32) return "cuDNN has no fp32";
  if (p.head_dim % 8 != 0) return fmt::format("head dimension {} is no multiple of 8", p.head_dim);
  return "";
}

void check_for_gpu(const Problem& p) {
  if (p.head_dim > kMostHeadDim)
    fail("head dimension {}: on a GPU it may be up to {}", p.head_dim, kMostHeadDim);
}

std::vector<bool> narrow_outputs(const Plan& plan, const std::vector<bool>& by_library) {
  std::vector<bool> narrow(2 * plan.tasks.size(), false);
  for (std::size_t id = 0; id < plan.tasks.size(); ++id)
    for (std::uint32_t n = 0; by_library[id] && n < outputs_of(plan.tasks[id].kind); ++n)
      narrow[2 * id + n] = true;
  std::vector<bool> read(narrow.size(), false);
  for (const Task& task : plan.tasks)
    for (std::size_t i = 0; i < task.inputs.size(); ++i) {
      const TensorId input = task.inputs[i];
      if (!input.valid() || !plan.producer(input).valid()) continue;
      const std::size_t at = input.value - plan.initial.size();
      read[at] = true;
      // The first input of a merge may be the place of what it makes, which is not narrow.
      if ((task.kind != TaskKind::Merge && task.kind != TaskKind::Reduce) || i != 1)
        narrow[at] = false;
    }
  for (std::size_t i = 0; i < narrow.size(); ++i) narrow[i] = narrow[i] && read[i];
  return narrow;
}

// Everything about an attend but addresses.
struct Lowering::Attend {
  TileForm form;
  bool backward;
  std::int64_t rows, keys;                  // of the tile
  std::int64_t query_row, key_row;          // where it begins in what is held
  std::int64_t gradient_row = 0;            // likewise, of prepared gradients
  TensorForm query, key_value, gradient{};  // what is held
  std::optional<LibraryTile> library;

  bool copies_gradient() const {
    return gradient.at(2, gradient_row + library->dropped_rows) % kAlignment != 0;
  }
};

Lowering::Lowering(const Plan& plan, const std::vector<WorkerId>& mine, const Refusal& refuses,
                   bool all_narrow)
    : plan_(plan), library_(plan.tasks.size(), false) {
  std::vector<bool> own(plan.problem.workers, false);
  for (const WorkerId w : mine) own[w.value] = true;
  const std::string never = refusal(plan.problem);
  std::map<Shape, std::string> asked;
  for (std::size_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    if (!is_attend(task.kind) || !own[task.worker_index]) continue;
    const Attend a = attend_of(task);
    std::string why = never;
    if (why.empty() && !a.library) why = "cuDNN has no such mask";
    if (why.empty()) {
      auto [known, is_new] = asked.try_emplace(a.library->shape);
      if (is_new) known->second = refuses(a.library->shape);
      why = known->second;
    }
    library_[id] = why.empty();
    if (why.empty())
      ++by_library_;
    else
      ++by_own_[why];
  }
  narrow_ = narrow_outputs(plan, library_);
  if (all_narrow)
    for (std::size_t i = 0; i < narrow_.size(); ++i) narrow_[i] = library_[i / 2];
}

std::string Lowering::summary() const {
  std::string own;
  std::int64_t count = 0;
  for (const auto& [why, n] : by_own_) {
    count += n;
    own += (own.empty() ? "" : "; ") + why;
  }
  if (count == 0) return fmt::format("{} by cuDNN", counted(by_library_, "attend"));
  return fmt::format("{} by cuDNN, {} by the kernel for any tile ({})",
                     counted(by_library_, "attend"), count, own);
}

std::int64_t Lowering::rows(RegionId r) const {
  return plan_.layout.rows(plan_.regions[r.value]).value;
}

Region Lowering::whole(const Task& task, std::size_t input) const {
  return plan_.regions[plan_.tensor(task.inputs[input]).region.value];
}

Lowering::Attend Lowering::attend_of(const Task& task) const {
  const Problem& p = plan_.problem;
  const bool backward = task.kind == TaskKind::AttendBackward;
  const Region queries = plan_.regions[task.region.value], keys = plan_.regions[task.keys.value];
  const Region held = whole(task, key_value_input(task.kind)), held_queries = whole(task, 0);
  Attend a{};
  a.backward = backward;
  a.form = plan_.works[task.work.value].form;
  a.rows = rows(task.region);
  a.keys = rows(task.keys);
  a.query_row = rows_before(plan_.layout, queries, held_queries);
  a.key_row = rows_before(plan_.layout, keys, held);
  a.query = tensor_form(p, TensorKind::Query, plan_.layout.rows(held_queries));
  a.key_value = tensor_form(p, TensorKind::KeyValue, plan_.layout.rows(held));
  a.library = library_tile(p, a.form, a.rows, a.keys, backward);
  if (!backward) return a;
  a.gradient_row = rows_before(plan_.layout, queries, whole(task, 1));
  a.gradient = tensor_form(p, TensorKind::PreparedGradient, plan_.layout.rows(whole(task, 1)));
  return a;
}

std::int64_t Lowering::scratch_bytes(WorkerId worker) const {
  std::int64_t most = 0;
  for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
    const Task& task = plan_.tasks[id];
    if (!library_[id] || task.worker() != worker) continue;
    const Attend a = attend_of(task);
    most = std::max(most, a.backward ? BackwardScratch(a.library->shape, narrow({id}, 0),
                                                       narrow({id}, 1), a.copies_gradient())
                                           .size
                                     : ForwardScratch(a.library->shape, narrow({id}, 0)).size);
  }
  return most;
}

std::vector<Step> Lowering::steps(TaskId id, const Operands& operands,
                                  const Surroundings& around) const {
  std::vector<Step> out;
  const Task& task = plan_.tasks[id.value];
  switch (task.kind) {
    case TaskKind::Attend:
      add_forward(out, id, operands, around);
      break;
    case TaskKind::AttendBackward:
      add_backward(out, id, operands, around);
      break;
    case TaskKind::Prepare:
      out.emplace_back(prepare(task, operands));
      break;
    case TaskKind::Merge:
      out.emplace_back(merge(id, operands));
      break;
    case TaskKind::Reduce:
      out.emplace_back(reduce(id, operands));
      break;
    case TaskKind::Send:
    case TaskKind::Receive:
    case TaskKind::Output:
      break;
  }
  if (around.not_finite) add_checks(out, id, operands, around.not_finite);
  return out;
}

void Lowering::add_forward(std::vector<Step>& out, TaskId id, const Operands& operands,
                           const Surroundings& around) const {
  const Problem& p = plan_.problem;
  const Task& task = plan_.tasks[id.value];
  const Attend a = attend_of(task);
  const TensorForm made = tensor_form(p, TensorKind::Partial, {a.rows});
  std::byte* const output = operands.outputs[0];
  auto* const lse = as<float>(output + made.at(1));
  const std::byte* const query = operands.inputs[0] + a.query.at(0, a.query_row);
  const std::byte* const key = operands.inputs[1] + a.key_value.at(0, a.key_row);
  const std::byte* const value = operands.inputs[1] + a.key_value.at(1, a.key_row);
  if (!library_[id.value]) {
    const AnyTile tile{around.mask,
                       around.positions(plan_.regions[task.region.value]),
                       around.positions(plan_.regions[task.keys.value]),
                       a.rows,
                       a.keys,
                       p.heads,
                       p.kv_heads,
                       p.head_dim,
                       p.dtype,
                       static_cast<float>(score_scale(p)),
                       query,
                       key,
                       value};
    out.emplace_back(OwnForward{tile, as<float>(output), lse});
    return;
  }
  const Shape& shape = a.library->shape;
  const std::int64_t dropped = a.library->dropped_rows;
  const bool stays = narrow(id, 0);
  const ForwardScratch at(shape, stays);
  auto* const stats = as<float>(around.scratch + at.stats);
  std::byte* const from =
      stays ? output + dropped * p.heads * p.head_dim * 2 : around.scratch + at.output;
  out.emplace_back(
      LibraryForward{shape, query + dropped * a.query.row_bytes[0], key, value, from, stats});
  out.emplace_back(FinishForward{a.rows, dropped, p.heads, p.head_dim, p.dtype, stats,
                                 stays ? nullptr : from, output, lse});
}

void Lowering::add_backward(std::vector<Step>& out, TaskId id, const Operands& operands,
                            const Surroundings& around) const {
  const Problem& p = plan_.problem;
  const Task& task = plan_.tasks[id.value];
  const Attend a = attend_of(task);
  const TensorForm made = tensor_form(p, TensorKind::KeyValueGradient, {a.keys});
  const bool library = library_[id.value];
  const std::int64_t dropped = library ? a.library->dropped_rows : 0;
  const std::int64_t first = a.gradient_row + dropped;
  const std::byte* const query = operands.inputs[0] + a.query.at(0, a.query_row + dropped);
  const std::byte* const key = operands.inputs[2] + a.key_value.at(0, a.key_row);
  const std::byte* const value = operands.inputs[2] + a.key_value.at(1, a.key_row);
  const auto* const lse = as<float>(operands.inputs[1] + a.gradient.at(0, first));
  const auto* const delta = as<float>(operands.inputs[1] + a.gradient.at(1, first));
  const std::byte* gradient = operands.inputs[1] + a.gradient.at(2, first);
  std::byte* const query_out = operands.outputs[0];
  std::byte* const key_out = operands.outputs[1];
  if (!library) {
    const AnyTile tile{around.mask,
                       around.positions(plan_.regions[task.region.value]),
                       around.positions(plan_.regions[task.keys.value]),
                       a.rows,
                       a.keys,
                       p.heads,
                       p.kv_heads,
                       p.head_dim,
                       p.dtype,
                       static_cast<float>(score_scale(p)),
                       query,
                       key,
                       value};
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
  out.emplace_back(LibraryBackward{shape, query, key, value, output, gradient, stats, dq, dk, dv});
  // What the library was not given has no gradient.
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

// An input of a merge or sum.
Side Lowering::side(TaskId id, std::size_t input, const std::byte* data) const {
  const Task& task = plan_.tasks[id.value];
  const TensorId tensor = task.inputs[input];
  const Region region = whole(task, input);
  const Tokens count = plan_.layout.rows(region);
  const TensorForm form = tensor_form(plan_.problem, task.makes, count);
  const TaskId maker = plan_.producer(tensor);
  const bool is_narrow =
      maker.valid() && narrow_[tensor.value - static_cast<std::uint32_t>(plan_.initial.size())];
  return {data,
          task.makes == TensorKind::Partial ? as<float>(data + form.at(1)) : nullptr,
          is_narrow ? plan_.problem.dtype : Dtype::Fp32,
          rows_before(plan_.layout, region, plan_.regions[task.region.value]),
          count.value,
          form.at(1)};
}

Merge Lowering::merge(TaskId id, const Operands& operands) const {
  const Problem& p = plan_.problem;
  const std::int64_t count = rows(plan_.tasks[id.value].region);
  const TensorForm out = tensor_form(p, TensorKind::Partial, {count});
  return {side(id, 0, operands.inputs[0]),
          side(id, 1, operands.inputs[1]),
          count,
          p.heads,
          p.head_dim,
          as<float>(operands.outputs[0]),
          as<float>(operands.outputs[0] + out.at(1))};
}

Add Lowering::reduce(TaskId id, const Operands& operands) const {
  const Problem& p = plan_.problem;
  const Task& task = plan_.tasks[id.value];
  const std::int64_t count = rows(task.region);
  const TensorForm out = tensor_form(p, task.makes, {count});
  const bool of_keys = task.makes == TensorKind::KeyValueGradient;
  return {side(id, 0, operands.inputs[0]),
          side(id, 1, operands.inputs[1]),
          count,
          of_keys ? 2u : 1u,
          of_keys ? p.kv_heads : p.heads,
          p.head_dim,
          operands.outputs[0],
          out.at(1)};
}

Prepare Lowering::prepare(const Task& task, const Operands& operands) const {
  const Problem& p = plan_.problem;
  const Region part = plan_.regions[task.region.value], held = whole(task, 0);
  const Region gradients = whole(task, 1);
  const std::int64_t count = rows(task.region);
  const TensorForm o = tensor_form(p, TensorKind::Partial, plan_.layout.rows(held));
  const TensorForm g = tensor_form(p, TensorKind::OutputGradient, plan_.layout.rows(gradients));
  const TensorForm made = tensor_form(p, TensorKind::PreparedGradient, {count});
  const std::int64_t row = rows_before(plan_.layout, part, held);
  return {count,
          p.heads,
          p.head_dim,
          p.dtype,
          as<float>(operands.inputs[0] + o.at(0, row)),
          as<float>(operands.inputs[0] + o.at(1, row)),
          operands.inputs[1] + g.at(0, rows_before(plan_.layout, part, gradients)),
          as<float>(operands.outputs[0] + made.at(0)),
          as<float>(operands.outputs[0] + made.at(1)),
          operands.outputs[0] + made.at(2)};
}

void Lowering::add_checks(std::vector<Step>& out, TaskId id, const Operands& operands,
                          std::uint32_t* flag) const {
  const Task& task = plan_.tasks[id.value];
  if (task.kind == TaskKind::Prepare || is_transfer(task.kind)) return;
  for (std::uint32_t n = 0; n < outputs_of(task.kind); ++n) {
    const Tensor made = plan_.tensor(plan_.output(id, n));
    const TensorForm form = tensor_form(plan_.problem, made.kind, {rows(made.region)});
    for (std::size_t m = 0; m < 2 && form.row_bytes[m] > 0; ++m) {
      const bool is_lse = made.kind == TensorKind::Partial && m == 1;
      out.emplace_back(CheckFinite{operands.outputs[n] + form.at(m),
                                   narrow(id, n) && !is_lse ? plan_.problem.dtype : Dtype::Fp32,
                                   form.rows * form.row_bytes[m] / 4, is_lse, id.value, flag});
    }
  }
}

}  // namespace ringsched::cuda
