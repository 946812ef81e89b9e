#include "ringsched/scheduler/mask.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {
namespace {

// The definitions again, token by token.
bool sees(const Mask& m, std::int64_t q, std::int64_t k) {
  if (m.kind() == Mask::Kind::Full) return true;
  if (k > q) return false;
  switch (m.kind()) {
    case Mask::Kind::Window:
      return k > q - m.window_size().value;
    case Mask::Kind::PrefixWindow:
      return k < m.prefix().value || k > q - m.window_size().value;
    case Mask::Kind::Documents: {
      const auto document = [&](std::int64_t x) {
        std::size_t d = 0;
        while (x >= m.document_bounds()[d + 1]) ++d;
        return d;
      };
      const bool near = m.window_size().value == 0 || k > q - m.window_size().value;
      return near && document(q) == document(k);
    }
    default:
      return true;
  }
}

std::vector<std::int64_t> positions(const std::vector<TokenRange>& ranges) {
  std::vector<std::int64_t> all;
  for (const TokenRange& r : ranges)
    for (std::int64_t i = 0; i < r.count; ++i) all.push_back(r.start + i * r.stride);
  return all;
}

// What a form promises, pair by pair.
bool form_is_true(TileForm form, const std::vector<std::vector<bool>>& seen) {
  for (std::size_t a = 0; a < seen.size(); ++a)
    for (std::size_t b = 0; b < seen[a].size(); ++b) {
      const bool promised = form == TileForm::Full || (form == TileForm::Causal && b <= a) ||
                            (form == TileForm::StrictlyCausal && b < a);
      if (form != TileForm::Other && seen[a][b] != promised) return false;
    }
  return true;
}

void expect_true_tile(const Mask& m, const std::vector<TokenRange>& q,
                      const std::vector<TokenRange>& k) {
  const std::vector<std::int64_t> rows = positions(q), keys = positions(k);
  std::vector<std::vector<bool>> seen(rows.size(), std::vector<bool>(keys.size()));
  std::int64_t pairs = 0;
  for (std::size_t a = 0; a < rows.size(); ++a)
    for (std::size_t b = 0; b < keys.size(); ++b) {
      seen[a][b] = sees(m, rows[a], keys[b]);
      pairs += seen[a][b] ? 1 : 0;
      ASSERT_EQ(m.visible(rows[a], keys[b]), seen[a][b]) << to_text(m);
    }
  const Tile tile = m.tile(std::span<const TokenRange>(q), std::span<const TokenRange>(k));
  const auto name = [&] {
    std::string text = to_text(m);
    for (const TokenRange& r : q) text += fmt::format(" q {}+{}*{}", r.start, r.stride, r.count);
    for (const TokenRange& r : k) text += fmt::format(" k {}+{}*{}", r.start, r.stride, r.count);
    return text;
  };
  ASSERT_EQ(tile.pairs.value, pairs) << name();
  ASSERT_EQ(tile.rows, static_cast<std::int64_t>(rows.size())) << name();
  ASSERT_EQ(tile.keys, static_cast<std::int64_t>(keys.size())) << name();
  ASSERT_EQ(tile.form == TileForm::Empty, pairs == 0) << name();
  ASSERT_TRUE(form_is_true(tile.form, seen)) << name() << ": form " << int(tile.form);
  if (pairs == tile.rows * tile.keys && pairs > 0) {
    ASSERT_EQ(tile.form, TileForm::Full) << name();
  }
}

Mask random_mask(std::mt19937& random, std::int64_t tokens) {
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random()) % n; };
  switch (below(5)) {
    case 0:
      return Mask::full();
    case 1:
      return Mask::causal();
    case 2:
      return Mask::window({1 + below(tokens)});
    case 3:
      return Mask::prefix_window({below(tokens)}, {1 + below(tokens)});
    default: {
      std::vector<Tokens> lengths;
      for (std::int64_t left = tokens; left > 0; left -= lengths.back().value)
        lengths.push_back({1 + below(left)});
      return Mask::documents(lengths, {below(2) * (1 + below(tokens))});
    }
  }
}

