#include "ringsched/viz/gantt.hpp"
#include "ringsched/viz/terminal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/timeline/accounting.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"
#include "support/more_lanes.hpp"
#include "support/refusal.hpp"
#include "support/runs.hpp"
#include "support/tidy.hpp"

namespace ringsched {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::MatchesRegex;
using ::testing::Not;

class GanttOf : public testing::TestWithParam<std::uint32_t> {};

TEST_P(GanttOf, EveryRunIsTidy) {
  for (const NamedRun& r : predicted_runs(GetParam())) {
    SCOPED_TRACE(r.name);
    const Picture p = gantt(r.timeline);
    expect_tidy(p);
    EXPECT_EQ(svg(p), svg(gantt(r.timeline)));
    if (HasFailure()) return;
  }
}

// What is drawn of each worker is as long as what it did: bars against accounts made elsewhere.
TEST_P(GanttOf, EveryRunHasBarsAsLongAsTheTimeTheyStandFor) {
  for (const NamedRun& r : predicted_runs(GetParam())) {
    SCOPED_TRACE(r.name);
    GanttOptions wide;
    wide.width = 8000;  // so that hardly any bar is too thin to be seen
    const Picture p = gantt(r.timeline, wide);
    const RunTimes times = run_times(r.timeline);
    std::map<std::uint32_t, double> drawn;
    std::map<std::uint32_t, std::size_t> bars;
    double first = 1e9, last = 0;
    for (const Box& b : all<Box>(p)) {
      const std::size_t at = b.about.find(", worker ");
      if (at == std::string::npos || (b.about[0] != 'q' && b.about[0] != 'd')) continue;
      const auto worker = static_cast<std::uint32_t>(std::stoul(b.about.substr(at + 9)));
      drawn[worker] += b.width + (b.width > 3.3 ? 0.7 : 0);
      ++bars[worker];
      first = std::min(first, b.x);
      last = std::max(last, b.x + b.width);
    }
    for (const auto& [worker, length] : drawn) {
      const double share = static_cast<double>(times.workers[worker].attending.value) /
                           static_cast<double>(times.makespan.value);
      EXPECT_NEAR(length / (8000 - 200), share, 0.02 + 0.0005 * static_cast<double>(bars[worker]))
          << worker;
    }
    EXPECT_EQ(drawn.size(), GetParam());
    if (HasFailure()) return;
  }
}

TEST_P(GanttOf, TwoRunsIsTidyToo) {
  const auto runs = predicted_runs(GetParam());
  for (std::size_t i = 0; i + 1 < runs.size(); i += 3) {
    SCOPED_TRACE(runs[i].name);
    const Timeline& other = runs[(i * 7 + 3) % runs.size()].timeline;
    if (runs[i].timeline.unit != other.unit) continue;  // blocks and seconds do not compare
    expect_tidy(gantt(runs[i].timeline, other));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, GanttOf,
                         testing::Values(1, 2, 3, kSanitized ? 4 : 8, kSanitized ? 5 : 16));

Timeline run_of(const char* schedule, std::uint32_t workers, const Machine& m) {
  return predicted_run(
      limit_communication(build_plan(small_problem(workers, 64 * workers), find_schedule(schedule)),
                          {}),
      m);
}

// What moves has a row for what comes in and one for what goes out, whatever the lane.
TEST(Gantt, DrawsFurtherLanesAsItDrawsTheOthers) {
  const Plan plan =
      limit_communication(build_plan(small_problem(4, 330, Pass::Both), find_schedule("ring")), {});
  const Timeline three = predicted_run(plan, test_machine(Fabric::Switch, 4));
  Timeline eight = predicted_run(on_more_lanes(plan), test_machine(Fabric::Switch, 4));
  ASSERT_TRUE(std::any_of(eight.tasks.begin(), eight.tasks.end(), [](const TimelineTask& t) {
    return is_on_a_further_lane(t.lane) && t.end_ps > t.start_ps;
  }));
  expect_tidy(gantt(eight));
  for (std::size_t i = 0; i < eight.tasks.size(); ++i) {  // the same times
    eight.tasks[i].start_ps = three.tasks[i].start_ps;
    eight.tasks[i].end_ps = three.tasks[i].end_ps;
  }
  eight.critical_path = three.critical_path;
  EXPECT_EQ(svg(gantt(eight)), svg(gantt(three)));
}

TEST(Gantt, StaysLegibleForManyWorkers) {
  for (const std::uint32_t workers : {33u, 64u, 65u, 200u}) {
    SCOPED_TRACE(workers);
    const Picture p = gantt(run_of("balanced", workers, test_machine(Fabric::Switch, workers)));
    expect_tidy(p);
    EXPECT_LT(p.height, 2200);
    EXPECT_LT(all<Label>(p).size(), 300u);
  }
}

TEST(Gantt, HasTheNumbersOfTheRunInItsHead) {
  const Timeline t = run_of("ring", 8, find_machine("ideal"));
  const std::string text = svg(gantt(t));
  EXPECT_THAT(text,
              HasSubstr(">ring: 8 workers finish in 7.5 blocks and are idle 47% of the time<"));
  EXPECT_THAT(text, HasSubstr(">ideal; "));
  EXPECT_THAT(text, HasSubstr("makespan 7.5 blocks"));
  EXPECT_THAT(text, HasSubstr("idle 46.7%"));
  EXPECT_THAT(text, HasSubstr(">time in blocks<"));
  GanttOptions narrow;
  narrow.page = page_for("column");
  EXPECT_THAT(svg(gantt(run_of("zigzag", 8, find_machine("ideal")))),
              HasSubstr(">zigzag: 8 workers finish in 4 blocks and are never idle<"));
  GanttOptions one;
  one.worker = 3;
  EXPECT_THAT(svg(gantt(t, one)), HasSubstr(">Worker 3 of ring attends for 47% of 7.5 blocks<"));
  Timeline measured = t;
  measured.source = TimelineSource::Measured;
  EXPECT_THAT(svg(gantt(measured)), HasSubstr(">ring: 8 workers finished in 7.5 blocks and were"));
  EXPECT_THAT(svg(gantt(t, measured)),
              HasSubstr(">The predicted run and the measured run have equal makespans<"));
  EXPECT_THAT(svg(gantt(t, run_of("zigzag", 8, find_machine("ideal")))),
              testing::AllOf(HasSubstr(">zigzag finishes 47% sooner than ring<"),
                             HasSubstr(">ring and zigzag on ideal, 8 workers; ")));
  EXPECT_THAT(svg(gantt(t, narrow)), HasSubstr(" blocks<"))
      << "there is not room for it beside the axis";
  EXPECT_THAT(text, HasSubstr(">q7 k3<"));
  EXPECT_THAT(text, HasSubstr(">step 0<"));
}

// Its ends stand where the time axis has them, with words at its left if there is room.
TEST(Gantt, DrawsAWhiskerForWhatAMakespanMayBe) {
  Timeline t = run_of("ring", 8, find_machine("dgx-a100"));
  const std::int64_t end = t.makespan().value;
  const auto caps = [](const Picture& p) {
    std::vector<double> out;
    for (const Stroke& s : all<Stroke>(p))
      if (s.colour == ink::black && s.points.size() == 2 && s.points[0].x == s.points[1].x &&
          !s.dashed && !s.arrow)
        out.push_back(s.points[0].x);
    return out;
  };
  EXPECT_THAT(svg(gantt(t)), Not(HasSubstr("80%")));
  EXPECT_TRUE(caps(gantt(t)).empty());
  for (const bool room : {true, false}) {
    const std::int64_t low = room ? end * 3 / 4 : end / 10, high = end * 3 / 2;
    t.interval = {Picoseconds{low}, Picoseconds{high}};
    const Picture p = gantt(t);
    expect_tidy(p);
    EXPECT_THAT(svg(p), HasSubstr("80% interval of the makespan: "));
    // No line of the grid goes through the words.
    for (std::size_t i = 0; i < p.shapes.size(); ++i)
      if (const auto* l = std::get_if<Label>(&p.shapes[i]); l && l->text.starts_with("80%")) {
        const Box words = bounds(*l);
        ASSERT_GT(i, 0u);
        const auto* behind = std::get_if<Box>(&p.shapes[i - 1]);
        ASSERT_TRUE(behind);
        EXPECT_EQ(behind->fill, ink::white);
        EXPECT_LT(behind->x, words.x);
        EXPECT_GT(behind->x + behind->width, words.x + words.width);
        for (std::size_t k = i; k < p.shapes.size(); ++k)
          if (const auto* s = std::get_if<Stroke>(&p.shapes[k]); s && s->colour == ink::rule) {
            EXPECT_TRUE(s->dashed) << "of the legend";
          }
      }
    const std::vector<double> at = caps(p);
    ASSERT_EQ(at.size(), 3u);  // low, high, the makespan
    EXPECT_NEAR((at[2] - at[0]) / (at[1] - at[2]),
                static_cast<double>(end - low) / static_cast<double>(high - end), 1e-6);
    expect_tidy(gantt(t, t));
    GanttOptions one;
    one.worker = 2;
    EXPECT_THAT(svg(gantt(t, one)), Not(HasSubstr("80%")));
  }
}

TEST(Gantt, OfEightWorkersIsASmallFile) {
  for (const Schedule& s : schedules()) {
    Problem problem;  // eight workers, 64K tokens
    for (const Pass pass : {Pass::Forward, Pass::Both}) {
      problem.pass = pass;
      const Plan plan = limit_communication(build_plan(problem, s), {});
      const std::string text = svg(gantt(predicted_run(plan, find_machine("dgx-a100"))));
      const auto attends = static_cast<std::size_t>(
          std::ranges::count_if(plan.tasks, [](const Task& t) { return is_attend(t.kind); }));
      EXPECT_LT(text.size(), 22'000 + 660 * attends) << s.name << " " << to_text(pass);
    }
  }
}

// In the first half of the bars alone they would look like a phase of their own.
TEST(Gantt, LabelsAllAttendsOfAKindOrNone) {
  for (const std::uint32_t workers : {4u, 8u, 16u, 32u, 48u}) {
    const Timeline t = run_of("ring", workers, find_machine("ideal"));
    std::uint32_t own = 0, others = 0;
    for (const Label& label : all<Label>(gantt(t))) {
      unsigned q = 0, k = 0;
      if (label.anchor != Anchor::Middle ||
          std::sscanf(label.text.c_str(), "q%u k%u", &q, &k) != 2 ||
          label.text != fmt::format("q{} k{}", q, k))
        continue;
      ++(q == k ? own : others);
    }
    const std::uint32_t legend = own + others > 0 ? 1 : 0;  // which explains "q1 k0"
    EXPECT_TRUE(own == 0 || own == workers) << workers;
    EXPECT_TRUE(others == legend || others == workers * (workers - 1) / 2 + legend) << workers;
  }
}

TEST(Gantt, NamesThePartsOfSharesWhereThereIsRoom) {
  const auto words = [](std::uint32_t workers) {
    std::vector<std::string> out;
    for (const Label& l : all<Label>(gantt(run_of("zigzag", workers, find_machine("ideal")))))
      out.push_back(l.text);
    return out;
  };
  EXPECT_THAT(words(4), IsSupersetOf({"q0 k0", "q0b k3", "q3 k0a", "q1b"}));
  EXPECT_THAT(words(4), Contains("the second part of 1's queries"));
  const std::vector<std::string> many = words(32);  // bars of 30 points
  EXPECT_THAT(many, Contains("q0 k31"));
  for (const std::string& w : many) EXPECT_THAT(w, Not(MatchesRegex("q[0-9]+b.*")));
  EXPECT_THAT(many, Not(Contains("the second part of 1's queries")));
  // A pointer that rests on a bar is told all.
  EXPECT_THAT(svg(gantt(run_of("zigzag", 32, find_machine("ideal")))),
              HasSubstr(">q0b k31, worker 0"));
  for (const Label& l : all<Label>(gantt(run_of("ring", 4, find_machine("ideal")))))
    EXPECT_NE(l.text, "the second part of 1's queries");
}

TEST(Gantt, HatchesHelpingOnly) {
  const Picture p = gantt(run_of("balanced", 4, find_machine("ideal")));
  std::size_t helping = 0;
  for (const Box& b : all<Box>(p)) {
    if (b.about.empty()) continue;
    int queries = 0, keys = 0, worker = 0;
    ASSERT_EQ(std::sscanf(b.about.c_str(), "q%d k%d, worker %d", &queries, &keys, &worker), 3)
        << b.about;
    EXPECT_EQ(b.hatch == Hatch::Diagonal, queries != worker) << b.about;
    EXPECT_EQ(b.fill, worker_colour(static_cast<std::uint32_t>(queries), 4)) << b.about;
    helping += queries != worker ? 1 : 0;
  }
  EXPECT_EQ(helping, 1u);
  EXPECT_THAT(svg(p), HasSubstr("help: "));
  EXPECT_THAT(svg(gantt(run_of("ring", 4, find_machine("ideal")))), Not(HasSubstr("help: ")));
}

std::size_t outlined(const Picture& p) {
  std::size_t n = 0;
  for (const Box& b : all<Box>(p)) n += b.outline == ink::black && b.about.empty() ? 1 : 0;
  return n;
}

GanttOptions with_path(PathLook look) {
  GanttOptions options;
  options.path = look;
  options.page.legend = false;
  return options;
}

// By what a pointer is told of them: the bars of attends that have the full colour of their worker.
std::size_t full_bars(const Picture& p, std::uint32_t workers) {
  std::size_t n = 0;
  for (const Box& b : all<Box>(p)) {
    unsigned queries = 0;
    if (std::sscanf(b.about.c_str(), "q%u k", &queries) != 1) continue;
    n += b.fill == worker_colour(queries, workers) ? 1 : 0;
  }
  return n;
}

TEST(GanttPath, FadesAllThatIsNotOnItOrIsOutlined) {
  const Timeline t = run_of("ring", 5, test_machine(Fabric::Switch, 5));
  std::size_t attends = 0, on_path = 0;
  for (const TimelineTask& x : t.tasks) attends += is_attend(x.kind) ? 1 : 0;
  for (const CriticalStep& s : t.critical_path)
    on_path += is_attend(t.tasks[s.task.value].kind) && s.end > s.start ? 1 : 0;
  ASSERT_GT(on_path, 1u);
  ASSERT_LT(on_path, attends);
  EXPECT_EQ(full_bars(gantt(t, with_path(PathLook::Fade)), 5), on_path);
  EXPECT_EQ(full_bars(gantt(t, with_path(PathLook::Outline)), 5), attends);
  EXPECT_GE(outlined(gantt(t, with_path(PathLook::Outline))), on_path);
  EXPECT_EQ(full_bars(gantt(t, with_path(PathLook::None)), 5), attends);
  EXPECT_EQ(outlined(gantt(t, with_path(PathLook::None))), 0u);
  EXPECT_THAT(svg(gantt(t)), HasSubstr("critical path; all else is pale"));
  const auto many = [](std::uint32_t workers) {
    return svg(gantt(run_of("ring", workers, test_machine(Fabric::Switch, workers))));
  };
  EXPECT_THAT(many(16), HasSubstr("all else is pale"));
  EXPECT_THAT(many(17), Not(HasSubstr("all else is pale"))) << "most of the chart would be";
}

// A worker that is busy all the time sets the makespan as much as one on the path.
TEST(GanttPath, IsNotDrawnUnlessAskedForWhereItIsOneOfSeveral) {
  const Timeline t = run_of("balanced", 8, find_machine("ideal"));
  EXPECT_EQ(outlined(gantt(t)), 0u);
  EXPECT_THAT(svg(gantt(t)), Not(HasSubstr("critical path")));
  EXPECT_GT(outlined(gantt(t, with_path(PathLook::Fade))), 0u);
  EXPECT_GT(outlined(gantt(run_of("ring", 8, find_machine("ideal")))), 0u);
  // All workers attend alike, and meet in exchanges. Only one of them can be on the path.
  const Timeline meets = run_of("ulysses", 4, find_machine("dgx-a100"));
  EXPECT_EQ(outlined(gantt(meets)), 0u);
  EXPECT_GT(outlined(gantt(meets, with_path(PathLook::Fade))), 0u);
}

TEST(GanttPath, IsNotDrawnWhereNoOneCouldFollowIt) {
  const Timeline whole = run_of("ring", 4, find_machine("dgx-a100"));
  ASSERT_GT(outlined(gantt(whole)), 0u);
  Timeline t = whole;
  t.critical_path.clear();
  for (const std::uint32_t worker : {0u, 3u})  // the first attend of each
    for (std::uint32_t id = 0; id < t.tasks.size(); ++id)
      if (t.tasks[id].worker == worker && is_attend(t.tasks[id].kind)) {
        t.critical_path.push_back({TaskId{id}, {t.tasks[id].start_ps}, {t.tasks[id].end_ps}});
        break;
      }
  EXPECT_EQ(outlined(gantt(t)), 0u);
  EXPECT_EQ(refusal([&] { gantt(t, with_path(PathLook::Outline)); }),
            "the critical path cannot be drawn: it goes from worker 0 to worker 3 without a "
            "message that takes time");
  t.critical_path.clear();
  EXPECT_THAT(refusal([&] { gantt(t, with_path(PathLook::Outline)); }), HasSubstr("has none"));
  EXPECT_EQ(outlined(gantt(whole, whole)), 0u);
  EXPECT_EQ(full_bars(gantt(whole, whole), 4), 20u);
  EXPECT_THROW(gantt(whole, whole, with_path(PathLook::Fade)), Error);
}

bool strikes(const Point& a, const Point& b, const Box& box) {
  const double x0 = std::min(a.x, b.x), x1 = std::max(a.x, b.x);
  const double y0 = std::min(a.y, b.y), y1 = std::max(a.y, b.y);
  return x1 > box.x && x0 < box.x + box.width && y1 > box.y && y0 < box.y + box.height;
}

// An arrow for each message of the path, from the row where the path is to the row where it goes
// on, and through no words.
TEST_P(GanttOf, ThePathGoesAroundWords) {
  std::size_t arrows = 0, far = 0;
  for (const NamedRun& r : predicted_runs(GetParam())) {
    SCOPED_TRACE(r.name);
    const Picture p = gantt(r.timeline);
    if (outlined(p) == 0) continue;
    std::size_t messages = 0, drawn = 0;
    for (const CriticalStep& s : r.timeline.critical_path)
      messages += is_transfer(r.timeline.tasks[s.task.value].kind) && s.end > s.start ? 1 : 0;
    for (const Stroke& s : all<Stroke>(p)) {
      if (!s.arrow) continue;
      ++drawn;
      far += s.points.size() > 4 ? 1 : 0;
      for (std::size_t i = 1; i < s.points.size(); ++i) {
        EXPECT_TRUE(s.points[i].x == s.points[i - 1].x || s.points[i].y == s.points[i - 1].y);
        for (const Label& l : all<Label>(p))
          EXPECT_FALSE(strikes(s.points[i - 1], s.points[i], bounds(l))) << l.text;
      }
    }
    EXPECT_EQ(drawn, messages);
    arrows += drawn;
    if (HasFailure()) return;
  }
  if (GetParam() > 1) {
    EXPECT_GT(arrows, 0u);
  }
  if (GetParam() > 4) {
    EXPECT_GT(far, 0u);
  }
}

// It stays with a worker that waits for its own sends, or for a message that it asked for last.
TEST(GanttPath, LeavesTheWorkerWhereItIs) {
  std::size_t flat = 0, steps = 0;
  for (const char* schedule : {"ring", "zigzag", "balanced"}) {
    const Timeline t = run_of(schedule, 8, find_machine("dgx-a100"));
    std::uint32_t at = ~0u;
    for (const CriticalStep& s : t.critical_path) {
      const TimelineTask& x = t.tasks[s.task.value];
      if (s.end <= s.start) continue;
      if (is_transfer(x.kind)) steps += at == x.worker || (at == ~0u && is_send(x.kind)) ? 1 : 0;
      at = x.worker;
    }
    for (const Stroke& s : all<Stroke>(gantt(t, with_path(PathLook::Outline))))
      flat += s.arrow && s.points.size() == 2 && s.points[0].y == s.points[1].y ? 1 : 0;
  }
  EXPECT_GT(steps, 0u);
  EXPECT_EQ(flat, steps);
}

// A line stands where each row's first bar of the backward pass does.
TEST(Gantt, MarksWhereTheBackwardPassBegins) {
  const auto both = [](const char* schedule) {
    return predicted_run(
        limit_communication(build_plan(small_problem(4, 256, Pass::Both), find_schedule(schedule)),
                            {}),
        find_machine("ideal"));
  };
  const Picture p = gantt(both("ring"));
  expect_tidy(p);
  std::map<double, double> begins;  // by the top of a row
  for (const Box& b : all<Box>(p))
    if (b.about.starts_with("dq"))
      begins[b.y] = begins.contains(b.y) ? std::min(begins[b.y], b.x) : b.x;
  ASSERT_EQ(begins.size(), 4u);
  std::size_t lines = 0;
  for (const Stroke& s : all<Stroke>(p)) {
    if (s.points.size() < 8) continue;
    ++lines;
    for (const auto& [top, x] : begins) {
      bool passes = false;
      for (std::size_t i = 1; i < s.points.size(); ++i)
        passes = passes || (std::abs(s.points[i].x - x) < 0.01 && s.points[i].y > top &&
                            s.points[i - 1].y <= top);
      EXPECT_TRUE(passes) << top;
    }
  }
  EXPECT_EQ(lines, 1u);
  EXPECT_THAT(svg(p), HasSubstr(">backward<"));
  EXPECT_THAT(svg(gantt(run_of("ring", 4, find_machine("ideal")))), Not(HasSubstr(">backward<")));
  expect_tidy(gantt(both("ring"), both("zigzag")));
  // Messages that cost nothing have no bars, so the legend does not explain them.
  EXPECT_THAT(svg(gantt(both("ring"), both("zigzag"))), Not(HasSubstr("waiting for")));
}

// The exchange of results is a step of its own, in which nothing is attended.
TEST(Gantt, ExplainsStepsThatHaveNoMark) {
  const auto drawn = [](const char* schedule) {
    return svg(
        gantt(predicted_run(build_plan(small_problem(4, 256, Pass::Both), find_schedule(schedule)),
                            test_machine(Fabric::Switch, 4))));
  };
  EXPECT_THAT(drawn("ulysses"), HasSubstr(">step; in step 1 nothing is attended<"));
  EXPECT_THAT(drawn("zigzag"), Not(HasSubstr("nothing is attended")));
}

TEST(Gantt, CountsWholeBlocks) {
  std::vector<std::string> ticks;
  for (const Label& l : all<Label>(gantt(run_of("balanced", 8, find_machine("ideal")))))
    if (l.colour == ink::grey && l.size == 10 && l.anchor == Anchor::Middle)
      ticks.push_back(l.text);
  EXPECT_THAT(ticks, ::testing::ElementsAre("0", "1", "2", "3", "4"));
}

TEST(Gantt, DrawsEqualBandsOnce) {
  const std::string text = svg(gantt(run_of("balanced", 256, find_machine("ideal"))));
  EXPECT_THAT(text, HasSubstr(">workers 112 to 127<"));
  EXPECT_THAT(text, HasSubstr(">workers 128 to 255, alike<"));
  EXPECT_THAT(text, Not(HasSubstr(">workers 128 to 143<")));
  const std::string ring = svg(gantt(run_of("ring", 256, find_machine("ideal"))));
  EXPECT_THAT(ring, HasSubstr(">workers 0 to 15<")) << "each worker ends later than the one before";
  EXPECT_THAT(ring, HasSubstr(">workers 240 to 255<"));
}

// Workers that differ by a little are alike, and one that computes for longer is not.
TEST(Gantt, DrawsBandsOnceThatDifferByLittle) {
  Timeline t = run_of("zigzag", 256, find_machine("ideal"));
  EXPECT_THAT(svg(gantt(t)), HasSubstr(">workers 0 to 255, alike<"));
  const std::int64_t end = t.makespan().value;
  const auto lengthen = [&](double share) {
    Timeline longer = t;
    TimelineTask* last = nullptr;
    for (TimelineTask& x : longer.tasks)
      if (x.worker == 200 && x.lane == Lane::Compute && (!last || x.end_ps > last->end_ps))
        last = &x;
    last->end_ps = end + static_cast<std::int64_t>(share * static_cast<double>(end));
    return svg(gantt(longer));
  };
  EXPECT_THAT(lengthen(0.01), HasSubstr(">workers 0 to 255, alike<"));
  EXPECT_THAT(lengthen(0.1), HasSubstr(">workers 0 to 255<"))
      << "the mean of a band is alike, but not each worker";
}

// The labels of attends, without the legend's.
std::size_t labelled_attends(const Picture& p) {
  std::size_t n = 0;
  for (const Label& label : all<Label>(p)) {
    unsigned q = 0, k = 0;
    n += label.anchor == Anchor::Middle &&
         std::sscanf(label.text.c_str(), "q%u k%u", &q, &k) == 2 &&
         label.text == fmt::format("q{} k{}", q, k);
  }
  return n - 1;
}

// Numbers of tasks stand where they hide no label of a bar.
TEST(Gantt, LabelsAllAttendsOfAKindOrNoneBesideNumbersToo) {
  const Timeline a = run_of("ring", 4, find_machine("dgx-a100"));
  Timeline b = a;
  b.source = TimelineSource::Measured;
  std::size_t attends = 0;
  for (TimelineTask& t : b.tasks) {
    if (!is_attend(t.kind)) continue;
    t.end_ps -= (t.end_ps - t.start_ps) / 10 * static_cast<std::int64_t>(attends % 4);
    ++attends;
  }
  for (const char* medium : {"", "text"}) {
    GanttOptions options;
    if (*medium) options.page = page_for(medium);
    options.page.legend = true;
    const Picture p = gantt(a, b, options);
    expect_tidy(p);
    EXPECT_EQ(labelled_attends(p), 2 * attends) << medium;
  }
}

// The stripes of a bar that helps can be seen beside its label.
TEST(Gantt, LeavesStripesBesideLabels) {
  for (const std::uint32_t workers : {4u, 8u, 16u}) {
    const Picture p = gantt(run_of("balanced", workers, find_machine("ideal")),
                            run_of("zigzag", workers, find_machine("ideal")));
    for (const Box& bar : all<Box>(p)) {
      if (bar.hatch != Hatch::Diagonal || bar.about.empty() || bar.about[0] != 'q') continue;
      for (const Box& plate : all<Box>(p))
        if (plate.about.empty() && plate.fill == bar.fill && plate.width < bar.width &&
            overlap(plate, bar) && plate.y > bar.y) {
          EXPECT_GE(plate.x - bar.x, 5) << bar.about;
        }
    }
  }
}

TEST(Gantt, CallsOutWhatDiffersMost) {
  const Timeline predicted = run_of("ring", 4, test_machine(Fabric::Switch, 4));
  Timeline measured = predicted;
  measured.source = TimelineSource::Measured;
  std::uint32_t longest = 0;
  for (std::uint32_t i = 0; i < measured.tasks.size(); ++i)
    if (measured.tasks[i].kind == TaskKind::Attend) longest = i;
  measured.tasks[longest].end_ps += measured.makespan().value / 2;
  const std::string text = svg(gantt(predicted, measured));
  EXPECT_THAT(text, HasSubstr(">predicted<"));
  EXPECT_THAT(text, HasSubstr(">measured<"));
  EXPECT_THAT(text, HasSubstr("Tasks that differ most"));
  const TimelineTask& x = predicted.tasks[longest];
  EXPECT_THAT(text, HasSubstr("1   q" + std::to_string(x.queries) + " k" + std::to_string(x.other) +
                              ", worker " + std::to_string(x.worker)));
}

// Percents, unless a difference in the list is so large that a ratio reads better.
TEST(Gantt, SaysAllDifferencesInOneForm) {
  const Timeline predicted = run_of("ring", 4, test_machine(Fabric::Switch, 4));
  const auto slower = [&](std::int64_t first, std::int64_t others) {
    Timeline t = predicted;
    t.source = TimelineSource::Measured;
    for (TimelineTask& x : t.tasks) {
      const std::int64_t took = x.end_ps - x.start_ps;
      x.start_ps *= 4;
      x.end_ps = x.start_ps + took * (x.worker == 0 ? first : others) / 4;
    }
    return svg(gantt(predicted, t));
  };
  const std::string percents = slower(5, 7);
  EXPECT_THAT(percents, HasSubstr(">+25.0%<"));
  EXPECT_THAT(percents, HasSubstr(">+75.0%<"));
  EXPECT_THAT(percents, HasSubstr(" (+75.0%)<"));
  EXPECT_THAT(percents, Not(HasSubstr("x<")));
  const std::string ratios = slower(3, 12);
  EXPECT_THAT(ratios, HasSubstr(">0.75x<"));
  EXPECT_THAT(ratios, HasSubstr(">3.00x<"));
  EXPECT_THAT(ratios, HasSubstr(" (3.00x)<"));
  EXPECT_THAT(ratios, Not(HasSubstr("%<")));
  EXPECT_THAT(ratios, Not(HasSubstr("%)<")));
}

// Names that begin alike, and machines that do.
TEST(Gantt, TellsTwoRunsApartByWhatDiffersInTheirNames) {
  Timeline a = predicted_runs(4)[0].timeline, b = a;
  a.schedule = "usp:ulysses=8:ring=zigzag";
  b.schedule = "usp:ulysses=8:ring=striped:consecutive=ring";
  const auto sides = [&] { return svg(gantt(a, b)); };
  EXPECT_THAT(sides(), HasSubstr(">ring=zigzag</text>"));
  EXPECT_THAT(sides(), HasSubstr(">ring=striped:consecu...</text>"));
  b.schedule = "usp";
  EXPECT_THAT(sides(), HasSubstr(">default</text>"));
  b.schedule = a.schedule;
  a.machine = "a-cluster-of-our-own-with-100-nodes";
  b.machine = "a-cluster-of-our-own-with-200-nodes";
  EXPECT_THAT(sides(), HasSubstr(">...ith-100-nodes</text>"));
  EXPECT_THAT(sides(), HasSubstr(">...ith-200-nodes</text>"));
  EXPECT_THAT(sides(), HasSubstr("usp:ulysses=8:ring=zigzag on a-cluster"));
}

TEST(Gantt, RefusesWhatCannotBeDrawn) {
  Timeline t = run_of("ring", 2, find_machine("ideal"));
  GanttOptions narrow;
  narrow.width = 10;
  EXPECT_THROW(gantt(t, narrow), Error);
  Timeline still = t;
  for (TimelineTask& x : still.tasks) x.start_ps = x.end_ps = 0;
  EXPECT_THROW(gantt(still), Error);
  t.tasks.clear();
  t.details.clear();
  t.critical_path.clear();
  EXPECT_THROW(gantt(t), Error);
  EXPECT_THROW(
      gantt(run_of("ring", 2, find_machine("ideal")), run_of("ring", 3, find_machine("ideal"))),
      Error);
}

TEST(Gantt, OfARunThatDidNotEndSaysSoAndStandsAlone) {
  Timeline t = run_of("ring", 2, find_machine("ideal"));
  const std::string whole = svg(gantt(t));
  EXPECT_THAT(whole, Not(HasSubstr("INCOMPLETE")));
  t.incomplete = "process 1 is gone";
  t.unfinished = {TaskId{1}};
  const std::string text = svg(gantt(t));
  EXPECT_THAT(text, HasSubstr("INCOMPLETE, given up after"));
  EXPECT_THAT(text, HasSubstr("process 1 is gone"));
  EXPECT_THAT(text, Not(HasSubstr("overlap")));
  expect_tidy(gantt(t));
  // With no heading as well.
  for (const char* title : {"", "Mine"}) {
    GanttOptions plain{.page = page_for("column")};
    plain.page.title = title;
    EXPECT_THAT(svg(gantt(t, plain)), HasSubstr(">INCOMPLETE, given up after"));
    expect_tidy(gantt(t, plain));
  }
  // Worker 0 has computed all it had to, or waits for a turn that it did not get.
  EXPECT_THAT(text, HasSubstr(">done<"));
  for (std::uint32_t id = 0; id < t.tasks.size(); ++id)
    if (t.tasks[id].worker == 0 && t.tasks[id].kind == TaskKind::Attend)
      t.unfinished = {TaskId{id}};
  const std::string waits = svg(gantt(t));
  EXPECT_THAT(waits, Not(HasSubstr(">done<")));
  EXPECT_THAT(waits, HasSubstr(">wait<"));
  EXPECT_THAT(waits, Not(HasSubstr("no times from its process")));
  for (TimelineTask& task : t.tasks)
    if (task.worker == 0) task.start_ps = task.end_ps = 0;
  const std::string lost = svg(gantt(t));
  EXPECT_THAT(lost, HasSubstr("no times from its process"));
  EXPECT_THAT(lost, Not(HasSubstr(">0%<")));
  EXPECT_THAT(terminal_gantt(t), HasSubstr("? no times from its process"));
  expect_tidy(gantt(t));
  EXPECT_THROW(gantt(t, run_of("ring", 2, find_machine("ideal"))), Error);
  EXPECT_THROW(gantt(run_of("ring", 2, find_machine("ideal")), t), Error);
}

// Names come from files and may be anything.
TEST(Gantt, KeepsToThePageWhateverTheNames) {
  Timeline t = run_of("ring", 2, find_machine("ideal"));
  t.schedule = std::string(500, 'W');
  t.machine = "<script>\n" + std::string(300, 'm');
  expect_tidy(gantt(t));
  EXPECT_THAT(svg(gantt(t)), Not(HasSubstr("<script")));
}

}  // namespace
}  // namespace ringsched
