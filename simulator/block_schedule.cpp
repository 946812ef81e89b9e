#include "block_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <queue>
#include <utility>

namespace ringsched {

namespace {

// With more blocks than this, the end of the run no longer matters. With packed documents, a plan
// has many grids of many lengths, so fewer blocks have to do.
constexpr double kMostBlocks = 1 << 16, kMostOfDocuments = 1 << 11;
constexpr std::size_t kManyLengths = 512;

bool is_one_of_many(const BlockGrid& g) {
  return g.of_documents && g.lengths.size() > kManyLengths;
}

// A block of half the rows takes more than half the time. FlashAttention-2 on an A100: 1024 rows of
// 9 heads against 62208 keys take 1.437 ms in 432 such blocks, two on an SM. That is 34.6 ns for
// each key, where blocks of 128 rows take 62.3 (NVIDIA/cudnn-frontend, attention_training results,
// d6d35d6).
constexpr double kHalfBlock = 34.6 / 62.3;

// What the second masked end of a block costs under a window, in blocks of keys. With heads of 64
// and a window of 128 tokens, forward kernels take 10 to 20% longer than their blocks of keys alone
// (NVIDIA/cudnn-frontend, attention_training results of gpt_oss: FlashAttention-2 on an A100 with
// PCIe, 7a40ba7, and cuDNN on H200, a0312cc). Backward it is as much.
constexpr double kSecondEnd = 0.75;

double rounded_up(double x, double unit) { return unit > 0 ? std::ceil(x / unit) * unit : x; }

// Into how many parts FlashAttention-2 cuts the keys if its blocks would leave SMs idle: the first
// number that is nearly as good as the best, of those that shorten the longest part (flash_api.cpp,
// num_splits_heuristic).
std::uint32_t key_splits(double blocks, double slots, double key_blocks) {
  if (blocks >= 0.8 * slots) return 1;
  const auto most = static_cast<std::uint32_t>(std::min({128.0, slots, key_blocks}));
  const auto efficiency = [&](std::uint32_t n) {
    const double waves = blocks * n / slots;
    return waves / std::ceil(waves);
  };
  const auto shortens = [&](std::uint32_t n) {
    return n == 1 || std::ceil(key_blocks / n) < std::ceil(key_blocks / (n - 1));
  };
  double best = 0;
  for (std::uint32_t n = 1; n <= most; ++n)
    if (shortens(n)) best = std::max(best, efficiency(n));
  for (std::uint32_t n = 1; n <= most; ++n)
    if (shortens(n) && efficiency(n) >= 0.85 * best) return n;
  return 1;
}

// When each SM runs out of work.
BlockTimes times_of(std::vector<double> ends, std::uint32_t held) {
  std::ranges::sort(ends);
  return {ends.back(), ends[std::min<std::size_t>(held, ends.size()) - 1]};
}

// Blocks that start on the first SM that is free.
BlockTimes one_on_each(const std::vector<double>& lengths, std::uint32_t sms, std::uint32_t held) {
  std::priority_queue<double, std::vector<double>, std::greater<>> free;
  for (std::uint32_t i = 0; i < sms; ++i) free.push(0);
  for (const double length : lengths) {
    const double end = free.top() + length;
    free.pop();
    free.push(end);
  }
  std::vector<double> ends;
  for (; !free.empty(); free.pop()) ends.push_back(free.top());
  return times_of(std::move(ends), held);
}

// Two blocks on each SM, which slow each other. A block prefers an SM with none to one with one,
// even if several SMs are free at the same time.
BlockTimes two_on_each(const std::vector<double>& lengths, double shared, std::uint32_t sms,
                       std::uint32_t held) {
  struct Sm {
    double since = 0, left[2] = {};
    unsigned blocks = 0;
    double rate(double both) const { return blocks == 2 ? both : 1; }
    double shortest() const { return blocks == 2 ? std::min(left[0], left[1]) : left[0]; }
  };
  std::vector<Sm> all(sms);
  using End = std::pair<double, std::uint32_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  const auto due = [&](std::uint32_t i) {
    return all[i].since + all[i].shortest() / all[i].rate(shared);
  };
  const auto pass = [&](Sm& s, double now) {
    const double done = (now - s.since) * s.rate(shared);
    for (unsigned b = 0; b < s.blocks; ++b) s.left[b] -= done;
    s.since = now;
    for (unsigned b = s.blocks; b-- > 0;)
      if (s.left[b] <= 1e-6) s.left[b] = s.left[--s.blocks];
  };
  std::vector<std::uint32_t> open(sms);  // SMs with room, to be filled
  std::iota(open.begin(), open.end(), 0);
  double now = 0;
  for (std::size_t next = 0;;) {
    for (unsigned level = 0; level < 2; ++level)
      for (const std::uint32_t i : open)
        if (all[i].blocks == level && next < lengths.size())
          all[i].left[all[i].blocks++] = lengths[next++];
    for (const std::uint32_t i : open)
      if (all[i].blocks > 0) ends.push({due(i), i});
    open.clear();
    if (ends.empty()) break;
    now = ends.top().first;
    for (; !ends.empty() && ends.top().first <= now * (1 + 1e-12); ends.pop()) {
      pass(all[ends.top().second], now);
      open.push_back(ends.top().second);
    }
  }
  std::vector<double> idle;
  for (const Sm& sm : all) idle.push_back(sm.since);
  return times_of(std::move(idle), held);
}

// Of n SMs, each has every n-th block. Each part of each head has numbers for as many blocks as the
// longest part; the blocks that a shorter one lacks take no time, but their numbers count.
BlockTimes dealt(const BlockGrid& g, std::uint32_t sms, std::uint32_t held) {
  std::vector<double> work(sms);
  double everywhere = 0;
  std::vector<std::uint32_t> parts = g.by_part;
  if (parts.empty()) parts = {g.blocks};
  const std::uint64_t longest = std::ranges::max(parts);
  // The number of heads after which blocks have the same SMs again.
  const std::uint32_t turn = sms / static_cast<std::uint32_t>(std::gcd(longest, sms));
  std::size_t first = 0;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    const std::uint32_t blocks = parts[part];
    const auto length = [&](std::uint32_t b) { return g.lengths[g.lengths.size() == 1 ? 0 : b]; };
    const auto begin = static_cast<std::uint32_t>(g.lengths.size() == 1 ? 0 : first);
    bool alike = true;
    for (std::uint32_t b = 1; b < blocks && g.lengths.size() > 1; ++b)
      alike = alike && length(begin + b) == length(begin);
    // Blocks that are alike give all SMs the same, but for the last few.
    const std::uint32_t rest = alike ? blocks % sms : blocks;
    if (alike) everywhere += std::floor(1.0 * blocks / sms) * g.heads * length(begin);
    for (std::uint32_t h = 0; h < std::min(turn, g.heads); ++h) {
      const double times = std::floor((1.0 * g.heads - h - 1) / turn) + 1;
      const std::uint64_t number = (part * g.heads + h) * longest;
      for (std::uint32_t b = 0; b < rest; ++b)
        work[(number + b) % sms] += times * length(begin + (alike ? 0 : b));
    }
    first += blocks;
  }
  for (double& w : work) w += everywhere;
  double last = 0;
  for (std::uint32_t i = sms - std::min(held, sms); i < sms; ++i) last = std::max(last, work[i]);
  BlockTimes out = times_of(std::move(work), held);
  out.last = last;
  return out;
}

// All SMs are full, time after time; then the rest, each on its own SM if there is one.
BlockTimes equally_long(const BlockGrid& g, const BlockFigures& b, std::uint32_t sms,
                        std::uint32_t held) {
  const double wave = g.lengths[0] / (b.per_sm < 2 ? 1 : b.shared_rate);
  const double slots = static_cast<double>(sms) * b.per_sm;
  const double waves = std::floor(g.count() / slots), rest = g.count() - waves * slots;
  const double before = waves * wave;
  if (rest == 0) return {before, before};
  const bool sms_to_spare = rest + held <= sms;
  return {before + (rest > sms ? wave : g.lengths[0]),
          sms_to_spare           ? before
          : rest <= sms          ? before + g.lengths[0]
          : rest + held <= slots ? before + g.lengths[0]  // those with one block are done then
                                 : before + wave};
}

// The mean length of a block under a window, if its tile is a band: `whole` rows (backward: keys)
// would see as many pairs if each saw all of the window. A block goes from the first to the last
// key that any of its rows sees, so it goes over almost its own rows more than a row. Where only
// one edge of the window is in the tile, as in a corner, twice as many rows see half as much each,
// with half as much more: the sum is the same. Rows that see both edges pay for the second one.
double length_in_band(double pairs, double window, double cut, double rows, const BlockFigures& b) {
  const auto step = std::max(1.0, static_cast<double>(b.keys));
  const double whole = pairs / window, two_ends = std::max(0.0, whole - window / 2);
  const double sum = step * (whole * std::ceil((window + rows - 1) / step) + two_ends * kSecondEnd);
  return sum / rows / std::ceil(cut / rows);
}

// The row of block `i` that sees most. Backward, blocks of keys begin at the first key, which is
// seen most: there rows count from the last key on.
double last_of_block(std::uint32_t i, double rows, double cut, bool backward) {
  return backward ? cut - 1 - i * rows : std::min(cut, (i + 1.0) * rows) - 1;
}

// The lengths of blocks if each row sees one key more than the one before, up to the window: the
// first sees as many as the tile's pairs ask for. A block goes from the first key of its first row
// to the last of its last row.
std::vector<double> lengths_of_ramp(double pairs, double window, double cut, double along,
                                    double rows, const BlockFigures& b, bool backward) {
  const auto seen = [&](double first) {  // by all rows
    const double rising = std::clamp(window - first, 0.0, cut);
    return rising * first + rising * (rising - 1) / 2 + (cut - rising) * window;
  };
  double low = 0, high = window;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (seen(middle) < pairs ? low : high) = middle;
  }
  const auto step = std::max(1.0, static_cast<double>(b.keys));
  std::vector<double> out;
  for (std::uint32_t i = 0; i < std::ceil(cut / rows); ++i) {
    const double last = last_of_block(i, rows, cut, backward);
    const double first = backward ? std::max(0.0, last + 1 - rows) : 1.0 * i * rows;
    const double hidden = std::max(0.0, high + first - window);  // from its first row
    const double keys = std::max(0.0, std::min(along, high + last) - hidden);
    const double blocks = std::ceil(std::min(keys, window + last - first) / step - 1e-9);
    out.push_back(step * (blocks + (hidden > 0 ? kSecondEnd : 0)));
  }
  return out;
}

}  // namespace

