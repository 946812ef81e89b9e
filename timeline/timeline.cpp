#include "ringsched/timeline/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ringsched/scheduler/exchange.hpp"

namespace ringsched {

namespace {

class Hash {
 public:
  void add(std::uint64_t x) {
    state_ ^= x + 0x9e3779b97f4a7c15u + (state_ << 6) + (state_ >> 2);
    state_ = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9u;
    state_ ^= state_ >> 27;
  }
  void add(std::string_view text) {
    add(text.size());
    for (const char c : text) add(static_cast<unsigned char>(c));
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x72696e6773636864u;
};

}  // namespace

std::string plan_hash(const Plan& plan) {
  Hash h;
  const Problem& p = plan.problem;
  for (const std::uint64_t x :
       {std::uint64_t{p.workers}, static_cast<std::uint64_t>(p.tokens.value),
        std::uint64_t{p.heads}, std::uint64_t{p.kv_heads}, std::uint64_t{p.head_dim}})
    h.add(x);
  h.add(to_text(p.dtype));
  h.add(to_text(p.mask));
  h.add(to_text(p.pass));
  if (p.decodes()) h.add(static_cast<std::uint64_t>(p.new_tokens.value));
  if (plan.dummy_heads > 0) h.add(std::uint64_t{plan.dummy_heads} << 32 | plan.dummy_kv_heads);
  h.add(plan.layout.chunks.size());
  for (const TokenRange& r : plan.layout.chunks) {
    h.add(static_cast<std::uint64_t>(r.start));
    h.add(static_cast<std::uint64_t>(r.stride));
    h.add(static_cast<std::uint64_t>(r.count));
  }
  h.add(0);
  for (const Region& share : plan.layout.shares) h.add(share.end());
  const auto region = [&](RegionId id) {
    const Region r = plan.regions[id.value];
    return std::uint64_t{r.first.value} << 32 | r.count;
  };
  const auto add_piece = [&](const Piece& x) {
    if (x.columns == plan.program[x.value].all_columns()) return;
    h.add(std::uint64_t{x.columns.first} << 32 | x.columns.count);
  };
  for (std::size_t l = kBasicLanes.size(); l < plan.lanes.size(); ++l) h.add(plan.lanes[l]);
  h.add(plan.initial.size());
  for (const InitialTensor& t : plan.initial) {
    add_piece(plan.piece(t));
    h.add(std::uint64_t{plan.piece(t).value.value} << 32 | t.worker.value);
    h.add(region(plan.piece(t).rows));
  }
  h.add(plan.tasks.size());
  for (const Task& t : plan.tasks) {
    const Piece& piece = plan.piece(t);
    const auto lane = static_cast<std::uint8_t>(t.lane);
    add_piece(piece);
    if (lane >= kBasicLanes.size()) h.add(lane);
    h.add(static_cast<std::uint64_t>(t.kind) | std::uint64_t{piece.value.value} << 4 |
          std::uint64_t{std::min<std::uint8_t>(lane, kBasicLanes.size())} << 8 |
          static_cast<std::uint64_t>(t.with_previous) << 10 | std::uint64_t{t.worker_index} << 11 |
          std::uint64_t{t.step} << 32);
    h.add(region(piece.rows));
    h.add(is_attend(t.kind)     ? region(t.keys)
          : is_transfer(t.kind) ? t.peer.value
          : is_member(t.kind)   ? t.exchange.value
                                : 0);
    for (const TensorId input : t.inputs) h.add(input.value);
  }
  for (const ControlEdge& e : plan.controls)
    h.add(std::uint64_t{e.before.value} << 32 | e.after.value);
  h.add(plan.controls.size());
  for (const BufferSlot& s : plan.slots) h.add(std::uint64_t{s.receive.value} << 32 | s.slot);
  return fmt::format("{:016x}", h.value());
}

Picoseconds Timeline::makespan() const {
  std::int64_t last = 0;
  for (const TimelineTask& t : tasks) last = std::max(last, t.end_ps);
  return {last};
}

const TaskSpan* Timeline::span(std::uint32_t task) const {
  const auto at = std::ranges::lower_bound(spans, TaskId{task}, {}, &TaskSpan::task);
  return at != spans.end() && at->task.value == task ? &*at : nullptr;
}

const TaskPart* Timeline::part(std::uint32_t task) const {
  const auto at = std::ranges::lower_bound(parts, TaskId{task}, {}, &TaskPart::task);
  return at != parts.end() && at->task.value == task ? &*at : nullptr;
}

const TimelineExchange* Timeline::exchange(std::uint32_t task) const {
  const auto after =
      std::ranges::upper_bound(exchanges, TaskId{task}, {}, &TimelineExchange::first);
  if (after == exchanges.begin() || task >= std::prev(after)->end()) return nullptr;
  return &*std::prev(after);
}

namespace {

// The workers that a region is at home on, from the lowest to the highest; perhaps not all between.
struct Homes {
  std::uint16_t first = 0, last = 0;
  std::uint16_t every = 1;  // 0: not evenly apart
  Region rows;
  ChunksOfShare chunks;  // if there is only one

