// Pictures for papers and slides: as wide as requested, with readable words.
#include "ringsched/viz/page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/viz/block_map.hpp"
#include "ringsched/viz/gantt.hpp"
#include "ringsched/viz/step_map.hpp"
#include "ringsched/viz/sweep_plot.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"
#include "support/runs.hpp"
#include "support/tidy.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Medium {
  const char* name;
  double width, least;
};
constexpr Medium kMedia[] = {{"column", 238, 6}, {"text", 506, 6}, {"slide", 960, 10}};

void expect_fit(const Picture& p, const Medium& m) {
  EXPECT_DOUBLE_EQ(p.width, m.width);
  EXPECT_GT(p.height, 20);
  expect_tidy(p);
  for (const Label& l : all<Label>(p)) EXPECT_GE(l.size, m.least - 1e-9) << l.text;
  EXPECT_THAT(svg(p), HasSubstr("width=\"" + std::to_string(int(m.width)) + "pt\""));
}

TEST(Page, OfAnUnknownMediumIsRefused) {
  EXPECT_THROW(page_for("poster"), Error);
  EXPECT_THROW(page_for(""), Error);
}

TEST(Page, MakesWhatIsOnItSmallerAndKeepsItsShape) {
  Picture p;
  p.width = 340;
  p.height = 100;
  p.shapes.emplace_back(Box{10, 20, 30, 40, ink::keys, Hatch::None, ink::black, 2, {}});
  p.shapes.emplace_back(Stroke{{{1, 2}, {3, 4}}, ink::grey, 2, false, false});
  p.shapes.emplace_back(Area{{{10, 0}, {0, 10}, {5, 5}}, ink::keys});
  p.shapes.emplace_back(Label{50, 60, 10, ink::black, Anchor::End, false, "x"});
  const Picture q = on_page(p, page_for("column"));
  EXPECT_DOUBLE_EQ(q.width, 238);
  EXPECT_DOUBLE_EQ(q.height, 70);
  const Box b = all<Box>(q)[0];
  EXPECT_DOUBLE_EQ(b.x, 7);
  EXPECT_DOUBLE_EQ(b.y, 14);
  EXPECT_DOUBLE_EQ(b.width, 21);
  EXPECT_DOUBLE_EQ(b.height, 28);
  EXPECT_DOUBLE_EQ(b.outline_width, 1.4);
  EXPECT_DOUBLE_EQ(all<Stroke>(q)[0].points[1].x, 2.1);
  EXPECT_DOUBLE_EQ(all<Stroke>(q)[0].width, 1.4);
  EXPECT_DOUBLE_EQ(all<Area>(q)[0].corners[1].y, 7);
  EXPECT_DOUBLE_EQ(all<Label>(q)[0].size, 7);
  EXPECT_DOUBLE_EQ(all<Label>(q)[0].x, 35);
  EXPECT_EQ(svg(on_page(p, Page{})), svg(p));
}

TEST(Page, TakesEveryGanttChart) {
  for (const Medium& m : kMedia)
    for (const std::uint32_t workers : {1u, 4u, 8u})
      for (const NamedRun& r : predicted_runs(workers)) {
        SCOPED_TRACE(m.name);
        SCOPED_TRACE(r.name);
        expect_fit(gantt(r.timeline, {.page = page_for(m.name)}), m);
        GanttOptions all{.page = page_for(m.name)};
        all.page.legend = true;
        all.page.title = "A title of some length, which a column has no room for in one line";
        expect_fit(gantt(r.timeline, all), m);
        if (HasFailure()) return;
      }
}

TEST(Page, TakesManyWorkersAndTwoRuns) {
  for (const Medium& m : kMedia) {
    SCOPED_TRACE(m.name);
    for (const std::uint32_t workers : {32u, 64u, 200u}) {
      SCOPED_TRACE(workers);
      const Machine machine = test_machine(Fabric::Switch, workers);
      const auto run = [&](const char* name) {
        return predicted_run(build_plan(small_problem(workers, 64 * workers), find_schedule(name)),
                             machine);
      };
      const Timeline ring = run("ring"), zigzag = run("zigzag");
      expect_fit(gantt(ring, {.page = page_for(m.name)}), m);
      expect_fit(gantt(ring, zigzag, {.page = page_for(m.name)}), m);
    }
    const auto runs = predicted_runs(4);
    expect_fit(gantt(runs[0].timeline, runs[0].timeline, {.page = page_for(m.name)}), m);
    expect_fit(gantt(runs[0].timeline, {.worker = 1, .page = page_for(m.name)}), m);
  }
}

