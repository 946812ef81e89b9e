// Kernels as blocks over SMs, compared with a naive simulation, with counts by hand, and with
// published times of kernels with few heads and of rectangles (validation/kernels.csv).
#include "block_schedule.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "kernel_time.hpp"
#include "ringsched/machine/datasheet.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/simulator/report.hpp"
#include "ringsched/simulator/simulate.hpp"
#include "ringsched/simulator/uncertainty.hpp"
#include "support/cases.hpp"
#include "support/paths.hpp"

namespace ringsched {
namespace {

// Time passes in small steps; at each, blocks go to the emptiest SM.
double naive_time(const BlockGrid& g, const BlockFigures& b, std::uint32_t sms) {
  std::vector<double> blocks;
  for (std::uint32_t h = 0; h < g.heads; ++h)
    for (std::uint32_t i = 0; i < g.blocks; ++i)
      blocks.push_back(g.lengths[g.lengths.size() == 1 ? 0 : i]);
  if (b.longest_first) std::ranges::stable_sort(blocks, std::greater<>());
  std::vector<std::vector<double>> running(sms);
  std::size_t next = 0;
  for (double now = 0;; now += 1) {
    for (;;) {
      const auto emptiest = std::ranges::min_element(running, {}, &std::vector<double>::size);
      if (next == blocks.size() || emptiest->size() >= b.per_sm) break;
      emptiest->push_back(blocks[next++]);
    }
    bool any = false;
    for (std::vector<double>& sm : running) {
      any = any || !sm.empty();
      const double rate = sm.size() == 2 ? b.shared_rate : 1;
      for (double& left : sm) left -= rate;
      std::erase_if(sm, [](double left) { return left <= 1e-9; });
    }
    if (!any) return now;
  }
}

TEST(BlockSchedule, IsThatOfANaiveSimulation) {
  std::mt19937 random(3);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  for (int i = 0; i < 400; ++i) {
    BlockFigures b;
    b.per_sm = 1 + below(2);
    b.shared_rate = below(2) == 0 ? 0.5 : 1;  // so that lengths stay multiples of a half
    b.longest_first = below(2) == 0;
    BlockGrid g{{}, 1 + below(12), 1 + below(9)};
    for (std::uint32_t k = 0; k < g.blocks; ++k) g.lengths.push_back(2.0 * (1 + below(20)));
    if (below(4) == 0) g.lengths.resize(1);
    const std::uint32_t sms = 1 + below(8);
    EXPECT_NEAR(block_times(g, b, sms).end, naive_time(g, b, sms), 1e-6)
        << g.blocks << " blocks, " << g.heads << " heads, " << sms << " SMs, " << b.per_sm;
  }
}

// Parts one after the other, each for all heads; each head has numbers for as many blocks as the
// longest part, and SM number n takes those numbers that leave n over when divided by all SMs.
BlockTimes naively_dealt(const BlockGrid& g, std::uint32_t sms, std::uint32_t held) {
  struct Block {
    std::uint32_t part, head, at;
  };
  std::vector<Block> numbers;
  const std::uint32_t longest = std::ranges::max(g.by_part);
  for (std::uint32_t part = 0; part < g.by_part.size(); ++part)
    for (std::uint32_t head = 0; head < g.heads; ++head)
      for (std::uint32_t at = 0; at < longest; ++at) numbers.push_back({part, head, at});
  std::vector<double> work;
  for (std::uint32_t sm = 0; sm < sms; ++sm) {
    double mine = 0;
    for (std::size_t n = sm; n < numbers.size(); n += sms) {
      const Block b = numbers[n];
      if (b.at >= g.by_part[b.part]) continue;
      const auto before =
          std::accumulate(g.by_part.begin(), g.by_part.begin() + b.part, std::size_t{0});
      mine += g.lengths.size() == 1 ? g.lengths[0] : g.lengths[before + b.at];
    }
    work.push_back(mine);
  }
  BlockTimes out;
  for (std::uint32_t sm = 0; sm < sms; ++sm)
    if (sm + held >= sms) out.last = std::max(out.last, work[sm]);
  std::ranges::sort(work);
  out.end = work.back();
  out.idle = work[std::min<std::size_t>(held, sms) - 1];
  return out;
}

TEST(BlockSchedule, DealsBlocksAsANaiveCountDoes) {
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  for (int i = 0; i < 400; ++i) {
    BlockFigures b;
    b.dealt = true;
    BlockGrid g{{}, 0, 1 + below(5), 1};
    for (std::uint32_t part = 1 + below(6); part > 0; --part) g.by_part.push_back(1 + below(7));
    g.blocks = std::accumulate(g.by_part.begin(), g.by_part.end(), 0u);
    for (const std::uint32_t blocks : g.by_part) {
      const bool alike = below(2) == 0;
      for (std::uint32_t k = 0; k < blocks; ++k)
        g.lengths.push_back(alike && k > 0 ? g.lengths.back() : 1.0 + below(20));
    }
    if (below(3) == 0) g.lengths.resize(1);
    const std::uint32_t sms = 1 + below(9), held = 1 + below(4);
    const BlockTimes times = block_times(g, b, sms, held), slow = naively_dealt(g, sms, held);
    EXPECT_EQ(times.end, slow.end) << i;
    EXPECT_EQ(times.idle, slow.idle) << i;
    EXPECT_EQ(times.last, slow.last) << i;
  }
}

// A long document and four short ones, one head each: the longest has four blocks, so on four SMs
// one of them gets the first block of every document.
TEST(BlockSchedule, DealingMayGiveOneSmAllTheWork) {
  BlockFigures b;
  b.dealt = true;
  const BlockGrid g{{10}, 8, 1, 1, true, {4, 1, 1, 1, 1}};
  const BlockTimes four = block_times(g, b, 4), three = block_times(g, b, 3);
  EXPECT_EQ(four.end, 50);
  EXPECT_EQ(four.idle, 10);
  EXPECT_EQ(four.last, 10);
  EXPECT_EQ(three.end, 30);
  b.dealt = false;
  EXPECT_EQ(block_times(g, b, 4).end, 20);
}

Work tile(std::int64_t rows, std::int64_t keys, std::int64_t pairs, std::uint32_t heads) {
  return {rows, keys, Pairs{pairs}, TileForm::Other, heads, {}};
}

TEST(BlockSchedule, CutsTilesAsTheyAreSeen) {
  BlockFigures b;
  b.rows = 128;
  b.keys = 64;
  b.overhead_keys = 10;
  const BlockGrid full = block_grid(tile(300, 100, 30000, 3), b, 108, false);
  EXPECT_EQ(full.blocks, 3u);
  EXPECT_EQ(full.lengths, std::vector<double>{128 + 10});  // 100 keys are two blocks of 64
  const BlockGrid causal = block_grid(tile(512, 512, 512 * 513 / 2, 1), b, 108, false);
  EXPECT_EQ(causal.lengths, (std::vector<double>{138, 266, 394, 522}));
  // The last 256 rows of 1024 tokens: from 769 keys to all.
  const BlockGrid late = block_grid(tile(256, 1024, 256 * 1024 - 256 * 255 / 2, 1), b, 108, false);
  EXPECT_EQ(late.lengths, (std::vector<double>{896 + 10, 1024 + 10}));
  // Backward, the first keys are seen by most rows.
  EXPECT_EQ(block_grid(tile(512, 512, 512 * 513 / 2, 1), b, 108, true).lengths,
            (std::vector<double>{522, 394, 266, 138}));
  // 2 heads of 100 rows are 4 blocks of 64 rows, for 108 SMs, and the keys are 32 blocks of 128.
  // The most that shorten the longest part are 16 and 32 parts; both fill 64 of 108 places on
  // average.
  b.splits_keys = true;
  const BlockGrid split = block_grid(tile(100, 4096, 409600, 2), b, 108, false);
  EXPECT_EQ(split.splits, 16u);
  EXPECT_EQ(split.count(), 2 * 2 * 16);
  EXPECT_LT(block_times(split, b, 108).end, 1000);
  // Under a causal mask a part is a share of all keys, and some blocks see none of theirs: 256 rows
  // are 4 blocks of 64, the 256 keys 2 parts of 128.
  const BlockGrid triangle = block_grid(tile(256, 256, 256 * 257 / 2, 1), b, 8, false);
  EXPECT_EQ(triangle.splits, 2u);
  const double whole = 128 * (34.6 / 62.3) + 10;
  EXPECT_EQ(triangle.lengths,
            (std::vector<double>{whole, whole, whole, whole, 10, 10, whole, whole}));
}

TEST(BlockSchedule, OfMoreBlocksThanItFollowsIsNearTheSumOfAll) {
  BlockFigures b;
  b.rows = 128;
  b.keys = 128;
  b.overhead_keys = 160;
  for (const std::uint32_t per_sm : {1u, 2u}) {
    b.per_sm = per_sm;
    b.shared_rate = per_sm == 2 ? 0.567 : 1;
    const std::int64_t n = 128 * 1024, pairs = n * (n + 1) / 2;
    const auto efficiency = [&](std::uint32_t heads) {
      const BlockGrid g = block_grid(tile(n, n, pairs, heads), b, 108, false);
      return block_efficiency(g, static_cast<double>(pairs) * heads, b, 108);
    };
    const double followed = efficiency(63);
    const double summed = efficiency(65);
    EXPECT_NEAR(followed, summed, 0.01);
  }
}

struct Published {
  std::string gpu, library;
  bool full = false;
  Work work;
  std::uint32_t head_dim = 0;
  double ms = 0;
};

std::vector<Published> published_kernels() {
  std::ifstream file(source_folder() / "validation" / "kernels.csv");
  std::vector<Published> out;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#') || line.starts_with("gpu,")) continue;
    std::istringstream fields(line);
    std::string gpu, library, mask, rows, keys, heads, dim, ms;
    for (std::string* f : {&gpu, &library, &mask, &rows, &keys, &heads, &dim, &ms})
      std::getline(fields, *f, ',');
    const std::int64_t r = std::stoll(rows), k = std::stoll(keys);
    const std::int64_t hidden = mask == "full" ? 0 : r * (r - 1) / 2;
    const bool square = r == k && mask != "full";
    out.push_back({gpu,
                   library,
                   mask == "full",
                   {r,
                    k,
                    Pairs{r * k - hidden},
                    square           ? TileForm::Causal
                    : mask == "full" ? TileForm::Full
                                     : TileForm::Other,
                    static_cast<std::uint32_t>(std::stoul(heads)),
                    {}},
                   static_cast<std::uint32_t>(std::stoul(dim)),
                   std::stod(ms)});
  }
  return out;
}

// A machine that knows the squares of the most heads alone.
Machine knowing_squares(const std::vector<Published>& all, const Published& like,
                        const BlockFigures& blocks, std::uint32_t sms) {
  Machine m;
  m.name = m.summary = "made of published kernels";
  m.sms = sms;
  m.memory_gb_per_s = 1;
  std::uint32_t most = 0;
  const auto fits = [&](const Published& p) {
    return p.gpu == like.gpu && p.library == like.library && p.head_dim == like.head_dim &&
           p.work.form == TileForm::Causal;
  };
  for (const Published& p : all)
    if (fits(p)) most = std::max(most, p.work.columns);
  for (const TileShape shape : {TileShape::Full, TileShape::Causal}) {
    KernelTable t;
    t.shape = shape;
    t.dtypes = {Dtype::Bf16};
    t.head_dim = like.head_dim;
    t.blocks = blocks;
    for (const Published& p : all) {
      if (!fits(p) || p.work.columns != most) continue;
      t.tokens.push_back(static_cast<double>(p.work.rows));
      t.heads.push_back(most);
      t.tflops.push_back(4.0 * like.head_dim * static_cast<double>(p.work.pairs.value) * most /
                         p.ms / 1e9);
    }
    m.kernels.push_back(t);
    m.kernels.back().shape = TileShape::Causal;  // all are
  }
  return m;
}

// How far off all but the squares are that the tables are made of. The overhead of a block and the
// order of blocks were read from squares of 8 to 64 heads; rectangles had no part in that.
TEST(BlockSchedule, TellsPublishedKernelsOfFewHeadsAndRectanglesFromSquaresOfMany) {
  struct Kernel {
    const char *gpu, *library;
    std::uint32_t head_dim, sms;
    BlockFigures blocks;
    double mean, worst;  // of absolute errors
  };
  const Kernel kernels[] = {
      {"A100", "cudnn", 128, 108, {128, 128, 168, 1, 1, false, false, 128}, 0.04, 0.12},
      {"A100", "cudnn-oss", 128, 108, {128, 128, 156, 1, 1, true, false, 128}, 0.04, 0.12},
      {"H200", "cudnn", 128, 132, {128, 128, 163, 1, 1, false, false, 128}, 0.06, 0.15},
      {"H200", "cudnn", 256, 132, {128, 128, 182, 1, 1, false, false, 128}, 0.06, 0.12},
      {"B200", "cudnn", 128, 148, {256, 128, 340, 1, 1, false, false, 128}, 0.10, 0.30},
  };
  const std::vector<Published> all = published_kernels();
  ASSERT_GT(all.size(), 300u);
  for (const Kernel& k : kernels) {
    double sum = 0, worst = 0, waves = 0, of_rectangles = 0;
    int count = 0, rectangles = 0;
    std::uint32_t most = 0;  // heads
    for (const Published& p : all)
      if (p.gpu == k.gpu && p.library == k.library && p.head_dim == k.head_dim &&
          p.work.form == TileForm::Causal)
        most = std::max(most, p.work.columns);
    for (const Published& p : all) {
      if (p.gpu != k.gpu || p.library != k.library || p.head_dim != k.head_dim) continue;
      if (p.work.form == TileForm::Causal && p.work.columns == most) continue;  // in the table
      Problem problem;
      problem.head_dim = p.head_dim;
      problem.heads = problem.kv_heads = p.work.columns;
      const auto error = [&](const BlockFigures& b) {
        const Machine m = knowing_squares(all, p, b, k.sms);
        return std::abs(KernelTimes(m, problem).ps(p.work, false) * 1e-9 / p.ms - 1);
      };
      const double e = error(k.blocks);
      sum += e;
      if (p.work.form != TileForm::Causal) {
        of_rectangles += e;
        ++rectangles;
      }
      worst = std::max(worst, e);
      waves += error({});
      ++count;
    }
    ASSERT_GT(count, 11) << k.gpu << k.library;
    const std::string what = fmt::format(
        "{} {} d {}: {} kernels, {:.1f}% off on average, {:.1f}% at worst; {} of them "
        "rectangles, "
        "{:.1f}%; by waves alone {:.1f}%",
        k.gpu, k.library, k.head_dim, count, 100 * sum / count, 100 * worst, rectangles,
        rectangles > 0 ? 100 * of_rectangles / rectangles : 0, 100 * waves / count);
    RecordProperty(fmt::format("{}_{}_{}", k.gpu, k.library, k.head_dim), what);
    if (std::getenv("RINGSCHED_SHOW")) std::cout << what << "\n";
    EXPECT_LT(sum / count, k.mean) << what;
    EXPECT_LT(worst, k.worst) << what;
    EXPECT_LT(sum, waves) << what;
  }
}

// A backward pass has two kernels over memory, which take longer with more queries. The SMs work on
// the blocks of a third.
TEST(BlockSchedule, ABackwardPassHasPassesOverMemoryBesideItsBlocks) {
  Machine m;
  m.name = m.summary = "made of one table";
  m.sms = 100;
  m.memory_gb_per_s = 2000;
  m.launch_us = 3;
  KernelTable t;
  t.backward = true;
  t.dtypes = {Dtype::Bf16};
  t.tokens = {2048};
  t.tflops = {500};
  t.heads = {640};
  t.blocks.rows = 128;
  t.blocks.overhead_keys = 160;
  m.kernels = {t};
  Problem problem;
  problem.heads = problem.kv_heads = 640;
  const auto tile = [](std::int64_t rows, std::int64_t keys) {
    return Work{rows, keys, Pairs{rows * keys}, TileForm::Full, 640, {}};
  };
  const auto passes = [&](std::int64_t rows) {  // 14 bytes for each element, and two launches
    return 14.0 * static_cast<double>(rows) * 640 * 128 / 2 + 2 * 3e6;
  };
  const auto end = [&](const Work& w) {
    return block_times(block_grid(w, t.blocks, 100, true), t.blocks, 100).end;
  };
  const double known = 10.0 * 2048 * 2048 * 128 * 640 / 500;
  EXPECT_NEAR(KernelTimes(m, problem).ps(tile(2048, 2048), true), known + 3e6, 1);
  using Sides = std::pair<std::int64_t, std::int64_t>;
  for (const auto& [rows, keys] : {Sides{512, 512}, {2048, 1024}, {1024, 2048}, {256, 128}})
    EXPECT_NEAR(
        KernelTimes(m, problem).ps(tile(rows, keys), true),
        3e6 + passes(rows) + (known - passes(2048)) * end(tile(rows, keys)) / end(tile(2048, 2048)),
        1e3)
        << rows << " x " << keys;

  // Of heads that share a key head, gradients are written apart, and read to be added: 4 + 4 / 8
  // bytes for each key. Or added in fp32, instead of written in 16 bits: 4 + 20 / 8.
  const double alone = KernelTimes(m, problem).ps(tile(512, 1024), true);
  problem.kv_heads = 80;
  const auto more = [&](std::int64_t keys, double bytes) {
    return static_cast<double>(keys) * 640 * 128 * bytes / 2 + 2 * 3e6;
  };
  EXPECT_NEAR(KernelTimes(m, problem).ps(tile(512, 1024), true), alone + more(1024, 4.5), 1);
  m.kernels[0].adds_groups = true;
  EXPECT_NEAR(KernelTimes(m, problem).ps(tile(512, 1024), true), alone + more(1024, 6.5), 1);
  // If 1000 of 4096 keys are seen, only their gradients are added.
  const Work band{500, 4096, Pairs{500 * 500}, TileForm::Other, 640, {}};
  const double all_keys = KernelTimes(m, problem).ps(band, true);
  problem.kv_heads = 640;
  EXPECT_NEAR(all_keys - KernelTimes(m, problem).ps(band, true),
              more(1000, 4) + more(4096, 2.5) - 2 * 3e6, 1);
  problem.kv_heads = 80;
  // The rate of a table does not contain what its own kernel took for this.
  m.kernels[0].heads_per_key_head = 8;
  EXPECT_NEAR(KernelTimes(m, problem).ps(tile(2048, 2048), true), known + 3e6, 1);
}

// The mean logarithm of the times of `a` over those of `b`, for squares of a table's heads from
// 2048 tokens on.
std::optional<double> mean_ratio(const Machine& a, const Machine& b, const KernelTable& t) {
  double sum = 0;
  int points = 0;
  for (std::size_t i = 0; i < t.tokens.size(); ++i) {
    if (t.tokens[i] < 2048) continue;
    const auto n = static_cast<std::int64_t>(t.tokens[i]);
    Problem problem;
    problem.head_dim = t.head_dim;
    problem.heads = problem.kv_heads = static_cast<std::uint32_t>(t.heads[i]);
    const bool full = t.shape == TileShape::Full;
    const Work square{n,
                      n,
                      Pairs{full ? n * n : n * (n + 1) / 2},
                      full ? TileForm::Full : TileForm::Causal,
                      problem.heads,
                      {}};
    sum += std::log(KernelTimes(a, problem).ps(square, t.backward) /
                    KernelTimes(b, problem).ps(square, t.backward));
    ++points;
  }
  return points > 0 ? std::optional(sum / points) : std::nullopt;
}

// How far rates are off that a profile derives from its tables of 128: for each library and head
// dimension that it has measured, the mean over tables and their points of 2K tokens and more.
TEST(BlockSchedule, DerivedHeadDimensionsAreAsUnsureAsTheModelSays) {
  std::map<std::string, std::vector<double>> off;  // logarithms
  for (const char* name : {"dgx-a100", "hgx-h100", "pcie-4090x8"}) {
    Machine m = find_machine(name);
    for (const KernelTable& t : m.kernels) {
      if (t.head_dim == 128) continue;
      m.library = t.library;
      Machine only_128 = m;
      std::erase_if(only_128.kernels, [](const KernelTable& k) { return k.head_dim != 128; });
      const std::optional<double> mean = mean_ratio(only_128, m, t);
      off[fmt::format("{} {} {}", name, t.library, t.head_dim)].push_back(mean.value());
    }
  }
  double squares = 0;
  for (const auto& [what, means] : off) {
    const double mean =
        std::accumulate(means.begin(), means.end(), 0.0) / static_cast<double>(means.size());
    squares += mean * mean;
    if (std::getenv("RINGSCHED_SHOW"))
      std::cout << fmt::format("{}: {:+.0f}%\n", what, 100 * std::expm1(mean));
  }
  EXPECT_EQ(off.size(), 11u);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(off.size())), kDerivedSpread, 0.005);
}

