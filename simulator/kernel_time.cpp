#include "kernel_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/simulator/uncertainty.hpp"

namespace ringsched {

namespace {

// The share of the matrix products' peak that FlashAttention-2 reaches apart from its exponentials:
// on an A100 at 1.2 GHz, 219 of 265 TFLOP/s (liangan1/GPU_travel).
constexpr double kMatrixShare = 0.83;

// A backward pass has kernels beside the one that multiplies (FlashAttention-2, flash_api.cpp and
// flash_bwd_launch_template.h; cuDNN has them, too). One reads the output and its gradient, and
// clears an fp32 gradient of the queries; another reads that and writes it rounded. In bytes per
// element of the queries:
constexpr double kBackwardKernels = 2;
double backward_bytes(double stored) { return 3 * stored + 8; }

// ... and, where `group` query heads share a key head, for each key and element of a query head:
// its two gradients are read once more to be added. Or they are added in fp32, cleared first and
// converted last; then those of keys that nobody sees are not.
double grouped_bytes(const Work& w, double stored, double group, bool adds) {
  if (group <= 1) return 0;
  const auto rows = static_cast<double>(w.rows), keys = static_cast<double>(w.keys);
  if (!adds) return keys * (2 * stored + 2 * stored / group);
  const double seen = std::min(keys, rows + static_cast<double>(w.pairs.value) / rows);
  return seen * (8 - 2 * stored) + keys * (16 + 2 * stored) / group;
}

// Kernels for packed sequences take 1.01 to 1.04 times as long (flash-attention issue 1310, pull
// 2150), if their table says nothing else.
constexpr double kPackedFactor = 1.026;

TileShape shape_of(const Work& w) {
  if (w.form == TileForm::Causal || w.form == TileForm::StrictlyCausal) return TileShape::Causal;
  if (w.form == TileForm::Full) return TileShape::Full;
  const double cells = static_cast<double>(w.rows) * static_cast<double>(w.keys);
  return static_cast<double>(w.pairs.value) > 0.99 * cells ? TileShape::Full : TileShape::Causal;
}

// Has a tile as many visible pairs as one that a causal mask cuts? There each row sees one key more
// than the row before, from none to all.
bool is_cut_by_diagonal(const Work& w) {
  const auto triangle = [](std::int64_t side) { return side > 0 ? side * (side + 1) / 2 : 0; };
  const auto pairs = [&](std::int64_t first) {  // if the row before the first sees this many keys
    return triangle(first + w.rows) - triangle(first) - triangle(first + w.rows - w.keys) +
           triangle(first - w.keys);
  };
  std::int64_t low = -w.rows, high = w.keys;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (pairs(middle) < w.pairs.value)
      low = middle + 1;
    else
      high = middle;
  }
  return pairs(low) == w.pairs.value;
}

}  // namespace

double attention_flops(const Problem& p, Pairs pairs, std::uint32_t heads, bool backward) {
  return (backward ? 10.0 : 4.0) * static_cast<double>(pairs.value) * p.head_dim * heads;
}

const KernelTable& KernelTimes::table(TileShape shape, bool backward) const {
  const KernelTable* best = nullptr;
  // Blocks tell full from causal masks, so the head dimension decides first, where they are known.
  const auto distance = [&](const KernelTable& t) {
    return std::abs(std::log(t.head_dim / t.padded(problem_.head_dim))) +
           (t.shape == shape             ? 0
            : t.blocks.overhead_keys > 0 ? 1e-3
                                         : 100);
  };
  std::set<std::string> has;
  for (const KernelTable& t : machine_.kernels) {
    if (t.backward != backward || t.library != machine_.library) continue;
    for (const Dtype d : t.dtypes) has.insert(std::string(to_text(d)));
    if (std::find(t.dtypes.begin(), t.dtypes.end(), problem_.dtype) == t.dtypes.end()) continue;
    if (best == nullptr || distance(t) < distance(*best)) best = &t;
  }
  if (best == nullptr) missing(backward, has);
  return *best;
}

