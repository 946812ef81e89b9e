#include "visible.hpp"

#include <algorithm>
#include <limits>

namespace ringsched {

namespace {

// Positions [from, to).
struct Span {
  std::int64_t from = 0, to = 0;
};

// At most two, the lower first, not overlapping.
std::array<Span, 2> seen_by(const Mask& mask, std::int64_t query) {
  switch (mask.kind()) {
    case Mask::Kind::Full:
      return {Span{0, std::numeric_limits<std::int64_t>::max()}, Span{}};
    case Mask::Kind::Causal:
      return {Span{0, query + 1}, Span{}};
    case Mask::Kind::Window:
      return {Span{query + 1 - mask.window_size().value, query + 1}, Span{}};
    case Mask::Kind::PrefixWindow: {
      const std::int64_t window = std::max<std::int64_t>(0, query + 1 - mask.window_size().value);
      const std::int64_t prefix = std::min(mask.prefix().value, query + 1);
      if (prefix >= window) return {Span{0, query + 1}, Span{}};
      return {Span{0, prefix}, Span{window, query + 1}};
    }
    case Mask::Kind::Documents: {
      const auto bounds = mask.document_bounds();
      const auto next = std::upper_bound(bounds.begin(), bounds.end(), query);
      const std::int64_t window = mask.window_size().value;
      const std::int64_t near = window > 0 ? query + 1 - window : 0;
      return {Span{std::max(*(next - 1), near), query + 1}, Span{}};
    }
  }
  return {};
}

}  // namespace

std::vector<cpu::VisibleKeys> visible_keys(const Mask& mask, std::span<const std::int64_t> queries,
                                           std::span<const std::int64_t> keys) {
  const auto place = [&](std::int64_t position) {
    return static_cast<std::int32_t>(std::lower_bound(keys.begin(), keys.end(), position) -
                                     keys.begin());
  };
  std::vector<cpu::VisibleKeys> out;
  out.reserve(queries.size());
  for (const std::int64_t q : queries) {
    cpu::VisibleKeys v;
    const std::array<Span, 2> spans = seen_by(mask, q);
    for (std::size_t i = 0; i < 2; ++i) {
      v.begin[i] = place(spans[i].from);
      v.end[i] = place(spans[i].to);
    }
    if (v.begin[1] == v.end[1]) v.begin[1] = v.end[1] = v.end[0];
    out.push_back(v);
  }
  return out;
}

}  // namespace ringsched