// Of each library and head dimension with tables of both masks and known blocks: the causal times
// from the full table, or the other way round.
TEST(BlockSchedule, TimesFromTheOtherMaskAreAsUnsureAsTheModelSays) {
  double squares = 0;
  int tables = 0;
  for (const char* name : {"dgx-a100", "hgx-h100", "hgx-h200", "hgx-b200", "pcie-4090x8"}) {
    Machine m = find_machine(name);
    for (KernelTable& t : m.kernels) t.sustained_tflops = 0;
    for (const KernelTable& t : m.kernels) {
      if (!(t.blocks.overhead_keys > 0) || t.heads.empty()) continue;
      m.library = t.library;
      Machine other = m;
      std::erase_if(other.kernels, [&](const KernelTable& k) {
        return k.library == t.library && k.backward == t.backward && k.shape == t.shape &&
               k.head_dim == t.head_dim;
      });
      if (std::ranges::none_of(other.kernels, [&](const KernelTable& k) {
            return k.library == t.library && k.backward == t.backward && k.head_dim == t.head_dim;
          }))
        continue;
      const std::optional<double> mean = mean_ratio(other, m, t);
      if (!mean) continue;
      squares += *mean * *mean;
      ++tables;
      if (std::getenv("RINGSCHED_SHOW"))
        std::cout << fmt::format("{} {} {} {} {}: {:+.0f}%\n", name, t.library, t.head_dim,
                                 t.backward ? "backward" : "forward",
                                 t.shape == TileShape::Full ? "full" : "causal",
                                 100 * std::expm1(*mean));
    }
  }
  EXPECT_GT(tables, 30);
  EXPECT_NEAR(std::sqrt(squares / tables), kOtherMaskSpread, 0.005);
}

