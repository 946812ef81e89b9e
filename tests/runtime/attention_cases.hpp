// Cases for the attention kernels, and their comparison with the oracle, element by element.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "attention.hpp"
#include "attention_oracle.hpp"
#include "isa.hpp"

namespace ringsched::cpu::cases {

using oracle::Case;
using oracle::Result;

inline constexpr Element kElements[] = {Element::Fp32, Element::Bf16, Element::Fp16};

std::vector<Isa> isas_here();

struct Outputs {
  std::vector<float> output, lse, query_gradient, key_gradient, value_gradient;
};

Outputs run(Isa, const Case&, const Result& expected, Scratch&);

std::string describe(const Case&);

// By every kernel that this CPU runs.
void expect_right(const Case&);

struct Random {
  std::mt19937 engine{7};

  std::int32_t below(std::size_t n) {
    return static_cast<std::int32_t>(engine() % std::max<std::size_t>(n, 1));
  }
  std::vector<double> normals(std::size_t n) {
    std::normal_distribution<double> normal;
    std::vector<double> v(n);
    for (double& x : v) x = normal(engine);
    return v;
  }
  // `n` different rows of a matrix of `of`, in no order.
  std::vector<std::int32_t> rows(std::size_t n, std::size_t of) {
    std::vector<std::int32_t> all(of);
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), engine);
    all.resize(n);
    return all;
  }
  VisibleKeys intervals(std::size_t keys) {
    std::int32_t ends[4];
    for (auto& e : ends) e = below(keys + 1);
    std::sort(std::begin(ends), std::end(ends));
    switch (below(5)) {
      case 0:
        return {};
      case 1:
        return {{ends[0], ends[3]}, {ends[3], ends[3]}};
      case 2:
        return {{0, 0}, {static_cast<std::int32_t>(keys), 0}};
      default:
        return {{ends[0], ends[2]}, {ends[1], ends[3]}};
    }
  }
};

enum class Mask { Full, Causal, Random };

Case make(Random&, Element, std::size_t rows, std::size_t keys, std::uint32_t heads,
          std::uint32_t kv_heads, std::uint32_t dim, Mask);

}  // namespace ringsched::cpu::cases
