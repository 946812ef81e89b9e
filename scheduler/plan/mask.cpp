#include "ringsched/scheduler/mask.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "mask_stretches.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/problem.hpp"

namespace ringsched {

namespace {

using i64 = std::int64_t;

constexpr i64 floor_div(i64 a, i64 b) { return a / b - (a % b < 0 ? 1 : 0); }
constexpr i64 ceil_div(i64 a, i64 b) { return -floor_div(-a, b); }

// sum of floor((a i + b) / m) over 0 <= i < n, in O(log m): the points under a line, turned by a
// right angle until the line is steep enough to count by columns.
i64 floor_sum(i64 n, i64 m, i64 a, i64 b) {
  i64 sum = 0;
  while (n > 0) {
    sum += (a / m) * (n * (n - 1) / 2) + (b / m) * n;
    a %= m;
    b %= m;
    const i64 top = a * n + b;
    n = top / m;
    b = top % m;
    std::swap(a, m);
  }
  return sum;
}

// The (query, key) pairs with key position <= query position + shift.
i64 pairs_up_to(const TokenRange& q, const TokenRange& k, i64 shift) {
  if (q.count == 0 || k.count == 0) return 0;
  // Row i sees keys as far as x(i) = distance + i * q.stride beyond the first key.
  const i64 distance = q.start - k.start + shift;
  const i64 first_some = std::clamp<i64>(ceil_div(-distance, q.stride), 0, q.count);
  const i64 first_all =
      std::clamp<i64>(ceil_div((k.count - 1) * k.stride - distance, q.stride), first_some, q.count);
  const i64 some = first_all - first_some;
  const i64 x = distance + first_some * q.stride;
  const i64 between = q.stride == k.stride ? some * (x / k.stride) + some * (some - 1) / 2
                                           : floor_sum(some, k.stride, q.stride, x);
  return between + some + (q.count - first_all) * k.count;
}

// The part of a range with positions in [from, until).
TokenRange cut(const TokenRange& r, i64 from, i64 until) {
  const i64 first = std::clamp<i64>(ceil_div(from - r.start, r.stride), 0, r.count);
  const i64 last = std::clamp<i64>(ceil_div(until - r.start, r.stride), first, r.count);
  return {r.position(first), r.stride, last - first};
}

bool ascending(std::span<const TokenRange> ranges) {
  i64 last = -1;
  for (const TokenRange& r : ranges) {
    if (r.count == 0) continue;
    if (r.start <= last) return false;
    last = r.position(r.count - 1);
  }
  return true;
}

TileForm causal_form(std::span<const TokenRange> queries, std::span<const TokenRange> keys) {
  if (queries.size() == 1 && keys.size() == 1 && queries[0].stride == keys[0].stride) {
    const i64 diagonal = floor_div(queries[0].start - keys[0].start, keys[0].stride);
    return diagonal == 0    ? TileForm::Causal
           : diagonal == -1 ? TileForm::StrictlyCausal
                            : TileForm::Other;
  }
  return std::ranges::equal(queries, keys) && ascending(queries) ? TileForm::Causal
                                                                 : TileForm::Other;
}

Tokens at_least_one(i64 n, std::string_view what) {
  if (n < 1) fail("{} is {}; use at least 1", what, n);
  if (n > kMaxTokens) fail("{} is {}; use at most {}", what, n, kMaxTokens);
  return {n};
}

}  // namespace

TokenSet::TokenSet(std::span<const TokenRange> all) : ranges(all) {
  for (const TokenRange& r : ranges) {
    if (r.count == 0) continue;
    low = std::min(low, r.start);
    high = std::max(high, r.position(r.count - 1));
    count += r.count;
  }
}

Mask Mask::full() { return Mask(Kind::Full); }

Mask Mask::causal() { return Mask(Kind::Causal); }

Mask Mask::window(Tokens size) {
  Mask m(Kind::Window);
  m.window_ = at_least_one(size.value, "the mask's window");
  return m;
}

Mask Mask::prefix_window(Tokens prefix, Tokens size) {
  Mask m(Kind::PrefixWindow);
  if (prefix.value > 0) at_least_one(prefix.value, "the mask's prefix");
  if (prefix.value < 0) fail("the mask's prefix is {}; use at least 0", prefix.value);
  m.prefix_ = prefix;
  m.window_ = at_least_one(size.value, "the mask's window");
  return m;
}

Mask Mask::documents(const std::vector<Tokens>& lengths, Tokens window) {
  Mask m(Kind::Documents);
  if (window.value != 0) m.window_ = at_least_one(window.value, "the mask's window");
  if (lengths.empty()) fail("documents: give at least one length");
  m.bounds_.push_back(0);
  for (const Tokens length : lengths) {
    at_least_one(length.value, "the length of a document");
    if (length.value > kMaxTokens - m.bounds_.back())
      fail("the mask's documents add up to more than {} tokens", kMaxTokens);
    m.bounds_.push_back(m.bounds_.back() + length.value);
  }
  return m;
}

bool Mask::visible(i64 query, i64 key) const {
  switch (kind_) {
    case Kind::Full:
      return true;
    case Kind::Causal:
      return key <= query;
    case Kind::Window:
      return key <= query && query - key < window_.value;
    case Kind::PrefixWindow:
      return key <= query && (key < prefix_.value || query - key < window_.value);
    case Kind::Documents:
      return key <= query && (window_.value == 0 || query - key < window_.value) &&
             std::upper_bound(bounds_.begin(), bounds_.end(), key) ==
                 std::upper_bound(bounds_.begin(), bounds_.end(), query);
  }
  return false;
}

Pairs Mask::pairs(const TokenRange& q, const TokenRange& k) const {
  const auto in_window = [&](const TokenRange& queries, const TokenRange& keys) {
    const i64 hidden = window_.value > 0 ? pairs_up_to(queries, keys, -window_.value) : 0;
    return pairs_up_to(queries, keys, 0) - hidden;
  };
  switch (kind_) {
    case Kind::Full:
      return {q.count * k.count};
    case Kind::Causal:
      return {pairs_up_to(q, k, 0)};
    case Kind::Window:
      return {in_window(q, k)};
    case Kind::PrefixWindow:
      return {pairs_up_to(q, cut(k, 0, prefix_.value), 0) +
              in_window(q, cut(k, prefix_.value, std::numeric_limits<std::int32_t>::max()))};
    case Kind::Documents:
      break;
  }
  const i64 last = std::min(q.position(q.count - 1), k.position(k.count - 1));
  auto end = std::upper_bound(bounds_.begin(), bounds_.end(), std::max(q.start, k.start));
  i64 sum = 0;
  for (; end != bounds_.end() && end != bounds_.begin() && *(end - 1) <= last; ++end)
    sum += in_window(cut(q, *(end - 1), *end), cut(k, *(end - 1), *end));
  return {sum};
}

Pairs Mask::pairs(const TokenSet& q, const TokenSet& k) const {
  if (const auto sum = pairs_by_stretches(*this, q, k)) return {*sum};
  Pairs sum;
  for (const TokenRange& a : q.ranges)
    for (const TokenRange& b : k.ranges)
      if (a.count > 0 && b.count > 0) sum += pairs(a, b);
  return sum;
}

Tile Mask::tile(const TokenSet& q, const TokenSet& k) const {
  Tile tile{q.count, k.count, {}, TileForm::Empty};
  if (q.count == 0 || k.count == 0) return tile;
  const i64 all = q.count * k.count;
  // Most tiles of most plans end here.
  if (kind_ == Kind::Full || (kind_ == Kind::Causal && k.high <= q.low)) {
    tile.pairs = {all};
    tile.form = TileForm::Full;
    return tile;
  }
  if (k.low > q.high) return tile;
  if (window_.value > 0 && kind_ != Kind::PrefixWindow && q.low - k.high >= window_.value)
    return tile;

  tile.pairs = pairs(q, k);
  if (tile.pairs.value == 0) return tile;
  if (tile.pairs.value == all) {
    tile.form = TileForm::Full;
    return tile;
  }
  // Every mask except the full one shows a subset of the causal one; equal counts mean equal sets.
  tile.form = causal_form(q.ranges, k.ranges);
  if (kind_ != Kind::Causal && tile.form != TileForm::Other && causal().pairs(q, k) != tile.pairs)
    tile.form = TileForm::Other;
  return tile;
}

std::string to_text(const Mask& m) {
  switch (m.kind()) {
    case Mask::Kind::Full:
      return "full";
    case Mask::Kind::Causal:
      return "causal";
    case Mask::Kind::Window:
      return fmt::format("window:{}", m.window_size().value);
    case Mask::Kind::PrefixWindow:
      return fmt::format("prefix:{},window:{}", m.prefix().value, m.window_size().value);
    case Mask::Kind::Documents:
      break;
  }
  const auto bounds = m.document_bounds();
  std::vector<i64> lengths(bounds.size());
  std::adjacent_difference(bounds.begin(), bounds.end(), lengths.begin());
  return fmt::format(
      "{}documents:{}",
      m.window_size().value > 0 ? fmt::format("window:{},", m.window_size().value) : "",
      fmt::join(lengths.begin() + 1, lengths.end(), ","));
}

namespace {

std::vector<Tokens> parse_lengths(std::string_view text) {  // of documents
  std::vector<Tokens> lengths;
  for (;;) {
    const std::size_t comma = text.find(',');
    lengths.push_back({parse_count(text.substr(0, comma), "the length of a document")});
    if (comma == text.npos) return lengths;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace

Mask parse_mask(std::string_view text) {
  const auto rest_after = [&](std::string_view head) { return text.substr(head.size()); };
  if (text == "full") return Mask::full();
  if (text == "causal") return Mask::causal();
  if (const std::size_t comma = text.find(",documents:");
      text.starts_with("window:") && comma != text.npos)
    return Mask::documents(parse_lengths(text.substr(comma + 11)),
                           at_least_one(parse_count(text.substr(7, comma - 7), "the mask's window"),
                                        "the mask's window"));
  if (text.starts_with("window:"))
    return Mask::window({parse_count(rest_after("window:"), "the mask's window")});
  if (text.starts_with("prefix:")) {
    const std::size_t comma = text.find(",window:");
    if (comma == text.npos) fail("the mask is '{}'; use prefix:P,window:N", printable(text, 60));
    const std::string_view prefix = text.substr(7, comma - 7);
    return Mask::prefix_window({prefix == "0" ? 0 : parse_count(prefix, "the mask's prefix")},
                               {parse_count(text.substr(comma + 8), "the mask's window")});
  }
  if (text.starts_with("documents:") && text.find(",window:") != text.npos)
    fail("the mask is '{}'; a window stands first, as in window:N,documents:A,B",
         printable(text, 60));
  if (text.starts_with("documents:"))
    return Mask::documents(parse_lengths(rest_after("documents:")));
  if (text == "window") fail("mask window needs a length, such as window:4K");
  if (text == "prefix") fail("the mask prefix needs lengths, such as prefix:1K,window:4K");
  if (text == "documents") fail("the mask documents needs lengths, such as documents:4K,8K");
  static constexpr std::string_view kinds[] = {"full", "causal", "window", "prefix", "documents"};
  fail(
      "unknown mask '{}'{} (use full; causal; window:N; prefix:P,window:N; documents:A,B,...; or "
      "window:N,documents:A,B,...)",
      printable(text, 60), did_you_mean(text.substr(0, text.find(':')), kinds));
}

}  // namespace ringsched
