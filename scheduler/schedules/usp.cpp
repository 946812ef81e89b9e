// Unified sequence parallelism (USP, Fang and Zhao 2024): workers form a table. Those of a row
// exchange tokens for heads, as in Ulysses. Then each column of the table, whose workers have the
// same heads, runs a ring; and the rows exchange back.
#include "heads.hpp"
#include "helpers.hpp"
#include "ring.hpp"
#include "usp_table.hpp"

namespace ringsched {

void ring(const Problem&, PlanBuilder&, const Arguments&);
void zigzag(const Problem&, PlanBuilder&, const Arguments&);
void striped(const Problem&, PlanBuilder&, const Arguments&);
void balanced(const Problem&, PlanBuilder&);

namespace {

void balanced_ring(const Problem& p, PlanBuilder& plan, const Arguments&) { balanced(p, plan); }

constexpr void (*kRings[])(const Problem&, PlanBuilder&, const Arguments&) = {ring, zigzag, striped,
                                                                              balanced_ring};

}  // namespace

void usp(const Problem& problem, PlanBuilder& plan, const Arguments& given) {
  const UspTable table = usp_table(problem, given);
  const std::uint32_t row = table.columns;
  const std::span<const WorkerId> workers = table.workers;

  plan.step(0);
  std::vector<std::vector<Queries>> queries(row);  // by column
  std::vector<std::vector<Keys>> keys(row);
  for (std::uint32_t first = 0; first < problem.workers; first += row) {
    const ByHeads has = exchange_tokens_for_heads(problem, plan, workers.subspan(first, row));
    for (std::uint32_t i = 0; i < row; ++i) {
      queries[i].push_back(has.queries[i]);
      keys[i].push_back(has.keys[i]);
    }
  }
  std::vector<Merged> results(problem.workers);
  for (std::uint32_t i = 0; i < row; ++i) {
    PlanBuilder column = plan.view(queries[i], keys[i]);
    kRings[given["ring"]](column.problem(), column, given);
    for (std::uint32_t j = 0; const Merged& r : column.merged()) results[j++ * row + i] = r;
  }
  plan.step(plan.steps());
  for (std::uint32_t first = 0; first < problem.workers; first += row)
    exchange_heads_for_tokens(plan, workers.subspan(first, row),
                              std::span<const Merged>(results).subspan(first, row));
}

}  // namespace ringsched