// The nearest table beyond the wanted head dimension, seen from this one; nullptr if the profile
// has none. Blocks tell full from causal masks; without them, it has this one's mask.
const KernelTable* KernelTimes::beyond(const KernelTable& t, TileShape shape) const {
  const double wanted = t.padded(problem_.head_dim);
  const auto distance = [&](const KernelTable& o) {
    return std::abs(o.head_dim - wanted) + (o.shape == shape ? 0 : 1e-3);
  };
  const KernelTable* best = nullptr;
  for (const KernelTable& o : machine_.kernels) {
    if (o.backward != t.backward || o.library != t.library) continue;
    if (o.shape != t.shape && !(o.blocks.overhead_keys > 0)) continue;
    if ((t.head_dim < wanted) != (o.head_dim > wanted) || t.head_dim == wanted) continue;
    if (o.head_dim == wanted) continue;
    if (std::find(o.dtypes.begin(), o.dtypes.end(), problem_.dtype) == o.dtypes.end()) continue;
    if (best == nullptr || distance(o) < distance(*best)) best = &o;
  }
  return best;
}

void KernelTimes::missing(bool backward, const std::set<std::string>& has) const {
  const std::string wanted(to_text(problem_.dtype));
  // A new measurement replaces the profile, so the command measures the dtypes that the profile
  // has, too.
  std::string names, again, remedy;
  for (const KernelTable& t : machine_.kernels)
    for (const Dtype d : t.dtypes)
      if (const std::string name(to_text(d)); again.find(name) == again.npos) again += name + ",";
  if (again.find(wanted) == again.npos) again += wanted + ",";
  again.pop_back();
  for (const std::string& name : has)
    names += (names.empty() ? "" : name == *has.rbegin() ? " and " : ", ") + name;
  if (!machine_.made_by.empty())
    remedy = fmt::format("; measure it again with --dtype {}{} (it was made by: {})", again,
                         backward ? " --pass both" : "", machine_.made_by);
  fail("machine '{}' has no {} kernel times{} for {}, only for {}{}", machine_.name,
       backward ? "backward" : "forward", machine_.library.empty() ? "" : " of " + machine_.library,
       wanted, names.empty() ? "none" : names, remedy);
}

bool KernelTimes::InOrder::operator()(const Work& a, const Work& b) const {
  const auto key = [](const Work& w) {
    return std::tuple(w.rows, w.keys, w.pairs.value, w.form, w.columns);
  };
  return key(a) < key(b);
}

void KernelTimes::know_parts(const Plan& plan) {
  const bool by_stretch = problem_.mask.kind() == Mask::Kind::Causal;
  if (problem_.decodes() || !(by_stretch || packs_documents())) return;
  std::map<RegionId, std::vector<DocumentCut>> cuts;
  const auto cut = [&](RegionId r) -> const std::vector<DocumentCut>& {
    const auto [known, is_new] = cuts.try_emplace(r);
    if (is_new)
      known->second = cut_by_document(problem_.mask, plan.layout.ranges(plan.regions[r.value]));
    return known->second;
  };
  for (const Task& t : plan.tasks) {
    if (!is_attend(t.kind)) continue;
    const Work& w = plan.works[t.work.value];
    if (w.form != TileForm::Other || parts_.contains(w)) continue;
    const RegionId rows = plan.rows(t), keys = t.keys;
    if (!by_stretch) {
      know_parts(w, parts_by_document(problem_.mask, cut(rows), cut(keys), w.columns));
      continue;
    }
    std::vector<TilePart> parts =
        parts_by_stretch(plan.layout.ranges(plan.regions[rows.value]),
                         plan.layout.ranges(plan.regions[keys.value]), w.columns);
    if (parts.size() > 1 || parts[0].work.rows < w.rows) know_parts(w, std::move(parts));
  }
}

void KernelTimes::know_parts(const Work& w, std::vector<TilePart> tiles) {
  if (packs_documents() && machine_.software.backward_fills > 0) know_filled(w, tiles);
  parts_[w] = std::move(tiles);
}

// The rectangles that a backward kernel computes instead, one for each document.
void KernelTimes::know_filled(const Work& w, std::vector<TilePart> tiles) {
  Work sum = w;
  sum.pairs = Pairs{0};
  for (TilePart& d : tiles) {
    d.work = filled(d.work);
    sum.pairs.value += d.work.pairs.value * d.count;
  }
  filled_[w] = sum;
  parts_.try_emplace(sum, std::move(tiles));
}

