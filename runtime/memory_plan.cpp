#include "ringsched/runtime/memory_plan.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "ringsched/scheduler/lifetimes.hpp"

namespace ringsched {

namespace {

// One or more tensors, each made in the place of the one before.
struct Block {
  std::int64_t bytes = 0;
  Lifetime life;
  std::int64_t offset = 0;

  friend auto operator<=>(const Block&, const Block&) = default;
};

bool meet(Lifetime a, Lifetime b) { return a.from < b.until && b.from < a.until; }

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

// Where a block may lie beside others that live with it: against a neighbour, or an end.
struct Candidate {
  std::int64_t offset = 0;
  std::uint32_t neighbour_until = 0;  // how long that stays
  std::int64_t gap = 0;
};

// Fills memory of `room` bytes in the order of time, each block against the neighbour that stays
// longest, so that what is free stays in one piece. What does not fit comes on top.
std::int64_t place(std::vector<Block>& blocks, const std::vector<std::uint32_t>& order,
                   std::int64_t room) {
  std::vector<const Block*> placed;  // by offset
  std::int64_t size = 0;
  for (const std::uint32_t i : order) {
    Block& block = blocks[i];
    std::vector<Candidate> candidates;
    std::int64_t free_from = 0;
    std::uint32_t below_until = Lifetime::kAlways;
    const auto offer = [&](std::int64_t free_to, std::uint32_t above_until) {
      const std::int64_t gap = free_to - free_from;
      if (gap < block.bytes) return;
      candidates.push_back({free_from, below_until, gap});
      candidates.push_back({free_to - block.bytes, above_until, gap});
    };
    for (const Block* other : placed) {
      if (!meet(block.life, other->life)) continue;
      offer(other->offset, other->life.until);
      const std::int64_t end = other->offset + other->bytes;
      if (end >= free_from) {
        free_from = end;
        below_until = other->life.until;
      }
    }
    offer(room, Lifetime::kAlways);
    if (candidates.empty()) candidates.push_back({std::max(free_from, room), 0, 0});
    block.offset = std::min_element(candidates.begin(), candidates.end(),
                                    [](const Candidate& x, const Candidate& y) {
                                      return std::tuple(~x.neighbour_until, x.gap, x.offset) <
                                             std::tuple(~y.neighbour_until, y.gap, y.offset);
                                    })
                       ->offset;
    size = std::max(size, block.offset + block.bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), &block,
                         [](const Block* x, const Block* y) { return x->offset < y->offset; }),
        &block);
  }
  return size;
}

// What lives at one time at the most.
std::int64_t least(const std::vector<Block>& blocks) {
  std::vector<std::pair<std::uint32_t, std::int64_t>> changes;
  for (const Block& b : blocks) {
    changes.emplace_back(b.life.from, b.bytes);
    changes.emplace_back(b.life.until, -b.bytes);
  }
  std::sort(changes.begin(), changes.end());  // what is freed comes before what is made
  std::int64_t now = 0, most = 0;
  for (const auto& [moment, bytes] : changes) most = std::max(most, now += bytes);
  return most;
}

// The order in which a rule places blocks: by time, backwards, the large first, the long-lived
// first.
constexpr int kRules = 4;

std::tuple<std::int64_t, std::int64_t, std::int64_t> rank(int rule, const Block& x) {
  const std::int64_t length = std::int64_t{x.life.until} - x.life.from;
  switch (rule) {
    case 0:
      return {x.life.from, -length, -x.bytes};
    case 1:
      return {-std::int64_t{x.life.until}, -length, -x.bytes};
    case 2:
      return {-x.bytes, x.life.from, -length};
    default:
      return {-length, -x.bytes, x.life.from};
  }
}

struct Packed {
  std::int64_t size = std::numeric_limits<std::int64_t>::max();
  std::vector<Block> blocks;
};

