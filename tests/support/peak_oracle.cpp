#include "support/peak_oracle.hpp"

#include <algorithm>
#include <limits>
#include <queue>
#include <stdexcept>

namespace ringsched {

namespace {

// The largest sum of weights of a set of events that contains with each event all that come before
// it: a minimal cut, by shortest augmenting paths.
class Closure {
 public:
  explicit Closure(std::size_t events) : edges_(events + 2) {}

  void weigh(std::size_t event, std::int64_t weight) {
    if (weight > 0) {
      gain_ += weight;
      add(source(), event, weight);
    } else if (weight < 0) {
      add(event, sink(), -weight);
    }
  }
  void needs(std::size_t event, std::size_t before) { add(event, before, kUnlimited); }
  std::int64_t largest() {
    std::int64_t cut = 0;
    while (const std::int64_t more = augment()) cut += more;
    return gain_ - cut;
  }

 private:
  // More than all weights together, and far from overflow when flow is added to it.
  static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max() / 4;
  struct Edge {
    std::size_t to, back;
    std::int64_t room;
  };
  std::size_t source() const { return edges_.size() - 2; }
  std::size_t sink() const { return edges_.size() - 1; }
  void add(std::size_t from, std::size_t to, std::int64_t room) {
    edges_[from].push_back({to, edges_[to].size(), room});
    edges_[to].push_back({from, edges_[from].size() - 1, 0});
  }
  std::int64_t augment() {
    std::vector<Edge*> came(edges_.size(), nullptr);
    std::vector<std::size_t> from(edges_.size());
    std::queue<std::size_t> next;
    next.push(source());
    while (!next.empty() && came[sink()] == nullptr) {
      const std::size_t at = next.front();
      next.pop();
      for (Edge& e : edges_[at])
        if (e.room > 0 && came[e.to] == nullptr && e.to != source()) {
          came[e.to] = &e;
          from[e.to] = at;
          next.push(e.to);
        }
    }
    if (came[sink()] == nullptr) return 0;
    std::int64_t room = kUnlimited;
    for (std::size_t at = sink(); at != source(); at = from[at])
      room = std::min(room, came[at]->room);
    for (std::size_t at = sink(); at != source(); at = from[at]) {
      came[at]->room -= room;
      Edge& back = edges_[at][came[at]->back];
      back.room += room;
    }
    return room;
  }

  std::vector<std::vector<Edge>> edges_;
  std::int64_t gain_ = 0;
};

struct Held {
  std::int64_t bytes = 0;
  std::size_t from = 0;           // the event at which it takes its place
  std::vector<std::size_t> ends;  // it is free once all of these have happened; none: never
};

class Oracle {
 public:
  explicit Oracle(const Plan& plan) : plan_(plan), n_(plan.tasks.size()), before_(2 * n_) {
    find_groups();
    find_order();
  }

  std::int64_t most(std::uint32_t worker) const {
    std::int64_t always = 0;
    for (const InitialTensor& t : plan_.initial)
      if (t.worker.value == worker) always += plan_.bytes(plan_.piece(t)).value;
    std::vector<Held> held = tensors(worker);
    std::vector<std::size_t> choice(held.size(), 0);
    std::int64_t best = 0;
    // Each tensor with several last readers outlives all but one of them: every choice is tried.
    for (;;) {
      best = std::max(best, most_held(held, choice));
      std::size_t i = 0;
      while (i < held.size() && (held[i].ends.empty() || ++choice[i] == held[i].ends.size()))
        choice[i++] = 0;
      if (i == held.size()) return always + best;
    }
  }

 private:
  std::size_t start(std::size_t task) const { return 2 * group_[task]; }
  std::size_t end(std::size_t task) const { return 2 * group_[task] + 1; }

  void find_groups() {
    std::vector<std::size_t> last(plan_.problem.workers * plan_.lane_count(), n_);
    previous_.assign(n_, n_);
    for (std::size_t id = 0; id < n_; ++id) {
      const Task& t = plan_.tasks[id];
      std::size_t& group =
          last[t.worker_index * plan_.lane_count() + static_cast<std::size_t>(t.lane)];
      if (!t.with_previous) {
        previous_[id] = group;
        group = id;
      }
      group_.push_back(group);
    }
  }

  // before_[e][f]: event f comes before event e. Filled until nothing changes.
  void find_order() {
    std::vector<std::vector<std::size_t>> direct(2 * n_);
    for (std::size_t id = 0; id < n_; ++id) {
      const Task& t = plan_.tasks[id];
      direct[end(id)].push_back(start(id));
      if (previous_[id] != n_) direct[start(id)].push_back(end(previous_[id]));
      for (const TensorId input : t.inputs)
        if (input.valid() && plan_.producer(input).valid())
          direct[start(id)].push_back(end(plan_.producer(input).value));
      if (is_transfer(t.kind)) direct[end(id)].push_back(start(t.peer.value));
      for (std::size_t m = 0; m < n_ && is_exchange(t.kind); ++m)
        if (are_of_one_exchange(t, plan_.tasks[m])) direct[end(id)].push_back(start(m));
    }
    for (const ControlEdge& e : plan_.controls)
      direct[start(e.after.value)].push_back(end(e.before.value));
    for (auto& row : before_) row.assign(2 * n_, false);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t e = 0; e < 2 * n_; ++e)
        for (const std::size_t d : direct[e])
          for (std::size_t f = 0; f < 2 * n_; ++f)
            if ((f == d || before_[d][f]) && !before_[e][f]) before_[e][f] = changed = true;
    }
    direct_ = std::move(direct);
  }

