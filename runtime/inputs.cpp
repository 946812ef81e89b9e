#include "ringsched/runtime/inputs.hpp"

#include <array>
#include <limits>
#include <vector>

#include "input_numbers.hpp"
#include "ringsched/runtime/numbers.hpp"
#include "ringsched/runtime/tensor_form.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"

namespace ringsched {

namespace {

constexpr std::string_view kNames[] = {"normal", "large", "equal", "nan"};

float rounded(float x, Dtype dtype) {
  return dtype == Dtype::Fp32   ? x
         : dtype == Dtype::Bf16 ? from_bf16(to_bf16(x))
                                : from_fp16(to_fp16(x));
}

}  // namespace

Inputs::Inputs(const Problem& problem, std::uint64_t seed, InputKind kind)
    : problem_(problem), seed_(mixed_seed(seed)), kind_(kind) {}

void Inputs::row(Matrix matrix, std::int64_t token, std::uint32_t head,
                 std::span<float> out) const {
  const bool key = matrix == Matrix::Key;
  const bool hole =
      kind_ == InputKind::NotANumber && key && head == 0 && token == problem_.tokens.value - 1;
  if (kind_ == InputKind::Equal && key) token = 0;
  const std::uint64_t row = row_of_numbers(seed_, token, head, static_cast<std::uint32_t>(matrix));
  const float times =
      kind_ == InputKind::Large && (key || matrix == Matrix::Query) ? kLargeInputs : 1.0f;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = times * number_of_row(row, i);
  for (float& x : out) x = rounded(x, problem_.dtype);
  if (hole) out[0] = std::numeric_limits<float>::quiet_NaN();
}

float Inputs::value(Matrix matrix, std::int64_t token, std::uint32_t head,
                    std::uint32_t place) const {
  std::vector<float> all(problem_.head_dim);
  row(matrix, token, head, all);
  return all[place];
}

void Inputs::fill_matrix(Matrix matrix, const Layout& layout, Region region, ColumnRange heads,
                         std::byte* out) const {
  std::vector<float> numbers(problem_.head_dim);
  std::int64_t at = 0;
  for (const TokenRange& range : layout.ranges(region))
    for (std::int64_t i = 0; i < range.count; ++i)
      for (std::uint32_t h = heads.first; h < heads.end(); ++h) {
        row(matrix, range.position(i), h, numbers);
        for (const float x : numbers) put_number(out, problem_.dtype, at++, x);
      }
}

std::vector<Matrix> matrices_of(ValueId value) {
  if (value == attention::kQuery) return {Matrix::Query};
  if (value == attention::kKeyValue) return {Matrix::Key, Matrix::Value};
  if (value == attention::kOutputGradient) return {Matrix::OutputGradient};
  return {};
}

void Inputs::fill(const Plan& plan, const InitialTensor& tensor, std::span<std::byte> out) const {
  const Piece& piece = plan.piece(tensor);
  fill(plan.program, piece.value, piece.columns, plan.layout, plan.regions[piece.rows.value], out);
}

void Inputs::fill(const Program& program, ValueId value, ColumnRange columns, const Layout& layout,
                  Region region, std::span<std::byte> out) const {
  const std::vector<Matrix> matrices = matrices_of(value);
  if (matrices.empty()) fail("no input numbers for a {}", program[value].name);
  const TensorForm form = tensor_form(program, value, layout.rows(region), columns.count);
  for (std::size_t m = 0; m < matrices.size(); ++m)
    fill_matrix(matrices[m], layout, region, columns, out.data() + form.at(m));
}

InputKind parse_input_kind(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == text) return static_cast<InputKind>(i);
  throw Error(unknown_name("kind of inputs", text, kNames));
}

}  // namespace ringsched