std::vector<TokenRange> random_side(std::mt19937& random, std::int64_t tokens) {
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random()) % n; };
  std::vector<TokenRange> side;
  std::int64_t from = 0;
  for (std::int64_t pieces = 1 + below(3); pieces > 0 && from < tokens; --pieces) {
    const std::int64_t stride = 1 + below(9), start = from + below(tokens - from);
    const std::int64_t most = (tokens - 1 - start) / stride + 1;
    side.push_back({start, stride, below(std::min<std::int64_t>(most, 12) + 1)});
    from = start + stride * side.back().count + 1;
  }
  return side;
}

TEST(Mask, CountsAndFormsOfEveryKindAgreeWithBruteForce) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000 && !HasFatalFailure(); ++i) {
    const std::int64_t tokens = 1 + static_cast<std::int64_t>(random()) % 90;
    const Mask mask = random_mask(random, tokens);
    const auto q = random_side(random, tokens);
    expect_true_tile(mask, q, random() % 4 == 0 ? q : random_side(random, tokens));
  }
}

// Every token once, in short runs, some of them of two interleaved; about half of these, shuffled.
std::vector<TokenRange> side_of_many(std::mt19937& random, std::int64_t tokens) {
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random()) % n; };
  std::vector<TokenRange> side;
  for (std::int64_t at = 0; at < tokens;) {
    const std::int64_t count = std::min(1 + below(4), tokens - at);
    if (below(8) == 0 && at + 2 * count <= tokens) {
      side.push_back({at, 2, count});
      side.push_back({at + 1, 2, count});
      at += 2 * count;
    } else {
      side.push_back({at, 1, count});
      at += count;
    }
  }
  std::shuffle(side.begin(), side.end(), random);
  side.resize(side.size() / 2 + 1);
  return side;
}

TEST(Mask, TilesOfManyRangesAgreeWithBruteForce) {
  std::mt19937 random(3);
  for (int i = 0; i < 300 && !HasFatalFailure(); ++i) {
    const std::int64_t tokens = 150 + static_cast<std::int64_t>(random()) % 60;
    const Mask mask = random_mask(random, tokens);
    const auto q = side_of_many(random, tokens);
    expect_true_tile(mask, q, random() % 4 == 0 ? q : side_of_many(random, tokens));
  }
}

// Range against range this would be sixteen billion pairs of ranges.
TEST(Mask, CountsTilesOfHundredThousandRanges) {
  constexpr std::int64_t n = 131'072;
  std::vector<TokenRange> even, odd;
  for (std::int64_t i = n; i-- > 0;) {
    even.push_back({4 * i, 1, 2});
    odd.push_back({4 * i + 2, 1, 2});
  }
  // Block i of the odd ones sees blocks 0 to i of the even ones, four pairs each.
  EXPECT_EQ(Mask::causal()
                .tile(std::span<const TokenRange>(odd), std::span<const TokenRange>(even))
                .pairs.value,
            4 * (n * (n + 1) / 2));
  EXPECT_EQ(Mask::window({1})
                .tile(std::span<const TokenRange>(odd), std::span<const TokenRange>(even))
                .pairs.value,
            0);
}

TEST(Mask, FindsTheFormsThatKernelsHave) {
  const auto form = [](const Mask& m, std::vector<TokenRange> q, std::vector<TokenRange> k) {
    return m.tile(std::span<const TokenRange>(q), std::span<const TokenRange>(k)).form;
  };
  const Mask causal = Mask::causal();
  EXPECT_EQ(form(causal, {{8, 1, 8}}, {{8, 1, 8}}), TileForm::Causal);
  EXPECT_EQ(form(causal, {{8, 1, 8}}, {{0, 1, 8}}), TileForm::Full);
  EXPECT_EQ(form(causal, {{0, 1, 8}}, {{8, 1, 8}}), TileForm::Empty);
  EXPECT_EQ(form(causal, {{2, 4, 5}}, {{1, 4, 6}}), TileForm::Causal);
  EXPECT_EQ(form(causal, {{1, 4, 6}}, {{2, 4, 5}}), TileForm::StrictlyCausal);
  EXPECT_EQ(form(causal, {{4, 1, 4}, {24, 1, 4}}, {{4, 1, 4}, {24, 1, 4}}), TileForm::Causal);
  EXPECT_EQ(form(Mask::window({8}), {{8, 1, 8}}, {{8, 1, 8}}), TileForm::Causal);
  EXPECT_EQ(form(Mask::window({7}), {{8, 1, 8}}, {{8, 1, 8}}), TileForm::Other);
  EXPECT_EQ(form(Mask::documents({{8}, {8}}), {{8, 1, 8}}, {{8, 1, 8}}), TileForm::Causal);
}

