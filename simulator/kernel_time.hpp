// How long one attention kernel takes on a device, from the machine's tables.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "block_schedule.hpp"
#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/plan.hpp"
#include "tile_parts.hpp"

namespace ringsched {

class KernelTimes {
 public:
  // Keeps references to both. On request, throws Error for a kernel the machine has no figures for.
  // `stride`: between the positions of neighbouring rows, and of neighbouring keys.
  KernelTimes(const Machine& machine, const Problem& problem, std::int64_t stride = 1)
      : machine_(machine),
        problem_(problem),
        window_(problem.mask.window_size().value > 0 &&
                        problem.mask.kind() != Mask::Kind::PrefixWindow
                    ? std::max(1.0, static_cast<double>(problem.mask.window_size().value) /
                                        static_cast<double>(stride))
                    : 0) {}

  // The parts of the plan's tiles that kernels compute on their own. Tiles of the same size have
  // those of the first.
  void know_parts(const Plan&);
  void know_parts(const Work&, std::vector<TilePart>);

  double ps(const Work&, bool backward) const;
  // Of a few new tokens against cached keys: the longer of two times, to read the keys, values and
  // queries and write the result, or to compute at the table's best rate. The table does not cover
  // such a shape: its points have as many queries as keys.
  double decode_ps(const Work&) const;
  bool is_bound_by_memory(const Work&) const;  // in decoding
  // How uncertain a rate is that no table has, as a share; 0 for others. `why` gets, in a few
  // words, what the rate came from.
  double doubt(const Work&, bool backward, std::set<std::string>* why = nullptr) const;
  // How long before its end it frees the SMs that a transfer holds.
  double tail_ps(const Work&, bool backward) const;
  // How many times longer it takes beside this many transfers that hold SMs.
  double slowed(const Work&, bool backward, std::uint32_t transfers) const;
  // If it deals its blocks to the SMs beforehand: how long those take that belong to the SMs which
  // this many transfers hold as it starts. They start late. 0 if none do.
  double late_ps(const Work&, bool backward, std::uint32_t transfers) const;

 private:
  bool packs_documents() const { return problem_.mask.kind() == Mask::Kind::Documents; }
  // What a kernel computes for a tile, if the library's kernels do not skip what the mask hides.
  Work computed(const Work&, bool backward) const;
  Work filled(const Work&) const;
  void know_filled(const Work&, std::vector<TilePart>);
  const std::vector<TilePart>* parts(const Work&) const;  // nullptr if it has but one
  TileShape shape(const Work&) const;
  // The side of the square that a tile is like, in a table.
  double side(const Work&) const;
  const BlockGrid& grid(const KernelTable&, const Work&) const;  // until the next call
  BlockGrid new_grid(const KernelTable&, const Work&) const;
  double decode_flops_ps(const Work&) const;
  double decode_bytes_ps(const Work&) const;
  const KernelTable& table(TileShape, bool backward) const;
  const KernelTable* beyond(const KernelTable&, TileShape) const;
  double ps_by(const KernelTable&, const Work&, double head_dim) const;
  // `has`: the dtypes that have that pass.
  [[noreturn]] void missing(bool backward, const std::set<std::string>& has) const;
  // `whole`: a block of a few rows counts as one.
  double waves(const KernelTable&, const Work&, double sms, bool whole = true) const;
  BlockFigures blocks_of(const KernelTable&) const;
  BlockFigures blocks_of(const KernelTable&, const Work&) const;  // for this tile
  // The kernels of a backward pass beside the one that multiplies.
  // `group` query heads share a key head.
  double backward_passes_ps(const KernelTable&, const Work&, double head_dim, double group,
                            double gb_per_s) const;
  double packed_factor(const KernelTable&) const;
  double merging_splits_ps(const KernelTable&, const Work&, double head_dim) const;
  double efficiency(const KernelTable&, const Work&) const;
  double base(const KernelTable&,
              std::size_t point) const;  // TFLOP/s of its point, at efficiency 1
  double shortness(const KernelTable&, double inner) const;
  double by_head_dim(const KernelTable&, double wanted) const;

  const Machine& machine_;
  const Problem& problem_;
  double window_;  // of keys of a tile; 0 if the mask is not a window
  mutable struct {
    const KernelTable* table = nullptr;
    Work work;
    BlockGrid grid;
  } last_;  // of grid(): one tile is asked about several times
  mutable std::map<const double*, double> bases_;  // by the table's entry
  struct InOrder {
    bool operator()(const Work&, const Work&) const;
  };
  std::map<Work, std::vector<TilePart>, InOrder> parts_;
  std::map<Work, Work, InOrder> filled_;  // of packed documents
};

// Floating-point operations of a tile as the field counts them: two matrix products of 2 d per
// visible pair and head, and backward two and a half times as many.
double attention_flops(const Problem&, Pairs, std::uint32_t heads, bool backward);

}  // namespace ringsched