// Libraries compute packed documents without a mask if a tile has a whole rectangle of each.
TileShape KernelTimes::shape(const Work& w) const {
  const std::vector<TilePart>* const tiles = parts(w);
  if (tiles == nullptr) return shape_of(w);
  const bool full = std::ranges::all_of(
      *tiles, [](const TilePart& part) { return shape_of(part.work) == TileShape::Full; });
  return full ? TileShape::Full : TileShape::Causal;
}

const std::vector<TilePart>* KernelTimes::parts(const Work& w) const {
  const auto known = parts_.find(w);
  return known == parts_.end() ? nullptr : &known->second;
}

double KernelTimes::side(const Work& w) const {
  const auto harmonic_mean = [](const Work& tile) {
    const auto rows = static_cast<double>(tile.rows), keys = static_cast<double>(tile.keys);
    return 2 * rows * keys / (rows + keys);
  };
  const std::vector<TilePart>* const tiles = parts(w);
  if (tiles == nullptr) return harmonic_mean(w);
  double sum = 0, pairs = 0;
  for (const TilePart& d : *tiles) {
    const double seen = static_cast<double>(d.work.pairs.value) * d.count;
    sum += seen * harmonic_mean(d.work);
    pairs += seen;
  }
  return sum / pairs;
}

const BlockGrid& KernelTimes::grid(const KernelTable& t, const Work& w) const {
  if (last_.table != &t || last_.work != w) last_ = {&t, w, new_grid(t, w)};
  return last_.grid;
}

BlockGrid KernelTimes::new_grid(const KernelTable& t, const Work& w) const {
  BlockFigures b = blocks_of(t, w);
  // FlashAttention-2 splits no keys of packed sequences (flash_api.cpp, mha_varlen_fwd).
  if (packs_documents() || machine_.software.packed) b.splits_keys = false;
  // A block may have the rows of all query heads that share a key head.
  const std::uint32_t share = std::min(problem_.heads / problem_.kv_heads, w.columns);
  const bool packs = packs_documents() && t.packs_groups && machine_.software.packed &&
                     !t.backward && w.columns % share == 0 &&
                     w.pairs.value <= std::numeric_limits<std::int64_t>::max() / share;
  const std::vector<TilePart>* const several = parts(w);
  if (several == nullptr && !packs) return block_grid(w, b, machine_.sms, t.backward, window_);
  const std::vector<TilePart> one = {{w}};
  BlockGrid out{{}, 0, packs ? w.columns / share : w.columns, 1, packs_documents()};
  for (const TilePart& part : several != nullptr ? *several : one) {
    Work each = part.work;
    // Under a window, what a row sees depends on its position.
    const bool by_position = packs && window_ > 0 && each.form == TileForm::Other;
    if (packs && !by_position) {
      each.rows *= share;
      each.pairs.value *= share;
    }
    const BlockGrid g =
        block_grid(each, b, machine_.sms, t.backward, window_, by_position ? share : 1);
    out.splits = std::max(out.splits, g.splits);
    out.by_part.insert(out.by_part.end(), part.count, g.blocks);
    for (std::uint32_t i = 0; i < part.count; ++i)
      for (std::uint32_t block = 0; block < g.blocks; ++block)
        out.lengths.push_back(g.lengths[g.lengths.size() == 1 ? 0 : block]);
  }
  out.blocks = static_cast<std::uint32_t>(out.lengths.size());
  if (std::ranges::adjacent_find(out.lengths, std::not_equal_to()) == out.lengths.end())
    out.lengths.resize(1);
  return out;
}

// How often a kernel's blocks fill the SMs: forward it is cut along the queries, backward along the
// keys.
double KernelTimes::waves(const KernelTable& t, const Work& w, double sms, bool whole) const {
  const double block_rows = t.blocks.rows > 0 ? t.blocks.rows : machine_.block_rows;
  const auto blocks = [&](const Work& tile) {
    const auto length = static_cast<double>(t.backward ? tile.keys : tile.rows);
    const double all = length / block_rows;
    return (whole ? std::ceil(all) : all) * w.columns;
  };
  const std::vector<TilePart>* const tiles = parts(w);
  if (tiles == nullptr) return blocks(w) / sms;
  double sum = 0;
  for (const TilePart& d : *tiles) sum += blocks(d.work) * d.count;
  return sum / sms;
}

