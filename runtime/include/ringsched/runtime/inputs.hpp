// The input numbers of a run. Each follows from the seed and from its place (tensor, token, head,
// position). So every process makes its own shares and can make any row again, whatever the layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

enum class InputKind : std::uint8_t {
  Normal,      // of mean 0 and variance 1
  Large,       // queries and keys a hundred times that: one key takes all
  Equal,       // all keys alike: every score of a query is the same
  NotANumber,  // as Normal, but for one key of the last token
};

enum class Matrix : std::uint8_t { Query, Key, Value, OutputGradient };
// The inputs that fill a value, in order; empty: the value is computed.
std::vector<Matrix> matrices_of(ValueId);

class Inputs {
 public:
  Inputs(const Problem&, std::uint64_t seed, InputKind = InputKind::Normal);

  // As stored in memory, so rounded to the problem's dtype.
  float value(Matrix, std::int64_t token, std::uint32_t head, std::uint32_t place) const;
  // A row of a head: head_dim numbers.
  void row(Matrix, std::int64_t token, std::uint32_t head, std::span<float> out) const;
  // The tokens of a region, in the layout of tensor_form(). Not for partials, which are computed.
  void fill(const Plan&, const InitialTensor&, std::span<std::byte> out) const;
  void fill(const Program&, ValueId, ColumnRange, const Layout&, Region,
            std::span<std::byte> out) const;

 private:
  void fill_matrix(Matrix, const Layout&, Region, ColumnRange heads, std::byte* out) const;

  const Problem problem_;
  const std::uint64_t seed_;
  const InputKind kind_;
};

InputKind parse_input_kind(std::string_view);

}  // namespace ringsched
