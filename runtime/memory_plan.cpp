#include "ringsched/runtime/memory_plan.hpp"

#include <algorithm>
#include <limits>
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

// No order packs every plan best, so some are tried: by time, backwards, backwards, the large
// first, the long-lived first.
std::int64_t pack(std::vector<Block>& blocks) {
  const std::int64_t bound = least(blocks);
  std::vector<std::uint32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0u);
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  const auto length = [](const Block& b) { return std::int64_t{b.life.until} - b.life.from; };
  const auto key = [&](int rule, const Block& x) -> Key {
    switch (rule) {
      case 0:
        return {x.life.from, -length(x), -x.bytes};
      case 1:
        return {-std::int64_t{x.life.until}, -length(x), -x.bytes};
      case 2:
        return {-x.bytes, x.life.from, -length(x)};
      default:
        return {-length(x), -x.bytes, x.life.from};
    }
  };
  std::vector<Block> best;
  std::int64_t size = std::numeric_limits<std::int64_t>::max();
  for (int rule = 0; rule < 4 && size > bound; ++rule) {
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return key(rule, blocks[a]) < key(rule, blocks[b]);
    });
    const std::int64_t takes = place(blocks, order, bound);
    if (takes >= size) continue;
    size = takes;
    best = blocks;
  }
  blocks = std::move(best);
  return blocks.empty() ? 0 : size;
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
  for (auto& own : blocks) out.size.push_back({pack(own)});
  out.offset.assign(life.size(), MemoryPlan::kNowhere);
  for (std::uint32_t t = 0; t < life.size(); ++t)
    if (block_of[t] != none)
      out.offset[t] = blocks[plan.tensor({t}).worker.value][block_of[t]].offset;
  return out;
}

}  // namespace ringsched
