#include "support/exchange_cases.hpp"

#include <tuple>
#include <utility>

#include "ringsched/scheduler/lower.hpp"
#include "support/exchange_plans.hpp"

namespace ringsched {

Plan random_exchange_plan(std::mt19937_64& random) {
  const auto any = [&](std::uint32_t least, std::uint32_t most) {
    return static_cast<std::uint32_t>(least + random() % (most - least + 1));
  };
  constexpr std::pair<std::uint32_t, std::uint32_t> heads[] = {{4, 4}, {4, 1}, {6, 3}, {5, 1},
                                                               {8, 2}, {3, 3}, {7, 7}, {12, 4}};
  constexpr std::uint32_t dims[] = {5, 8, 16, 32};
  constexpr const char* masks[] = {"causal", "full", "window:9", "prefix:3,window:7"};
  Problem p;
  p.workers = any(1, 6);
  p.tokens = {p.workers + any(0, 60)};
  std::tie(p.heads, p.kv_heads) = heads[random() % std::size(heads)];
  p.head_dim = dims[random() % std::size(dims)];
  p.dtype = static_cast<Dtype>(random() % 3);
  p.pass = static_cast<Pass>(random() % 3);
  p.mask = random() % 5 == 0 && p.tokens.value > 20
               ? Mask::documents({{7}, {9}, {p.tokens.value - 16}})
               : parse_mask(masks[random() % std::size(masks)]);
  const std::uint32_t which = any(0, 4);
  Plan plan = which < 2   ? ulysses_by_hand(p)
              : which < 4 ? all_gather_by_hand(p, static_cast<std::uint32_t>(random() % 3))
                          : gather_queries_by_hand(p);
  if (random() % 3 == 0)
    for (Task& t : plan.tasks) t.lane = Lane::Compute;
  if (random() % 2 == 0) return plan;
  return lower_exchanges(plan, static_cast<Lowering>(any(1, 3))).plan;
}

}  // namespace ringsched
