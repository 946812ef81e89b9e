#include "attention_cases.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace ringsched::cpu::cases {

std::vector<Isa> isas_here() {
  std::vector<Isa> all(kIsas.begin(), kIsas.end());
  std::erase_if(all, [](Isa isa) { return !runs(isa); });
  return all;
}

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

namespace {

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
// worst, and much less than the root of their number in practice. Products of bf16 take
// probabilities and gradients of scores rounded to bf16, 2^-9.
double tolerance(Isa isa, const Case& c) {
  const double terms =
      static_cast<double>(c.shape.head_dim + c.key_rows.size() + c.query_rows.size());
  const double summing = std::ldexp(8 + std::sqrt(terms), -24);
  return for_bf16(isa) && c.shape.element == Element::Bf16 ? summing + std::ldexp(1.5, -9)
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

}  // namespace

std::string describe(const Case& c) {
  static constexpr const char* kNames[] = {"fp32", "bf16", "fp16"};
  return std::string(kNames[static_cast<int>(c.shape.element)]) + ", " +
         std::to_string(c.query_rows.size()) + " rows, " + std::to_string(c.key_rows.size()) +
         " keys, " + std::to_string(c.shape.heads) + "/" + std::to_string(c.shape.kv_heads) +
         " heads of " + std::to_string(c.shape.head_dim);
}

void expect_right(const Case& c) {
  static Scratch scratch;  // shared by all, so that what one leaves behind may disturb the next
  const Result expected = oracle::attend(c);
  for (const Isa isa : isas_here()) {
    if (for_bf16(isa) && c.shape.element != Element::Bf16) continue;
    SCOPED_TRACE(std::string(name(isa)) + ": " + describe(c));
    check_one(isa, c, expected, scratch);
  }
}

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

}  // namespace ringsched::cpu::cases
