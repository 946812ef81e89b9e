#include "ringsched/viz/block_map.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "ringsched/scheduler/error.hpp"
#include "support/cases.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Place {
  double x, y;
};

// The worker whose block covers this point: as it says, or as its colour says; or -1.
int covered_by(const Picture& p, Place at, std::uint32_t workers) {
  for (const Shape& s : p.shapes) {
    if (const auto* b = std::get_if<Box>(&s)) {
      int worker = -1;
      if (std::sscanf(b->about.c_str(), "worker %d", &worker) == 1 && at.x > b->x &&
          at.x < b->x + b->width && at.y > b->y && at.y < b->y + b->height)
        return worker;
    } else if (const auto* a = std::get_if<Area>(&s)) {
      // Below the diagonal of its square.
      const Point &top = a->corners[0], &right = a->corners[1];
      if (at.x > top.x && at.x < right.x && at.y < right.y && at.y > top.y &&
          at.y - top.y > at.x - top.x)
        for (std::uint32_t w = 0; w < workers; ++w)
          if (a->fill == worker_colour(w, workers)) return static_cast<int>(w);
    }
  }
  return -1;
}

class BlockMapOf : public testing::TestWithParam<Case> {};

// Each block that the mask leaves is there once, in the colour of a worker that attends it; and
// nothing else is: asked of the mask pair by pair.
TEST_P(BlockMapOf, HasTheBlocksOfThePlanAndNoOthers) {
  const Case c = GetParam();
  for (const Mask& mask : {Mask::causal(), Mask::full(), Mask::window({20})}) {
    SCOPED_TRACE(to_text(mask));
    const std::int64_t tokens = 16 * c.workers;
    const Plan plan =
        build_plan(small_problem(c.workers, tokens, Pass::Forward, mask), *c.schedule);
    const Plan* const plans[] = {&plan};
    const Picture p = block_map(plans);
    const std::size_t n = plan.layout.chunks.size();
    // The frame of the map is its only outlined box.
    Box frame;
    for (const Shape& s : p.shapes)
      if (const auto* b = std::get_if<Box>(&s); b && b->outline) frame = *b;
    const double cell = frame.width / static_cast<double>(n);
    std::map<std::int64_t, std::size_t> by_start;
    for (std::size_t i = 0; i < n; ++i) by_start[plan.layout.chunks[i].start] = i;
    std::vector<std::size_t> order;
    for (const auto& [start, chunk] : by_start) order.push_back(chunk);
    for (std::size_t row = 0; row < n; ++row)
      for (std::size_t column = 0; column < n; ++column) {
        const TokenRange q = plan.layout.chunks[order[row]], k = plan.layout.chunks[order[column]];
        bool any = false;
        for (std::int64_t i = 0; i < q.count; ++i)
          for (std::int64_t j = 0; j < k.count; ++j)
            any = any || mask.visible(q.position(i), k.position(j));
        std::set<int> who;
        for (const Task& t : plan.tasks)
          if (t.kind == TaskKind::Attend &&
              plan.regions[plan.rows(t).value].contains(
                  {{static_cast<std::uint32_t>(order[row])}, 1}) &&
              plan.regions[t.keys.value].contains({{static_cast<std::uint32_t>(order[column])}, 1}))
            who.insert(static_cast<int>(t.worker_index));
        const int found = covered_by(p,
                                     {frame.x + (static_cast<double>(column) + 0.12) * cell,
                                      frame.y + (static_cast<double>(row) + 0.93) * cell},
                                     c.workers);
        EXPECT_EQ(found >= 0, any) << "row " << row << " column " << column;
        if (any) {
          EXPECT_TRUE(who.count(found)) << found << " at row " << row << " column " << column;
        }
      }
  }
}

INSTANTIATE_TEST_SUITE_P(All, BlockMapOf, testing::ValuesIn(all_schedules(5)),
                         [](const auto& i) { return i.param.name(); });

