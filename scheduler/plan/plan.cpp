#include "ringsched/scheduler/plan.hpp"

#include <string_view>

namespace ringsched {

Bytes Plan::bytes(TensorKind kind, RegionId region) const {
  return tensor_bytes(problem, kind, layout.rows(regions[region.value]));
}

Bytes tensor_bytes(const Problem& p, TensorKind kind, Tokens rows) {
  constexpr std::int64_t fp32 = 4;
  const std::int64_t element = size_of(p.dtype);
  const std::int64_t query = std::int64_t{p.heads} * p.head_dim;
  const std::int64_t key_value = 2 * std::int64_t{p.kv_heads} * p.head_dim;
  const std::int64_t per_row = [&]() -> std::int64_t {
    switch (kind) {
      case TensorKind::Query:
      case TensorKind::OutputGradient:
        return query * element;
      case TensorKind::KeyValue:
        return key_value * element;
      case TensorKind::Partial:
        return (query + p.heads) * fp32;
      case TensorKind::PreparedGradient:
        return query * element + 2 * std::int64_t{p.heads} * fp32;
      case TensorKind::QueryGradient:
        return query * fp32;
      case TensorKind::KeyValueGradient:
        return key_value * fp32;
    }
    return 0;
  }();
  return {rows.value * per_row};
}

std::string_view to_text(TensorKind kind) {
  static constexpr std::string_view names[kTensorKinds] = {
      "query",          "key_value",         "partial", "output_gradient", "prepared_gradient",
      "query_gradient", "key_value_gradient"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view to_text(TaskKind kind) {
  static constexpr std::string_view names[kTaskKinds] = {
      "attend", "attend_backward", "prepare", "merge", "reduce", "send", "receive", "output"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view to_text(Lane lane) {
  static constexpr std::string_view names[kLanes] = {"compute", "fetch", "return"};
  return names[static_cast<std::size_t>(lane)];
}

}  // namespace ringsched
