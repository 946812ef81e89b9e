// Which token lives on which worker. The sequence is cut into chunks, numbered worker by worker, so
// that whatever a worker holds, or a part of it, is a run of consecutive chunk ids.
//
// A chunk is one strided range of positions. Contiguous shares are one chunk each; striped shares
// are one chunk with stride W; a zigzag share is two chunks, one from each end of the sequence.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/scheduler/mask.hpp"
#include "ringsched/scheduler/units.hpp"

namespace ringsched {

// Consecutive chunks, [first, first + count).
struct Region {
  ChunkId first;
  std::uint32_t count = 0;

  std::uint32_t end() const { return first.value + count; }
  bool contains(Region r) const { return first.value <= r.first.value && r.end() <= end(); }
  friend bool operator==(const Region&, const Region&) = default;
};

struct Layout {
  std::string name;                  // one of layout_names(), or "custom"
  std::vector<TokenRange> chunks;    // by ChunkId
  std::vector<std::uint32_t> first;  // worker w holds chunks [first[w], first[w + 1])

  std::uint32_t workers() const { return static_cast<std::uint32_t>(first.size() - 1); }
  Region share(WorkerId w) const { return {{first[w.value]}, first[w.value + 1] - first[w.value]}; }
  WorkerId owner(ChunkId) const;
  Tokens rows(Region) const;
  std::span<const TokenRange> ranges(Region r) const {
    return std::span(chunks).subspan(r.first.value, r.count);
  }
  friend bool operator==(const Layout&, const Layout&) = default;
};

// Uneven token counts: the first chunks hold one token more than the rest.
Layout contiguous(std::uint32_t workers, Tokens);
Layout striped(std::uint32_t workers, Tokens);  // token x lives on worker x mod W
Layout zigzag(std::uint32_t workers, Tokens);   // worker r: parts r and 2W-1-r of 2W
Layout halves(std::uint32_t workers, Tokens);   // contiguous, each share cut in two

std::span<const std::string_view> layout_names();
Layout make_layout(std::string_view name, std::uint32_t workers, Tokens);

// Throws Error unless the chunks hold each of `tokens` positions exactly once.
void require_valid(const Layout&, Tokens tokens);

}  // namespace ringsched
