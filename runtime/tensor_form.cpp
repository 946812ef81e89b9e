#include "ringsched/runtime/tensor_form.hpp"

namespace ringsched {

TensorForm tensor_form(const Problem& p, TensorKind kind, Tokens rows) {
  constexpr std::int64_t fp32 = 4;
  const std::int64_t query = std::int64_t{p.heads} * p.head_dim;
  const std::int64_t key = std::int64_t{p.kv_heads} * p.head_dim;
  const std::int64_t element = size_of(p.dtype), per_head = p.heads * fp32;
  switch (kind) {
    case TensorKind::Query:
    case TensorKind::OutputGradient:
      return {{query * element, 0, 0}, rows.value};
    case TensorKind::KeyValue:
      return {{key * element, key * element, 0}, rows.value};
    case TensorKind::Partial:
      return {{query * fp32, per_head, 0}, rows.value};
    case TensorKind::PreparedGradient:
      return {{per_head, per_head, query * element}, rows.value};
    case TensorKind::QueryGradient:
      return {{query * fp32, 0, 0}, rows.value};
    case TensorKind::KeyValueGradient:
      return {{key * fp32, key * fp32, 0}, rows.value};
  }
  return {};
}

std::int64_t rows_before(const Layout& layout, Region part, Region whole) {
  return layout.rows({whole.first, part.first.value - whole.first.value}).value;
}

}  // namespace ringsched
