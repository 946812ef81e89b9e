#include "tile_parts.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "ringsched/scheduler/plan_tables.hpp"

namespace ringsched {

namespace {

// By document, the ranges that lie in it.
using ByDocument = std::map<std::int64_t, std::vector<TokenRange>>;

ByDocument by_document(const Mask& mask, std::span<const TokenRange> ranges) {
  const std::span<const std::int64_t> bounds = mask.document_bounds();
  ByDocument out;
  for (const TokenRange& r : ranges)
    for (std::int64_t i = 0; i < r.count;) {
      const std::int64_t start = r.position(i);
      const auto end = std::ranges::upper_bound(bounds, start);
      const std::int64_t inside = (*end - start + r.stride - 1) / r.stride;
      const std::int64_t count = std::min(r.count - i, inside);
      out[end - bounds.begin()].push_back({start, r.stride, count});
      i += count;
    }
  return out;
}

bool continues(const TokenRange& a, const TokenRange& b) {
  return a.stride == b.stride && a.position(a.count) == b.start;
}

}  // namespace

std::vector<TilePart> parts_by_document(const Mask& mask, std::span<const TokenRange> queries,
                                        std::span<const TokenRange> keys, std::uint32_t heads) {
  const ByDocument rows = by_document(mask, queries), seen = by_document(mask, keys);
  using Kind = std::tuple<std::int64_t, std::int64_t, std::int64_t, TileForm>;
  std::map<Kind, TilePart> kinds;
  for (const auto& [document, ranges] : rows) {
    const auto same = seen.find(document);
    if (same == seen.end()) continue;
    const Tile t = Mask::causal().tile(TokenSet(ranges), TokenSet(same->second));
    if (t.form == TileForm::Empty) continue;
    TilePart& kind = kinds[{t.rows, t.keys, t.pairs.value, t.form}];
    if (kind.work.rows == 0)
      kind.work = work_of(t, heads);
    else
      ++kind.count;
  }
  std::vector<TilePart> out;
  for (auto& [kind, tile] : kinds) out.push_back(tile);
  return out;
}

std::vector<TilePart> parts_by_stretch(std::span<const TokenRange> queries,
                                       std::span<const TokenRange> keys, std::uint32_t heads) {
  std::vector<TokenRange> stretches;
  for (const TokenRange& q : queries) {
    if (q.count == 0) continue;
    if (!stretches.empty() && continues(stretches.back(), q))
      stretches.back().count += q.count;
    else
      stretches.push_back(q);
  }
  std::vector<TilePart> out;
  for (const TokenRange& rows : stretches) {
    const std::int64_t last = rows.position(rows.count - 1);
    std::vector<TokenRange> seen;
    for (const TokenRange& k : keys)
      if (k.count > 0 && k.start <= last)
        seen.push_back({k.start, k.stride, std::min(k.count, (last - k.start) / k.stride + 1)});
    const Tile t = Mask::causal().tile(TokenSet({&rows, 1}), TokenSet(seen));
    if (t.form != TileForm::Empty) out.push_back({work_of(t, heads)});
  }
  return out;
}

}  // namespace ringsched