BlockGrid block_grid(const Work& w, const BlockFigures& b, std::uint32_t sms, bool backward,
                     double window, std::uint32_t share) {
  // The side that is cut, and the side that each block goes along.
  const auto cut = static_cast<double>(backward ? w.keys : w.rows);
  const auto along = static_cast<double>(backward ? w.rows : w.keys);
  const auto step = static_cast<double>(b.keys);
  const double each_rows = static_cast<double>(b.rows) / share;
  BlockGrid out{{}, static_cast<std::uint32_t>(std::ceil(cut / each_rows)), w.columns, 1};
  // Kernels that split the keys cut the rows into smaller blocks.
  const double half = 0.5 * each_rows;
  const auto splits_of = [&](double rows, double keys, double heads) {
    if (!b.splits_keys || backward) return 1u;
    return key_splits(std::ceil(rows / half) * heads, static_cast<double>(sms) * b.per_sm,
                      std::ceil(keys / b.split_keys));
  };
  const auto pairs = static_cast<double>(w.pairs.value);
  const double mean = pairs / cut;
  // A tile of the same rows and keys is a ramp up to the window. Others may be, if they see much;
  // if the window is short, its ramp hardly matters.
  const bool square = cut == along && pairs == window * (along - (window - 1) / 2);
  if (w.form == TileForm::Other && window < along && window >= along / 8 &&
      (square || 2 * mean >= along * 0.9) && splits_of(cut, along, w.columns) == 1) {
    out.lengths = lengths_of_ramp(pairs, window, cut, along, each_rows, b, backward);
    for (double& length : out.lengths) length += b.overhead_keys;
    return out;
  }
  if (mean > 0.99 * along || 2 * mean < along * 0.9) {
    // All blocks alike: if less than half is visible, nobody knows which part.
    out.splits = splits_of(cut, mean, w.columns);
    if (window > 0 && w.form == TileForm::Other && out.splits == 1) {
      out.lengths = {length_in_band(pairs, window, cut, each_rows, b) + b.overhead_keys};
      return out;
    }
    out.lengths = {rounded_up(mean, step) + b.overhead_keys};
    if (out.splits > 1) {
      out.blocks = static_cast<std::uint32_t>(std::ceil(cut / half)) * out.splits;
      const double each = rounded_up(mean / out.splits, b.split_keys);
      out.lengths = {each * kHalfBlock + b.overhead_keys};
    }
    return out;
  }
  // From the row that sees least to the row that sees all; a block goes as far as its last row.
  const double least = std::max(0.0, 2 * mean - along);
  const double more = (along - least) / std::max(1.0, cut - 1);  // from a row to the next
  out.splits = splits_of(cut, along, w.columns);
  if (out.splits > 1) {
    // Parts are equal shares of all keys, so some blocks see none of theirs.
    out.blocks = static_cast<std::uint32_t>(std::ceil(cut / half)) * out.splits;
    const double each = rounded_up(along / out.splits, b.split_keys);
    for (std::uint32_t part = 0; part < out.splits; ++part)
      for (double first = 0; first < cut; first += half) {
        const double seen =
            rounded_up(least + more * (std::min(cut, first + half) - 1) - 1e-6, b.split_keys);
        out.lengths.push_back(std::clamp(seen - part * each, 0.0, each) * kHalfBlock +
                              b.overhead_keys);
      }
    return out;
  }
  for (std::uint32_t i = 0; i < out.blocks; ++i) {
    const double last = last_of_block(i, each_rows, cut, backward);
    out.lengths.push_back(rounded_up(least + more * last - 1e-6, step) + b.overhead_keys);
  }
  return out;
}

