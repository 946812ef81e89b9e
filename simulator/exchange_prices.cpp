#include "exchange_prices.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <queue>
#include <utility>

#include "engines.hpp"
#include "ringsched/scheduler/exchange.hpp"

namespace ringsched {

namespace {

bool is_ring(ExchangeForm f) {
  return f == ExchangeForm::AllGather || f == ExchangeForm::Broadcast ||
         f == ExchangeForm::ReduceScatter || f == ExchangeForm::Reduce ||
         f == ExchangeForm::AllReduce;
}

// Runs flows that have the network to themselves.
class Alone {
 public:
  Alone(const Network& network, std::uint32_t devices) : network_(network, devices) {}

  // How long until the first of these groups has arrived, when all set out at once: ps.
  std::int64_t ps(const std::vector<const std::vector<ExchangeFlow>*>& groups) {
    const std::int64_t begin = now_;
    std::int64_t end = begin;
    std::uint32_t count = 0, open = 0;
    for (const auto* flows : groups)
      for (const ExchangeFlow& f : *flows) {
        const std::uint32_t number = count++;
        if (!moves(f)) continue;
        network_.start(number, f.route, copying_of(f), f.bytes, now_);
        ++open;
      }
    while (open > 0) {
      settle();
      const FairShare::Due due = due_.top();
      due_.pop();
      if (!network_.current(due)) continue;
      now_ = due.at;
      ended_.clear();
      network_.finished(due, now_, ended_);
      for (const std::uint32_t f : ended_)
        if (f < groups[0]->size()) end = now_;
      open -= static_cast<std::uint32_t>(ended_.size());
    }
    settle();
    due_ = {};
    return end - begin;
  }

 private:
  // What ends at one instant ends before anything goes on.
  void settle() {
    if (!due_.empty() && due_.top().at == now_) return;
    network_.solve(now_);
    for (const FairShare::Due& d : network_.due()) due_.push(d);
    network_.due().clear();
  }
  struct Later {
    bool operator()(const FairShare::Due& a, const FairShare::Due& b) const { return a.at > b.at; }
  };

  FairShare network_;
  std::int64_t now_ = 0;
  std::priority_queue<FairShare::Due, std::vector<FairShare::Due>, Later> due_;
  std::vector<std::uint32_t> ended_;
};

// What one exchange is, apart from any machine.
struct Pattern {
  const Plan& plan;
  const Exchange& exchange;
  ExchangeForm form;
  std::vector<Share> shares;
  std::vector<double> out, in;  // by member, bytes to and from others

  Pattern(const Plan& p, const Exchange& e)
      : plan(p),
        exchange(e),
        form(form_of(p, e)),
        shares(shares_of(p, e)),
        out(e.members),
        in(e.members) {
    for (const Share& s : shares) {
      if (s.from == s.to) continue;
      out[s.from] += bytes(s);
      in[s.to] += bytes(s);
    }
  }
  const Task& member(std::uint32_t m) const { return plan.tasks[exchange.first.value + m]; }
  double bytes(const Share& s) const {
    const ValueId value = plan.value(member(0));
    return static_cast<double>(
        plan.program.bytes(value, plan.layout.rows(s.rows), s.columns.count).value);
  }
  double wanted(std::uint32_t m) const {
    return static_cast<double>(plan.bytes(plan.piece(member(m))).value);
  }
};

class Prices {
 public:
  Prices(const Workload& w, const Machine& m)
      : w_(w), plan_(*w.plan), machine_(m), alone_(w.network, plan_.problem.workers) {}

  std::vector<ExchangeCost> find() {
    for (const Exchange& e : plan_.exchanges) out_.push_back(cost_of(Pattern(plan_, e)));
    for (std::size_t e = 0; e < out_.size(); ++e) at_once_[key_of(e)].push_back(e);
    for (std::size_t e = 0; e < out_.size(); ++e) {
      ExchangeCost& cost = out_[e];
      cost.wire = time_alone(cost.flows);
      apply_row(e);
    }
    return std::move(out_);
  }

