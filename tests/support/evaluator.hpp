// Computes a Program from its statements, densely and naively, in complex numbers. After a step of
// h i in one input, the imaginary part of a result is its derivative times h, without any rounding.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "ringsched/scheduler/mask.hpp"
#include "ringsched/scheduler/program.hpp"

namespace ringsched {

using Number = std::complex<double>;

// All tokens and columns of a value, part by part.
class Dense {
 public:
  Dense() = default;
  Dense(const Program&, ValueId, std::int64_t tokens);  // zeros; log-sum-exps of nothing

  Number& at(std::size_t part, std::int64_t token, std::uint32_t column, std::uint32_t place = 0) {
    const std::size_t width = widths_[part];
    return parts_[part][(static_cast<std::size_t>(token) * columns_ + column) * width + place];
  }
  std::vector<Number>& part(std::size_t i) { return parts_[i]; }
  std::size_t parts() const { return parts_.size(); }
  std::uint32_t columns() const { return static_cast<std::uint32_t>(columns_); }
  std::uint32_t width(std::size_t part) const { return static_cast<std::uint32_t>(widths_[part]); }

 private:
  std::size_t columns_ = 0;
  std::vector<std::size_t> widths_;  // by part
  std::vector<std::vector<Number>> parts_;
};

class Evaluator {
 public:
  Evaluator(const Program& program, const Mask& mask, std::int64_t tokens)
      : program_(program), mask_(mask), tokens_(tokens) {}

  // By ValueId. What is given must be filled in; the rest is computed.
  void run(std::vector<Dense>& values) const;

  // Sums as the operations merge and reduce form them.
  Dense sum(ValueId, Dense a, Dense b) const;
  // The terms of a statement for which the key lies in [first, end).
  std::vector<Dense> terms(const Statement&, std::vector<Dense>& values, std::int64_t first_key,
                           std::int64_t end_key) const;

 private:
  void attend(std::vector<Dense*> in, Dense& out, std::int64_t first, std::int64_t end) const;
  void attend_backward(std::vector<Dense*> in, Dense& dq, Dense& dkv, std::int64_t first,
                       std::int64_t end) const;
  void prepare(std::vector<Dense*> in, Dense& out) const;
  Number score(Dense& q, Dense& kv, std::int64_t query, std::int64_t key, std::uint32_t head) const;

  const Program& program_;
  const Mask& mask_;
  std::int64_t tokens_;
};

}  // namespace ringsched
