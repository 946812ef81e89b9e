// The arithmetic of the kernels, on a CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backends/cuda/attention_rows.hpp"
#include "backends/cuda/fill.hpp"
#include "ringsched/runtime/inputs.hpp"

namespace ringsched::cuda {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

TEST(CudaRows, AQuerySeesWhatTheMaskSays) {
  constexpr std::int64_t tokens = 40;
  const Mask masks[] = {Mask::full(),
                        Mask::causal(),
                        Mask::window({1}),
                        Mask::window({7}),
                        Mask::window({100}),
                        Mask::prefix_window({4}, {6}),
                        Mask::prefix_window({30}, {3}),
                        Mask::documents({{40}}),
                        Mask::documents({{1}, {1}, {20}, {18}}),
                        Mask::documents({{1}, {1}, {20}, {18}}, {7})};
  for (const Mask& mask : masks) {
    MaskView view = mask_view(mask);
    view.bounds = mask.document_bounds().data();
    for (std::int64_t q = 0; q < tokens; ++q)
      for (std::int64_t k = 0; k < tokens; ++k)
        ASSERT_EQ(seen_by(view, q).has(k), mask.visible(q, k)) << to_text(mask) << q << " " << k;
  }
}

TEST(CudaRows, InputsAreThoseOfTheCpuBitForBit) {
  Problem p;
  p.tokens = {50};
  p.heads = 3;
  p.kv_heads = 1;
  p.head_dim = 24;
  const std::vector<std::int32_t> positions = {0, 7, 49, 48, 3};
  for (const Dtype dtype : {Dtype::Fp32, Dtype::Bf16, Dtype::Fp16})
    for (const InputKind kind :
         {InputKind::Normal, InputKind::Large, InputKind::Equal, InputKind::NotANumber})
      for (const Matrix matrix :
           {Matrix::Query, Matrix::Key, Matrix::Value, Matrix::OutputGradient}) {
        p.dtype = dtype;
        const Inputs inputs(p, 11, kind);
        const std::uint32_t heads = matrix == Matrix::Key || matrix == Matrix::Value ? 1 : 3;
        std::vector<std::uint32_t> out(positions.size() * heads * p.head_dim);
        auto* const bytes = reinterpret_cast<std::byte*>(out.data());
        const FillInputs fill = fill_inputs(p, 11, kind, matrix, positions.data(),
                                            static_cast<std::int64_t>(positions.size()), bytes);
        for (std::int64_t r = 0; r < rows_of(fill); ++r) row(fill, r, Alone{});
        for (std::size_t t = 0; t < positions.size(); ++t)
          for (std::uint32_t h = 0; h < heads; ++h)
            for (std::uint32_t i = 0; i < p.head_dim; ++i) {
              const float made = number_at(
                  bytes, dtype, static_cast<std::int64_t>((t * heads + h) * p.head_dim + i));
              const float expected = inputs.value(matrix, positions[t], h, i);
              ASSERT_TRUE(made == expected || (std::isnan(made) && std::isnan(expected)))
                  << made << " " << expected;
            }
      }
}

TEST(CudaRows, MergingWithNothingChangesNothing) {
  constexpr std::uint32_t dim = 8;
  for (const bool narrow : {false, true}) {
    std::vector<float> a(dim, 1.5f), b(dim, -2.0f), out(dim);
    std::vector<std::uint16_t> b16(dim, to_bf16(-2.0f));
    const auto* b_values = narrow ? reinterpret_cast<const std::byte*>(b16.data())
                                  : reinterpret_cast<const std::byte*>(b.data());
    const auto run = [&](float la, float lb) {
      float lse = 99;
      const Merge m{{reinterpret_cast<const std::byte*>(a.data()), &la, Dtype::Fp32, 0, 1, 0},
                    {b_values, &lb, narrow ? Dtype::Bf16 : Dtype::Fp32, 0, 1, 0},
                    1,
                    1,
                    dim,
                    out.data(),
                    &lse};
      row(m, 0, Alone{});
      return lse;
    };
    EXPECT_EQ(run(0.25f, kNothing), 0.25f);
    EXPECT_EQ(out, a);
    EXPECT_EQ(run(kNothing, -3.5f), -3.5f);
    EXPECT_EQ(out, b);
    EXPECT_EQ(run(kNothing, kNothing), kNothing);
    EXPECT_EQ(out, std::vector<float>(dim, 0));
    EXPECT_EQ(run(1e30f, -1e30f), 1e30f);
    EXPECT_EQ(out, a);
  }
}

TEST(CudaRows, MergingIsAWeightedMean) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 4);
  for (int i = 0; i < 10'000; ++i) {
    const float la = normal(random), lb = normal(random);
    const Merged m = merged(la, lb);
    const double ea = std::exp(static_cast<double>(la)), eb = std::exp(static_cast<double>(lb));
    EXPECT_NEAR(static_cast<double>(m.share), eb / (ea + eb), 1e-6);
    EXPECT_NEAR(static_cast<double>(m.lse), std::log(ea + eb),
                2e-6 * (1 + std::abs(std::log(ea + eb))));
  }
}

