// Every kernel that this CPU runs, element by element against the oracle.
#include "attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <ostream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "attention_oracle.hpp"
#include "isa.hpp"

namespace ringsched::cpu {

void PrintTo(Isa isa, std::ostream* out) { *out << name(isa); }

namespace {

using oracle::Case;
using oracle::Result;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<Isa> isas_here() {
  std::vector<Isa> all(kIsas.begin(), kIsas.end());
  std::erase_if(all, [](Isa isa) { return !runs(isa); });
  return all;
}

struct Outputs {
  std::vector<float> output, lse, query_gradient, key_gradient, value_gradient;
};

Outputs run(Isa isa, const Case& c, const Result& expected, Scratch& scratch) {
  const std::size_t heads = c.shape.heads, dim = c.shape.head_dim;
  const std::size_t rows = c.query_rows.size(), keys = c.key_rows.size();
  constexpr float kUnwritten = 12345;
  Outputs o;
  for (auto* v : {&o.output, &o.query_gradient}) v->assign(rows * heads * dim, kUnwritten);
  for (auto* v : {&o.key_gradient, &o.value_gradient})
    v->assign(keys * c.shape.kv_heads * dim, kUnwritten);
  o.lse.assign(rows * heads, kUnwritten);
  const Tile tile{c.query_rows, c.key_rows, c.visible};
  attend_with(isa, c.shape, tile, c.query.stored.data(), c.key.stored.data(), c.value.stored.data(),
              o.output.data(), o.lse.data(), scratch);
  const std::vector<float> lse(expected.lse.begin(), expected.lse.end());
  const std::vector<float> delta(expected.delta.begin(), expected.delta.end());
  attend_backward_with(isa, c.shape, tile, c.query.stored.data(), c.key.stored.data(),
                       c.value.stored.data(), c.output_gradient.stored.data(), lse.data(),
                       delta.data(), o.query_gradient.data(), o.key_gradient.data(),
                       o.value_gradient.data(), scratch);
  return o;
}

// Counts first, so that a wrong kernel prints one line and not a million.
void expect_near(const char* what, const std::vector<float>& actual,
                 const std::vector<double>& expected, const std::vector<double>& size,
                 double relative) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double a = actual[i], e = expected[i];
    const bool same = std::isfinite(e) ? std::abs(a - e) <= relative * size[i] + 1e-30
                      : std::isnan(e)  ? std::isnan(a)
                                       : a == e;
    if (!same && wrong++ == 0) first = i;
  }
  EXPECT_EQ(wrong, 0u) << what << ": of " << actual.size() << ", the first " << first << ": "
                       << actual[first] << ", expected " << expected[first] << " within "
                       << relative * size[first];
}

// Products are summed in float: half a unit in the last place, 2^-24, for each of the terms at
// worst, and much less than the root of their number in practice. Tile registers take
// probabilities and gradients of scores rounded to bf16, 2^-9.
double tolerance(Isa isa, const Case& c) {
  const double terms =
      static_cast<double>(c.shape.head_dim + c.key_rows.size() + c.query_rows.size());
  const double summing = std::ldexp(8 + std::sqrt(terms), -24);
  return isa == Isa::Amx && c.shape.element == Element::Bf16 ? summing + std::ldexp(1.5, -9)
                                                             : summing;
}

void check_one(Isa isa, const Case& c, const Result& expected, Scratch& scratch) {
  const Outputs o = run(isa, c, expected, scratch);
  const double relative = tolerance(isa, c);
  expect_near("output", o.output, expected.output, expected.output_size, relative);
  std::vector<double> lse_size = expected.lse_size;
  for (double& x : lse_size) x += 1 + std::log(1 + static_cast<double>(c.key_rows.size()));
  expect_near("lse", o.lse, expected.lse, lse_size, relative);
  expect_near("value gradient", o.value_gradient, expected.value_gradient,
              expected.value_gradient_size, 2 * relative);
  expect_near("query gradient", o.query_gradient, expected.query_gradient,
              expected.query_gradient_size, 2 * relative);
  expect_near("key gradient", o.key_gradient, expected.key_gradient, expected.key_gradient_size,
              2 * relative);
}

std::string describe(const Case& c) {
  static constexpr const char* kNames[] = {"fp32", "bf16", "fp16"};
  return std::string(kNames[static_cast<int>(c.shape.element)]) + ", " +
         std::to_string(c.query_rows.size()) + " rows, " + std::to_string(c.key_rows.size()) +
         " keys, " + std::to_string(c.shape.heads) + "/" + std::to_string(c.shape.kv_heads) +
         " heads of " + std::to_string(c.shape.head_dim);
}