  std::uint16_t seen_from(const Layout& layout, std::uint16_t worker) const {
    if (worker < first || worker > last) return first;
    const Region share = layout.share({worker});
    return share.first.value < rows.end() && rows.first.value < share.end() ? worker : first;
  }
};

std::vector<Homes> homes_of_regions(const Plan& plan) {
  std::vector<Homes> out;
  for (const Region r : plan.regions) {
    std::vector<std::uint16_t> workers;
    std::uint32_t c = r.first.value;
    do {
      const WorkerId owner = plan.layout.owner({c});
      workers.push_back(static_cast<std::uint16_t>(owner.value));
      c = plan.layout.share(owner).end();
    } while (c < r.end());
    std::ranges::sort(workers);
    Homes homes{workers.front(), workers.back(), 1, r, {}};
    const Region share = plan.layout.share(plan.layout.owner(r.first));
    if (r.count > 0 && r != share && share.contains(r))
      homes.chunks = {r.first.value - share.first.value, r.end() - 1 - share.first.value};
    for (std::size_t i = 1; i < workers.size(); ++i) {
      const auto apart = static_cast<std::uint16_t>(workers[i] - workers[i - 1]);
      homes.every = i == 1 || apart == homes.every ? apart : std::uint16_t{0};
    }
    out.push_back(homes);
  }
  return out;
}

void add_span(const Plan& plan, TaskId id, Homes queries, Homes other, Timeline& out) {
  const Task& t = plan.tasks[id.value];
  const ColumnRange heads = plan.piece(t).columns;
  const bool gets_nothing = plan.regions[plan.rows(t).value].count == 0;
  if (gets_nothing || (queries.first == queries.last && other.first == other.last &&
                       heads == plan.program[plan.value(t)].all_columns()))
    return;
  out.spans.push_back({id,
                       {queries.first, queries.last},
                       {other.first, other.last},
                       heads,
                       {queries.every, other.every}});
}

void add_part(TaskId id, ChunksOfShare queries, ChunksOfShare keys, Timeline& out) {
  if (!queries.are_all() || !keys.are_all()) out.parts.push_back({id, queries, keys});
}

// Of what each task makes; few pieces are distinct.
class MadeBytes {
 public:
  explicit MadeBytes(const Plan& plan) : plan_(plan), known_(plan.pieces.size(), Bytes{-1}) {}
  Bytes of(TaskId id) {
    const Task& t = plan_.tasks[id.value];
    if (outputs_of(t.kind) == 0 && !is_transfer(t.kind)) return {};
    return outputs_of(t.kind) > 1 ? capped_sum(of(t.piece), second_of(id)) : of(t.piece);
  }
  // Of the second tensor of a task that makes two.
  Bytes second_of(TaskId id) const {
    return plan_.bytes(plan_.second_piece(plan_.tasks[id.value]));
  }
  Bytes of(PieceId piece) {
    Bytes& known = known_[piece.value];
    if (known.value < 0) known = plan_.bytes(plan_.pieces[piece.value]);
    return known;
  }

