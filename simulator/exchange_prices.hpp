// What exchanges cost: packing, the ways their bytes take, and how fast those are on this machine.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "fair_share.hpp"
#include "ringsched/machine/machine.hpp"

namespace ringsched {

// The latencies and copying cores of the workload are already there. `extrapolated` gets what no
// table has.
std::vector<ExchangeCost> price_exchanges(const Workload&, const Machine&,
                                          std::set<std::string>& extrapolated);
// All but how long the flows take.
ExchangeCost cost_by_links(const Workload&, const Machine&, const Exchange&);

// How long an exchange between so many takes by a row, if the one that moves most moves so many
// bytes: ps. Below the first size it falls straight to the latency.
double collective_ps(const CollectiveTable&, std::uint32_t members, double moved,
                     double latency_ps);

// Do its bytes take time, or are they there at once?
inline bool moves(const ExchangeFlow& f) {
  return f.bytes > 0 && (f.route.count > 0 || f.copied < FairShare::Copying{}.rate);
}
inline FairShare::Copying copying_of(const ExchangeFlow& f) {
  if (!(f.copied < FairShare::Copying{}.rate)) return {};
  return {f.copied, {f.from, f.to}};
}

}  // namespace ringsched
