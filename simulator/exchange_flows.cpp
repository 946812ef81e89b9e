// Which way the bytes of an exchange go, and what members pack before and unpack after, by the
// links and the memory of the machine.
#include <algorithm>
#include <map>
#include <utility>

#include "engines.hpp"
#include "exchange_prices.hpp"
#include "ringsched/scheduler/exchange.hpp"

namespace ringsched {

namespace {

bool is_ring(ExchangeForm f) {
  return f == ExchangeForm::AllGather || f == ExchangeForm::Broadcast ||
         f == ExchangeForm::ReduceScatter || f == ExchangeForm::Reduce ||
         f == ExchangeForm::AllReduce;
}

class Flows {
 public:
  Flows(const Workload& w, const Machine& m, const Exchange& e)
      : w_(w),
        plan_(*w.plan),
        machine_(m),
        exchange_(e),
        shares_(shares_of(plan_, e)),
        out_(e.members),
        in_(e.members) {
    cost_.form = form_of(plan_, e);
    cost_.packing.assign(e.members, 0);
    cost_.unpacking.assign(e.members, 0);
    for (const Share& s : shares_) {
      if (s.from == s.to) continue;
      out_[s.from] += bytes(s);
      in_[s.to] += bytes(s);
    }
  }

  ExchangeCost find() {
    if (machine_.ideal) return std::move(cost_);
    order_members();
    if (is_ring(cost_.form))
      add_ring();
    else
      add_pairs();
    // No library adds up softmax results. Programs take the largest log-sum-exp of all workers,
    // then add up the weights and the outputs scaled by it: three calls, the first two with few
    // bytes.
    const ValueId value = plan_.value(member(0));
    if (combines(plan_, exchange_) && plan_.program.type(value).algebra == Algebra::Softmax)
      cost_.calls = 3;
    cost_.startup *= cost_.calls;
    add_packs(is_ring(cost_.form)
                  ? staging_of_ring()
                  : staging_of(plan_, exchange_, shares_, machine_.software.packs_all));
    return std::move(cost_);
  }

 private:
  const Task& member(std::uint32_t m) const { return plan_.tasks[exchange_.first.value + m]; }
  double bytes(const Share& s) const {
    const Tokens rows = plan_.layout.rows(s.rows);
    return static_cast<double>(
        plan_.program.bytes(plan_.value(member(0)), rows, s.columns.count).value);
  }
  double wanted(std::uint32_t m) const {
    return static_cast<double>(plan_.bytes(plan_.piece(member(m))).value);
  }

  void order_members() {
    members_.resize(exchange_.members);
    for (std::uint32_t m = 0; m < members_.size(); ++m) members_[m] = m;
    std::sort(members_.begin(), members_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return member(a).worker_index < member(b).worker_index;
    });
    std::map<std::uint32_t, std::uint32_t> in_node;
    for (const std::uint32_t m : members_) {
      const WorkerId w = member(m).worker();
      ++in_node[w_.network.node_of(w)];
      if (machine_.nodes < 2) continue;
      auto& nics = nics_[w_.network.node_of(w)];
      if (nics.empty() || nics.back() != w_.network.nic_of(w)) nics.push_back(w_.network.nic_of(w));
    }
    const std::uint32_t first = in_node.begin()->second;
    const bool even = std::all_of(in_node.begin(), in_node.end(),
                                  [&](const auto& node) { return node.second == first; });
    cost_.nodes = static_cast<std::uint32_t>(in_node.size());
    cost_.per_node = even ? first : 0;
  }

  // `message`: its start-up is that of a message of its size, not the latency alone.
  void add(const Route& route, WorkerId from, WorkerId to, double bytes, bool message) {
    if (bytes <= 0) return;
    const auto latency = static_cast<double>(w_.latency[static_cast<std::size_t>(route.distance)]);
    double startup = w_.network.startup_ps(route.distance, bytes);
    ExchangeFlow flow{route, w_.network.device(from), w_.network.device(to), bytes};
    if (w_.copy_cores > 0) {  // what a message takes beyond the latency is slower copying
      const double copying = std::max(0.0, startup - latency) + bytes / w_.network.rate(route);
      flow.copied = bytes / copying;
      startup = std::min(startup, latency);
    } else if (!message && route.distance != Distance::SameDevice) {
      startup = latency;
    }
    cost_.startup = std::max(cost_.startup, rounded_ps(startup));
    cost_.bytes += bytes;
    cost_.flows.push_back(flow);
  }