 private:
  const Plan& plan_;
  std::vector<Bytes> known_;
};

void add_details(const Plan& plan, Timeline& out) {
  MadeBytes bytes(plan);
  out.details.resize(plan.tasks.size());
  for (std::uint32_t i = 0; i < plan.tasks.size(); ++i) {
    const Task& t = plan.tasks[i];
    TaskDetail& d = out.details[i];
    if (is_attend(t.kind)) d.pairs = plan.works[t.work.value].pairs;
    d.bytes = bytes.of(TaskId{i});
    if (outputs_of(t.kind) > 1) out.gradients.push_back({{i}, bytes.second_of({i})});
    if (is_receive(t.kind)) {
      d.needs[0] = t.peer;
      continue;
    }
    std::size_t known = 0;
    for (const TensorId input : t.inputs)
      if (input.valid() && plan.producer(input).valid()) d.needs[known++] = plan.producer(input);
  }
  out.initial.resize(plan.problem.workers);
  for (const InitialTensor& t : plan.initial) {
    Bytes& sum = out.initial[t.worker.value];
    sum = capped_sum(sum, bytes.of(t.piece));
  }
}

}  // namespace

Timeline timeline_of(const Plan& plan, TimelineSource source, std::string_view machine) {
  Timeline out;
  out.source = source;
  out.program = "ringsched " RINGSCHED_VERSION;
  out.machine = machine;
  out.schedule = plan.schedule;
  out.plan_hash = plan_hash(plan);
  out.problem = plan.problem;
  out.values = plan.program.values;
  out.lanes = plan.lanes;
  out.tasks.resize(plan.tasks.size());
  const std::vector<Homes> homes = homes_of_regions(plan);
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const Task& t = plan.tasks[i];
    TimelineTask& row = out.tasks[i];
    row.kind = t.kind;
    row.makes = plan.value(t);
    row.lane = t.lane;
    row.worker = t.worker_index;
    row.step = t.step;
    const Homes queries = homes[plan.rows(t).value];
    const Homes other = is_attend(t.kind) ? homes[t.keys.value] : queries;
    row.queries = is_attend(t.kind) && plan.has_own_queries(t)
                      ? row.worker
                      : queries.seen_from(plan.layout, row.worker);
    add_span(plan, {static_cast<std::uint32_t>(i)}, queries, other, out);
    // Where it is named after its worker instead of the owner, a part would be of that worker.
    const bool as_owned =
        (!out.spans.empty() && out.spans.back().task.value == i) || row.queries == queries.first;
    add_part({static_cast<std::uint32_t>(i)},
             as_owned && !plan.problem.decodes() ? queries.chunks : ChunksOfShare{},
             is_attend(t.kind) ? other.chunks : ChunksOfShare{}, out);
    row.other = is_attend(t.kind)                       ? other.seen_from(plan.layout, row.worker)
                : is_transfer(t.kind) && t.peer.valid() ? plan.tasks[t.peer.value].worker_index
                : is_exchange(t.kind) ? plan.tasks[plan.exchange(t).first.value].worker_index
                                      : row.queries;
  }
  for (const Exchange& e : plan.exchanges)
    out.exchanges.push_back({e.first, e.members, form_of(plan, e)});
  add_details(plan, out);
  return out;
}

std::string homes_text(std::array<std::uint16_t, 2> ends, std::uint16_t every) {
  const auto [first, last] = ends;
  if (first == last) return fmt::format("{}", first);
  if (every == 0) return fmt::format("{}..{}", first, last);
  if (every == 1) return fmt::format("{}-{}", first, last);
  if (last - first == every) return fmt::format("{}+{}", first, last);
  return fmt::format("{}-{}/{}", first, last, every);
}

std::string_view to_text(TimelineSource source) {
  static constexpr std::string_view names[] = {"predicted", "measured", "emulated"};
  return names[static_cast<std::size_t>(source)];
}

std::string_view to_text(StartedBy cause) {
  static constexpr std::string_view names[kStartedBy] = {"nothing", "data",   "lane",
                                                         "buffers", "kernel", "host"};
  return names[static_cast<std::size_t>(cause)];
}

}  // namespace ringsched
