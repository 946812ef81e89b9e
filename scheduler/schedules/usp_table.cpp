// Which workers of USP share heads, which form a ring, and where the tokens are.
#include "usp_table.hpp"

#include "ringsched/scheduler/error.hpp"

namespace ringsched {

namespace {

std::uint32_t row_size(std::uint32_t workers, std::uint32_t heads, std::uint32_t given) {
  std::uint32_t size = given > 0 ? given : 8;
  while (given == 0 && (workers % size != 0 || heads % size != 0)) --size;
  if (workers % size != 0)
    fail("usp: ulysses={} does not divide {} workers; groups must be of equal size", given,
         workers);
  if (size > heads)
    fail("usp: {} heads cannot be split over groups of {} workers; use ulysses={} or less", heads,
         size, heads);
  return size;
}

// The rows divide the tokens as the ring wants them, and inside a row each worker has a run of
// those.
std::vector<TokenRange> chunks_by_row(const Layout& of_rows, std::int64_t columns) {
  std::vector<TokenRange> chunks;
  for (std::uint32_t r = 0; r < of_rows.workers(); ++r)
    for (const TokenRange& range : of_rows.ranges(of_rows.share({r})))
      for (std::int64_t i = 0; i < columns; ++i) {
        const std::int64_t first = range.count * i / columns;
        chunks.push_back(
            {range.position(first), range.stride, range.count * (i + 1) / columns - first});
      }
  return chunks;
}

}  // namespace

UspTable usp_table(const Problem& problem, const Arguments& given) {
  const std::uint32_t columns = row_size(problem.workers, problem.heads, given["ulysses"]);
  UspTable table{problem.workers / columns, columns, {}};
  const bool rings_are_consecutive = given["consecutive"] == 1;
  for (std::uint32_t r = 0; r < table.rows; ++r)
    for (std::uint32_t c = 0; c < columns; ++c)
      table.workers.push_back({rings_are_consecutive ? c * table.rows + r : r * columns + c});
  return table;
}

// Chunks are numbered row by row, so that those of a row are one region.
Layout usp_layout(const Problem& problem, const Arguments& given) {
  const UspTable table = usp_table(problem, given);
  Layout plain = contiguous(problem.workers, problem.tokens);
  const bool zigzags = given["ring"] == 1, stripes = given["ring"] == 2;
  std::vector<TokenRange> chunks =
      zigzags   ? chunks_by_row(zigzag(table.rows, problem.tokens), table.columns)
      : stripes ? chunks_by_row(striped(table.rows, problem.tokens), table.columns)
                : plain.chunks;
  const auto each = static_cast<std::uint32_t>(chunks.size()) / problem.workers;
  std::vector<Region> shares(problem.workers);
  for (std::uint32_t i = 0; i < problem.workers; ++i)
    shares[table.workers[i].value] = {{i * each}, each};
  if (chunks == plain.chunks && shares == plain.shares) return plain;
  return custom_layout(std::move(chunks), std::move(shares));
}

}  // namespace ringsched