 private:
  ExchangeCost cost_of(const Pattern& x) {
    ExchangeCost cost;
    cost.form = x.form;
    cost.packing.assign(x.exchange.members, 0);
    cost.unpacking.assign(x.exchange.members, 0);
    moved_.push_back(0);
    if (machine_.ideal) return cost;
    order_members(x, cost);
    if (is_ring(x.form))
      add_ring(x, cost);
    else
      add_pairs(x, cost);
    add_packs(x, cost);
    return cost;
  }

  void order_members(const Pattern& x, ExchangeCost& cost) {
    members_.resize(x.exchange.members);
    for (std::uint32_t m = 0; m < members_.size(); ++m) members_[m] = m;
    std::sort(members_.begin(), members_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return x.member(a).worker_index < x.member(b).worker_index;
    });
    std::map<std::uint32_t, std::uint32_t> in_node;
    nics_.clear();
    for (const std::uint32_t m : members_) {
      const WorkerId w = x.member(m).worker();
      ++in_node[w_.network.node_of(w)];
      if (machine_.nodes < 2) continue;
      auto& nics = nics_[w_.network.node_of(w)];
      if (nics.empty() || nics.back() != w_.network.nic_of(w)) nics.push_back(w_.network.nic_of(w));
    }
    cost.nodes = static_cast<std::uint32_t>(in_node.size());
    const bool even = std::all_of(in_node.begin(), in_node.end(), [&](const auto& n) {
      return n.second == in_node.begin()->second;
    });
    cost.per_node = even ? in_node.begin()->second : 0;
  }

  void add_flow(ExchangeCost& cost, const Route& route, std::uint32_t from, std::uint32_t to,
                double bytes, bool whole_start) {
    if (bytes <= 0) return;
    const auto d = static_cast<std::size_t>(route.distance);
    double startup = w_.network.startup_ps(route.distance, bytes);
    ExchangeFlow flow{route, from, to, bytes};
    if (w_.copy_cores > 0) {
      const auto latency = static_cast<double>(w_.latency[d]);
      flow.copied = bytes / (std::max(0.0, startup - latency) + bytes / w_.network.rate(route));
      startup = std::min(startup, latency);
    } else if (!whole_start && route.distance != Distance::SameDevice) {
      startup = static_cast<double>(w_.latency[d]);
    }
    cost.startup = std::max(cost.startup, rounded_ps(startup));
    cost.bytes += bytes;
    cost.flows.push_back(flow);
  }

  // Each share goes straight from the member that has it to the one that wants it.
  void add_pairs(const Pattern& x, ExchangeCost& cost) {
    for (const Share& s : x.shares) {
      if (s.from == s.to) continue;
      const WorkerId from = x.member(s.from).worker(), to = x.member(s.to).worker();
      add_flow(cost, w_.network.route(from, to), w_.network.device(from), w_.network.device(to),
               x.bytes(s), true);
    }
    for (std::uint32_t m = 0; m < x.exchange.members; ++m)
      moved_.back() = std::max({moved_.back(), x.out[m], x.in[m]});
  }

  // As libraries do it: round the members in order of workers, and between nodes over all NICs that
  // the members there have, as if by a ring for each.
  void add_ring(const Pattern& x, ExchangeCost& cost) {
    const auto n = static_cast<std::uint32_t>(members_.size());
    double all = 0;
    for (std::uint32_t m = 0; m < n; ++m) all += x.wanted(m);
    for (std::uint32_t i = 0; i < n && n > 1; ++i) {
      const std::uint32_t m = members_[i], next = members_[(i + 1) % n];
      double bytes = x.in[next];  // all that it does not have
      if (x.form == ExchangeForm::ReduceScatter || x.form == ExchangeForm::Reduce)
        bytes = all - x.wanted(m);
      if (x.form == ExchangeForm::AllReduce) bytes = 2.0 * (n - 1) / n * x.wanted(m);
      moved_.back() = std::max(moved_.back(), bytes);
      const WorkerId from = x.member(m).worker(), to = x.member(next).worker();
      const std::uint32_t a = w_.network.device(from), b = w_.network.device(to);
      if (w_.network.distance(from, to) != Distance::OtherNode) {
        add_flow(cost, w_.network.route(from, to), a, b, bytes, false);
        continue;
      }
      const auto& out = nics_[w_.network.node_of(from)];
      const auto& in = nics_[w_.network.node_of(to)];
      const std::size_t rings = std::max(out.size(), in.size());
      for (std::size_t r = 0; r < rings; ++r)
        add_flow(cost, w_.network.between(out[r % out.size()], in[r % in.size()]), a, b,
                 bytes / static_cast<double>(rings), false);
    }
  }