double KernelTimes::decode_flops_ps(const Work& w) const {
  const KernelTable& t = table(TileShape::Full, false);
  const double best = *std::ranges::max_element(t.tflops);  // 1 TFLOP/s is 1 FLOP/ps
  return attention_flops(problem_, w.pairs, w.columns, false) * t.padded(problem_.head_dim) /
         problem_.head_dim / best;
}

double KernelTimes::decode_bytes_ps(const Work& w) const {
  const double group = static_cast<double>(problem_.heads) / problem_.kv_heads;
  const double stored = static_cast<double>(size_of(problem_.dtype)) * problem_.head_dim;
  // The keys that any of the new tokens sees: those that the first of its sequence sees, and one
  // more for each later one.
  const auto rows = static_cast<double>(w.rows);
  const double each = static_cast<double>(problem_.new_tokens.value);
  const double seen = std::min(static_cast<double>(w.keys),
                               static_cast<double>(w.pairs.value) / each + rows - rows / each);
  const double keys = 2 * seen * std::ceil(w.columns / group) * stored;
  const double queries = static_cast<double>(w.rows) * w.columns;
  const double bytes = keys + queries * (stored + 4.0 * (problem_.head_dim + 1));
  return machine_.memory_gb_per_s > 0 ? bytes / (machine_.memory_gb_per_s * 1e-3) : 0;
}

bool KernelTimes::is_bound_by_memory(const Work& w) const {
  return decode_bytes_ps(w) > decode_flops_ps(w);
}

double KernelTimes::decode_ps(const Work& w) const {
  return std::max(decode_flops_ps(w), decode_bytes_ps(w)) + machine_.launch_us * 1e6;
}

double KernelTimes::efficiency(const KernelTable& t, const Work& w) const {
  if (machine_.sms == 0) return 1;
  if (t.blocks.overhead_keys > 0)
    return block_efficiency(grid(t, w), static_cast<double>(w.pairs.value) * w.columns,
                            blocks_of(t, w), machine_.sms);
  // A block of a few rows takes as long as a full one.
  const double filled = waves(t, w, machine_.sms, false);
  return filled > 0 ? filled / std::ceil(waves(t, w, machine_.sms)) : 1;
}

BlockFigures KernelTimes::blocks_of(const KernelTable& t, const Work& w) const {
  BlockFigures out = blocks_of(t);
  const bool packed = packs_documents() || machine_.software.packed;
  out.dealt = shape(w) == t.shape && (t.deals_blocks == DealsBlocks::Always ||
                                      (t.deals_blocks == DealsBlocks::Unpacked && !packed));
  return out;
}

BlockFigures KernelTimes::blocks_of(const KernelTable& t) const {
  BlockFigures out = t.blocks;
  if (out.rows == 0) out.rows = machine_.block_rows;
  // flash_fwd_launch_template.h, run_mha_fwd_splitkv_dispatch.
  out.split_keys = problem_.head_dim <= 64 ? 256 : problem_.head_dim <= 128 ? 128 : 64;
  return out;
}

double KernelTimes::base(const KernelTable& t, std::size_t i) const {
  const bool structured = t.blocks.overhead_keys > 0;
  if (t.heads.empty() && !structured) return t.tflops[i];
  const auto [known, is_new] = bases_.try_emplace(&t.tflops[i]);
  if (!is_new) return known->second;
  const auto n = static_cast<std::int64_t>(t.tokens[i]);
  const double many = 64.0 * machine_.sms * machine_.block_rows / t.tokens[i];
  const double heads = t.heads.empty() ? std::ceil(many) : t.heads[i];
  const std::int64_t pairs = t.shape == TileShape::Full ? n * n : n * (n + 1) / 2;
  const Work square = {Tokens{n}.value,
                       Tokens{n}.value,
                       Pairs{pairs},
                       TileForm::Full,
                       static_cast<std::uint32_t>(heads),
                       {}};
  const double flops = attention_flops(problem_, square.pairs, square.columns, t.backward) *
                       t.head_dim / problem_.head_dim;
  const double took = flops / t.tflops[i];
  // A table that is faster than memory would allow keeps half of its time for products.
  const double products =
      std::max(took - backward_passes_ps(t, square, t.head_dim, t.heads_per_key_head,
                                         machine_.memory_gb_per_s / machine_.memory_change),
               0.5 * took);
  // The points were not packed.
  BlockFigures blocks = blocks_of(t);
  blocks.dealt = t.deals_blocks != DealsBlocks::Never;
  const double efficient =
      structured && machine_.sms > 0
          ? block_efficiency(block_grid(square, blocks, machine_.sms, t.backward, window_),
                             static_cast<double>(pairs) * square.columns, blocks, machine_.sms)
          : efficiency(t, square);
  return known->second = flops / products / efficient;
}