// No order packs every plan best, so some are tried, and those again with the blocks first that did
// not fit the time before. As often as does not take long, by the number of blocks.
void improve(Packed& best, std::vector<Block> blocks) {
  constexpr std::size_t kSteps = 1'000'000, kMostTries = 32;
  const std::size_t tries =
      std::clamp<std::size_t>(kSteps / (blocks.size() * blocks.size()), 1, kMostTries);
  const std::int64_t room = least(blocks);
  std::vector<std::uint32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0u);
  for (int rule = 0; rule < kRules; ++rule) {
    std::vector<std::uint32_t> misses(blocks.size());
    for (std::size_t n = 0; n < tries && best.size > room; ++n) {
      std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        if (misses[a] != misses[b]) return misses[a] > misses[b];
        return rank(rule, blocks[a]) < rank(rule, blocks[b]);
      });
      const std::int64_t size = place(blocks, order, room);
      if (size < best.size) best = {size, blocks};
      for (std::size_t b = 0; b < blocks.size(); ++b)
        misses[b] += blocks[b].offset + blocks[b].bytes > room;
    }
  }
}

// What is nearly as large as another takes as much, so that either fits where the other one was.
void make_alike(std::vector<Block>& blocks) {
  constexpr std::int64_t kNearly = 16;  // less by no more than one part of so many
  std::vector<Block*> by_size;
  for (Block& b : blocks) by_size.push_back(&b);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const Block* a, const Block* b) { return a->bytes > b->bytes; });
  std::int64_t largest = 0;
  for (Block* b : by_size) {
    if (b->bytes < largest - largest / kNearly || largest == 0) largest = b->bytes;
    b->bytes = largest;
  }
}

// Gives each block its place and returns the size of all.
std::int64_t pack(std::vector<Block>& blocks) {
  if (blocks.empty()) return 0;
  Packed best;
  improve(best, blocks);
  if (best.size > least(blocks)) {
    std::vector<Block> alike = blocks;
    make_alike(alike);
    improve(best, alike);
  }
  blocks = std::move(best.blocks);
  return best.size;
}

}  // namespace

MemoryPlan plan_memory(const Plan& plan) {
  std::vector<Lifetime> life = lifetimes(plan);
  constexpr std::uint32_t none = ~0u;
  std::vector<std::uint32_t> block_of(life.size(), none);  // within its worker's
  std::vector<std::vector<Block>> blocks(plan.problem.workers);
  const auto add = [&](TensorId t, const Tensor& tensor, Lifetime lives) {
    auto& own = blocks[tensor.worker.value];
    block_of[t.value] = static_cast<std::uint32_t>(own.size());
    own.push_back({aligned(plan.bytes(tensor.kind, tensor.region).value), lives, 0});
  };
  for (std::uint32_t t = 0; t < plan.initial.size(); ++t) add({t}, plan.tensor({t}), life[t]);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    for (std::uint32_t n = 0; n < outputs_of(task.kind); ++n) {
      const TensorId made = plan.output({id}, n);
      const Tensor tensor = plan.tensor(made);
      Lifetime lives = life[made.value];
      if (task.kind == TaskKind::Merge || task.kind == TaskKind::Reduce) {
        const TensorId into = task.inputs[0];
        const bool same = plan.tensor(into).region == task.region;
        if (same && plan.producer(into).valid() && life[into.value].until <= lives.from) {
          const std::uint32_t block = block_of[into.value];
          block_of[made.value] = block;
          blocks[task.worker_index][block].life.until = lives.until;
          continue;
        }
        // Read by others besides, or not ours to overwrite: beside it after all, and that is while
        // the task runs.
        if (same) lives.from -= 1;
      }
      add(made, tensor, lives);
    }
  }
  MemoryPlan out;
  std::map<std::vector<Block>, std::uint32_t> packed;  // many workers' blocks are alike
  for (std::uint32_t w = 0; w < blocks.size(); ++w) {
    const auto [alike, first] = packed.try_emplace(blocks[w], w);
    out.size.push_back(first ? Bytes{pack(blocks[w])} : out.size[alike->second]);
    if (!first) blocks[w] = blocks[alike->second];
  }
  out.offset.assign(life.size(), MemoryPlan::kNowhere);
  for (std::uint32_t t = 0; t < life.size(); ++t)
    if (block_of[t] != none)
      out.offset[t] = blocks[plan.tensor({t}).worker.value][block_of[t]].offset;
  return out;
}

}  // namespace ringsched