// The profile has FlashAttention-2 from other boards (but forward tables for heads of 64 are means
// of such a board and of this one), and cuDNN from an H200 but for four points of each of its
// tables of 64 dimensions.
TEST(BlockSchedule, PredictsKernelsOfAnH100) {
  std::ifstream file(source_folder() / "validation" / "kernels-h100.csv");
  std::map<std::string, std::vector<double>> errors, shown;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#') || line.starts_with("library,")) continue;
    std::istringstream fields(line);
    std::string library, pass, mask, tokens, heads, dim, us;
    for (std::string* f : {&library, &pass, &mask, &tokens, &heads, &dim, &us})
      std::getline(fields, *f, ',');
    Machine m = find_machine("hgx-h100");
    m.library = library;
    for (KernelTable& k : m.kernels) k.sustained_tflops = 0;  // the calls were short
    Problem problem;
    problem.head_dim = static_cast<std::uint32_t>(std::stoul(dim));
    problem.heads = problem.kv_heads = static_cast<std::uint32_t>(std::stoul(heads));
    const std::int64_t n = std::stoll(tokens);
    const bool full = mask == "full";
    const Work square{n,
                      n,
                      Pairs{full ? n * n : n * (n + 1) / 2},
                      full ? TileForm::Full : TileForm::Causal,
                      problem.heads,
                      {}};
    const double ps = KernelTimes(m, problem).ps(square, pass == "backward");
    const double error = ps * 1e-6 / std::stod(us) - 1;
    errors[library + " " + pass].push_back(std::abs(error));
    shown[fmt::format("{} {} {} {}", library, pass, dim, mask)].push_back(error);
  }
  const std::map<std::string, std::pair<double, double>> most = {// mean, worst
                                                                 {"fa2 forward", {0.09, 0.36}},
                                                                 {"fa2 backward", {0.05, 0.13}},
                                                                 {"cudnn forward", {0.05, 0.20}},
                                                                 {"cudnn backward", {0.05, 0.18}}};
  for (auto& [what, all] : shown) {
    if (!std::getenv("RINGSCHED_SHOW")) continue;
    std::ranges::sort(all);
    double sum = 0;
    for (const double e : all) sum += std::abs(e);
    std::cout << fmt::format("{}: mean {:.1f}%, median {:+.1f}%\n", what,
                             100 * sum / static_cast<double>(all.size()),
                             100 * all[all.size() / 2]);
  }
  ASSERT_EQ(errors.size(), most.size());
  for (const auto& [what, all] : errors) {
    const double mean =
        std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
    EXPECT_EQ(all.size(), 146u) << what;
    EXPECT_LT(mean, most.at(what).first) << what;
    EXPECT_LT(std::ranges::max(all), most.at(what).second) << what;
  }
}

