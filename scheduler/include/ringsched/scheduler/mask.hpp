// Which keys a query may see, and the exact work of a tile of queries against keys.
//
// A mask works on token *positions* in the whole sequence, so it does not depend on which worker
// holds which token. `tile` answers in closed form: its cost depends on the number of ranges (and
// of documents), never on the number of tokens; it is nearly linear in the number of contiguous
// ranges.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/scheduler/units.hpp"

namespace ringsched {

// The positions start, start + stride, ..., `count` of them. The stride is at least 1.
struct TokenRange {
  std::int64_t start = 0;
  std::int64_t stride = 1;
  std::int64_t count = 0;

  std::int64_t position(std::int64_t index) const { return start + index * stride; }
  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

// One side of a tile: ranges of distinct positions, in the order of rows (or keys), and what they
// span. Keep it to ask about the same side again.
struct TokenSet {
  TokenSet(std::span<const TokenRange> ranges);

  std::span<const TokenRange> ranges;
  std::int64_t low = std::numeric_limits<std::int64_t>::max();  // the first position
  std::int64_t high = -1;  // the last; below `low` if there is none
  std::int64_t count = 0;
};

// How a kernel may treat a tile, with rows and keys numbered from 0 in the order of their ranges.
enum class TileForm : std::uint8_t {
  Empty,           // nothing is visible
  Full,            // every key is visible to every row
  Causal,          // row a sees key b iff b <= a
  StrictlyCausal,  // row a sees key b iff b < a
  Other,           // ask the mask, pair by pair
};

struct Tile {
  std::int64_t rows = 0;
  std::int64_t keys = 0;
  Pairs pairs;
  TileForm form = TileForm::Empty;
};

class Mask {
 public:
  enum class Kind : std::uint8_t { Full, Causal, Window, PrefixWindow, Documents };

  static Mask full();
  static Mask causal();
  // Causal, and a query sees only itself and the `size - 1` tokens before it.
  static Mask window(Tokens size);
  // A causal window; in addition, all later tokens see the first `prefix` tokens.
  static Mask prefix_window(Tokens prefix, Tokens size);
  // Causal inside each of several documents packed one after the other. With a window, a query sees
  // only itself and the `window - 1` tokens of its document before it; 0: no window.
  static Mask documents(const std::vector<Tokens>& lengths, Tokens window = {});

  Kind kind() const { return kind_; }
  Tokens window_size() const { return window_; }  // 0: no window
  Tokens prefix() const { return prefix_; }
  // Where each document starts, and last where the final one ends; empty for other kinds.
  std::span<const std::int64_t> document_bounds() const { return bounds_; }

  bool visible(std::int64_t query, std::int64_t key) const;

  Tile tile(const TokenSet& queries, const TokenSet& keys) const;

  friend bool operator==(const Mask&, const Mask&) = default;

 private:
  explicit Mask(Kind kind) : kind_(kind) {}
  Pairs pairs(const TokenRange& queries, const TokenRange& keys) const;
  Pairs pairs(const TokenSet& queries, const TokenSet& keys) const;

  Kind kind_;
  Tokens window_;
  Tokens prefix_;
  std::vector<std::int64_t> bounds_;
};

// "full", "causal", "window:4096", "prefix:128,window:4096", "documents:1000,3000",
// "window:512,documents:1000,3000": what the command line and plan files use.
// parse_mask(to_text(m)) == m. Numbers may be written 4K, 1M.
std::string to_text(const Mask&);
Mask parse_mask(std::string_view text);

}  // namespace ringsched