double KernelTimes::backward_passes_ps(const KernelTable& t, const Work& w, double head_dim,
                                       double group, double gb_per_s) const {
  if (!t.backward || !(t.blocks.overhead_keys > 0) || !(gb_per_s > 0)) return 0;
  const auto stored = static_cast<double>(size_of(problem_.dtype));
  const double bytes = static_cast<double>(w.rows) * backward_bytes(stored) +
                       grouped_bytes(w, stored, group, t.adds_groups);
  return bytes * w.columns * head_dim / (gb_per_s * 1e-3) +
         (group > 1 ? 2 : 1) * kBackwardKernels * machine_.launch_us * 1e6;
}

double KernelTimes::packed_factor(const KernelTable& t) const {
  if (!machine_.software.packed) return 1;
  return t.packed_factor > 0 ? t.packed_factor : kPackedFactor;
}

// Rates of one head dimension from those of another: each pair takes 4 d operations of matrix
// products (10 d backward) and one exponential, one after the other or side by side.
double KernelTimes::by_head_dim(const KernelTable& t, double wanted) const {
  const double had = t.head_dim;
  if (had == wanted || !(machine_.flops_per_clock > 0)) return 1;
  const auto clocks = [&](double d) {
    const double products = (t.backward ? 10 : 4) * d / (machine_.flops_per_clock * kMatrixShare);
    const double exps = 1 / machine_.exps_per_clock;
    return t.overlaps_exp ? std::max(products, exps) : products + exps;
  };
  return wanted * clocks(had) / (had * clocks(wanted));
}

// How much slower a kernel below a table's first point is, apart from its waves of blocks. Blocks
// and their cost beyond their keys say it all, if they are known. Otherwise a usual cost counts;
// without SMs there are no waves either, and the rate falls with the size.
double KernelTimes::shortness(const KernelTable& t, double inner) const {
  constexpr double kUsualOverheadKeys = 128;
  const double first = t.tokens.front();
  if (t.blocks.overhead_keys > 0) return 1;
  if (machine_.sms == 0) return inner / first;
  return inner * (first + kUsualOverheadKeys) / (first * (inner + kUsualOverheadKeys));
}

Work KernelTimes::filled(const Work& w) const {
  const double parts = machine_.software.backward_fills;
  if (w.form == TileForm::Full || w.pairs.value == 0) return w;
  const auto rows = static_cast<double>(w.rows), keys = static_cast<double>(w.keys);
  const double part = rows / parts, visible = static_cast<double>(w.pairs.value) / rows;
  // The last row of a part sees half a part more than its mean one. The window hides what that one
  // would see without it: half of the keys, if a worker's chunks are one from each end, or if the
  // tile is a triangle.
  const bool windowed = window_ > 0 && keys > window_;
  const double last = windowed ? (keys + part) / 2 : visible + (part - 1) / 2;
  const double seen = std::max(visible, std::min(keys, last));
  Work out = w;
  out.keys = std::llround(std::ceil(seen));
  out.pairs = Pairs{w.rows * out.keys};
  out.form = TileForm::Full;
  return out;
}

Work KernelTimes::computed(const Work& w, bool backward) const {
  const bool cut = problem_.mask.kind() == Mask::Kind::Causal || packs_documents() || window_ > 0;
  if (!backward || machine_.software.backward_fills == 0 || !cut) return w;
  const auto by_document = filled_.find(w);
  return by_document == filled_.end() ? filled(w) : by_document->second;
}