// Kernels under windows. What the second masked end of a block costs was read from windows of 128
// and 129, forward, on A100 and H200; the others had no part in that.
TEST(BlockSchedule, PredictsKernelsUnderWindows) {
  std::ifstream file(source_folder() / "validation" / "kernels-window.csv");
  std::map<std::string, std::vector<double>> errors;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#') || line.starts_with("gpu,")) continue;
    std::istringstream fields(line);
    std::string gpu, library, pass, window, tokens, heads, kv_heads, dim, ms;
    for (std::string* f : {&gpu, &library, &pass, &window, &tokens, &heads, &kv_heads, &dim, &ms})
      std::getline(fields, *f, ',');
    Machine m = find_machine(gpu == "A100"    ? "dgx-a100"
                             : gpu == "H100"  ? "hgx-h100"
                             : gpu == "H200"  ? "hgx-h200"
                             : gpu == "GB200" ? "gb200-nvl72"
                                              : "hgx-b200");
    m.software.packed = library.starts_with("cudnn-");
    if (gpu != "A100") m.library = library == "cudnn-packed" ? "cudnn" : library;
    for (KernelTable& k : m.kernels) k.sustained_tflops = 0;  // the calls were short
    Problem problem;
    problem.head_dim = static_cast<std::uint32_t>(std::stoul(dim));
    problem.heads = static_cast<std::uint32_t>(std::stoul(heads));
    problem.kv_heads = static_cast<std::uint32_t>(std::stoul(kv_heads));
    problem.mask = Mask::window(Tokens{std::stoll(window)});
    const std::int64_t n = std::stoll(tokens), w = std::stoll(window);
    const Work square{n, n, Pairs{n * w - w * (w - 1) / 2}, TileForm::Other, problem.heads, {}};
    const double ps = KernelTimes(m, problem).ps(square, pass == "backward");
    errors[fmt::format("{} {} {} {}", gpu, library, pass, window)].push_back(
        ps * 1e-9 / std::stod(ms) - 1);
  }
  const std::map<std::string, double> mean = {{"A100 fa2 forward 129", 0.03},
                                              {"A100 fa2 backward 129", 0.02},
                                              {"H200 cudnn forward 128", 0.07},
                                              {"H200 cudnn backward 128", 0.16},
                                              {"GB200 cudnn forward 128", 0.05},
                                              {"GB200 cudnn backward 128", 0.06},
                                              {"B200 cudnn forward 128", 0.06},
                                              {"H200 cudnn forward 1024", 0.03},
                                              {"H200 cudnn backward 1024", 0.05},
                                              {"H100 fa2 forward 1025", 0.15},
                                              {"H100 fa2 backward 1025", 0.06},
                                              {"H100 fa3 forward 1025", 0.06},
                                              {"H100 fa3 backward 1025", 0.09},
                                              {"H100 cudnn-packed forward 1025", 0.21},
                                              {"H100 cudnn-packed backward 1025", 0.18},
                                              {"B200 fa4 forward 1025", 0.06},
                                              {"B200 cudnn-te forward 1025", 0.11},
                                              {"B200 cudnn-te backward 1025", 0.14}};
  ASSERT_EQ(errors.size(), mean.size());
  for (const auto& [what, all] : errors) {
    double sum = 0;
    for (const double e : all) sum += std::abs(e);
    sum /= static_cast<double>(all.size());
    const std::string shown =
        fmt::format("{}: {} kernels, {:.1f}% off on average, {:+.1f} to {:+.1f}%", what, all.size(),
                    100 * sum, 100 * std::ranges::min(all), 100 * std::ranges::max(all));
    if (std::getenv("RINGSCHED_SHOW")) std::cout << shown << "\n";
    EXPECT_LT(sum, mean.at(what)) << shown;
  }
}

