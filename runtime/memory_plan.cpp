#include "ringsched/runtime/memory_plan.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/lifetimes.hpp"

namespace ringsched {

namespace {

// One or more tensors, each made in the place of the previous one.
struct Block {
  std::int64_t bytes = 0;
  Lifetime life;
  std::int64_t offset = 0;

  friend auto operator<=>(const Block&, const Block&) = default;
};

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

// For each block the others that live while it does: it must not share bytes with them.
class Neighbours {
 public:
  explicit Neighbours(const std::vector<Block>& blocks) : of_(blocks.size()) {
    std::vector<std::uint32_t> by_time(blocks.size()), alive;
    std::iota(by_time.begin(), by_time.end(), 0u);
    std::sort(by_time.begin(), by_time.end(), [&](std::uint32_t a, std::uint32_t b) {
      return blocks[a].life.from < blocks[b].life.from;
    });
    for (const std::uint32_t b : by_time) {
      std::erase_if(alive, [&](std::uint32_t other) {
        return blocks[other].life.until <= blocks[b].life.from;
      });
      for (const std::uint32_t other : alive) {
        of_[b].push_back(other);
        of_[other].push_back(b);
      }
      pairs_ += alive.size();
      alive.push_back(b);
    }
  }
  const std::vector<std::uint32_t>& operator[](std::uint32_t b) const { return of_[b]; }
  std::size_t pairs() const { return pairs_; }

 private:
  std::vector<std::vector<std::uint32_t>> of_;
  std::size_t pairs_ = 0;
};

// Where a block may lie beside others that live with it: against a neighbour, or an end.
struct Candidate {
  std::int64_t offset = 0;
  std::uint32_t neighbour_until = 0;  // how long that stays
  std::int64_t gap = 0;
};

// Where `block` goes in memory of `room` bytes beside the blocks already there, by offset: against
// the neighbour that stays longest, so that free memory stays in one piece. If it does not fit, it
// goes on top.
std::int64_t offset_beside(const std::vector<const Block*>& lying, const Block& block,
                           std::int64_t room) {
  std::optional<Candidate> best;
  std::int64_t free_from = 0;
  std::uint32_t below_until = Lifetime::kAlways;
  const auto consider = [&](const Candidate& c) {
    const auto rank = [](const Candidate& x) {
      return std::tuple(~x.neighbour_until, x.gap, x.offset);
    };
    if (!best || rank(c) < rank(*best)) best = c;
  };
  const auto offer = [&](std::int64_t free_to, std::uint32_t above_until) {
    const std::int64_t gap = free_to - free_from;
    if (gap < block.bytes) return;
    consider({free_from, below_until, gap});
    consider({free_to - block.bytes, above_until, gap});
  };
  for (const Block* other : lying) {
    offer(other->offset, other->life.until);
    const std::int64_t end = other->offset + other->bytes;
    if (end < free_from) continue;
    free_from = end;
    below_until = other->life.until;
  }
  offer(room, Lifetime::kAlways);
  return best ? best->offset : std::max(free_from, room);
}

// Places the blocks one after the other, and returns the total size.
std::int64_t place(std::vector<Block>& blocks, const Neighbours& neighbours,
                   const std::vector<std::uint32_t>& order, std::int64_t room) {
  std::vector<bool> placed(blocks.size());
  std::vector<const Block*> lying;
  std::int64_t size = 0;
  for (const std::uint32_t b : order) {
    lying.clear();
    for (const std::uint32_t other : neighbours[b])
      if (placed[other]) lying.push_back(&blocks[other]);
    std::sort(lying.begin(), lying.end(),
              [](const Block* x, const Block* y) { return x->offset < y->offset; });
    blocks[b].offset = offset_beside(lying, blocks[b], room);
    placed[b] = true;
    size = std::max(size, blocks[b].offset + blocks[b].bytes);
  }
  return size;
}

// The most that lives at one time.
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

enum class Order { ByTime, LongLivedFirst };

std::tuple<std::int64_t, std::int64_t, std::int64_t> rank(Order by, const Block& x) {
  const std::int64_t length = std::int64_t{x.life.until} - x.life.from;
  if (by == Order::ByTime) return {x.life.from, -length, -x.bytes};
  return {-length, -x.bytes, x.life.from};
}

struct Packed {
  std::int64_t size = std::numeric_limits<std::int64_t>::max();
  std::vector<Block> blocks;
  std::int64_t looks = 0;
};

// No order packs every plan best. So we try two, and each again with the blocks first that did not
// fit.
void improve(Packed& best, std::vector<Block> blocks, const Neighbours& neighbours, int tries) {
  const std::int64_t room = least(blocks);
  std::vector<std::uint32_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0u);
  for (const Order by : {Order::ByTime, Order::LongLivedFirst}) {
    std::vector<std::uint32_t> misses(blocks.size());
    for (int n = 0; n < tries && best.size > room; ++n) {
      std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        if (misses[a] != misses[b]) return misses[a] > misses[b];
        return rank(by, blocks[a]) < rank(by, blocks[b]);
      });
      const std::int64_t size = place(blocks, neighbours, order, room);
      best.looks += static_cast<std::int64_t>(neighbours.pairs());
      if (size < best.size) best = {size, blocks, best.looks};
      for (std::size_t b = 0; b < blocks.size(); ++b)
        misses[b] += blocks[b].offset + blocks[b].bytes > room;
    }
  }
}

