// Finds the id of a Region among those a plan already has, or adds it. Used by whatever makes
// plans.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

class RegionTable {
 public:
  // For a plan without regions. Region w becomes the share of worker w.
  void begin(Plan& plan) {
    single_.resize(plan.layout.chunks.size());
    first_longer_.resize(plan.layout.chunks.size());
    for (std::uint32_t w = 0; w < plan.layout.workers(); ++w)
      find_or_add(plan, plan.layout.share({w}));
  }
  RegionId find_or_add(Plan& plan, Region r) {
    RegionId& likely = (r.count == 1 ? single_ : first_longer_)[r.first.value];
    if (!likely.valid()) return likely = add(plan, r);
    if (plan.regions[likely.value] == r) return likely;
    RegionId& other = others_[(std::uint64_t{r.first.value} << 32) | r.count];
    if (!other.valid()) other = add(plan, r);
    return other;
  }
  RegionId single(std::uint32_t chunk) const { return single_[chunk]; }  // none: not added yet

 private:
  static RegionId add(Plan& plan, Region r) {
    plan.regions.push_back(r);
    return {static_cast<std::uint32_t>(plan.regions.size()) - 1};
  }

  std::vector<RegionId> single_, first_longer_;  // by first chunk: it alone; the first longer one
  std::unordered_map<std::uint64_t, RegionId> others_;
};

}  // namespace ringsched
