// Unified sequence parallelism (USP, Fang and Zhao 2024): workers stand in a table. Those of a row
// exchange tokens for heads, as in Ulysses; then each column of the table, whose workers have the
// same heads, runs a ring; and the rows exchange back.
#include "heads.hpp"
#include "helpers.hpp"
#include "ring.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

void zigzag(const Problem&, PlanBuilder&);
void striped(const Problem&, PlanBuilder&);
void balanced(const Problem&, PlanBuilder&);

namespace {

constexpr void (*kRings[])(const Problem&, PlanBuilder&) = {ring, zigzag, striped, balanced};

std::uint32_t row_size(std::uint32_t workers, std::uint32_t heads, std::uint32_t given) {
  std::uint32_t size = given > 0 ? given : 8;
  while (given == 0 && (workers % size != 0 || size > heads)) --size;
  if (workers % size != 0)
    fail("usp: ulysses={} does not divide {} workers; groups must be of equal size", given,
         workers);
  if (size > heads)
    fail("usp: {} heads cannot be split over groups of {} workers; use ulysses={} or less", heads,
         size, heads);
  return size;
}

}  // namespace

// The rows share the tokens as the ring wants it, and inside a row each worker has a run of those.
Layout usp_layout(const Problem& problem, const Arguments& given) {
  const std::uint32_t row = row_size(problem.workers, problem.heads, given["ulysses"]);
  const std::uint32_t rows = problem.workers / row;
  const bool zigzags = given["ring"] == 1;
  if (!zigzags && given["ring"] != 2) return contiguous(problem.workers, problem.tokens);
  const Layout of_rows = zigzags ? zigzag(rows, problem.tokens) : striped(rows, problem.tokens);
  Layout out{"custom", {}, {0}};
  for (std::uint32_t r = 0; r < rows; ++r) {
    const auto ranges = of_rows.ranges(of_rows.share({r}));
    const std::uint32_t runs = row * static_cast<std::uint32_t>(ranges.size());
    for (const TokenRange& range : ranges)
      for (std::int64_t i = 0; i < row; ++i) {
        const std::int64_t first = range.count * i / row, end = range.count * (i + 1) / row;
        out.chunks.push_back({range.position(first), range.stride, end - first});
      }
    for (std::uint32_t i = 0; i < runs; i += runs / row)
      out.first.push_back(out.first.back() + runs / row);
  }
  return out;
}

void usp(const Problem& problem, PlanBuilder& plan, const Arguments& given) {
  const std::uint32_t row = row_size(problem.workers, problem.heads, given["ulysses"]);
  std::vector<WorkerId> workers;
  for (std::uint32_t w = 0; w < problem.workers; ++w) workers.push_back(WorkerId{w});

  plan.step(0);
  std::vector<std::vector<Queries>> queries(row);  // by column
  std::vector<std::vector<Keys>> keys(row);
  for (std::uint32_t first = 0; first < problem.workers; first += row) {
    const ByHeads has = exchange_tokens_for_heads(
        problem, plan, std::span<const WorkerId>(workers).subspan(first, row));
    for (std::uint32_t i = 0; i < row; ++i) {
      queries[i].push_back(has.queries[i]);
      keys[i].push_back(has.keys[i]);
    }
  }
  std::vector<Merged> results(problem.workers);
  for (std::uint32_t i = 0; i < row; ++i) {
    PlanBuilder column = plan.view(queries[i], keys[i]);
    kRings[given["ring"]](column.problem(), column);
    for (std::uint32_t j = 0; const Merged& r : column.merged()) results[j++ * row + i] = r;
  }
  plan.step(plan.steps());
  for (std::uint32_t first = 0; first < problem.workers; first += row)
    exchange_heads_for_tokens(plan, std::span<const WorkerId>(workers).subspan(first, row),
                              std::span<const Merged>(results).subspan(first, row));
}

}  // namespace ringsched
