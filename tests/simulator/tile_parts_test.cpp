#include "tile_parts.hpp"

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

TEST(TileParts, OfDocumentsAreWhatCountingTokenByTokenFinds) {
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
    const Mask mask = Mask::documents(documents, {below(2) * (1 + below(20))});
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
    for (const TilePart& d :
         parts_by_document(mask, cut_by_document(mask, queries), cut_by_document(mask, keys), 3)) {
      EXPECT_EQ(d.work.columns, 3u);
      EXPECT_EQ(d.work.form == TileForm::Full, d.work.pairs.value == d.work.rows * d.work.keys);
      found[{d.work.rows, d.work.keys, d.work.pairs.value}] += d.count;
    }
    EXPECT_EQ(found, count(mask, lengths, queries, keys));
  }
}

TEST(TileParts, OfStretchesAreWhatCountingTokenByTokenFinds) {
  std::mt19937 random(11);
  const auto below = [&](std::uint32_t n) { return static_cast<std::int64_t>(random() % n); };
  for (int round = 0; round < 200; ++round) {
    // Chunks of queries, some of them side by side, and keys in several chunks.
    const auto some = [&](std::int64_t most_gap) {
      std::vector<TokenRange> out;
      std::int64_t start = below(6);
      for (std::int64_t n = 1 + below(4); n > 0; --n) {
        const std::int64_t count = 1 + below(9);
        out.push_back({start, 1, count});
        start += count + below(static_cast<std::uint32_t>(most_gap) + 1);
      }
      return out;
    };
    const std::vector<TokenRange> queries = some(2), keys = some(1);
    std::vector<std::vector<std::int64_t>> stretches;
    for (const std::int64_t q : positions(queries)) {
      if (stretches.empty() || stretches.back().back() + 1 != q) stretches.emplace_back();
      stretches.back().push_back(q);
    }
    std::vector<Counted::key_type> expected, found;
    for (const std::vector<std::int64_t>& s : stretches) {
      std::int64_t seen = 0, pairs = 0;
      for (const std::int64_t k : positions(keys)) {
        seen += k <= s.back();
        for (const std::int64_t q : s) pairs += k <= q;
      }
      if (pairs > 0) expected.push_back({static_cast<std::int64_t>(s.size()), seen, pairs});
    }
    for (const TilePart& p : parts_by_stretch(queries, keys, 5)) {
      EXPECT_EQ(p.count, 1u);
      EXPECT_EQ(p.work.columns, 5u);
      found.push_back({p.work.rows, p.work.keys, p.work.pairs.value});
    }
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace ringsched