TEST(Mask, CountsTwoBillionTokensInClosedForm) {
  constexpr std::int64_t n = (std::int64_t{1} << 31) - 1;
  const TokenRange all{0, 1, n};
  const auto pairs = [&](const Mask& m) {
    return m.tile(TokenSet({&all, 1}), TokenSet({&all, 1})).pairs.value;
  };
  EXPECT_EQ(pairs(Mask::full()), n * n);
  EXPECT_EQ(pairs(Mask::causal()), n % 2 == 0 ? n / 2 * (n + 1) : (n + 1) / 2 * n);
  constexpr std::int64_t w = 4096, p = 128;
  const std::int64_t window = w * (w + 1) / 2 + (n - w) * w;
  EXPECT_EQ(pairs(Mask::window({w})), window);
  // Rows past w + p see the whole prefix besides; those from w to w + p see a growing part of it.
  EXPECT_EQ(pairs(Mask::prefix_window({p}, {w})), window + p * (p + 1) / 2 + (n - w - p) * p);
}

TEST(Mask, CountsDifferentStridesOverLongRanges) {
  // Rows 7i against keys 5j: row i sees floor(7i/5)+1 keys; in 5 rows that is 35i + 1+2+3+5+6.
  const TokenRange q{0, 7, 5'000'000}, k{0, 5, 400'000'000};
  const std::int64_t fives = q.count / 5;
  EXPECT_EQ(Mask::causal().tile(TokenSet({&q, 1}), TokenSet({&k, 1})).pairs.value,
            35 * (fives * (fives - 1) / 2) + 17 * fives);
}

TEST(Mask, RoundTripsThroughText) {
  std::mt19937 random(2);
  for (int i = 0; i < 500; ++i) {
    const Mask m = random_mask(random, 500);
    EXPECT_EQ(parse_mask(to_text(m)), m) << to_text(m);
  }
  EXPECT_EQ(parse_mask("window:4K"), Mask::window({4096}));
  EXPECT_EQ(parse_mask("prefix:0,window:2"), Mask::prefix_window({0}, {2}));
  EXPECT_EQ(parse_mask("window:2K,documents:4K,1"), Mask::documents({{4096}, {1}}, {2048}));
}

TEST(Mask, SaysThatTheWindowOfDocumentsStandsFirst) {
  try {
    parse_mask("documents:4,5,window:2");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("window:N,documents:A,B"));
  }
}

TEST(Mask, RefusesWhatMakesNoSense) {
  for (const char* text : {"",
                           "casual",
                           "window",
                           "window:",
                           "window:0",
                           "window:-1",
                           "prefix:1",
                           "prefix:1,window:0",
                           "prefix:,window:1",
                           "documents:",
                           "documents:1,,2",
                           "window:0,documents:1",
                           "window:,documents:1",
                           "window:3,documents:",
                           "documents:4,window:2",
                           "prefix:1,window:2,documents:4",
                           "documents:0",
                           "window:2147483648",
                           "prefix:9223372036854775807,window:1",
                           "documents:2147483647,1",
                           "window:1x"})
    EXPECT_THROW(parse_mask(text), Error) << text;
  try {
    parse_mask("casual");
  } catch (const Error& e) {
    EXPECT_THAT(e.what(),
                testing::AllOf(testing::HasSubstr("'casual'"), testing::HasSubstr("window:N")));
  }
}

}  // namespace
}  // namespace ringsched
