// What exchanges cost: packing, the routes of their bytes, and how fast those are on this machine.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "fair_share.hpp"
#include "ringsched/machine/machine.hpp"

namespace ringsched {

// The workload must already have its latencies and copying cores. `extrapolated` gets what no table
// has.
std::vector<ExchangeCost> price_exchanges(const Workload&, const Machine&,
                                          std::set<std::string>& extrapolated);
// Everything except how long the flows take.
ExchangeCost cost_by_links(const Workload&, const Machine&, const Exchange&);

// How long an exchange takes by a row, given the number of members and the bytes that the busiest
// one moves: ps. Below the first size the time falls linearly to the latency.
double collective_ps(const CollectiveTable&, std::uint32_t members, double moved,
                     double latency_ps);

// Do its bytes take time, or do they arrive at once?
inline bool moves(const ExchangeFlow& f) {
  return f.bytes > 0 && (f.route.count > 0 || f.copied < FairShare::Copying{}.rate);
}
inline FairShare::Copying copying_of(const ExchangeFlow& f) {
  if (!(f.copied < FairShare::Copying{}.rate)) return {};
  return {f.copied, {f.from, f.to}};
}

}  // namespace ringsched
