// Merges, sums and rounding, at the speed of memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ringsched/scheduler/problem.hpp"

namespace ringsched {

// Folds partial b into partial a, over `rows` rows of `width` numbers with a log-sum-exp each. A
// row that has seen no key (-infinity) changes nothing.
void merge_partials(float* a, float* a_lse, const float* b, const float* b_lse, std::int64_t rows,
                    std::uint32_t width);

void add_to(float* a, const float* b, std::int64_t count);

// To the nearest numbers of a dtype, ties to even.
void round_to(Dtype, const float* from, std::int64_t count, std::byte* to);

// out[i] = the sum over a row of x times y.
void row_products(const float* x, const std::byte* y, Dtype y_dtype, std::int64_t rows,
                  std::uint32_t width, float* out);

}  // namespace ringsched
