// Scores and inputs that are large, equal, infinite or NaN.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "attention_cases.hpp"

namespace ringsched::cpu {
namespace {

using namespace cases;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Query i and key j have only their first element, so a score is their product.
Case with_scores(Random& random, Element element, std::size_t rows, std::size_t keys,
                 const std::function<double(std::size_t)>& query,
                 const std::function<double(std::size_t)>& key) {
  Case c = make(random, element, rows, keys, 1, 1, 16, Mask::Full);
  c.shape.scale = 1;
  std::vector<double> q(c.query.values.size()), k(c.key.values.size());
  for (std::size_t i = 0; i < q.size(); i += 16) q[i] = query(i / 16);
  for (std::size_t j = 0; j < k.size(); j += 16) k[j] = key(j / 16);
  c.query = oracle::store(element, q);
  c.key = oracle::store(element, k);
  return c;
}

TEST(Attention, LargeScoresDoNotOverflow) {
  Random random;
  for (const Element element : {Element::Fp32, Element::Bf16})
    for (const double size : {1e2, 1e15})  // scores of up to 1e4 and 1e30
      for (const double sign : {1.0, -1.0})
        expect_right(with_scores(
            random, element, 70, 200,
            [&](std::size_t i) { return sign * std::ldexp(size, -static_cast<int>(i % 5)); },
            [&](std::size_t j) { return j % 3 == 0 ? size : -size; }));
}

TEST(Attention, EqualScoresAverageTheValues) {
  Random random;
  for (const Element element : kElements)
    for (const double score : {0.0, 1e4, -1e4})
      expect_right(with_scores(
          random, element, 33, 130, [](std::size_t) { return 1; },
          [&](std::size_t) { return score; }));
}

TEST(Attention, LargeRandomScoresGiveFiniteGradients) {
  // Of scores so large that one rounding is more than all their differences, nothing is known but
  // that probabilities are at most 1.
  Random random;
  for (const Element element : {Element::Fp32, Element::Bf16}) {
    Case c = make(random, element, 70, 200, 1, 1, 64, Mask::Causal);
    for (oracle::Matrix* m : {&c.query, &c.key}) {
      for (double& x : m->values) x *= 1e15;
      *m = oracle::store(element, m->values);
    }
    const Result expected = oracle::attend(c);
    for (const Isa isa : isas_here()) {
      SCOPED_TRACE(name(isa));
      Scratch scratch;
      const Outputs o = run(isa, c, expected, scratch);
      for (const float x : o.output) EXPECT_LE(std::abs(x), 6);
      for (const float x : o.value_gradient) EXPECT_LE(std::abs(x), 70 * 6);
      for (const auto* v : {&o.query_gradient, &o.key_gradient})
        for (const float x : *v) EXPECT_TRUE(std::isfinite(x));
    }
  }
}

// Infinite inputs, and finite ones whose products are infinite.
TEST(Attention, RowsOfNothingButMinusInfinityAreEmpty) {
  Random random;
  for (const double size : {kInfinity, 3e38})
    for (const Element element : kElements) {
      const Case c = with_scores(
          random, element, 40, 150, [&](std::size_t i) { return i % 2 ? -size : 1.0; },
          [&](std::size_t j) {
            return std::isinf(size) ? 1.0 + static_cast<double>(j % 7) : size;
          });
      Result expected = oracle::attend(c);
      for (std::size_t i = 0; i < c.query_rows.size(); ++i)
        if (c.query_rows[i] % 2) expected.lse[i] = -kInfinity;
      for (const Isa isa : isas_here()) {
        SCOPED_TRACE(std::string(name(isa)) + ": " + describe(c));
        Scratch scratch;
        const Outputs o = run(isa, c, expected, scratch);
        for (std::size_t i = 0; i < c.query_rows.size(); ++i) {
          if (c.query_rows[i] % 2 == 0) continue;
          EXPECT_EQ(o.lse[i], -std::numeric_limits<float>::infinity());
          for (std::size_t d = 0; d < 16; ++d) {
            EXPECT_EQ(o.output[i * 16 + d], 0);
            EXPECT_EQ(o.query_gradient[i * 16 + d], 0);
          }
        }
        // In fp16 such keys are infinite themselves, and reach the other rows.
        if (std::isfinite(size) && element == Element::Fp16) continue;
        for (const float x : o.value_gradient) EXPECT_TRUE(std::isfinite(x));
      }
    }
}

TEST(Attention, NaNReachesTheRowsThatSeeItAndNoOthers) {
  Random random;
  for (const Element element : kElements)
    for (const int what : {0, 1, 2}) {
      Case c = make(random, element, 100, 300, 1, 1, 40, Mask::Causal);
      oracle::Matrix& m = what == 0 ? c.query : what == 1 ? c.key : c.value;
      std::vector<double> values = m.values;
      const auto row = what == 0 ? c.query_rows[37] : c.key_rows[130];
      values[static_cast<std::size_t>(row) * 40 + 21] = kNaN;
      m = oracle::store(element, values);
      const Result expected = oracle::attend(c);
      for (const Isa isa : isas_here()) {
        SCOPED_TRACE(std::string(name(isa)) + ", " + std::to_string(what));
        Scratch scratch;
        const Outputs o = run(isa, c, expected, scratch);
        const auto same = [](const std::vector<float>& a, const std::vector<double>& e) {
          for (std::size_t i = 0; i < a.size(); ++i)
            if (std::isnan(a[i]) != std::isnan(e[i])) return false;
          return true;
        };
        EXPECT_TRUE(same(o.output, expected.output));
        EXPECT_TRUE(same(o.lse, expected.lse));
        EXPECT_TRUE(same(o.query_gradient, expected.query_gradient));
        EXPECT_TRUE(same(o.key_gradient, expected.key_gradient));
        EXPECT_TRUE(same(o.value_gradient, expected.value_gradient));
      }
    }
}

}  // namespace
}  // namespace ringsched::cpu