// A row for the new tokens of each document; a column for each part of the cache.
TEST(BlockMap, OfDecodingHasTheNewTokensAsItsRows) {
  Problem problem = small_problem(3, 24, Pass::Forward, Mask::documents({{12}, {12}}));
  problem.new_tokens = {2};
  const auto blocks = [&](const char* schedule, double& tallest) {
    const Plan plan = build_plan(problem, find_schedule(schedule));
    const Plan* const plans[] = {&plan};
    std::set<std::pair<double, double>> places;
    tallest = 0;
    for (const Shape& s : block_map(plans).shapes)
      if (const auto* b = std::get_if<Box>(&s); b && !b->about.empty()) {
        places.insert({b->x, b->y});
        tallest = std::max(tallest, b->height);
      }
    return places.size();
  };
  double tree = 0, ring = 0;
  EXPECT_EQ(blocks("tree-decode", tree) + 2, 2u * 4);  // two are half, and so triangles
  EXPECT_EQ(blocks("ring-decode", ring) + 3 * 2, 3u * 2 * 4);
  EXPECT_NEAR(ring * 3, tree, 0.01);
}

TEST(BlockMap, SaysHowUnevenTheWorkIs) {
  const Plan ring = build_plan(small_problem(8, 8 * 4096), find_schedule("ring"));
  const Plan zigzag = build_plan(small_problem(8, 8 * 4096), find_schedule("zigzag"));
  const Plan* const plans[] = {&ring, &zigzag};
  const std::string text = svg(block_map(plans));
  // 7.5 blocks where there are 32 / 8 each.
  EXPECT_THAT(text, HasSubstr("1.87x"));
  EXPECT_THAT(text, HasSubstr("1.00x"));
  EXPECT_THAT(text, Not(HasSubstr("Hatched")));
  const Plan balanced = build_plan(small_problem(8, 8 * 4096), find_schedule("balanced"));
  const Plan* const helped[] = {&balanced};
  EXPECT_THAT(svg(block_map(helped)), HasSubstr("Hatched"));
}

TEST(BlockMap, KeepsToThePage) {
  for (const std::uint32_t workers : {1u, 2u, 33u, 128u}) {
    const Plan plan = build_plan(small_problem(workers, 300), find_schedule("zigzag"));
    const std::vector<const Plan*> plans(4, &plan);
    const Picture p = block_map(plans);
    for (const Shape& s : p.shapes)
      if (const auto* l = std::get_if<Label>(&s)) {
        const Box b = bounds(*l);
        EXPECT_GE(b.x, 0) << l->text;
        EXPECT_LE(b.x + b.width, p.width) << l->text;
        EXPECT_LE(b.y + b.height, p.height) << l->text;
      }
  }
}

TEST(BlockMap, RefusesWhatCannotBeToldApart) {
  EXPECT_THROW(block_map({}), Error);
  const Plan plan = build_plan(small_problem(300, 3000), find_schedule("ring"));
  const Plan* const plans[] = {&plan};
  EXPECT_THROW(block_map(plans), Error);
}

TEST(BlockMap, HasASentenceAboutTheWorkAsItsTitle) {
  const Plan ring = build_plan(small_problem(8, 64), find_schedule("ring")),
             zigzag = build_plan(small_problem(8, 64), find_schedule("zigzag"));
  const auto drawn = [](std::vector<const Plan*> plans) { return svg(block_map(plans)); };
  EXPECT_THAT(drawn({&zigzag}), HasSubstr(">zigzag: all workers have equal work<"));
  EXPECT_THAT(drawn({&ring}), HasSubstr(">ring: the busiest worker has 1.86x the average work<"));
  EXPECT_THAT(
      drawn({&ring, &zigzag}),
      HasSubstr(">The busiest worker has 1.86x the average work in ring, 1.00x in zigzag<"));
  EXPECT_THAT(drawn({&zigzag, &zigzag}),
              HasSubstr(">All workers have equal work in each schedule<"));
}

}  // namespace
}  // namespace ringsched
