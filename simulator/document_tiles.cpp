#include "document_tiles.hpp"

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

}  // namespace

std::vector<DocumentTile> document_tiles(const Mask& mask, std::span<const TokenRange> queries,
                                         std::span<const TokenRange> keys, std::uint32_t heads) {
  const ByDocument rows = by_document(mask, queries), seen = by_document(mask, keys);
  using Kind = std::tuple<std::int64_t, std::int64_t, std::int64_t, TileForm>;
  std::map<Kind, DocumentTile> kinds;
  for (const auto& [document, ranges] : rows) {
    const auto same = seen.find(document);
    if (same == seen.end()) continue;
    const Tile t = Mask::causal().tile(TokenSet(ranges), TokenSet(same->second));
    if (t.form == TileForm::Empty) continue;
    DocumentTile& kind = kinds[{t.rows, t.keys, t.pairs.value, t.form}];
    if (kind.work.rows == 0)
      kind.work = work_of(t, heads);
    else
      ++kind.count;
  }
  std::vector<DocumentTile> out;
  for (auto& [kind, tile] : kinds) out.push_back(tile);
  return out;
}

}  // namespace ringsched