double KernelTimes::ps(const Work& tile, bool backward) const {
  const Work w = computed(tile, backward);
  const TileShape shape = this->shape(w);
  const KernelTable& t = table(shape, backward);
  if (w.pairs.value == 0) return machine_.launch_us * 1e6;  // it may even have no rows or no keys
  const KernelTable* const other = beyond(t, shape);
  if (other == nullptr) return ps_by(t, w, t.padded(problem_.head_dim));
  // Between two head dimensions, the time is between theirs.
  const double at = std::log(t.padded(problem_.head_dim) / t.head_dim) /
                    std::log(static_cast<double>(other->head_dim) / t.head_dim);
  return std::exp((1 - at) * std::log(ps_by(t, w, t.head_dim)) +
                  at * std::log(ps_by(*other, w, other->head_dim)));
}

double KernelTimes::ps_by(const KernelTable& t, const Work& w, double head_dim) const {
  // A table's points are square. A kernel's work beyond the visible pairs grows with its rows and
  // with its keys. So a tile is as efficient as the square with as much of that work for its size:
  // the one whose side is the harmonic mean.
  const double inner = side(w);
  double tflops = 0;
  if (inner <= t.tokens.front()) {
    tflops = base(t, 0) * shortness(t, inner);
  } else if (inner >= t.tokens.back()) {
    tflops = base(t, t.tokens.size() - 1);
  } else {
    const auto above = static_cast<std::size_t>(
        std::upper_bound(t.tokens.begin(), t.tokens.end(), inner) - t.tokens.begin());
    const double at =
        std::log(inner / t.tokens[above - 1]) / std::log(t.tokens[above] / t.tokens[above - 1]);
    tflops = base(t, above - 1) + at * (base(t, above) - base(t, above - 1));
  }
  const double by_dim = by_head_dim(t, head_dim);
  tflops *= efficiency(t, w) * by_dim;
  const double flops =
      attention_flops(problem_, w.pairs, w.columns, t.backward) * head_dim / problem_.head_dim;
  // A worker that has fewer query heads than share a key head adds those only.
  const double group = std::min(static_cast<double>(problem_.heads) / problem_.kv_heads,
                                static_cast<double>(w.columns));
  double time =
      backward_passes_ps(t, w, head_dim, group, machine_.memory_gb_per_s) + flops / tflops;
  if (t.sustained_tflops > 0) time = std::max(time, flops / (t.sustained_tflops * by_dim));
  return machine_.launch_us * 1e6 + machine_.software.attend_factor * packed_factor(t) *
                                        (merging_splits_ps(t, w, head_dim) + time);
}

// If a kernel splits the keys, each part writes an fp32 result, and a second kernel reads them all.
double KernelTimes::merging_splits_ps(const KernelTable& t, const Work& w, double head_dim) const {
  if (!t.blocks.splits_keys || t.backward || !(t.blocks.overhead_keys > 0)) return 0;
  const std::uint32_t splits = grid(t, w).splits;
  if (splits == 1 || !(machine_.memory_gb_per_s > 0)) return 0;
  const double elements = static_cast<double>(w.rows) * w.columns * head_dim;
  return machine_.launch_us * 1e6 + 8.0 * splits * elements / (machine_.memory_gb_per_s * 1e-3);
}