// One head, and rectangles, of FlashAttention-2 on three GPUs. Of each GPU the tables have its
// squares of 32 heads; nothing else comes from the file.
TEST(BlockSchedule, PredictsKernelsOfOneHeadFromThoseOfMany) {
  std::ifstream file(source_folder() / "validation" / "kernels-one-head.csv");
  struct Row {
    std::string gpu;
    bool backward = false, full = false;
    std::int64_t rows = 0, keys = 0;
    std::uint32_t heads = 0;
    double us = 0;
  };
  std::vector<Row> all;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#') || line.starts_with("gpu,")) continue;
    std::istringstream fields(line);
    std::string gpu, pass, mask, rows, keys, heads, us;
    for (std::string* f : {&gpu, &pass, &mask, &rows, &keys, &heads, &us})
      std::getline(fields, *f, ',');
    all.push_back({gpu, pass == "backward", mask == "full", std::stoll(rows), std::stoll(keys),
                   static_cast<std::uint32_t>(std::stoul(heads)), std::stod(us)});
  }
  const auto in_table = [](const Row& r) {
    return r.heads == 32 && r.rows == r.keys && r.rows >= 2048;
  };
  std::map<std::string, Machine> machines = {{"A800", find_machine("dgx-a100")},
                                             {"A100", find_machine("dgx-a100")},
                                             {"H800", find_machine("hgx-h100")}};
  Problem problem;
  problem.head_dim = 128;
  for (auto& [gpu, m] : machines) {
    if (gpu == "H800") m.library = "fa2";
    for (KernelTable& t : m.kernels) {
      t.sustained_tflops = 0;
      if (t.head_dim != 128 || (!t.library.empty() && t.library != m.library)) continue;
      t.tokens.clear();
      t.heads.clear();
      t.tflops.clear();
      for (const Row& r : all) {
        if (!in_table(r) || r.gpu != gpu || r.backward != t.backward ||
            r.full != (t.shape == TileShape::Full))
          continue;
        const std::int64_t pairs = r.full ? r.rows * r.keys : r.rows * (r.rows + 1) / 2;
        t.tokens.push_back(static_cast<double>(r.rows));
        t.heads.push_back(r.heads);
        t.tflops.push_back(attention_flops(problem, Pairs{pairs}, r.heads, r.backward) / 1e6 /
                           r.us);
      }
    }
  }
  // Below 2048 rows or keys, most of a call is its launch. The A100's full tiles of one head ran
  // with an earlier version, which splits no keys: those below 16K rows are left out.
  std::map<std::string, std::vector<double>> errors;
  for (const Row& r : all) {
    if (in_table(r) || std::min(r.rows, r.keys) < 2048) continue;
    if (r.gpu == "A100" && r.full && r.heads == 1 && r.rows < 16384) continue;
    problem.heads = problem.kv_heads = r.heads;
    const std::int64_t pairs = r.full ? r.rows * r.keys : r.rows * (r.rows + 1) / 2;
    const TileForm form = r.full ? TileForm::Full : TileForm::Causal;
    const Work w{r.rows, r.keys, Pairs{pairs}, form, r.heads, {}};
    const double e = KernelTimes(machines.at(r.gpu), problem).ps(w, r.backward) * 1e-6 / r.us - 1;
    errors[fmt::format("{} {} {} {}", r.gpu, r.backward ? "backward" : "forward",
                       r.full ? "full" : "causal", r.heads)]
        .push_back(e);
  }
  const std::map<std::string, std::pair<double, double>> most = {
      // mean, worst
      {"A100 backward causal 1", {0.01, 0.02}}, {"A100 backward full 1", {0.01, 0.02}},
      {"A100 backward full 32", {0.01, 0.03}},  {"A100 forward causal 1", {0.11, 0.21}},
      {"A100 forward full 1", {0.02, 0.04}},    {"A100 forward full 32", {0.02, 0.06}},
      {"A800 backward causal 1", {0.01, 0.02}}, {"A800 backward full 1", {0.01, 0.04}},
      {"A800 backward full 32", {0.01, 0.03}},  {"A800 forward causal 1", {0.09, 0.21}},
      {"A800 forward full 1", {0.03, 0.15}},    {"A800 forward full 32", {0.01, 0.03}},
      {"H800 backward causal 1", {0.03, 0.06}}, {"H800 backward full 1", {0.02, 0.05}},
      {"H800 backward full 32", {0.01, 0.04}},  {"H800 forward causal 1", {0.09, 0.18}},
      {"H800 forward full 1", {0.06, 0.41}},    {"H800 forward full 32", {0.01, 0.05}}};
  std::size_t count = 0;
  ASSERT_EQ(errors.size(), most.size());
  for (const auto& [what, found] : errors) {
    double sum = 0, worst = 0;
    for (const double e : found) {
      sum += std::abs(e);
      worst = std::max(worst, std::abs(e));
    }
    sum /= static_cast<double>(found.size());
    count += found.size();
    const std::string shown = fmt::format(
        "{}: {} kernels, {:.1f}% off on average, {:+.1f} to {:+.1f}%", what, found.size(),
        100 * sum, 100 * std::ranges::min(found), 100 * std::ranges::max(found));
    if (std::getenv("RINGSCHED_SHOW")) std::cout << shown << "\n";
    EXPECT_LT(sum, most.at(what).first) << shown;
    EXPECT_LT(worst, most.at(what).second) << shown;
  }
  EXPECT_EQ(count, 562u);
}

