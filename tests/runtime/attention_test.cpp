// Every kernel that this CPU runs, element by element against the oracle.
#include <gtest/gtest.h>

#include <ostream>
#include <stdexcept>

#include "attention_cases.hpp"

namespace ringsched::cpu {

void PrintTo(Isa isa, std::ostream* out) { *out << name(isa); }

namespace {

using namespace cases;

TEST(Attention, AgreesWithTheDefinitionForOddSizes) {
  constexpr std::size_t kSizes[] = {1, 2, 3, 15, 16, 17, 31, 33, 64, 65, 100, 257};
  Random random;
  std::size_t turn = 0;
  for (const std::size_t rows : kSizes)
    for (const std::size_t keys : kSizes) {
      const Element element = kElements[turn++ % 3];
      expect_right(make(random, element, rows, keys, 1, 1, 16, Mask::Full));
      expect_right(make(random, Element::Bf16, rows, keys, 1, 1, 40, Mask::Causal));
      expect_right(make(random, Element::Fp32, rows, keys, 1, 1, 24, Mask::Random));
    }
}

TEST(Attention, AgreesWithTheDefinitionForAnyHeadSize) {
  Random random;
  for (const std::uint32_t dim :
       {1u, 3u, 16u, 31u, 32u, 40u, 63u, 64u, 65u, 80u, 96u, 128u, 192u, 256u, 300u})
    for (const Element element : kElements)
      for (const Mask mask : {Mask::Full, Mask::Random})
        expect_right(make(random, element, 39, 150, 2, 1, dim, mask));
  expect_right(make(random, Element::Fp32, 7, 70, 1, 1, 4096, Mask::Random));
  expect_right(make(random, Element::Bf16, 7, 70, 1, 1, 4095, Mask::Random));
}

TEST(Attention, AgreesWithTheDefinitionForGroupsOfHeads) {
  constexpr std::uint32_t kHeads[][2] = {{1, 1}, {2, 2}, {4, 1}, {6, 2}, {8, 8}, {7, 1}, {9, 3}};
  Random random;
  for (const auto& [heads, kv_heads] : kHeads)
    for (const Element element : kElements)
      expect_right(make(random, element, 50, 70, heads, kv_heads, 32, Mask::Random));
}

// Calls for a range of heads, on matrices of all of them: each must write what the call for all
// wrote there, and nothing else.
struct SomeHeads {
  std::uint32_t first, count, kv_first, kv_count;
};

Outputs with_some_heads(Isa isa, const Case& c, const Result& expected, SomeHeads some,
                        float unwritten, Scratch& scratch) {
  const std::size_t rows = c.query_rows.size(), keys = c.key_rows.size(), dim = c.shape.head_dim;
  const std::uint32_t heads = c.shape.heads, kv_heads = c.shape.kv_heads;
  const std::size_t element = c.shape.element == Element::Fp32 ? 4 : 2;
  Shape shape = c.shape;
  shape.heads = some.count;
  shape.kv_heads = some.kv_count;
  shape.in_row = {heads, kv_heads, heads, heads, kv_heads};
  Outputs o;
  for (auto* v : {&o.output, &o.query_gradient}) v->assign(rows * heads * dim, unwritten);
  for (auto* v : {&o.key_gradient, &o.value_gradient}) v->assign(keys * kv_heads * dim, unwritten);
  o.lse.assign(rows * heads, unwritten);
  const std::vector<float> lse(expected.lse.begin(), expected.lse.end());
  const std::vector<float> delta(expected.delta.begin(), expected.delta.end());
  const Tile tile{c.query_rows, c.key_rows, c.visible};
  const auto at = [&](const oracle::Matrix& m, std::uint32_t head) {
    return m.stored.data() + head * dim * element;
  };
  attend_with(isa, shape, tile, at(c.query, some.first), at(c.key, some.kv_first),
              at(c.value, some.kv_first), o.output.data() + some.first * dim,
              o.lse.data() + some.first, scratch);
  attend_backward_with(isa, shape, tile, at(c.query, some.first), at(c.key, some.kv_first),
                       at(c.value, some.kv_first), at(c.output_gradient, some.first),
                       lse.data() + some.first, delta.data() + some.first,
                       o.query_gradient.data() + some.first * dim,
                       o.key_gradient.data() + some.kv_first * dim,
                       o.value_gradient.data() + some.kv_first * dim, scratch);
  return o;
}

void expect_part(const char* what, const std::vector<float>& some, const std::vector<float>& all,
                 std::size_t in_row, std::size_t first, std::size_t count, float unwritten) {
  ASSERT_EQ(some.size(), all.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t column = i % in_row;
    const bool written = first <= column && column < first + count;
    if (some[i] != (written ? all[i] : unwritten)) ++wrong;
  }
  EXPECT_EQ(wrong, 0u) << what;
}

TEST(Attention, SomeHeadsOfLargerMatricesAreThatPartOfAllHeads) {
  constexpr float unwritten = 12345;
  constexpr std::uint32_t heads = 6, kv_heads = 3, dim = 40;
  Random random;
  Scratch scratch;
  for (const Element element : kElements) {
    const Case c = make(random, element, 150, 260, heads, kv_heads, dim, Mask::Random);
    const Result expected = oracle::attend(c);
    for (const Isa isa : isas_here()) {
      if (for_bf16(isa) && element != Element::Bf16) continue;
      SCOPED_TRACE(std::string(name(isa)) + ": " + describe(c));
      const Outputs all = run(isa, c, expected, scratch);
      for (const SomeHeads s :
           {SomeHeads{0, 2, 0, 1}, SomeHeads{2, 4, 1, 2}, SomeHeads{4, 2, 2, 1}}) {
        const Outputs some = with_some_heads(isa, c, expected, s, unwritten, scratch);
        const auto part = [&](const char* what, auto member, std::size_t in_row, std::size_t first,
                              std::size_t count) {
          expect_part(what, some.*member, all.*member, in_row, first, count, unwritten);
        };
        part("output", &Outputs::output, heads * dim, s.first * dim, s.count * dim);
        part("lse", &Outputs::lse, heads, s.first, s.count);
        part("query gradient", &Outputs::query_gradient, heads * dim, s.first * dim, s.count * dim);
        for (const auto member : {&Outputs::key_gradient, &Outputs::value_gradient})
          part("key or value gradient", member, kv_heads * dim, s.kv_first * dim, s.kv_count * dim);
      }
    }
  }
}

TEST(Attention, AgreesWithTheDefinitionUnderCausalAndRandomMasks) {
  Random random;
  for (const Element element : kElements)
    for (const Mask mask : {Mask::Causal, Mask::Random}) {
      expect_right(make(random, element, 300, 515, 2, 1, 64, mask));
      expect_right(make(random, element, 200, 200, 1, 1, 128, mask));
    }
}

TEST(Attention, NoRowsAndNoKeysAreFine) {
  Random random;
  for (const Element element : kElements) {
    expect_right(make(random, element, 0, 0, 2, 1, 16, Mask::Full));
    expect_right(make(random, element, 0, 9, 2, 1, 16, Mask::Full));
    expect_right(make(random, element, 9, 0, 2, 1, 16, Mask::Full));
  }
}

TEST(Attention, ScaleMayBeNegativeOrZero) {
  Random random;
  for (const Element element : kElements)
    for (const float scale : {-0.5f, 0.0f, 0.3f}) {
      Case c = make(random, element, 40, 150, 2, 1, 32, Mask::Random);
      c.shape.scale = scale;
      expect_right(c);
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
    EXPECT_STREQ(e.what(),
                 "RINGSCHED_CPU is 'avx1024', not one of portable, avx2, avx512, "
                 "avx512bf16, amx");
  }
}

}  // namespace
}  // namespace ringsched::cpu