double KernelTimes::doubt(const Work& tile, bool backward, std::set<std::string>* why) const {
  const Work w = computed(tile, backward);
  if (w.pairs.value == 0) return 0;
  double squares = 0;
  const auto unsure = [&](double spread, std::string text) {
    squares += spread * spread;
    if (why != nullptr) why->insert(std::move(text));
  };
  if (problem_.decodes()) {
    unsure(kDecodeSpread, "decoding kernels (from their bytes and operations)");
    return std::sqrt(squares);
  }
  const TileShape shape = this->shape(w);
  const KernelTable& t = table(shape, backward);
  if (w != tile)
    unsure(kVariantSpread, "backward attends (the library's kernels compute what the mask hides)");
  const char* const pass = backward ? "backward" : "forward";
  if (t.head_dim != t.padded(problem_.head_dim)) {
    const bool derived = machine_.flops_per_clock > 0;
    unsure(derived ? kDerivedSpread : kNearestSpread,
           fmt::format("{} kernels of head dimension {} (from {})", pass,
                       t.padded(problem_.head_dim), t.head_dim));
  }
  if (t.shape != shape)
    unsure(t.blocks.overhead_keys > 0 ? kOtherMaskSpread : kNearestSpread,
           fmt::format("{} {} attends (from {} ones)", pass,
                       shape == TileShape::Full ? "full" : "causal",
                       t.shape == TileShape::Full ? "full" : "causal"));
  if (const double factor = machine_.software.attend_factor; factor != 1)
    unsure(
        kVariantSpread,
        fmt::format("{} attends (the library's kernels take {:.4g} times as long as the table's)",
                    pass, factor));
  if (const double factor = packed_factor(t); factor != 1)
    unsure(t.packed_factor > 0 ? std::abs(factor - 1) / 3 : kPackedSpread,
           fmt::format("{} attends of packed sequences ({:.4g} times as long as others)", pass,
                       factor));
  if (is_above_peak(machine_, t))
    unsure(kNearestSpread,
           fmt::format("{} {} attends (the table exceeds the device's {:.0f} TFLOP/s)", pass,
                       t.shape == TileShape::Full ? "full" : "causal", peak_tflops(machine_)));
  if (window_ > 0 && w.form == TileForm::Other)
    unsure(kWindowSpread,
           fmt::format("{} attends under a window (rate from causal kernels)", pass));
  if (packs_documents() && parts(w) != nullptr)
    unsure(t.documents_spread > 0 ? t.documents_spread : kDocumentSpread,
           fmt::format("{} attends of packed documents (from the blocks of each)", pass));
  else if (window_ == 0 && w.form == TileForm::Other && shape == TileShape::Causal &&
           !is_cut_by_diagonal(w) && parts(w) == nullptr)
    unsure(
        kDerivedSpread,
        fmt::format(
            "{} attends of blocks off the diagonal that the mask hides in part (from causal ones)",
            pass));
  const double inner = side(w);
  if (inner < 0.5 * t.tokens.front())
    unsure(kBeyondSpread, fmt::format("{} attends of fewer tokens than the {:.0f} measured", pass,
                                      t.tokens.front()));
  if (inner > 2 * t.tokens.back())
    unsure(kBeyondSpread, fmt::format("{} attends of more tokens than the {:.0f} measured", pass,
                                      t.tokens.back()));
  return std::sqrt(squares);
}

double KernelTimes::tail_ps(const Work& tile, bool backward) const {
  const Work w = computed(tile, backward);
  if (w.pairs.value == 0 || machine_.sms == 0) return 0;
  const KernelTable& t = table(shape(w), backward);
  if (!(t.blocks.overhead_keys > 0)) return 0;
  const BlockTimes times =
      block_times(grid(t, w), blocks_of(t, w), machine_.sms, std::max(1u, machine_.comm_sms));
  return ps(tile, backward) * (1 - times.idle / times.end);
}

double KernelTimes::slowed(const Work& tile, bool backward, std::uint32_t transfers) const {
  const Work w = computed(tile, backward);
  const double held = static_cast<double>(machine_.comm_sms) * transfers;
  double longer = 1;
  const KernelTable& t = table(shape(w), backward);
  if (t.blocks.overhead_keys > 0 && held > 0 && w.pairs.value > 0) {
    const auto left = static_cast<std::uint32_t>(std::max(1.0, machine_.sms - held));
    const BlockFigures b = blocks_of(t, w);
    if (b.dealt) return machine_.comm_slowdown;  // see late_ps
    const BlockGrid& blocks = grid(t, w);
    longer = block_times(blocks, b, left).end / block_times(blocks, b, machine_.sms).end;
  } else if (machine_.sms > 0 && held > 0 && w.pairs.value > 0) {
    const double all = machine_.sms, left = std::max(1.0, all - held);
    longer = std::ceil(waves(t, w, left)) / std::ceil(waves(t, w, all));
  }
  return longer * machine_.comm_slowdown;
}

double KernelTimes::late_ps(const Work& tile, bool backward, std::uint32_t transfers) const {
  const Work w = computed(tile, backward);
  const std::uint32_t held = std::min(machine_.comm_sms * transfers, machine_.sms);
  if (w.pairs.value == 0 || held == 0) return 0;
  const KernelTable& t = table(shape(w), backward);
  if (!(t.blocks.overhead_keys > 0)) return 0;
  const BlockFigures b = blocks_of(t, w);
  if (!b.dealt) return 0;
  const BlockTimes times = block_times(grid(t, w), b, machine_.sms, held);
  return ps(tile, backward) * times.last / times.end;
}

}  // namespace ringsched