// Under a window that hides little, rows see more and more keys until they see all of the window.
// Pair by pair, as above.
TEST(BlockSchedule, ALongWindowIsARampWithALevelEnd) {
  BlockFigures b;
  b.rows = 64;
  b.keys = 32;
  b.overhead_keys = 5;
  for (const std::int64_t n : {640, 1000, 1216})
    for (const std::int64_t window : {n / 5, n / 2, 3 * n / 4, n - 1}) {
      const std::int64_t pairs = n * window - window * (window - 1) / 2;
      for (const bool backward : {false, true}) {
        const BlockGrid g =
            block_grid(tile(n, n, pairs, 2), b, 108, backward, static_cast<double>(window));
        ASSERT_EQ(std::ssize(g.lengths), (n + 63) / 64);
        for (std::int64_t i = 0; i < std::ssize(g.lengths); ++i) {
          const std::int64_t first = i * 64, last = std::min(n, first + 64) - 1;
          // Of a block of rows: from the first key of its first row to the last of its last one.
          const std::int64_t from = std::max<std::int64_t>(0, first - window + 1);
          const std::int64_t seen = backward ? std::min(n, last + window) - first : last + 1 - from;
          const bool two_ends = backward ? last + window < n : from > 0;
          const double expected =
              32. * static_cast<double>((seen + 31) / 32) + 5 + (two_ends ? 24 : 0);
          EXPECT_NEAR(g.lengths[static_cast<std::size_t>(i)], expected, 57)
              << n << " " << window << " " << i << (backward ? " backward" : "");
        }
      }
    }
}