namespace {

BlockTimes followed(const BlockGrid& g, const BlockFigures& b, std::uint32_t sms,
                    std::uint32_t held) {
  if (g.count() > (is_one_of_many(g) ? kMostOfDocuments : kMostBlocks)) {
    const double sum = std::accumulate(g.lengths.begin(), g.lengths.end(), 0.0);
    const double rate = b.per_sm < 2 ? 1 : 2 * b.shared_rate, mean = sum / g.blocks;
    const double end = sum * g.heads / sms / rate + 0.5 * mean;
    return {end, end - mean};
  }
  std::vector<double> all;
  for (std::uint32_t h = 0; h < g.heads; ++h)
    all.insert(all.end(), g.lengths.begin(), g.lengths.end());
  if (b.longest_first) std::ranges::sort(all, std::greater<>());
  return b.per_sm < 2 ? one_on_each(all, sms, held) : two_on_each(all, b.shared_rate, sms, held);
}

// "What if" questions price the same tiles again and again, and tables share points.
class Known {
 public:
  template <class Find>
  BlockTimes find(const std::vector<double>& key, Find find) {
    {
      const std::lock_guard lock(guard_);
      if (const auto at = times_.find(key); at != times_.end()) return at->second;
    }
    const BlockTimes found = find();
    const std::lock_guard lock(guard_);
    if (times_.size() < kMost && (numbers_ += key.size()) < kMostNumbers)
      times_.emplace(key, found);
    return found;
  }

