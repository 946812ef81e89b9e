// Merging and summing with every instruction set that this CPU runs, compared with the definition
// in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "attention_cases.hpp"
#include "kernels.hpp"

namespace ringsched::cpu {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

struct Partial {
  std::vector<float> rows, lse;
};

// As sums of exponentials and the like: what a partial result of attention is.
void expect_merged(const Partial& got, const Partial& a, const Partial& b, std::size_t width) {
  for (std::size_t r = 0; r < a.lse.size(); ++r) {
    const double most = std::max(a.lse[r], b.lse[r]);
    const double of_a = std::isinf(most) ? 1 : std::exp(a.lse[r] - most);
    const double of_b = std::isinf(most) ? 0 : std::exp(b.lse[r] - most);
    const double lse = most + std::log(of_a + of_b);
    if (std::isinf(most)) {
      EXPECT_EQ(got.lse[r], kNothing) << r;
    } else {
      EXPECT_NEAR(got.lse[r], lse, 3e-7 * std::max(1.0, std::abs(lse))) << r;
    }
    for (std::size_t i = 0; i < width; ++i) {
      const double x = a.rows[r * width + i], y = b.rows[r * width + i];
      EXPECT_NEAR(got.rows[r * width + i], (of_a * x + of_b * y) / (of_a + of_b),
                  3e-7 * (std::abs(x) + std::abs(y)))
          << r << " " << i;
    }
  }
}

TEST(AttentionMerge, AgreesWithTheDefinition) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  // Far apart, near, equal, and of no key on one side or both.
  const std::vector<std::pair<float, float>> lses = {
      {0.5f, 0.25f},  {-3, 4},       {2, 2},
      {1e4f, 1},      {1, 1e4f},     {-200, -290},
      {kNothing, 3},  {3, kNothing}, {kNothing, kNothing},
      {1e-4f, -1e-4f}};
  for (const Isa isa : cases::isas_here())
    for (const std::size_t width : {1u, 3u, 16u, 31u, 64u, 100u, 128u}) {
      SCOPED_TRACE(testing::Message() << name(isa) << ", width " << width);
      Partial a, b;
      for (const auto& [la, lb] : lses) {
        a.lse.push_back(la);
        b.lse.push_back(lb);
        // A row that has seen no key is zeros, as attend() leaves it.
        for (std::size_t i = 0; i < width; ++i) {
          a.rows.push_back(la == kNothing ? 0 : normal(random));
          b.rows.push_back(lb == kNothing ? 0 : normal(random));
        }
      }
      Partial got = a;
      kernels(isa).merge(got.rows.data(), got.lse.data(), b.rows.data(), b.lse.data(),
                         static_cast<std::int64_t>(a.lse.size()),
                         static_cast<std::uint32_t>(width));
      expect_merged(got, a, b, width);

      got = a;
      kernels(isa).add(got.rows.data(), b.rows.data(), static_cast<std::int64_t>(b.rows.size()));
      for (std::size_t i = 0; i < a.rows.size(); ++i) EXPECT_EQ(got.rows[i], a.rows[i] + b.rows[i]);
    }
}

}  // namespace
}  // namespace ringsched::cpu