// A window takes at least as long if there are more tokens, also where it begins to hide something.
TEST(BlockSchedule, MoreTokensUnderAWindowTakeNoLess) {
  for (const char* name : {"hgx-h100", "dgx-a100", "hgx-b200"})
    for (const bool backward : {false, true}) {
      const Machine m = find_machine(name);
      double before = 0;
      for (std::int64_t n = 4096; n <= 40960; n += 128) {
        Problem problem;
        problem.heads = problem.kv_heads = 16;
        problem.mask = Mask::window(Tokens{4000});
        const std::int64_t w = 4000;
        const Work square{n, n, Pairs{n * w - w * (w - 1) / 2}, TileForm::Other, 16, {}};
        const double now = KernelTimes(m, problem).ps(square, backward);
        EXPECT_GT(now, 0.93 * before) << name << " " << n << (backward ? " backward" : "");
        before = std::max(before, now);
      }
    }
}

// Without a cost of blocks, they count as full ones.
TEST(BlockSchedule, AFewMoreRowsTakeNoLessInWaves) {
  Machine m = find_machine("pcie-4090x8");
  for (KernelTable& t : m.kernels) t.blocks.overhead_keys = 0;
  Problem problem;
  problem.heads = problem.kv_heads = 64;
  double before = 0;
  for (std::int64_t n = 64; n <= 700; n += 1) {
    const Work square{n, n, Pairs{n * n}, TileForm::Full, 64, {}};
    const double now = KernelTimes(m, problem).ps(square, false);
    EXPECT_GT(now, 0.97 * before) << n;
    before = now;
  }
}

// Many shapes, few heads, and head dimensions that the library fills up. For the L40S and RTX PRO
// 6000, one point of heads of 80 set the speed, and for the B200, the largest batches of 64 and 80.
TEST(BlockSchedule, PredictsKernelsOfManyShapes) {
  std::ifstream file(source_folder() / "validation" / "kernels-encoder.csv");
  const std::map<std::string, Machine> machines = {
      {"H100", find_machine("hgx-h100")},
      {"B200", find_machine("hgx-b200")},
      {"L40S", machine_of({.gpu = "l40s"})},
      {"RTX PRO 6000", machine_of({.gpu = "rtx-pro-6000"})}};
  std::map<std::string, std::vector<double>> errors;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#') || line.starts_with("gpu,")) continue;
    std::istringstream fields(line);
    std::string gpu, library, tokens, heads, batch, dim, us;
    for (std::string* f : {&gpu, &library, &tokens, &heads, &batch, &dim, &us})
      std::getline(fields, *f, ',');
    Machine m = machines.at(gpu);
    m.library = library;
    m.software.packed = true;
    Problem problem;
    problem.head_dim = static_cast<std::uint32_t>(std::stoul(dim));
    problem.heads = problem.kv_heads =
        static_cast<std::uint32_t>(std::stoul(heads) * std::stoul(batch));
    const std::int64_t n = std::stoll(tokens);
    const Work square{n, n, Pairs{n * n}, TileForm::Full, problem.heads, {}};
    errors[fmt::format("{} {} {}", gpu, library, dim)].push_back(
        KernelTimes(m, problem).ps(square, false) * 1e-6 / std::stod(us) - 1);
  }
  const std::map<std::string, double> median = {
      {"H100 fa3 64", 0.1},          {"H100 fa3 72", 0.11},         {"H100 fa3 80", 0.13},
      {"B200 fa4 64", 0.05},         {"B200 fa4 72", 0.05},         {"B200 fa4 80", 0.05},
      {"L40S fa2 64", 0.15},         {"L40S fa2 72", 0.17},         {"L40S fa2 80", 0.16},
      {"RTX PRO 6000 fa2 64", 0.08}, {"RTX PRO 6000 fa2 72", 0.05}, {"RTX PRO 6000 fa2 80", 0.05}};
  ASSERT_EQ(errors.size(), median.size());
  for (auto& [what, all] : errors) {
    std::vector<double> off;
    for (const double e : all) off.push_back(std::abs(e));
    std::ranges::sort(off);
    std::ranges::sort(all);
    const std::string shown = fmt::format(
        "{}: {} kernels, {:.1f}% off at the median, {:+.1f} to {:+.1f}%, half are at most {:+.1f}%",
        what, all.size(), 100 * off[off.size() / 2], 100 * all.front(), 100 * all.back(),
        100 * all[all.size() / 2]);
    if (std::getenv("RINGSCHED_SHOW")) std::cout << shown << "\n";
    EXPECT_EQ(all.size(), 40u) << shown;
    EXPECT_LT(off[off.size() / 2], median.at(what)) << shown;
  }
}