  double memory_ps(double bytes, std::uint32_t launches) const {
    if (bytes <= 0) return 0;
    return bytes / (machine_.memory_gb_per_s * 1e-3) + launches * machine_.launch_us * 1e6;
  }

  void add_packs(const Pattern& x, ExchangeCost& cost) {
    std::vector<Staging> staging = staging_of(plan_, x.exchange, x.shares);
    if (is_ring(x.form)) {  // the library adds up on the way, and what all get is gathered once
      staging.assign(x.exchange.members, {});
      std::vector<const Share*> last(x.exchange.members);
      for (const Share& s : x.shares) {
        if (s.from == s.to || is_run_at_giver(plan_, x.exchange, s)) continue;
        const Share* const before = std::exchange(last[s.from], &s);
        if (before != nullptr && before->rows == s.rows && before->columns == s.columns) continue;
        staging[s.from].given += {static_cast<std::int64_t>(x.bytes(s))};
      }
      for (const Share& s : x.shares)
        if (s.from != s.to && !is_run_at_getter(plan_, x.exchange, s))
          staging[s.to].got += {static_cast<std::int64_t>(x.bytes(s))};
    }
    const bool adds = !is_ring(x.form) && adds_up(plan_, x.exchange);
    const SoftwareFigures& s = machine_.software;
    const bool softmax = plan_.program.type(plan_.value(x.member(0))).algebra == Algebra::Softmax;
    for (std::uint32_t m = 0; m < x.exchange.members; ++m) {
      const auto got = static_cast<double>(staging[m].got.value);
      cost.packing[m] = rounded_ps(memory_ps(2 * static_cast<double>(staging[m].given.value), 1));
      cost.unpacking[m] =
          rounded_ps(adds ? memory_ps(got / 4 * (softmax ? s.merge_bytes : s.reduce_bytes),
                                      softmax ? s.merge_launches : 1)
                          : memory_ps(2 * got, 1));
    }
  }

  // Few exchanges of a plan differ, and solving is slow.
  std::int64_t time_alone(const std::vector<ExchangeFlow>& flows) {
    for (const auto& [known, ps] : known_)
      if (*known == flows) return ps;
    known_.emplace_back(&flows, alone_.ps({&flows}));
    return known_.back().second;
  }

  // Exchanges of other workers that are for the same step and are likely to run at the same time.
  using Key = std::array<std::uint32_t, 7>;
  Key key_of(std::size_t e) const {
    const Task& t = plan_.tasks[plan_.exchanges[e].first.value];
    const ExchangeCost& c = out_[e];
    return {t.step,
            static_cast<std::uint32_t>(t.lane),
            plan_.value(t).value,
            static_cast<std::uint32_t>(c.form),
            plan_.exchanges[e].members,
            c.nodes,
            c.per_node};
  }

  // Bus bandwidth is defined so that it goes with the links and not with the members: on a switch,
  // a table for more or fewer of them will do.
  bool fits(const CollectiveTable& t, const ExchangeCost& cost) const {
    if (t.kind != cost.form || t.nodes != cost.nodes) return false;
    return t.per_node == cost.per_node ||
           (cost.nodes == 1 && machine_.fabric.kind == Fabric::Switch);
  }

