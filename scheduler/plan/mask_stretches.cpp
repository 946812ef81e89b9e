#include "mask_stretches.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace ringsched {

namespace {

using i64 = std::int64_t;

struct Stretch {  // consecutive positions
  i64 start = 0, count = 0;
};

// For an ascending list of stretches: how many positions there are up to any one, by binary search.
class KeyCount {
 public:
  // Those from `least` on.
  KeyCount(std::span<const Stretch> keys, i64 least) {
    for (Stretch r : keys) {
      const i64 dropped = std::clamp<i64>(least - r.start, 0, r.count);
      r = {r.start + dropped, r.count - dropped};
      if (r.count == 0) continue;
      stretches_.push_back({r, all_, positions_});
      all_ += r.count;
      positions_ += sum_of(r);
    }
  }
  i64 up_to(i64 x) const { return at(x).first; }
  // up_to(x), summed over all x from first to last.
  i64 sum(i64 first, i64 last) const { return sum_up_to(last) - sum_up_to(first - 1); }

 private:
  struct Entry {
    Stretch stretch;
    i64 before, positions_before;  // how many, and their sum
  };
  static i64 sum_of(const Stretch& r) { return r.count * r.start + r.count * (r.count - 1) / 2; }
  // How many positions there are up to x, and their sum.
  std::pair<i64, i64> at(i64 x) const {
    const auto next = std::upper_bound(stretches_.begin(), stretches_.end(), x,
                                       [](i64 y, const Entry& e) { return y < e.stretch.start; });
    if (next == stretches_.begin()) return {0, 0};
    const Entry& e = *(next - 1);
    const Stretch met{e.stretch.start, std::min(e.stretch.count, x - e.stretch.start + 1)};
    return {e.before + met.count, e.positions_before + sum_of(met)};
  }
  // Key k counts once for each x' from k to x.
  i64 sum_up_to(i64 x) const {
    const auto [count, positions] = at(x);
    return (x + 1) * count - positions;
  }

  std::vector<Entry> stretches_;
  i64 all_ = 0, positions_ = 0;
};

std::vector<Stretch> ascending_stretches(const TokenSet& set) {
  std::vector<Stretch> stretches;
  for (const TokenRange& r : set.ranges)
    if (r.stride == 1) {
      if (r.count > 0) stretches.push_back({r.start, r.count});
    } else {
      for (i64 i = 0; i < r.count; ++i) stretches.push_back({r.position(i), 1});
    }
  std::sort(stretches.begin(), stretches.end(),
            [](Stretch a, Stretch b) { return a.start < b.start; });
  return stretches;
}

// With n and m ranges, n * m pairs of ranges are too many, but so are n + m ranges of long strides,
// taken one token at a time.
bool stretches_save_work(const TokenSet& queries, const TokenSet& keys) {
  constexpr std::size_t few = 256, most_of_a_range = 32;
  const std::size_t ranges = queries.ranges.size() + keys.ranges.size();
  if (queries.ranges.size() * keys.ranges.size() <= few) return false;
  std::size_t stretches = 0;
  for (const TokenSet* side : {&queries, &keys})
    for (const TokenRange& r : side->ranges)
      stretches += r.stride == 1 ? 1 : static_cast<std::size_t>(r.count);
  return stretches <= most_of_a_range * ranges &&
         stretches <= queries.ranges.size() * keys.ranges.size() / 8;
}

}  // namespace

std::optional<i64> pairs_by_stretches(const Mask& mask, const TokenSet& q_set,
                                      const TokenSet& k_set) {
  if (!stretches_save_work(q_set, k_set)) return {};
  const std::vector<Stretch> of_keys = ascending_stretches(k_set);
  const i64 window = mask.window_size().value;
  const KeyCount keys(of_keys, 0), beyond_prefix(of_keys, mask.prefix().value);
  const auto bounds = mask.document_bounds();
  i64 sum = 0;
  for (const Stretch& q : ascending_stretches(q_set)) {
    const i64 last = q.start + q.count - 1;
    sum += keys.sum(q.start, last);
    if (window > 0 && bounds.empty()) sum -= beyond_prefix.sum(q.start - window, last - window);
    // Of each document that the stretch meets: without the keys before it, or before the window.
    for (auto end = std::upper_bound(bounds.begin(), bounds.end(), q.start);
         end != bounds.end() && *(end - 1) <= last; ++end) {
      const i64 first = std::max(*(end - 1), q.start), final = std::min(*end - 1, last);
      // From this row on, the window begins inside the document.
      const i64 within = window > 0 ? std::clamp(*(end - 1) + window, first, final + 1) : final + 1;
      sum -= (within - first) * keys.up_to(*(end - 1) - 1);
      if (within <= final) sum -= keys.sum(within - window, final - window);
    }
  }
  return sum;
}

}  // namespace ringsched
