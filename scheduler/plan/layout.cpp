#include "ringsched/scheduler/layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/problem.hpp"

namespace ringsched {

namespace {

// Each takes one bit while a layout of different strides is checked.
constexpr std::int64_t kMostMarkedTokens = std::int64_t{1} << 28;
constexpr std::string_view kLayouts[] = {"contiguous", "striped", "zigzag", "halves", "decode"};

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

std::vector<WorkerId> owners_of(std::size_t chunks, const std::vector<Region>& shares) {
  std::vector<WorkerId> owners(chunks);
  for (std::uint32_t w = 0; w < shares.size(); ++w) {
    const Region share = shares[w];
    if (share.count == 0) fail("worker {} has no chunk", w);
    if (share.first.value >= chunks || share.count > chunks - share.first.value)
      fail("the share of worker {} reaches past the last of {} chunks", w, chunks);
    for (std::uint32_t c = share.first.value; c < share.end(); ++c) {
      if (owners[c].valid())
        fail("chunk {} is in the shares of workers {} and {}", c, owners[c].value, w);
      owners[c] = {w};
    }
  }
  const auto left = std::ranges::find_if_not(owners, &WorkerId::valid);
  if (left != owners.end()) fail("chunk {} is in no worker's share", left - owners.begin());
  return owners;
}

Layout with_equal_shares(std::string_view name, std::uint32_t workers,
                         std::vector<TokenRange> chunks) {
  const auto each = static_cast<std::uint32_t>(chunks.size()) / workers;
  std::vector<Region> shares;
  for (std::uint32_t w = 0; w < workers; ++w) shares.push_back({{w * each}, each});
  Layout layout = custom_layout(std::move(chunks), std::move(shares));
  layout.name = name;
  return layout;
}

// Chunks of one common stride, sorted by the remainder of their positions divided by it: within
// each remainder they must meet end to end.
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

Layout zigzag_of_documents(const Problem& p) {
  const std::span<const std::int64_t> bounds = p.mask.document_bounds();
  if (bounds.size() < 3) return zigzag(p.workers, p.tokens);
  const std::size_t documents = bounds.size() - 1, parts = 2 * std::size_t{p.workers};
  std::vector<TokenRange> chunks(documents * parts);
  for (std::size_t d = 0; d < documents; ++d) {
    const std::vector<TokenRange> cut =
        cut_evenly(bounds[d], bounds[d + 1] - bounds[d], static_cast<std::int64_t>(parts));
    for (std::size_t w = 0; w < p.workers; ++w) {
      chunks[(2 * w) * documents + d] = cut[w];
      chunks[(2 * w + 1) * documents + d] = cut[parts - 1 - w];
    }
  }
  return with_equal_shares("custom", p.workers, std::move(chunks));
}

Layout halves(std::uint32_t workers, Tokens tokens) {
  std::vector<TokenRange> chunks;
  for (const TokenRange& share : cut_evenly(0, tokens.value, workers))
    for (const TokenRange& half : cut_evenly(share.start, share.count, 2)) chunks.push_back(half);
  return with_equal_shares("halves", workers, std::move(chunks));
}

Layout decode_layout(const Problem& p) {
  std::vector<std::vector<TokenRange>> parts(p.workers);
  std::vector<TokenRange> of_new;
  std::int64_t cached = 0;
  for (const TokenRange& document : documents_of(p)) {
    const std::int64_t before = document.count - p.new_tokens.value;
    // The larger parts of a document go to the workers after those that got the previous
    // document's.
    for (std::int64_t w = cached;
         const TokenRange& part : cut_evenly(document.start, before, p.workers))
      if (part.count > 0) parts[static_cast<std::size_t>(w++ % p.workers)].push_back(part);
    if (p.decodes()) of_new.push_back({document.start + before, 1, p.new_tokens.value});
    cached += before;
  }
  std::vector<TokenRange> chunks;
  std::vector<Region> shares;
  for (std::uint32_t w = 0; w < p.workers; ++w) {
    if (w + 1 == p.workers) parts[w].insert(parts[w].end(), of_new.begin(), of_new.end());
    if (parts[w].empty())
      fail("{} cached tokens cannot be spread over {} workers; use fewer workers{}", cached,
           p.workers, p.new_tokens.value > 1 ? " or fewer new tokens" : "");
    const auto first = static_cast<std::uint32_t>(chunks.size());
    shares.push_back({{first}, static_cast<std::uint32_t>(parts[w].size())});
    chunks.insert(chunks.end(), parts[w].begin(), parts[w].end());
  }
  Layout layout = custom_layout(std::move(chunks), std::move(shares));
  layout.name = "decode";
  return layout;
}

Layout custom_layout(std::vector<TokenRange> chunks, std::vector<Region> shares) {
  std::vector<WorkerId> owners = owners_of(chunks.size(), shares);
  return {"custom", std::move(chunks), std::move(shares), std::move(owners)};
}

std::span<const std::string_view> layout_names() { return kLayouts; }

Layout make_layout(std::string_view name, const Problem& p) {
  constexpr Layout (*makers[])(std::uint32_t, Tokens) = {contiguous, striped, zigzag, halves};
  for (std::size_t i = 0; i < std::size(makers); ++i)
    if (kLayouts[i] == name) return makers[i](p.workers, p.tokens);
  if (name == "decode") return decode_layout(p);
  throw Error(unknown_name("layout", name, kLayouts));
}

void require_valid(const Layout& layout, Tokens tokens) {
  if (layout.owners != owners_of(layout.chunks.size(), layout.shares))
    fail("the owners of the chunks contradict the shares");
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

Region query_rows(const Problem& p, const Layout& layout, WorkerId w) {
  if (!p.decodes()) return layout.share(w);
  const auto is_new = [&](const TokenRange& r) { return has_query(p, r.start); };
  const auto first = std::ranges::find_if(layout.chunks, is_new);
  const auto last = std::find_if(layout.chunks.rbegin(), layout.chunks.rend(), is_new).base();
  return {{static_cast<std::uint32_t>(first - layout.chunks.begin())},
          static_cast<std::uint32_t>(std::max(last - first, std::ptrdiff_t{0}))};
}

std::string refusal_of(const Problem& p, const Layout& layout) {
  if (!p.decodes()) return {};
  const std::span<const std::int64_t> bounds = p.mask.document_bounds();
  const auto document = [&](std::int64_t at) { return std::ranges::upper_bound(bounds, at); };
  for (std::size_t c = 0; c < layout.chunks.size(); ++c) {
    const TokenRange& r = layout.chunks[c];
    if (r.count == 0) return fmt::format("chunk {} has no tokens, and decoding needs some", c);
    const std::int64_t last = r.position(r.count - 1);
    if (document(r.start) != document(last))
      return fmt::format("chunk {} has tokens of several documents, and decoding needs one", c);
    if (has_query(p, r.start) != has_query(p, last))
      return fmt::format("chunk {} has cached and new tokens; cut it at token {}", c,
                         (bounds.empty() ? p.tokens.value : *document(last)) - p.new_tokens.value);
  }
  for (const Region rows = query_rows(p, layout, {0}); const TokenRange& r : layout.ranges(rows))
    if (!has_query(p, r.start))
      return fmt::format("the new tokens are not in consecutive chunks: between them is token {}",
                         r.start);
  return {};
}

}  // namespace ringsched