  // The row for the nearest number of members, then for as many exchanges at once, or for one.
  std::uint32_t row_for(std::size_t e, std::size_t groups) const {
    const ExchangeCost& cost = out_[e];
    std::uint32_t best = ExchangeCost::kLinks;
    const auto distance = [&](std::uint32_t r) {
      const CollectiveTable& t = machine_.collectives[r];
      const std::uint32_t members =
          std::max(t.per_node, cost.per_node) - std::min(t.per_node, cost.per_node);
      return std::pair(members, t.groups != groups);
    };
    for (std::uint32_t r = 0; r < machine_.collectives.size(); ++r) {
      const CollectiveTable& t = machine_.collectives[r];
      if (!fits(t, cost) || (t.groups != groups && t.groups != 1)) continue;
      if (best == ExchangeCost::kLinks || distance(r) < distance(best)) best = r;
    }
    return best;
  }

  // Slows the flows, so that alone they take what the row says.
  void apply_row(std::size_t e) {
    const auto& groups = at_once_[key_of(e)];
    ExchangeCost& cost = out_[e];
    const std::uint32_t members = plan_.exchanges[e].members;
    if (members < 2 || !(moved_[e] > 0)) return;
    cost.row = row_for(e, groups.size());
    if (cost.row == ExchangeCost::kLinks) return;
    const CollectiveTable& table = machine_.collectives[cost.row];
    std::int64_t latency = 0;
    for (const ExchangeFlow& f : cost.flows)
      latency = std::max(latency, w_.latency[static_cast<std::size_t>(f.route.distance)]);
    const double ps = collective_ps(table, members, moved_[e], static_cast<double>(latency));
    cost.startup = std::min(latency, rounded_ps(ps));
    std::int64_t links = cost.wire;
    if (table.groups > 1 && table.groups == groups.size()) {
      std::vector<const std::vector<ExchangeFlow>*> all = {&cost.flows};
      for (const std::size_t other : groups)
        if (other != e) all.push_back(&out_[other].flows);
      links = alone_.ps(all);
    }
    if (links <= 0) {
      cost.startup = rounded_ps(ps);
      return;
    }
    cost.stretch = (ps - static_cast<double>(cost.startup)) / static_cast<double>(links);
    cost.wire = rounded_ps(cost.stretch * static_cast<double>(cost.wire));
  }

  const Workload& w_;
  const Plan& plan_;
  const Machine& machine_;
  Alone alone_;
  std::vector<ExchangeCost> out_;
  std::vector<double> moved_;           // by exchange: bytes of the member that moves most
  std::vector<std::uint32_t> members_;  // of the exchange at hand, in order of workers
  std::map<std::uint32_t, std::vector<std::uint32_t>> nics_;  // by node, those of its members
  std::vector<std::pair<const std::vector<ExchangeFlow>*, std::int64_t>> known_;
  std::map<Key, std::vector<std::size_t>> at_once_;
};

}  // namespace

double collective_ps(const CollectiveTable& t, std::uint32_t members, double moved,
                     double latency_ps) {
  const double share = moved_share(t.kind, members), size = moved / share;
  const MessageRate& first = t.busbw.front();
  const MessageRate& last = t.busbw.back();
  const auto ps = [](double bytes, double gb_per_s) { return bytes / (gb_per_s * 1e-3); };
  if (size <= first.bytes) {
    const double shortest = ps(first.bytes * share, first.gb_per_s);
    return shortest - (1 - size / first.bytes) * std::max(0.0, shortest - latency_ps);
  }
  if (size >= last.bytes) return ps(moved, last.gb_per_s);
  const auto above = std::upper_bound(t.busbw.begin(), t.busbw.end(), size,
                                      [](double b, const MessageRate& m) { return b < m.bytes; });
  const auto below = above - 1;
  const double at = std::log(size / below->bytes) / std::log(above->bytes / below->bytes);
  return ps(moved, below->gb_per_s * std::pow(above->gb_per_s / below->gb_per_s, at));
}

std::vector<ExchangeCost> price_exchanges(const Workload& w, const Machine& m) {
  if (w.plan->exchanges.empty()) return {};
  return Prices(w, m).find();
}

}  // namespace ringsched