  std::vector<Held> tensors(std::uint32_t worker) const {
    std::vector<Held> out;
    for (std::uint32_t id = 0; id < n_; ++id) {
      const Task& t = plan_.tasks[id];
      if (t.worker_index != worker) continue;
      for (std::uint32_t i = 0; i < outputs_of(t.kind); ++i) {
        const TensorId made = plan_.output({id}, i);
        const Tensor tensor = plan_.tensor(made);
        const bool in_place = (t.kind == TaskKind::Merge || t.kind == TaskKind::Reduce) &&
                              plan_.tensor(t.inputs[0]).rows == plan_.rows(t);
        Held h{plan_.bytes(Piece{tensor.value, tensor.rows, tensor.columns}).value,
               in_place ? end(id) : start(id),
               {}};
        bool kept = false;
        for (std::size_t r = 0; r < n_; ++r)
          for (const TensorId input : plan_.tasks[r].inputs)
            if (input == made) {
              kept = kept || plan_.tasks[r].kind == TaskKind::Output;
              h.ends.push_back(end(r));
            }
        if (kept) h.ends.clear();
        keep_last(h.ends);
        out.push_back(std::move(h));
      }
      if (is_exchange(t.kind)) out.push_back({staging(id), start(id), {end(id)}});
    }
    return out;
  }

  static bool are_of_one_exchange(const Task& a, const Task& b) {
    return is_exchange(a.kind) && is_exchange(b.kind) && a.exchange == b.exchange;
  }

  // What a member gives to others, and gets from them, beside its tensors: whatever has not all
  // columns there is gathered or spread, and parts that are added up come in first.
  std::int64_t staging(std::uint32_t member) const {
    const Task& t = plan_.tasks[member];
    std::int64_t bytes = 0;
    for (std::uint32_t other = 0; other < n_; ++other) {
      if (other == member || !are_of_one_exchange(t, plan_.tasks[other])) continue;
      bytes += staged(member, other, false) + staged(other, member, true);
    }
    return bytes;
  }
  std::int64_t staged(std::uint32_t from, std::uint32_t to, bool at_getter) const {
    const TensorId input = plan_.tasks[from].inputs[0];
    if (!input.valid()) return 0;
    const Tensor given = plan_.tensor(input);
    const Piece& got = plan_.piece(plan_.tasks[to]);
    std::int64_t tokens = 0;
    std::uint32_t columns = 0;
    for (std::uint32_t c = 0; c < plan_.layout.chunks.size(); ++c)
      if (plan_.regions[given.rows.value].contains({{c}, 1}) &&
          plan_.regions[got.rows.value].contains({{c}, 1}))
        tokens += plan_.layout.chunks[c].count;
    for (std::uint32_t c = 0; c < plan_.program[given.value].columns.count; ++c)
      columns += given.columns.contains({c, 1}) && got.columns.contains({c, 1});
    const bool whole = columns == (at_getter ? got.columns : given.columns).count;
    if (whole && (!at_getter || given.complete)) return 0;
    return plan_.program.bytes(given.value, {tokens}, columns).value;
  }

  void keep_last(std::vector<std::size_t>& ends) const {
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    std::vector<std::size_t> last;
    for (const std::size_t e : ends)
      if (std::none_of(ends.begin(), ends.end(), [&](std::size_t f) { return before_[f][e]; }))
        last.push_back(e);
    ends = last;
  }

  std::int64_t most_held(const std::vector<Held>& held,
                         const std::vector<std::size_t>& choice) const {
    Closure closure(2 * n_);
    for (std::size_t e = 0; e < 2 * n_; ++e)
      for (const std::size_t d : direct_[e]) closure.needs(e, d);
    std::vector<std::int64_t> weight(2 * n_);
    for (std::size_t i = 0; i < held.size(); ++i) {
      weight[held[i].from] += held[i].bytes;
      if (!held[i].ends.empty()) weight[held[i].ends[choice[i]]] -= held[i].bytes;
    }
    for (std::size_t e = 0; e < 2 * n_; ++e) closure.weigh(e, weight[e]);
    return closure.largest();
  }

  const Plan& plan_;
  std::size_t n_;
  std::vector<std::size_t> group_, previous_;
  std::vector<std::vector<bool>> before_;
  std::vector<std::vector<std::size_t>> direct_;
};

}  // namespace

std::vector<std::int64_t> most_memory(const Plan& plan) {
  const Oracle oracle(plan);
  std::vector<std::int64_t> out;
  for (std::uint32_t w = 0; w < plan.problem.workers; ++w) out.push_back(oracle.most(w));
  return out;
}

}  // namespace ringsched
