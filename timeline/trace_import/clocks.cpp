// Hosts have different clocks. A message from a to b gives two conditions: it ends at b after it
// began at a, and, because sender and receiver meet, it ends at a after it began at b. If the
// clocks of the traces satisfy all conditions, they stay as they are.
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>

#include "matching.hpp"
#include "ringsched/scheduler/exchange.hpp"

namespace ringsched::trace_import {

namespace {

constexpr std::int64_t kMostApartNs = 400'000'000'000'000;  // four days
constexpr int kMostSweeps = 300;
constexpr std::int64_t kSettledPs = 1000;

// For pairs (a, b): the most by which the clock of b may be put ahead of that of a.
using Bounds = std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t>;

class Alignment {
 public:
  Alignment(const Plan& plan, const TaskTimes& times, std::vector<std::int64_t> raw, bool meet)
      : moves_(std::move(raw)) {
    for (std::uint32_t i = 0; i < plan.tasks.size(); ++i) {
      const Task& t = plan.tasks[i];
      if (!is_send(t.kind) || !t.peer.valid()) continue;
      const Task& r = plan.tasks[t.peer.value];
      const TaskTime &sent = times[i], &got = times[t.peer.value];
      if (!sent.known() || !got.known()) continue;
      before(t.worker_index, sent.start_ps, r.worker_index, got.end_ps);
      if (meet) before(r.worker_index, got.start_ps, t.worker_index, sent.end_ps);
    }
    for (const Exchange& e : plan.exchanges)
      if (waits_for_all(form_of(plan, e)))
        for (std::uint32_t i = e.first.value; i < e.end(); ++i)
          for (const std::uint32_t other : {e.first.value, i + 1 < e.end() ? i + 1 : e.first.value})
            exchanged(plan, times, i, other);
  }

  std::int64_t violation() const {
    std::int64_t worst = 0;
    for (const auto& [pair, most] : bounds_)
      worst = std::max(worst, moves_[pair.first] - moves_[pair.second] - most);
    return worst;
  }

  void solve() {
    spread();
    for (int sweep = 0; sweep < kMostSweeps; ++sweep)
      if (relax() < kSettledPs) break;
  }

  const std::vector<std::int64_t>& moves() const { return moves_; }

 private:
  static bool waits_for_all(ExchangeForm f) {
    return f == ExchangeForm::AllGather || f == ExchangeForm::AllToAll ||
           f == ExchangeForm::AllReduce || f == ExchangeForm::ReduceScatter;
  }

  void exchanged(const Plan& plan, const TaskTimes& times, std::uint32_t i, std::uint32_t j) {
    if (i == j || !times[i].known() || !times[j].known()) return;
    const std::uint32_t a = plan.tasks[i].worker_index, b = plan.tasks[j].worker_index;
    before(a, times[i].start_ps, b, times[j].end_ps);
    before(b, times[j].start_ps, a, times[i].end_ps);
  }

  // The moment `from` of worker a was before the moment `to` of worker b.
  void before(std::uint32_t a, std::int64_t from, std::uint32_t b, std::int64_t to) {
    const auto [at, added] = bounds_.try_emplace({a, b}, to - from);
    if (!added) at->second = std::min(at->second, to - from);
    if (added) near_.resize(moves_.size());
    if (added) near_[a].push_back(b), near_[b].push_back(a);
  }

  std::optional<std::int64_t> bound(std::uint32_t a, std::uint32_t b) const {
    const auto at = bounds_.find({a, b});
    return at == bounds_.end() ? std::nullopt : std::optional(at->second);
  }

  // From worker 0 on, each to the middle of what the messages with one neighbour allow.
  void spread() {
    if (near_.empty()) return;
    std::vector<bool> reached(moves_.size());
    for (std::uint32_t root = 0; root < moves_.size(); ++root) {
      if (reached[root]) continue;
      reached[root] = true;
      std::deque<std::uint32_t> todo{root};
      while (!todo.empty()) {
        const std::uint32_t a = todo.front();
        todo.pop_front();
        for (const std::uint32_t b : near_[a]) {
          if (reached[b]) continue;
          reached[b] = true;
          todo.push_back(b);
          // moves[b] is from moves[a] - least to moves[a] + most.
          const auto least = bound(a, b), most = bound(b, a);
          moves_[b] = moves_[a] + (least && most ? (*most - *least) / 2 : most ? *most : -*least);
        }
      }
    }
  }

  // Each but worker 0 to the middle of what all its neighbours allow; returns the largest step.
  std::int64_t relax() {
    std::int64_t largest = 0;
    for (std::uint32_t b = 1; b < moves_.size() && !near_.empty(); ++b) {
      std::optional<std::int64_t> low, high;
      for (const std::uint32_t a : near_[b]) {
        if (const auto least = bound(a, b))
          low = std::max(low.value_or(moves_[a] - *least), moves_[a] - *least);
        if (const auto most = bound(b, a))
          high = std::min(high.value_or(moves_[a] + *most), moves_[a] + *most);
      }
      std::int64_t to = moves_[b];
      if (low && high) {
        to = *low + (*high - *low) / 2;
      } else if (low) {
        to = std::max(to, *low);
      } else if (high) {
        to = std::min(to, *high);
      }
      largest = std::max(largest, std::abs(to - moves_[b]));
      moves_[b] = to;
    }
    return largest;
  }

  Bounds bounds_;
  std::vector<std::vector<std::uint32_t>> near_;
  std::vector<std::int64_t> moves_;
};

}  // namespace

Clocks align_clocks(const Plan& plan, const TaskTimes& times, std::span<const RankTrace> traces) {
  // What the clocks of the traces say; useless if they are years apart.
  std::vector<std::int64_t> raw(traces.size(), 0);
  const auto [first, last] = std::ranges::minmax(traces, {}, &RankTrace::origin_ns);
  const bool near = last.origin_ns - first.origin_ns < kMostApartNs;
  for (std::size_t w = 0; w < raw.size() && near; ++w)
    raw[w] = (traces[w].origin_ns - traces[0].origin_ns) * 1000;
  const bool one_clock =
      near && !traces[0].host.empty() &&
      std::ranges::all_of(traces, [&](const RankTrace& t) { return t.host == traces[0].host; });
  Clocks best{raw, 0, kNever};
  // A library may take a whole message before the receiver is there: then senders do not wait.
  for (const bool meet : {true, false}) {
    Alignment alignment(plan, times, raw, meet);
    if (alignment.violation() > 0 && !one_clock) alignment.solve();
    if (alignment.violation() < best.left_ps) best = {alignment.moves(), 0, alignment.violation()};
    if (best.left_ps == 0) break;
  }
  for (std::size_t w = 0; w < raw.size(); ++w)
    best.moved_ps = std::max(best.moved_ps, std::abs(best.moves_ps[w] - raw[w]));
  return best;
}

}  // namespace ringsched::trace_import
