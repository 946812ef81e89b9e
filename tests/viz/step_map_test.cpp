#include "ringsched/viz/step_map.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ringsched/scheduler/error.hpp"
#include "support/cases.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> lines(const Picture& p) {
  std::vector<std::string> out;
  for (const Shape& s : p.shapes)
    if (const auto* l = std::get_if<Label>(&s)) out.push_back(l->text);
  return out;
}

Picture drawn(const char* schedule, std::uint32_t workers = 4) {
  return step_map(build_plan(small_problem(workers, 8 * workers), find_schedule(schedule)));
}

std::string all_lines(const Picture& p) {
  std::string text;
  for (const std::string& line : lines(p)) text += line + '\n';
  return text;
}

TEST(StepMap, SaysThatItDrawsNoBackwardPass) {
  const auto drawn_of = [](Pass pass) {
    return all_lines(step_map(build_plan(small_problem(4, 64, pass), find_schedule("ring"))));
  };
  EXPECT_THAT(drawn_of(Pass::Both), HasSubstr("ring, step by step: forward pass\n"));
  EXPECT_THAT(drawn_of(Pass::Both), HasSubstr("; the backward pass is not drawn"));
  for (const Pass pass : {Pass::Forward, Pass::Backward}) {
    EXPECT_THAT(drawn_of(pass), Not(HasSubstr("not drawn")));
    EXPECT_THAT(drawn_of(pass), HasSubstr("ring, step by step\n"));
  }
}

TEST(StepMap, ExplainsWhatIsThere) {
  const std::string ring = all_lines(drawn("ring")), zigzag = all_lines(drawn("zigzag")),
                    balanced = all_lines(drawn("balanced")), ulysses = all_lines(drawn("ulysses"));
  EXPECT_THAT(ring, HasSubstr("gets: what the worker receives before it computes. "
                              "kv: keys and values.\n"));
  EXPECT_THAT(ring, HasSubstr("q1 k0: queries of worker 1 with keys of worker 0.\n"));
  EXPECT_THAT(
      zigzag,
      HasSubstr("q0b k3: queries of worker 0 with keys of worker 3 (0b: a part of its share)."));
  EXPECT_THAT(balanced, HasSubstr("o: partial results"));
  EXPECT_THAT(ring, HasSubstr("earlier steps are pale"));
  for (const char* absent : {"gets", "with keys of worker", "a part of"})
    EXPECT_THAT(ulysses, Not(HasSubstr(absent)));
  EXPECT_THAT(ulysses, HasSubstr("q: queries, k: keys."));
  EXPECT_THAT(ulysses, HasSubstr("keys and values"));
}

// Small maps have no words, so a scale says which colour is which worker.
TEST(StepMap, NamesItsColours) {
  for (const char* medium : {"column", "text", "slide", ""})
    for (const std::uint32_t workers : {16u, 32u}) {
      SCOPED_TRACE(fmt::format("{} {}", medium, workers));
      const Page page = *medium ? page_for(medium) : Page{};
      const Picture p =
          step_map(build_plan(small_problem(workers, 8 * workers), find_schedule("zigzag")), page);
      const std::string text = all_lines(p);
      if (text.find("compute") != text.npos) continue;  // with words
      EXPECT_THAT(text, HasSubstr("worker 0\n"));
      EXPECT_THAT(text, HasSubstr(fmt::format("worker {}\n", workers - 1)));
      std::size_t swatches = 0;
      for (const Shape& s : p.shapes)
        if (const auto* b = std::get_if<Box>(&s))
          swatches += b->about.starts_with("worker ") && b->about.find(',') == b->about.npos;
      EXPECT_EQ(swatches, workers);
    }
}

// On a page it is as wide as the page, no word leaves it, and what a paper says itself is left out.
TEST(StepMap, FitsAPage) {
  for (const char* schedule : {"ring", "zigzag", "balanced", "usp:ulysses=4"})
    for (const std::uint32_t workers : {4u, 8u})
      for (const char* medium : {"column", "text", "slide"}) {
        const Page page = page_for(medium);
        const Plan plan = build_plan(small_problem(workers, 8 * workers), find_schedule(schedule));
        const Picture p = step_map(plan, page);
        EXPECT_DOUBLE_EQ(p.width, page.width);
        for (const Shape& s : p.shapes) {
          const auto* l = std::get_if<Label>(&s);
          if (!l) continue;
          EXPECT_GE(l->size, page.least_text - 1e-9) << l->text;
          if (l->anchor == Anchor::Start) {
            EXPECT_LE(l->x + text_width(l->text, l->size, l->bold), p.width + 1e-9)
                << schedule << workers << medium << l->text;
          }
        }
        const std::vector<std::string> said = lines(p);
        const bool legend =
            std::ranges::any_of(said, [](const std::string& t) { return t.starts_with("Rows"); });
        EXPECT_EQ(legend, page.legend);
      }
}