void check(const Case& c) {
  static Scratch scratch;  // shared by all, so that what one leaves behind may disturb the next
  const Result expected = oracle::attend(c);
  for (const Isa isa : isas_here()) {
    if (isa == Isa::Amx && c.shape.element != Element::Bf16) continue;
    SCOPED_TRACE(std::string(name(isa)) + ": " + describe(c));
    check_one(isa, c, expected, scratch);
  }
}

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

Case make(Random& random, Element element, std::size_t rows, std::size_t keys, std::uint32_t heads,
          std::uint32_t kv_heads, std::uint32_t dim, Mask mask) {
  const std::size_t query_rows = rows + 3, key_rows = keys + 5;
  Case c;
  c.shape = {element, heads, kv_heads, dim, 1 / std::sqrt(static_cast<float>(dim))};
  c.query_rows = random.rows(rows, query_rows);
  c.key_rows = random.rows(keys, key_rows);
  const auto all = static_cast<std::int32_t>(keys);
  for (std::size_t i = 0; i < rows; ++i) {
    const auto causal = static_cast<std::int32_t>((i + 1) * keys / rows);
    c.visible.push_back(mask == Mask::Full     ? VisibleKeys{{0, 0}, {all, 0}}
                        : mask == Mask::Causal ? VisibleKeys{{0, 0}, {causal, 0}}
                                               : random.intervals(keys));
  }
  c.query = oracle::store(element, random.normals(query_rows * heads * dim));
  c.output_gradient = oracle::store(element, random.normals(query_rows * heads * dim));
  c.key = oracle::store(element, random.normals(key_rows * kv_heads * dim));
  c.value = oracle::store(element, random.normals(key_rows * kv_heads * dim));
  return c;
}

constexpr Element kElements[] = {Element::Fp32, Element::Bf16, Element::Fp16};

TEST(Attention, AgreesWithTheDefinitionForOddSizes) {
  constexpr std::size_t kSizes[] = {1, 2, 3, 15, 16, 17, 31, 33, 64, 65, 100, 257};
  Random random;
  std::size_t turn = 0;
  for (const std::size_t rows : kSizes)
    for (const std::size_t keys : kSizes) {
      const Element element = kElements[turn++ % 3];
      check(make(random, element, rows, keys, 1, 1, 16, Mask::Full));
      check(make(random, Element::Bf16, rows, keys, 1, 1, 40, Mask::Causal));
      check(make(random, Element::Fp32, rows, keys, 1, 1, 24, Mask::Random));
    }
}

TEST(Attention, AgreesWithTheDefinitionForAnyHeadSize) {
  Random random;
  for (const std::uint32_t dim :
       {1u, 3u, 16u, 31u, 32u, 40u, 63u, 64u, 65u, 80u, 96u, 128u, 192u, 256u, 300u})
    for (const Element element : kElements)
      for (const Mask mask : {Mask::Full, Mask::Random})
        check(make(random, element, 39, 150, 2, 1, dim, mask));
  check(make(random, Element::Fp32, 7, 70, 1, 1, 4096, Mask::Random));
  check(make(random, Element::Bf16, 7, 70, 1, 1, 4095, Mask::Random));
}

TEST(Attention, AgreesWithTheDefinitionForGroupsOfHeads) {
  constexpr std::uint32_t kHeads[][2] = {{1, 1}, {2, 2}, {4, 1}, {6, 2}, {8, 8}, {7, 1}, {9, 3}};
  Random random;
  for (const auto& [heads, kv_heads] : kHeads)
    for (const Element element : kElements)
      check(make(random, element, 50, 70, heads, kv_heads, 32, Mask::Random));
}

TEST(Attention, AgreesWithTheDefinitionUnderCausalAndRandomMasks) {
  Random random;
  for (const Element element : kElements)
    for (const Mask mask : {Mask::Causal, Mask::Random}) {
      check(make(random, element, 300, 515, 2, 1, 64, mask));
      check(make(random, element, 200, 200, 1, 1, 128, mask));
    }
}

TEST(Attention, NoRowsAndNoKeysAreFine) {
  Random random;
  for (const Element element : kElements) {
    check(make(random, element, 0, 0, 2, 1, 16, Mask::Full));
    check(make(random, element, 0, 9, 2, 1, 16, Mask::Full));
    check(make(random, element, 9, 0, 2, 1, 16, Mask::Full));
  }
}

