// Which worker owns which token. The sequence is cut into chunks. Those of a worker, its share,
// have consecutive ids, so that a share, or a part of it, is a Region. So are the shares of several
// workers that exchange tensors, if the chunks are numbered in the order of these workers. That
// order is free, which is why the shares are a table.
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

struct Problem;

struct Layout {
  std::string name;                // one of layout_names(), or "custom"
  std::vector<TokenRange> chunks;  // by ChunkId
  std::vector<Region> shares;      // by WorkerId; each chunk is in one of them
  std::vector<WorkerId> owners;    // by ChunkId: the worker with the chunk in its share

  std::uint32_t workers() const { return static_cast<std::uint32_t>(shares.size()); }
  Region share(WorkerId w) const { return shares[w.value]; }
  WorkerId owner(ChunkId c) const { return owners[c.value]; }
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
// Zigzag of each document of the mask: a share has the front parts of all, then the back parts.
Layout zigzag_of_documents(const Problem&);

// For decoding. Each worker has an equal part of the cached tokens of every document. The new
// tokens of all documents are the last chunks, on the last worker.
Layout decode_layout(const Problem&);

// The shares by WorkerId. Throws Error unless each chunk is in exactly one of them.
Layout custom_layout(std::vector<TokenRange> chunks, std::vector<Region> shares);

std::span<const std::string_view> layout_names();
Layout make_layout(std::string_view name, const Problem&);

// Throws Error unless each chunk is in one share and the chunks hold each of `tokens` positions
// exactly once.
void require_valid(const Layout&, Tokens tokens);

// The rows of queries that a worker is given: its share. In decoding they are all new tokens, on
// every worker, which must be in consecutive chunks.
Region query_rows(const Problem&, const Layout&, WorkerId);
// Why a decoding problem cannot have this layout; empty if it can.
std::string refusal_of(const Problem&, const Layout&);

}  // namespace ringsched