TEST(CudaRows, RowsOfOneSideAloneAreMovedOrZero) {
  // Rows 0..5 of the result; a has 1..3, b has 3..4.
  constexpr std::uint32_t dim = 4;
  std::vector<float> a(2 * dim, 1.0f), b(2 * dim, 3.0f), out(6 * dim, 99);
  std::vector<float> la = {0, 0}, lb = {0, 0}, lse(6, 99);
  const Merge m{{reinterpret_cast<const std::byte*>(a.data()), la.data(), Dtype::Fp32, 1, 2, 0},
                {reinterpret_cast<const std::byte*>(b.data()), lb.data(), Dtype::Fp32, 2, 2, 0},
                6,
                1,
                dim,
                out.data(),
                lse.data()};
  for (std::int64_t r = 0; r < rows_of(m); ++r) row(m, r, Alone{});
  const float expected[] = {0, 1, 2, 3, 0, 0};
  for (std::size_t t = 0; t < 6; ++t)
    for (std::size_t i = 0; i < dim; ++i) EXPECT_EQ(out[t * dim + i], expected[t]) << t;
  EXPECT_EQ(lse[0], kNothing);
  EXPECT_EQ(lse[1], 0);
  EXPECT_NEAR(lse[2], std::log(2.0f), 1e-6);
}

TEST(CudaRows, TheOutputThatTheLibraryIsGivenHasTheSameDelta) {
  constexpr std::uint32_t dim = 128;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const Dtype dtype : {Dtype::Bf16, Dtype::Fp16})
    for (const float size : {0.0f, 1e-6f, 1.0f, 300.0f}) {
      std::vector<float> gradient(dim), output(dim);  // more room than they take
      auto* const g = reinterpret_cast<std::byte*>(gradient.data());
      auto* const o = reinterpret_cast<std::byte*>(output.data());
      double delta = 0, most = 0;
      for (std::uint32_t i = 0; i < dim; ++i) {
        put_number(g, dtype, i, size * normal(random));
        const double term =
            static_cast<double>(number_at(g, dtype, i)) * static_cast<double>(normal(random));
        delta += term;
        most += std::abs(term);
      }
      const float lse = 1.25f, given = static_cast<float>(delta);
      float stats = 0;
      row(PrepareBackward{1, 1, dim, dtype, g, &lse, &given, o, &stats}, 0, Alone{});
      double formed = 0;
      for (std::uint32_t i = 0; i < dim; ++i)
        formed += static_cast<double>(number_at(g, dtype, i)) *
                  static_cast<double>(number_at(o, dtype, i));
      EXPECT_NEAR(formed, delta, spacing(dtype) * most + 1e-30) << size;
      EXPECT_EQ(stats, lse);
    }
}

TEST(CudaRows, ConversionsAgreeWithThoseOfTheRuntime) {
  for (const Dtype dtype : {Dtype::Bf16, Dtype::Fp16})
    for (std::uint32_t x = 0; x < 65536; ++x) {
      const float wide = widened(static_cast<std::uint16_t>(x), dtype);
      ASSERT_TRUE(std::isnan(wide) || narrowed(wide, dtype) == x) << x;
    }
}

}  // namespace
}  // namespace ringsched::cuda