std::vector<std::string> drawn_steps(const Picture& p) {
  std::vector<std::string> steps = lines(p);
  std::erase_if(steps, [](const std::string& text) { return !text.starts_with("step "); });
  return steps;
}

// Maps become small where words do not fit, and some steps are left out where not all fit.
TEST(StepMap, IsNotHigherThanThePage) {
  for (const char* schedule : {"zigzag", "balanced", "usp:ulysses=2", "ulysses"})
    for (const std::uint32_t workers : {2u, 4u, 8u, 16u, 32u, 64u})
      for (const char* medium : {"column", "text", "slide"}) {
        Problem problem = small_problem(workers, 8 * workers);
        problem.heads = problem.kv_heads = 64;
        const Page page = page_for(medium);
        const Picture p = step_map(build_plan(problem, find_schedule(schedule)), page);
        SCOPED_TRACE(fmt::format("{} {} {}", schedule, workers, medium));
        EXPECT_LE(p.height, page.height);
        EXPECT_GT(p.height, 50);
        for (const Shape& s : p.shapes)
          if (const auto* b = std::get_if<Box>(&s)) {
            EXPECT_GE(b->x, 0);
            EXPECT_LE(b->x + b->width, p.width + 1e-6);
            EXPECT_LE(b->y + b->height, p.height + 1e-6);
          }
        if (workers <= 16) {
          EXPECT_EQ(drawn_steps(p).size(),
                    drawn_steps(step_map(build_plan(problem, find_schedule(schedule)))).size());
        }
      }
}

TEST(StepMap, LeavesOutStepsEvenlyOnAPageThatIsFull) {
  const Plan plan = build_plan(small_problem(64, 8 * 64), find_schedule("ring"));
  EXPECT_EQ(drawn_steps(step_map(plan)).size(), 64u);
  const std::vector<std::string> some = drawn_steps(step_map(plan, page_for("slide")));
  ASSERT_GE(some.size(), 16u);
  const std::size_t every = 64 / some.size();
  EXPECT_GT(every, 1u);
  for (std::size_t i = 0; i < some.size(); ++i)
    EXPECT_EQ(some[i], fmt::format("step {}", every * i));
}

// The last map has all visible blocks, with the heads that several workers share out.
TEST(StepMap, HasAllBlocksInItsLastSmallMap) {
  for (const char* schedule : {"zigzag", "balanced", "usp:ulysses=2"}) {
    Problem problem = small_problem(32, 8 * 32);
    problem.heads = problem.kv_heads = 64;
    const Plan plan = build_plan(problem, find_schedule(schedule));
    const Picture p = step_map(plan);
    Box frame;
    for (const Shape& s : p.shapes)
      if (const auto* b = std::get_if<Box>(&s); b && b->outline && !b->fill) frame = *b;
    double area = 0;
    for (const Shape& s : p.shapes)
      if (const auto* b = std::get_if<Box>(&s); b && b->fill && overlap(*b, frame))
        area += b->width * b->height;
    const auto n = static_cast<double>(plan.layout.chunks.size());
    EXPECT_NEAR(area / (frame.width * frame.height), (n + 1) / (2 * n), 1e-3) << schedule;
  }
}

class StepMapOf : public testing::TestWithParam<Case> {};

// A block of step s is bright in its own panel and pale in each later one. Counted from the tasks.
TEST_P(StepMapOf, ShowsEachBlockInItsStepAndPaleAfterIt) {
  const Case c = GetParam();
  const Plan plan = build_plan(
      small_problem(c.workers, 16 * c.workers, Pass::Forward, Mask::full()), *c.schedule);
  const Picture p = step_map(plan);
  std::size_t panels = 0;
  for (const std::string& line : lines(p)) panels += line.starts_with("step ") ? 1 : 0;
  std::vector<Step> steps;  // with anything to show
  for (const Task& t : plan.tasks)
    if (is_attend(t.kind) || is_receive(t.kind) || is_exchange(t.kind)) steps.push_back(t.step);
  std::ranges::sort(steps);
  steps.erase(std::ranges::unique(steps).begin(), steps.end());
  EXPECT_EQ(panels, steps.size());

  std::map<std::string, std::size_t> bright, all, expected_bright, expected_all;
  for (const Shape& s : p.shapes) {
    const auto* b = std::get_if<Box>(&s);
    int worker = 0, step = 0;
    if (!b || std::sscanf(b->about.c_str(), "worker %d, step %d", &worker, &step) != 2) continue;
    ++all[b->about];
    if (b->fill == worker_colour(static_cast<std::uint32_t>(worker), c.workers)) ++bright[b->about];
  }
  for (const Task& t : plan.tasks) {
    if (!is_attend(t.kind)) continue;
    const std::string about = fmt::format("worker {}, step {}", t.worker_index, t.step);
    const std::size_t blocks =
        plan.regions[plan.rows(t).value].count * std::size_t{plan.regions[t.keys.value].count};
    expected_bright[about] += blocks;
    expected_all[about] += blocks * static_cast<std::size_t>(std::ranges::count_if(
                                        steps, [&](Step s) { return s >= t.step; }));
  }
  EXPECT_EQ(bright, expected_bright);
  EXPECT_EQ(all, expected_all);
}