// A block nearly as large as another takes as much, so that either fits in the other's place.
void make_alike(std::vector<Block>& blocks) {
  constexpr std::int64_t kNearly = 16;  // less by at most a sixteenth
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

// A try checks each pair of blocks that live at one time. Small plans get many tries, a large one
// gets one: all tries together take the time of kPairs checks, or of one try.
int tries_for(std::size_t pairs, std::size_t workers) {
  constexpr std::size_t kPairs = 4'000'000, kMostTries = 64;
  return static_cast<int>(std::clamp<std::size_t>(kPairs / (pairs * workers + 1), 1, kMostTries));
}

// Gives each block its place.
Packed pack(const std::vector<Block>& blocks, std::size_t workers) {
  if (blocks.empty()) return {0, {}};
  const Neighbours neighbours(blocks);
  const int tries = tries_for(neighbours.pairs(), workers);
  Packed best;
  improve(best, blocks, neighbours, tries);
  if (best.size > least(blocks)) {
    std::vector<Block> alike = blocks;
    make_alike(alike);
    improve(best, alike, neighbours, tries);
  }
  return best;
}

struct Staged {
  std::vector<TaskId> tasks;
  std::vector<Bytes> bytes;
  void add(TaskId id, Bytes size) {
    if (size.value == 0) return;
    tasks.push_back(id);
    bytes.push_back(size);
  }
};

// What transfers need while they run: members of exchanges, and sends of some columns of a tensor.
Staged staged(const Plan& plan) {
  Staged out;
  for (const Exchange& e : plan.exchanges) {
    const std::vector<Staging> staging = staging_of(plan, e, shares_of(plan, e));
    for (std::uint32_t m = 0; m < e.members; ++m)
      out.add({e.first.value + m}, staging[m].given + staging[m].got);
  }
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    if (is_send(task.kind) && plan.tensor(task.inputs[0]).columns != plan.piece(task).columns)
      out.add({id}, plan.bytes(plan.piece(task)));
  }
  return out;
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
    own.push_back(
        {aligned(plan.bytes(Piece{tensor.value, tensor.rows, tensor.columns}).value), lives, 0});
  };
  for (std::uint32_t t = 0; t < plan.initial.size(); ++t) add({t}, plan.tensor({t}), life[t]);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    for (std::uint32_t n = 0; n < outputs_of(task.kind); ++n) {
      const TensorId made = plan.output({id}, n);
      const Tensor tensor = plan.tensor(made);
      Lifetime lives = life[made.value];
      if (operation(task.kind).overwrites != Operation::kNone) {
        const TensorId into = task.inputs[operation(task.kind).overwrites];
        const bool same = plan.tensor(into).rows == plan.rows(task);
        if (same && plan.producer(into).valid() && life[into.value].until <= lives.from) {
          const std::uint32_t block = block_of[into.value];
          block_of[made.value] = block;
          blocks[task.worker_index][block].life.until = lives.until;
          continue;
        }
        // If other tasks read the input too, or it is not ours to overwrite, the result needs its
        // own place while the task runs.
        if (same) lives.from -= 1;
      }
      add(made, tensor, lives);
    }
  }
  const Staged stage = staged(plan);
  const std::vector<Lifetime> while_staged =
      stage.tasks.empty() ? std::vector<Lifetime>{} : lifetimes_while(plan, stage.tasks);
  std::vector<std::size_t> staged_in;  // by staged task, the number of its block
  for (std::size_t i = 0; i < stage.tasks.size(); ++i) {
    auto& own = blocks[plan.tasks[stage.tasks[i].value].worker_index];
    staged_in.push_back(own.size());
    own.push_back({aligned(stage.bytes[i].value), while_staged[i], 0});
  }
  MemoryPlan out;
  std::map<std::vector<Block>, std::uint32_t> packed;  // many workers' blocks are alike
  for (std::uint32_t w = 0; w < blocks.size(); ++w) {
    const auto [alike, first] = packed.try_emplace(blocks[w], w);
    if (first) {
      Packed best = pack(blocks[w], blocks.size());
      out.size.push_back({best.size});
      out.looks += best.looks;
      blocks[w] = std::move(best.blocks);
    } else {
      out.size.push_back(out.size[alike->second]);
      blocks[w] = blocks[alike->second];
    }
  }
  out.offset.assign(life.size(), MemoryPlan::kNowhere);
  for (std::uint32_t t = 0; t < life.size(); ++t)
    if (block_of[t] != none)
      out.offset[t] = blocks[plan.tensor({t}).worker.value][block_of[t]].offset;
  for (std::size_t i = 0; i < stage.tasks.size(); ++i) {
    const std::uint32_t id = stage.tasks[i].value;
    out.staging[id] = blocks[plan.tasks[id].worker_index][staged_in[i]].offset;
  }
  return out;
}

}  // namespace ringsched