TEST(Page, IsNotLeftAtItsFootByRowsThatCouldBeLower) {
  for (const Medium& m : kMedia) {
    SCOPED_TRACE(m.name);
    const Page page = page_for(m.name);
    for (const std::uint32_t workers : {4u, 8u, 16u, 32u, 64u, 200u}) {
      SCOPED_TRACE(workers);
      const Machine machine = test_machine(Fabric::Switch, workers);
      const Timeline t = predicted_run(
          build_plan(small_problem(workers, 64 * workers), find_schedule("ring")), machine);
      const Picture alone = gantt(t, {.page = page});
      EXPECT_LE(alone.height, page.height);
      if (workers == 8) {
        EXPECT_TRUE(std::ranges::any_of(all<Label>(alone), [](const Label& l) {
          return l.text == "q7 k6";
        })) << "lower, but not so low that there is no room for words";
      }
      EXPECT_LE(gantt(t, t, {.page = page}).height, page.height);
    }
  }
}

TEST(Page, IsNotLeftAtItsFootByMapsThatCouldBeSmaller) {
  for (const Medium& m : kMedia) {
    SCOPED_TRACE(m.name);
    const Page page = page_for(m.name);
    for (const std::uint32_t workers : {2u, 8u, 16u, 64u}) {
      SCOPED_TRACE(workers);
      const Plan plan = build_plan(small_problem(workers, 64 * workers), find_schedule("zigzag"));
      const Picture traffic = traffic_map(traffic_of(plan, "", 8), page);
      expect_fit(traffic, m);
      EXPECT_LE(traffic.height, page.height + 1e-6);
      const Plan* const plans[] = {&plan, &plan, &plan};
      for (const std::size_t some : {1u, 2u, 3u})
        EXPECT_LE(block_map(std::span(plans, some), page).height, page.height + 1e-6);
    }
  }
}

TEST(Page, TakesEveryBlockMap) {
  for (const Medium& m : kMedia)
    for (const std::uint32_t workers : {2u, 4u, 8u, 32u}) {
      SCOPED_TRACE(workers);
      std::vector<Plan> plans;
      for (const char* s : {"ring", "zigzag", "balanced", "balanced-split"})
        plans.push_back(build_plan(small_problem(workers, 64 * workers), find_schedule(s)));
      std::vector<const Plan*> some;
      for (const Plan& p : plans) {
        some.push_back(&p);
        expect_fit(block_map(some, page_for(m.name)), m);
      }
    }
}

TEST(Page, HasATitleAndALegendWhereTheyWereAskedFor) {
  const Timeline t = predicted_run(build_plan(small_problem(4, 256), find_schedule("ring")),
                                   test_machine(Fabric::Switch, 4));
  const auto drawn = [&](Page page) { return svg(gantt(t, {.page = page})); };
  const auto wordless = drawn(page_for("column"));
  EXPECT_THAT(wordless, Not(HasSubstr(">attend: own queries<")));
  EXPECT_THAT(wordless, Not(HasSubstr(">makespan ")));
  EXPECT_THAT(drawn(page_for("slide")), HasSubstr(">attend: own queries<"));
  EXPECT_THAT(drawn(page_for("slide")), HasSubstr(">makespan "));
  Page page = page_for("text");
  page.title = "Mine";
  page.legend = true;
  EXPECT_THAT(drawn(page), HasSubstr(">Mine<"));
  EXPECT_THAT(drawn(page), HasSubstr("<title>Mine</title>"));
  EXPECT_THAT(drawn(page), HasSubstr(">attend: own queries<"));
  EXPECT_THAT(drawn(page), Not(HasSubstr(">makespan ")));
  Page usual;
  usual.heading = false;
  EXPECT_THAT(drawn(usual), HasSubstr("width=\"1100\""));
  EXPECT_THAT(drawn(usual), Not(HasSubstr(">makespan ")));
}

// A title that needs more than a line gets more: nothing leaves the page, and nothing is cut.
TEST(Page, WrapsLongTitles) {
  const std::string title =
      "A rather long title of a picture that nobody would write but somebody might still paste "
      "into a command line to see what happens";
  const Plan plan = build_plan(small_problem(4, 330), find_schedule("zigzag"));
  const Plan* const plans[] = {&plan};
  for (const char* medium : {"column", "text", "slide"}) {
    SCOPED_TRACE(medium);
    Page page = page_for(medium);
    page.title = title;
    GanttOptions options;
    options.page = page;
    const Timeline t = predicted_run(plan, test_machine(Fabric::Switch, 4));
    for (const Picture& p :
         {gantt(t, options), gantt(t, t, options), block_map(plans, page), step_map(plan, page)}) {
      std::string drawn;
      for (const Label& l : all<Label>(p)) {
        const Box b = bounds(l);
        EXPECT_LE(b.x + b.width, p.width + 1e-6) << l.text;
        if (l.bold && (" " + title + " ").find(" " + l.text + " ") != std::string::npos)
          drawn += (drawn.empty() ? "" : " ") + l.text;
      }
      EXPECT_THAT(drawn, HasSubstr(title));
    }
  }
}

}  // namespace
}  // namespace ringsched
