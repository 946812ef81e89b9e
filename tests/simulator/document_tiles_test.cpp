#include "document_tiles.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

#include "ringsched/scheduler/layout.hpp"

namespace ringsched {
namespace {

// Rows, keys and pairs of each document, counted token by token.
using Counted = std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::uint32_t>;

std::vector<std::int64_t> positions(std::span<const TokenRange> ranges) {
  std::vector<std::int64_t> out;
  for (const TokenRange& r : ranges)
    for (std::int64_t i = 0; i < r.count; ++i) out.push_back(r.position(i));
  return out;
}

Counted count(const Mask& mask, const std::vector<std::int64_t>& lengths,
              std::span<const TokenRange> queries, std::span<const TokenRange> keys) {
  Counted out;
  std::int64_t start = 0;
  for (const std::int64_t length : lengths) {
    std::int64_t rows = 0, seen = 0, pairs = 0;
    const auto inside = [&](std::int64_t x) { return start <= x && x < start + length; };
    for (const std::int64_t q : positions(queries)) rows += inside(q);
    for (const std::int64_t k : positions(keys)) seen += inside(k);
    for (const std::int64_t q : positions(queries))
      for (const std::int64_t k : positions(keys)) pairs += inside(q) && mask.visible(q, k);
    if (pairs > 0) ++out[{rows, seen, pairs}];
    start += length;
  }
  return out;
}

TEST(DocumentTiles, AreWhatCountingTokenByTokenFinds) {
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int64_t> lengths;
    std::vector<Tokens> documents;
    std::int64_t tokens = 0;
    for (std::int64_t n = 1 + below(6); n > 0; --n) {
      // Often several alike.
      lengths.push_back(lengths.empty() || below(3) > 0 ? 1 + below(20) : lengths.back());
      documents.push_back({lengths.back()});
      tokens += lengths.back();
    }
    const Mask mask = Mask::documents(documents);
    const auto some = [&] {
      // Every second token, or all, of two stretches.
      std::vector<TokenRange> out;
      const std::int64_t middle = below(static_cast<std::uint32_t>(tokens)) + 1;
      for (const auto& [from, to] : {std::pair{std::int64_t{0}, middle}, {middle, tokens}}) {
        if (from == to) continue;
        const std::int64_t start = from + below(static_cast<std::uint32_t>(to - from));
        const std::int64_t stride = 1 + below(3);
        out.push_back({start, stride, (to - start + stride - 1) / stride});
      }
      return out;
    };
    const std::vector<TokenRange> queries = some(), keys = some();
    Counted found;
    for (const DocumentTile& d : document_tiles(mask, queries, keys, 3)) {
      EXPECT_EQ(d.work.columns, 3u);
      EXPECT_EQ(d.work.form == TileForm::Full, d.work.pairs.value == d.work.rows * d.work.keys);
      found[{d.work.rows, d.work.keys, d.work.pairs.value}] += d.count;
    }
    EXPECT_EQ(found, count(mask, lengths, queries, keys));
  }
}

}  // namespace
}  // namespace ringsched