 private:
  static constexpr std::size_t kMost = 4096, kMostNumbers = 1 << 23;
  std::size_t numbers_ = 0;
  std::mutex guard_;
  std::map<std::vector<double>, BlockTimes> times_;
};

}  // namespace

BlockTimes block_times(const BlockGrid& g, const BlockFigures& b, std::uint32_t sms,
                       std::uint32_t held) {
  if (g.count() == 0 || sms == 0) return {};
  if (b.dealt) return dealt(g, sms, held);
  if (g.lengths.size() == 1) return equally_long(g, b, sms, held);
  if (g.count() > kMostBlocks || is_one_of_many(g)) return followed(g, b, sms, held);
  static Known known;
  std::vector<double> key = g.lengths;
  for (const double x : {1.0 * g.blocks, 1.0 * g.heads, 1.0 * b.per_sm, b.shared_rate,
                         1.0 * b.longest_first, 1.0 * sms, 1.0 * held})
    key.push_back(x);
  return known.find(key, [&] { return followed(g, b, sms, held); });
}

double block_efficiency(const BlockGrid& g, double pairs, const BlockFigures& b,
                        std::uint32_t sms) {
  const double rate = b.per_sm < 2 ? 1 : 2 * b.shared_rate;
  const double took = block_times(g, b, sms).end;
  return took > 0 ? pairs / b.rows / (took * sms * rate) : 1;
}

}  // namespace ringsched
