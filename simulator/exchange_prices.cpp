// How long exchanges take alone: by the links, or by the machine's tables.
#include "exchange_prices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "engines.hpp"
#include "ringsched/simulator/uncertainty.hpp"

namespace ringsched {

namespace {

// Runs flows that have the network to themselves.
class Alone {
 public:
  Alone(const Network& network, std::uint32_t devices) : network_(network, devices) {}

  // How long until the first of these groups has arrived, if all start at once: ps.
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
  // Everything that ends at an instant ends before anything continues.
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

class Prices {
 public:
  Prices(const Workload& w, const Machine& m, std::set<std::string>& extrapolated)
      : w_(w),
        plan_(*w.plan),
        machine_(m),
        extrapolated_(extrapolated),
        alone_(w.network, plan_.problem.workers) {}

  std::vector<ExchangeCost> find() {
    for (const Exchange& e : plan_.exchanges) out_.push_back(cost_by_links(w_, machine_, e));
    for (std::size_t e = 0; e < out_.size(); ++e) at_once_[key_of(e)].push_back(e);
    for (std::size_t e = 0; e < out_.size(); ++e) {
      out_[e].wire = time_alone(out_[e].flows);
      apply_row(e);
      doubt(e);
    }
    return std::move(out_);
  }

 private:
  // Few exchanges of a plan differ, and solving is slow.
  std::int64_t time_alone(const std::vector<ExchangeFlow>& flows) {
    for (const auto& [known, ps] : known_)
      if (*known == flows) return ps;
    known_.emplace_back(&flows, alone_.ps({&flows}));
    return known_.back().second;
  }

  // Exchanges of other workers in the same step, which are likely to run at the same time.
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

  // Bus bandwidth is defined to depend on the links and not on the number of members. So on a
  // switch, a table for more or fewer members will do. Over PCIe, flows hinder each other as soon
  // as there are more than two members.
  bool fits(const CollectiveTable& t, const ExchangeCost& cost) const {
    if (t.kind != cost.form || t.nodes != cost.nodes) return false;
    if (t.per_node == cost.per_node) return true;
    if (cost.nodes > 1) return false;
    return machine_.fabric.kind == Fabric::Switch ||
           (machine_.fabric.kind == Fabric::Pcie && t.per_node > 2 && cost.per_node > 2);
  }

  // The row for the nearest number of members, rather more than fewer, then for the same number of
  // exchanges at once, or for one.
  std::uint32_t row_for(std::size_t e, std::size_t groups) const {
    const ExchangeCost& cost = out_[e];
    std::uint32_t best = ExchangeCost::kLinks;
    const auto distance = [&](std::uint32_t r) {
      const CollectiveTable& t = machine_.collectives[r];
      const std::uint32_t members =
          std::max(t.per_node, cost.per_node) - std::min(t.per_node, cost.per_node);
      return std::tuple(members, t.per_node < cost.per_node, t.groups != groups);
    };
    for (std::uint32_t r = 0; r < machine_.collectives.size(); ++r) {
      const CollectiveTable& t = machine_.collectives[r];
      if (!fits(t, cost) || (t.groups != groups && t.groups != 1)) continue;
      if (best == ExchangeCost::kLinks || distance(r) < distance(best)) best = r;
    }
    return best;
  }

  // Slows the flows, so that alone they take the time of the row.
  void apply_row(std::size_t e) {
    const auto& groups = at_once_[key_of(e)];
    ExchangeCost& cost = out_[e];
    const std::uint32_t members = plan_.exchanges[e].members;
    if (members < 2 || !(cost.moved > 0) || cost.calls > 1) return;
    cost.row = row_for(e, groups.size());
    if (cost.row == ExchangeCost::kLinks) return;
    const CollectiveTable& table = machine_.collectives[cost.row];
    std::int64_t latency = 0;
    for (const ExchangeFlow& f : cost.flows)
      latency = std::max(latency, w_.latency[static_cast<std::size_t>(f.route.distance)]);
    const double ps = collective_ps(table, members, cost.moved, static_cast<double>(latency));
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
    cost.stretch =
        std::max(0.0, ps - static_cast<double>(cost.startup)) / static_cast<double>(links);
    cost.wire = rounded_ps(cost.stretch * static_cast<double>(cost.wire));
  }

  // An exchange without its own table is uncertain, and is listed as extrapolated.
  void doubt(std::size_t e) {
    ExchangeCost& cost = out_[e];
    const std::uint32_t members = plan_.exchanges[e].members;
    if (machine_.ideal || members < 2 || !(cost.moved > 0)) return;
    const std::string_view form = to_text(cost.form);
    double squares = 0;
    const auto unsure = [&](double spread, std::string text) {
      squares += spread * spread;
      extrapolated_.insert(std::move(text));
    };
    if (cost.row == ExchangeCost::kLinks) {
      const bool pcie = machine_.fabric.kind == Fabric::Pcie && cost.nodes == 1;
      unsure(pcie ? kPcieTableSpread : kNoTableSpread,
             fmt::format("{} (from link speeds{})", form,
                         pcie ? ", and machines with PCIe differ by a factor of 2" : ""));
    } else {
      const CollectiveTable& t = machine_.collectives[cost.row];
      const std::size_t groups = at_once_[key_of(e)].size();
      const double size = cost.moved / moved_share(t.kind, members);
      if (t.spread > 0)
        unsure(t.spread, fmt::format("{}s of {} workers (their table is uncertain by a "
                                     "factor of {:.1f})",
                                     form, members, 1 + t.spread));
      if (t.per_node != cost.per_node)
        unsure(kOtherTableSpread, fmt::format("{} of {} workers in a node (from the table for {})",
                                              form, cost.per_node, t.per_node));
      if (t.groups != groups)
        unsure(kOtherTableSpread,
               fmt::format("{} simultaneous {}s (from the table for one)", groups, form));
      if (size < 0.5 * t.busbw.front().bytes || size > 2 * t.busbw.back().bytes)
        unsure(kOtherTableSpread, fmt::format("{} {} than any measured", form,
                                              size < t.busbw.front().bytes ? "shorter" : "longer"));
    }
    cost.doubt = std::sqrt(squares);
  }

  const Workload& w_;
  const Plan& plan_;
  const Machine& machine_;
  std::set<std::string>& extrapolated_;
  Alone alone_;
  std::vector<ExchangeCost> out_;
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

std::vector<ExchangeCost> price_exchanges(const Workload& w, const Machine& m,
                                          std::set<std::string>& extrapolated) {
  if (w.plan->exchanges.empty()) return {};
  return Prices(w, m, extrapolated).find();
}

}  // namespace ringsched
