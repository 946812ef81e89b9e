// Exact attention by its definition, in double, one pair at a time, to compare the kernels with.
// Shares nothing with them but the structs of the interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attention.hpp"

namespace ringsched::oracle {

// A matrix [rows][heads][head_dim], as values and as what is stored.
struct Matrix {
  std::vector<double> values;
  std::vector<std::uint8_t> stored;
};

// Rounds each value to what the element type can hold.
Matrix store(cpu::Element, const std::vector<double>&);

struct Case {
  cpu::Shape shape;
  std::vector<std::int32_t> query_rows, key_rows;
  std::vector<cpu::VisibleKeys> visible;
  Matrix query, key, value, output_gradient;
};

// Beside each result the sum of the magnitudes of what was added up in it: rounding errors are
// proportional to that.
struct Result {
  std::vector<double> output, output_size, lse, lse_size, delta;
  std::vector<double> query_gradient, query_gradient_size;
  std::vector<double> key_gradient, key_gradient_size;
  std::vector<double> value_gradient, value_gradient_size;
};

Result attend(const Case&);

}  // namespace ringsched::oracle
