#include "ringsched/scheduler/layout.hpp"

#include <algorithm>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/problem.hpp"

namespace ringsched {

namespace {

// Each takes one bit while a layout of different strides is checked.
constexpr std::int64_t kMostMarkedTokens = std::int64_t{1} << 28;
constexpr std::string_view kLayouts[] = {"contiguous", "striped", "zigzag", "halves"};

// `count` positions from `start` on, cut into parts of nearly equal size, the larger ones first.
std::vector<TokenRange> cut_evenly(std::int64_t start, std::int64_t count, std::int64_t parts) {
  std::vector<TokenRange> cut;
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t size = count / parts + (i < count % parts ? 1 : 0);
    cut.push_back({start, 1, size});
    start += size;
  }
  return cut;
}

Layout with_equal_shares(std::string_view name, std::uint32_t workers,
                         std::vector<TokenRange> chunks) {
  Layout layout{std::string(name), std::move(chunks), {}};
  const auto each = static_cast<std::uint32_t>(layout.chunks.size()) / workers;
  for (std::uint32_t w = 0; w <= workers; ++w) layout.first.push_back(w * each);
  return layout;
}

// Chunks of one common stride, sorted by what their positions leave when divided by it: within each
// remainder they must meet end to end.
void require_every_token(const Layout& layout, std::int64_t stride, Tokens tokens) {
  struct Piece {
    std::int64_t remainder, index, count;
    std::size_t chunk;
  };
  std::vector<Piece> pieces;
  for (std::size_t c = 0; c < layout.chunks.size(); ++c)
    if (const TokenRange& r = layout.chunks[c]; r.count > 0)
      pieces.push_back({r.start % stride, r.start / stride, r.count, c});
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.remainder != b.remainder ? a.remainder < b.remainder : a.index < b.index;
  });

  std::int64_t remainder = 0, index = 0;
  std::size_t before = 0;
  const auto finish = [&] {
    if (const std::int64_t next = remainder + stride * index; next < tokens.value)
      fail("token {} is in no chunk", next);
    ++remainder;
    index = 0;
  };
  for (const Piece& p : pieces) {
    while (remainder < p.remainder) finish();
    if (p.index < index)
      fail("token {} is in chunks {} and {}", remainder + stride * p.index, before, p.chunk);
    if (p.index > index) finish();  // says which token is missing
    index += p.count;
    before = p.chunk;
  }
  while (remainder < std::min(stride, tokens.value)) finish();
}

void require_by_marking(const Layout& layout, Tokens tokens) {
  if (tokens.value > kMostMarkedTokens)
    fail("the chunks have different strides; then the problem may have at most {} tokens, not {}",
         kMostMarkedTokens, tokens.value);
  std::vector<bool> held(static_cast<std::size_t>(tokens.value));
  for (std::uint32_t c = 0; c < layout.chunks.size(); ++c) {
    const TokenRange& r = layout.chunks[c];
    for (std::int64_t i = 0; i < r.count; ++i) {
      auto&& mark = held[static_cast<std::size_t>(r.position(i))];
      if (mark) fail("token {} is in chunk {} and in an earlier chunk", r.position(i), c);
      mark = true;
    }
  }
  // As many marks as tokens, none twice: none is missing.
}

}  // namespace

WorkerId Layout::owner(ChunkId c) const {
  const auto next = std::upper_bound(first.begin(), first.end(), c.value);
  return {static_cast<std::uint32_t>(next - first.begin() - 1)};
}

Tokens Layout::rows(Region r) const {
  Tokens sum;
  for (const TokenRange& range : ranges(r)) sum += {range.count};
  return sum;
}

Layout contiguous(std::uint32_t workers, Tokens tokens) {
  return with_equal_shares("contiguous", workers, cut_evenly(0, tokens.value, workers));
}

Layout striped(std::uint32_t workers, Tokens tokens) {
  std::vector<TokenRange> chunks;
  for (std::int64_t w = 0; w < workers; ++w)
    chunks.push_back({w, workers, tokens.value / workers + (w < tokens.value % workers ? 1 : 0)});
  return with_equal_shares("striped", workers, std::move(chunks));
}

Layout zigzag(std::uint32_t workers, Tokens tokens) {
  const std::vector<TokenRange> parts = cut_evenly(0, tokens.value, 2 * std::int64_t{workers});
  std::vector<TokenRange> chunks;
  for (std::uint32_t w = 0; w < workers; ++w) {
    chunks.push_back(parts[w]);
    chunks.push_back(parts[2 * std::size_t{workers} - 1 - w]);
  }
  return with_equal_shares("zigzag", workers, std::move(chunks));
}

Layout halves(std::uint32_t workers, Tokens tokens) {
  std::vector<TokenRange> chunks;
  for (const TokenRange& share : cut_evenly(0, tokens.value, workers))
    for (const TokenRange& half : cut_evenly(share.start, share.count, 2)) chunks.push_back(half);
  return with_equal_shares("halves", workers, std::move(chunks));
}

std::span<const std::string_view> layout_names() { return kLayouts; }

Layout make_layout(std::string_view name, std::uint32_t workers, Tokens tokens) {
  constexpr Layout (*makers[])(std::uint32_t, Tokens) = {contiguous, striped, zigzag, halves};
  for (std::size_t i = 0; i < std::size(kLayouts); ++i)
    if (kLayouts[i] == name) return makers[i](workers, tokens);
  throw Error(unknown_name("layout", name, kLayouts));
}

void require_valid(const Layout& layout, Tokens tokens) {
  if (layout.first.size() < 2 || layout.first.front() != 0 ||
      layout.first.back() != layout.chunks.size() ||
      !std::is_sorted(layout.first.begin(), layout.first.end()))
    fail("list the chunks worker by worker");
  std::int64_t sum = 0;
  std::int64_t stride = 0;  // of all chunks that have one; -1: they differ
  for (std::size_t c = 0; c < layout.chunks.size(); ++c) {
    const TokenRange& r = layout.chunks[c];
    if (r.count < 0 || r.stride < 1 || r.start < 0 || r.start > kMaxTokens ||
        r.stride > kMaxTokens || r.count > tokens.value)
      fail("chunk {} has start {}, stride {} and count {}, out of range for {} tokens", c, r.start,
           r.stride, r.count, tokens.value);
    if (r.count > 0 && r.position(r.count - 1) >= tokens.value)
      fail("chunk {} ends at token {}, but the last token is {}", c, r.position(r.count - 1),
           tokens.value - 1);
    sum += r.count;
    if (r.count > 1) stride = stride == 0 || stride == r.stride ? r.stride : -1;
  }
  if (stride != -1) return require_every_token(layout, std::max<std::int64_t>(stride, 1), tokens);
  if (sum != tokens.value)
    fail("the chunks hold {} tokens, but the problem has {}", sum, tokens.value);
  require_by_marking(layout, tokens);
}

}  // namespace ringsched