// Pair by pair: from the first key to the last that a block of rows sees, and so for keys backward.
// A tile's mean says how many of its rows see both edges of the window, one, or none.
TEST(BlockSchedule, UnderAWindowABlockGoesFromTheFirstToTheLastThatItSees) {
  BlockFigures b;
  b.rows = 64;
  b.keys = 32;
  b.overhead_keys = 5;
  std::mt19937 random(5);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random()) % n; };
  int bands = 0;
  double ratios = 0;
  for (int i = 0; i < 150; ++i) {
    const std::int64_t rows = 64 * (4 + below(12)), keys = 64 * (4 + below(12)),
                       window = 32 + below(400);
    const std::int64_t last = 64 * (below((keys + window + rows) / 64) - rows / 64);
    const auto sees = [&](std::int64_t row, std::int64_t key) {
      return key <= row + last && key > row + last - window;
    };
    std::int64_t pairs = 0;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t key = 0; key < keys; ++key) pairs += sees(row, key) ? 1 : 0;
    for (const bool backward : {false, true}) {
      const std::int64_t cut = backward ? keys : rows, along = backward ? rows : keys;
      // A band that is hardly in the tile, and one that fills half of it, are priced otherwise.
      if (pairs < 64 * window || 2 * pairs >= cut * along * 9 / 10) continue;
      double expected = 0;
      for (std::int64_t first = 0; first < cut; first += 64) {
        std::int64_t from = along, to = 0, before = 0, after = 0;
        for (std::int64_t c = first; c < std::min(cut, first + 64); ++c) {
          for (std::int64_t a = 0; a < along; ++a)
            if (backward ? sees(a, c) : sees(c, a)) {
              from = std::min(from, a);
              to = std::max(to, a + 1);
            }
          // Is either edge of the window in the tile?
          const std::int64_t low = backward ? c - last : c + last - window + 1;
          before += low > 0 && low < along ? 1 : 0;
          after += low + window > 0 && low + window <= along ? 1 : 0;
        }
        const double steps = to > from ? static_cast<double>((to + 31) / 32 - from / 32) : 0;
        expected += 32 * steps + (before > 32 && after > 32 ? backward ? 64 : 24 : 0) + 5;
      }
      const BlockGrid g =
          block_grid(tile(rows, keys, pairs, 2), b, 108, backward, static_cast<double>(window));
      if (g.lengths.size() > 1) continue;  // a ramp, see above
      const double ratio = g.lengths[0] * g.blocks / expected;
      ratios += std::log(ratio);
      ++bands;
      EXPECT_NEAR(ratio, 1, 0.40) << rows << " rows, " << keys << " keys, window " << window
                                  << ", last " << last << (backward ? ", backward" : "");
    }
  }
  EXPECT_GT(bands, 80);
  EXPECT_NEAR(ratios / bands, 0, 0.05);
}

// A window nearly as long as the sequence is a causal mask; a longer one hardly ever takes less
// time; and how the tokens are shared hardly matters where the window is short. (Backward, zigzag's
// tiles have a quarter more rows.)
TEST(BlockSchedule, TimesUnderWindowsGrowWithTheWindow) {
  const Machine m = find_machine("hgx-h100");
  const auto attending = [&](const std::string& mask, std::int64_t tokens, std::uint32_t workers,
                             const char* schedule, Pass pass) {
    Problem p;
    p.workers = workers;
    p.tokens = {tokens};
    p.mask = parse_mask(mask);
    p.pass = pass;
    const Plan plan = build_plan(p, find_schedule(schedule));
    const RunTimes r = report(price(plan, m), simulate(price(plan, m)));
    double sum = 0;
    for (const WorkerTimes& w : r.workers) sum += static_cast<double>(w.attending.value);
    return sum;
  };
  for (const Pass pass : {Pass::Forward, Pass::Both}) {
    for (const std::int64_t tokens : {512, 1024, 4096}) {
      const double causal = attending("causal", tokens, 1, "ring", pass);
      EXPECT_NEAR(
          attending("window:" + std::to_string(tokens - 1), tokens, 1, "ring", pass) / causal, 1,
          0.03);
      double before = 0;
      for (std::int64_t window = 64; window < tokens; window *= 2) {
        const double now = attending("window:" + std::to_string(window), tokens, 1, "ring", pass);
        EXPECT_GE(now, 0.9 * before) << tokens << " " << window;
        before = now;
      }
      EXPECT_LE(before, 1.03 * causal);
    }
    for (const char* schedule : {"ring", "zigzag", "striped", "all-gather:shares=zigzag"}) {
      double before = 0;
      for (const int window : {100, 127, 128, 129, 192, 257, 1023, 1024, 1025, 8192}) {
        const double now = attending("window:" + std::to_string(window), 65536, 8, schedule, pass);
        EXPECT_GE(now, 0.97 * before) << schedule << " " << window;
        before = now;
      }
    }
    EXPECT_NEAR(attending("window:128", 65536, 8, "zigzag", pass) /
                    attending("window:128", 65536, 8, "ring", pass),
                1, pass == Pass::Forward ? 0.15 : 0.25);
  }
}

}  // namespace
}  // namespace ringsched