TEST(Attention, ScaleMayBeNegativeOrZero) {
  Random random;
  for (const Element element : kElements)
    for (const float scale : {-0.5f, 0.0f, 0.3f}) {
      Case c = make(random, element, 40, 150, 2, 1, 32, Mask::Random);
      c.shape.scale = scale;
      check(c);
    }
}

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
        check(with_scores(
            random, element, 70, 200,
            [&](std::size_t i) { return sign * std::ldexp(size, -static_cast<int>(i % 5)); },
            [&](std::size_t j) { return j % 3 == 0 ? size : -size; }));
}

TEST(Attention, EqualScoresAverageTheValues) {
  Random random;
  for (const Element element : kElements)
    for (const double score : {0.0, 1e4, -1e4})
      check(with_scores(
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

TEST(Attention, ExponentialsAreAccurate) {
  // Two keys of scores 0 and -x: the second's weight is e^-x / (1 + e^-x).
  Random random;
  std::vector<double> x(400);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i) * 0.2173;
  Case c = make(random, Element::Fp32, x.size(), 2, 1, 1, 2, Mask::Full);
  c.shape.scale = 1;
  std::vector<double> q(c.query.values.size()), k(c.key.values.size()), v(c.value.values.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    q[static_cast<std::size_t>(c.query_rows[i]) * 2] = x[i];
  k[static_cast<std::size_t>(c.key_rows[1]) * 2] = -1;
  v[static_cast<std::size_t>(c.key_rows[1]) * 2] = 1;
  c.query = oracle::store(Element::Fp32, q);
  c.key = oracle::store(Element::Fp32, k);
  c.value = oracle::store(Element::Fp32, v);
  const Result expected = oracle::attend(c);
  for (const Isa isa : isas_here()) {
    SCOPED_TRACE(name(isa));
    Scratch scratch;
    const Outputs o = run(isa, c, expected, scratch);
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(o.output[i * 2] / expected.output[i * 2], 1, 1e-6) << "e^-" << x[i];
  }
}

TEST(AttentionIsa, TheBestIsTaken) {
  Random random;
  for (const Element element : kElements) {
    const Case c = make(random, element, 50, 70, 2, 1, 64, Mask::Causal);
    const Result expected = oracle::attend(c);
    Scratch scratch;
    const Isa best = best_isa(element);
    EXPECT_EQ(attention_isa(element), name(best));
    const Outputs o = run(best, c, expected, scratch);
    const Tile tile{c.query_rows, c.key_rows, c.visible};
    Outputs mine = o;
    for (auto* v :
         {&mine.output, &mine.lse, &mine.query_gradient, &mine.key_gradient, &mine.value_gradient})
      std::fill(v->begin(), v->end(), 0.0f);
    attend(c.shape, tile, c.query.stored.data(), c.key.stored.data(), c.value.stored.data(),
           mine.output.data(), mine.lse.data(), scratch);
    const std::vector<float> lse(expected.lse.begin(), expected.lse.end());
    const std::vector<float> delta(expected.delta.begin(), expected.delta.end());
    attend_backward(c.shape, tile, c.query.stored.data(), c.key.stored.data(),
                    c.value.stored.data(), c.output_gradient.stored.data(), lse.data(),
                    delta.data(), mine.query_gradient.data(), mine.key_gradient.data(),
                    mine.value_gradient.data(), scratch);
    EXPECT_EQ(mine.output, o.output);
    EXPECT_EQ(mine.lse, o.lse);
    EXPECT_EQ(mine.query_gradient, o.query_gradient);
    EXPECT_EQ(mine.key_gradient, o.key_gradient);
    EXPECT_EQ(mine.value_gradient, o.value_gradient);
  }
}

TEST(AttentionIsa, TheCapIsObeyedAndABadOneNamesTheGoodOnes) {
  EXPECT_EQ(best_isa(Element::Bf16, "portable"), Isa::Portable);
  EXPECT_LE(best_isa(Element::Bf16, "avx2"), Isa::Avx2);
  EXPECT_EQ(best_isa(Element::Bf16, "amx"), best_isa(Element::Bf16, ""));
  EXPECT_LE(best_isa(Element::Fp32, ""), Isa::Avx512);
  try {
    best_isa(Element::Fp32, "avx1024");
    FAIL() << "no exception";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "RINGSCHED_CPU is 'avx1024', not one of portable, avx2, avx512, amx");
  }
}

}  // namespace
}  // namespace ringsched::cpu