INSTANTIATE_TEST_SUITE_P(All, StepMapOf, testing::ValuesIn(all_schedules(5)),
                         [](const auto& i) { return i.param.name(); });

TEST(StepMap, SaysWhatEachWorkerComputesAndReceives) {
  const auto ring = lines(drawn("ring"));
  EXPECT_THAT(ring, testing::Contains("3 of 4 workers compute"));
  EXPECT_THAT(ring, testing::Contains("q3 k1; gets kv1 from 2"));
  EXPECT_THAT(lines(drawn("balanced")), testing::Contains("q3 k0; gets q3 from 3"));
  EXPECT_THAT(lines(drawn("ulysses")), testing::Contains(HasSubstr("all-to-all of q")));
}

// In the legend, with an example from the picture, and only if there is one.
TEST(StepMap, ExplainsLabelsOfHeadsAndOfSeveralWorkers) {
  const auto notes = [](const char* schedule, std::uint32_t workers) {
    std::string all;
    for (const std::string& line : lines(drawn(schedule, workers))) all += line + "\n";
    return all;
  };
  EXPECT_THAT(notes("usp:ulysses=2", 4),
              HasSubstr("\nq0-1: of workers 0 to 1. h0-1: heads 0 to 1.\n"));
  EXPECT_THAT(notes("usp:ulysses=2:consecutive=ring", 8),
              HasSubstr("\nq0+4: of workers 0 and 4. h0-1: heads 0 to 1.\n"));
  EXPECT_THAT(notes("usp:ulysses=4:consecutive=ring", 8),
              HasSubstr("\nq0-6/2: of workers 0 to 6, 2 apart. h0: head 0.\n"));
  for (const char* schedule : {"ring", "zigzag", "balanced-split"}) {
    EXPECT_THAT(notes(schedule, 4), testing::Not(HasSubstr(": of workers"))) << schedule;
    EXPECT_THAT(notes(schedule, 4), testing::Not(HasSubstr(": head"))) << schedule;
  }
}

TEST(StepMap, DrawsWorkToScale) {
  std::vector<std::string> bars;
  for (const Shape& s : drawn("ring", 2).shapes)
    if (const auto* b = std::get_if<Box>(&s); b && b->about.starts_with("load")) {
      bars.push_back(b->about);
      EXPECT_NEAR(b->width, 54 * std::stod(b->about.substr(b->about.find(':') + 2)) / 100, 0.3);
    }
  // 8 tokens each: 36 pairs on the diagonal, 64 in the full block.
  EXPECT_THAT(bars, testing::ElementsAre("load of worker 0: 56% of the largest",
                                         "load of worker 1: 56% of the largest",
                                         "load of worker 1: 100% of the largest"));
}

TEST(StepMap, KeepsToThePage) {
  for (const char* schedule : {"ring", "zigzag", "balanced-split", "usp"})
    for (const std::uint32_t workers : {1u, 2u, 8u, 16u}) {
      const Picture p = drawn(schedule, workers);
      for (const Shape& s : p.shapes)
        if (const auto* l = std::get_if<Label>(&s)) {
          const Box b = bounds(*l);
          EXPECT_GE(b.x, 0) << l->text;
          EXPECT_LE(b.x + b.width, p.width) << l->text;
          EXPECT_LE(b.y + b.height, p.height) << l->text;
        }
    }
}

TEST(StepMap, RefusesWhatCannotBeRead) {
  EXPECT_THROW(drawn("ring", 65), Error);
  EXPECT_THROW(drawn("tree-decode"), Error);
}

}  // namespace
}  // namespace ringsched
