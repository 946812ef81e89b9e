#include "backends/cuda/fill.hpp"

#include "input_numbers.hpp"
#include "ringsched/runtime/tensor_form.hpp"

namespace ringsched::cuda {

FillInputs fill_inputs(const Problem& p, std::uint64_t seed, InputKind kind, Matrix matrix,
                       const std::int32_t* positions, std::int64_t rows, std::byte* out) {
  const bool key = matrix == Matrix::Key, query = matrix == Matrix::Query;
  return {rows,
          key || matrix == Matrix::Value ? p.kv_heads : p.heads,
          p.head_dim,
          p.dtype,
          positions,
          mixed_seed(seed),
          static_cast<std::uint32_t>(matrix),
          kind == InputKind::Large && (key || query) ? kLargeInputs : 1.0f,
          kind == InputKind::Equal && key,
          kind == InputKind::NotANumber && key ? p.tokens.value - 1 : -1,
          out};
}

std::vector<FillInputs> fills_of(const Plan& plan, const InitialTensor& tensor, std::uint64_t seed,
                                 InputKind kind, const std::int32_t* positions, std::byte* out) {
  const Piece& piece = plan.piece(tensor);
  const Tokens rows = plan.layout.rows(plan.regions[piece.rows.value]);
  const TensorForm form = tensor_form(plan.program, piece.value, rows);
  std::vector<FillInputs> fills;
  for (const Matrix matrix : matrices_of(piece.value))
    fills.push_back(fill_inputs(plan.problem, seed, kind, matrix, positions, rows.value,
                                out + form.at(fills.size())));
  return fills;
}

std::vector<std::int32_t> positions_of(const Layout& layout, Region region) {
  std::vector<std::int32_t> all;
  for (const TokenRange& range : layout.ranges(region))
    for (std::int64_t i = 0; i < range.count; ++i)
      all.push_back(static_cast<std::int32_t>(range.position(i)));
  return all;
}

}  // namespace ringsched::cuda
