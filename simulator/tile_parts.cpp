#include "tile_parts.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "ringsched/scheduler/plan_tables.hpp"

namespace ringsched {

namespace {

bool continues(const TokenRange& a, const TokenRange& b) {
  return a.stride == b.stride && a.position(a.count) == b.start;
}

}  // namespace

std::vector<DocumentCut> cut_by_document(const Mask& mask, std::span<const TokenRange> ranges) {
  const std::span<const std::int64_t> bounds = mask.document_bounds();
  std::map<std::int64_t, std::vector<TokenRange>> by_document;
  for (const TokenRange& r : ranges)
    for (std::int64_t i = 0; i < r.count;) {
      const std::int64_t start = r.position(i);
      const auto end = std::ranges::upper_bound(bounds, start);
      const std::int64_t inside = (*end - start + r.stride - 1) / r.stride;
      const std::int64_t count = std::min(r.count - i, inside);
      by_document[end - bounds.begin()].push_back({start, r.stride, count});
      i += count;
    }
  std::vector<DocumentCut> out;
  for (auto& [document, cut] : by_document) out.push_back({document, std::move(cut)});
  return out;
}

std::vector<TilePart> parts_by_document(const Mask& mask, std::span<const DocumentCut> queries,
                                        std::span<const DocumentCut> keys, std::uint32_t heads) {
  const Tokens window = mask.window_size();
  const Mask inside = window.value > 0 ? Mask::window(window) : Mask::causal();
  std::vector<TilePart> out;
  auto k = keys.begin();
  for (const DocumentCut& q : queries) {
    while (k != keys.end() && k->document < q.document) ++k;
    if (k == keys.end() || k->document != q.document) continue;
    const Tile t = inside.tile(TokenSet(q.ranges), TokenSet(k->ranges));
    if (t.form == TileForm::Empty) continue;
    const Work work = work_of(t, heads);
    if (!out.empty() && out.back().work == work)
      ++out.back().count;
    else
      out.push_back({work});
  }
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
