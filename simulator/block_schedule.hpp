// How long the blocks of an attention kernel take on the SMs of a device.
//
// A kernel gives each block of queries of each head to an SM (backward: each block of keys). Under
// a causal mask the blocks differ in length, and with few heads there are few blocks: then some SMs
// run out of work before others end. Times are in keys: the time that one block alone on an SM
// takes for one key.
#pragma once

#include <cstdint>
#include <vector>

#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// The blocks of one head in the order in which they start; all heads have the same blocks.
struct BlockGrid {
  std::vector<double> lengths;  // one if all are equally long
  std::uint32_t blocks = 0;     // of one head
  std::uint32_t heads = 0;
  std::uint32_t splits = 1;   // of the keys; a second kernel merges their results
  bool of_documents = false;  // then a plan has many different grids
  // How many of a head's blocks each part has that the kernel computes on its own: one after the
  // other, each for all heads. Empty: there is but one part.
  std::vector<std::uint32_t> by_part = {};

  double count() const { return static_cast<double>(blocks) * heads; }
};

// The grid of a tile: its rows cut into blocks, or its keys in the backward pass. `window`: how
// many of the tile's keys a row sees, under a causal window, but for rows at its ends (on average
// if the tile has every second or eighth position); 0 under other masks. `share`: of how many heads
// a block has the rows.
BlockGrid block_grid(const Work&, const BlockFigures&, std::uint32_t sms, bool backward,
                     double window = 0, std::uint32_t share = 1);

// When the last block ends, and when `held` of the SMs have run out of work, in keys. If blocks are
// dealt beforehand: how much work the SMs have that come last, `held` of them.
struct BlockTimes {
  double end = 0, idle = 0, last = 0;
};
BlockTimes block_times(const BlockGrid&, const BlockFigures&, std::uint32_t sms,
                       std::uint32_t held = 1);

// The share of the SMs' time that goes into this many visible pairs, of all heads.
double block_efficiency(const BlockGrid&, double pairs, const BlockFigures&, std::uint32_t sms);

}  // namespace ringsched