  // Each share goes straight from the member that has it to the one that wants it.
  void add_pairs() {
    for (const Share& s : shares_) {
      if (s.from == s.to) continue;
      const WorkerId from = member(s.from).worker(), to = member(s.to).worker();
      add(w_.network.route(from, to), from, to, bytes(s), true);
    }
    for (std::uint32_t m = 0; m < exchange_.members; ++m)
      cost_.moved = std::max({cost_.moved, out_[m], in_[m]});
  }

  // As libraries do it: round the members in order of workers, and between nodes over all NICs of
  // the members there, as if there were a ring for each NIC.
  void add_ring() {
    const auto n = static_cast<std::uint32_t>(members_.size());
    double all = 0;
    for (std::uint32_t m = 0; m < n; ++m) all += wanted(m);
    for (std::uint32_t i = 0; i < n && n > 1; ++i) {
      const std::uint32_t m = members_[i], next = members_[(i + 1) % n];
      double bytes = in_[next];  // all that it does not have
      if (cost_.form == ExchangeForm::ReduceScatter || cost_.form == ExchangeForm::Reduce)
        bytes = all - wanted(m);
      if (cost_.form == ExchangeForm::AllReduce) bytes = 2.0 * (n - 1) / n * wanted(m);
      cost_.moved = std::max(cost_.moved, bytes);
      add_hop(member(m).worker(), member(next).worker(), bytes);
    }
  }

  void add_hop(WorkerId from, WorkerId to, double bytes) {
    if (w_.network.distance(from, to) != Distance::OtherNode)
      return add(w_.network.route(from, to), from, to, bytes, false);
    const auto& out = nics_[w_.network.node_of(from)];
    const auto& in = nics_[w_.network.node_of(to)];
    const std::size_t rings = std::max(out.size(), in.size());
    for (std::size_t r = 0; r < rings; ++r)
      add(w_.network.between(out[r % out.size()], in[r % in.size()]), from, to,
          bytes / static_cast<double>(rings), false);
  }

  // What all members get is gathered once, not once for each.
  std::vector<Staging> staging_of_ring() const {
    std::vector<Staging> out(exchange_.members);
    std::vector<const Share*> last(exchange_.members);
    for (const Share& s : shares_) {
      if (s.from == s.to) continue;
      const Bytes size = {static_cast<std::int64_t>(bytes(s))};
      if (!is_run_at_getter(plan_, exchange_, s)) out[s.to].got += size;
      if (is_run_at_giver(plan_, exchange_, s)) continue;
      const Share* const before = std::exchange(last[s.from], &s);
      if (before == nullptr || before->rows != s.rows || before->columns != s.columns)
        out[s.from].given += size;
    }
    return out;
  }

  std::int64_t memory_ps(double bytes, std::uint32_t launches) const {
    if (bytes <= 0) return 0;
    return rounded_ps(bytes / (machine_.memory_gb_per_s * 1e-3) +
                      launches * machine_.launch_us * 1e6);
  }

  // Rings add up on the way; otherwise the member that gets parts of a sum adds them up.
  void add_packs(const std::vector<Staging>& staging) {
    const bool adds = !is_ring(cost_.form) && combines(plan_, exchange_);
    const SoftwareFigures& s = machine_.software;
    const auto stored = static_cast<double>(size_of(plan_.problem.dtype));
    const double moves = machine_.pack_bytes(2 * stored) / stored;  // of memory, for each byte
    const bool softmax = plan_.program.type(plan_.value(member(0))).algebra == Algebra::Softmax;
    for (std::uint32_t m = 0; m < exchange_.members; ++m) {
      const auto given = static_cast<double>(staging[m].given.value);
      const auto got = static_cast<double>(staging[m].got.value);
      cost_.packing[m] = memory_ps(moves * given, 1);
      cost_.unpacking[m] = !adds     ? memory_ps(moves * got, 1)
                           : softmax ? memory_ps(got / 4 * machine_.merge_bytes(), s.merge_launches)
                                     : memory_ps(got / 4 * s.reduce_bytes, 1);
    }
  }

  const Workload& w_;
  const Plan& plan_;
  const Machine& machine_;
  const Exchange& exchange_;
  const std::vector<Share> shares_;
  std::vector<double> out_, in_;                              // by member, bytes to and from others
  std::vector<std::uint32_t> members_;                        // in order of workers
  std::map<std::uint32_t, std::vector<std::uint32_t>> nics_;  // by node, those of its members
  ExchangeCost cost_;
};

}  // namespace

ExchangeCost cost_by_links(const Workload& w, const Machine& m, const Exchange& e) {
  return Flows(w, m, e).find();
}

}  // namespace ringsched
