// How exchanges look in each kind of picture, and attends of some heads only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/timeline/accounting.hpp"
#include "ringsched/viz/block_map.hpp"
#include "ringsched/viz/gantt.hpp"
#include "ringsched/viz/html.hpp"
#include "ringsched/viz/task_graph.hpp"
#include "ringsched/viz/terminal.hpp"
#include "ringsched/viz/trace.hpp"
#include "support/cases.hpp"
#include "support/exchange_plans.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Plan ulysses_of(std::uint32_t workers, Pass pass = Pass::Forward, Mask mask = Mask::causal()) {
  return ulysses_by_hand(small_problem(workers, 512 * workers, pass, std::move(mask)));
}

// Each exchange takes as long as each attend, so that both have room for words.
Timeline evenly_timed(const Plan& plan) {
  Timeline t = timeline_of(plan, TimelineSource::Predicted, "m");
  std::int64_t at = 0;
  for (std::size_t i = 0; i < t.tasks.size(); ++i) {
    if (i % plan.problem.workers == 0) at += 1'000'000;  // all of one kind at one time
    t.tasks[i].start_ps = at - 1'000'000;
    t.tasks[i].end_ps = at;
  }
  return t;
}

template <class Kind>
std::vector<Kind> shapes_of(const Picture& p) {
  std::vector<Kind> found;
  for (const Shape& s : p.shapes)
    if (const auto* x = std::get_if<Kind>(&s)) found.push_back(*x);
  return found;
}

std::string cargo_of(const Timeline& t, std::uint32_t task) {
  return t.value(t.tasks[task]).symbol;
}

bool has_words(const Picture& p, const std::string& text) {
  const std::vector<Label> labels = shapes_of<Label>(p);
  return std::ranges::any_of(labels, [&](const Label& l) { return l.text == text; });
}

TEST(ExchangeGantt, AnExchangeIsOneBarOverTheRowsOfItsMembers) {
  const Plan plan = ulysses_of(3);
  const Picture p = gantt(evenly_timed(plan));
  std::vector<Box> bars;
  for (const Box& b : shapes_of<Box>(p))
    if (b.about.starts_with("all-to-all q")) bars.push_back(b);
  ASSERT_EQ(bars.size(), 3u) << "one for each worker, over both of its lanes";
  EXPECT_THAT(bars[0].about, HasSubstr("among 3 workers"));
  // The gap between two bars is filled.
  for (std::size_t i = 1; i < bars.size(); ++i) {
    const double top = bars[i - 1].y + bars[i - 1].height, bottom = bars[i].y;
    const std::vector<Box> boxes = shapes_of<Box>(p);
    EXPECT_TRUE(std::ranges::any_of(boxes,
                                    [&](const Box& b) {
                                      return std::abs(b.x - bars[i].x) < 0.01 &&
                                             std::abs(b.width - bars[i].width) < 0.8 &&
                                             std::abs(b.y - top) < 1.5 &&
                                             std::abs(b.y + b.height - bottom) < 1.5;
                                    }))
        << "between workers " << i - 1 << " and " << i;
  }
  EXPECT_TRUE(has_words(p, "all-to-all q"));
  EXPECT_TRUE(has_words(p, "all-to-all kv"));
  EXPECT_TRUE(has_words(p, "exchange among the joined workers"));
  EXPECT_TRUE(has_words(p, "q0-2 k0-2 h2-3"));
  EXPECT_TRUE(has_words(p, "attend: own heads"));
  EXPECT_TRUE(has_words(p, "K/V transfer")) << "nothing is sent or received";
  EXPECT_FALSE(has_words(p, "help: another worker's queries"));
}

TEST(ExchangeGantt, NarrowExchangesAreNamedBesideTheFirstRow) {
  Timeline t = evenly_timed(ulysses_of(3));
  for (TimelineTask& x : t.tasks)  // the attends take nearly all the time
    if (x.start_ps >= 3'000'000) {
      x.start_ps += 200'000'000;
      x.end_ps += 200'000'000;
    } else if (is_attend(x.kind)) {
      x.end_ps += 200'000'000;
    }
  const Picture p = gantt(t);
  EXPECT_TRUE(has_words(p, "all-to-all q, kv"));
  EXPECT_TRUE(has_words(p, "all-to-all o"));
  EXPECT_FALSE(has_words(p, "all-to-all q"));
}

// Workers 0 and 2, 1 and 3: no band may lie over a row of others.
TEST(ExchangeGantt, MembersThatAreNoNeighboursAreJoinedByALine) {
  Timeline t = evenly_timed(ulysses_of(4));
  for (std::uint32_t i = 0; i < 4; ++i) t.tasks[i].worker = static_cast<std::uint16_t>(i * 2 % 3);
  t.tasks[3].worker = 3;  // 0 2 | 1 3
  t.exchanges[0].members = 2;
  t.exchanges.insert(t.exchanges.begin() + 1, {{2}, 2, ExchangeForm::AllToAll});
  const Picture p = gantt(t);
  std::size_t lines = 0;
  for (const Stroke& s : shapes_of<Stroke>(p))
    if (s.width == 1.2 && s.points.size() == 2 && s.points[0].x == s.points[1].x) ++lines;
  EXPECT_EQ(lines, 2u);
}

TEST(ExchangeGantt, ManyWorkersInBandsShowWhenTheyMove) {
  const Plan plan = ulysses_by_hand([] {
    Problem q = small_problem(72, 720);
    q.heads = q.kv_heads = 72;
    return q;
  }());
  const Picture p = gantt(evenly_timed(plan));
  EXPECT_TRUE(has_words(p, "below: moving, darker for more workers"));
}

TEST(ExchangeTerminal, SaysThatWorkersAttendTheirOwnHeads) {
  const std::string text = terminal_gantt(evenly_timed(ulysses_of(2)), {60, false});
  EXPECT_THAT(text, HasSubstr("0, 1, ... that worker's heads"));
  EXPECT_THAT(text, HasSubstr("▔ exchange\n"));
  EXPECT_THAT(text, Not(HasSubstr("receive")));
  const std::size_t first = text.find("      in  ▔"), second = text.find("      in  ▔", first + 1);
  EXPECT_NE(second, text.npos) << "both workers";
}

// By worker: the area of what has its colour.
std::vector<double> areas(const Picture& p, std::uint32_t workers) {
  std::vector<double> out(workers);
  const auto add = [&](Colour fill, double area) {
    for (std::uint32_t w = 0; w < workers; ++w)
      if (fill == worker_colour(w, workers)) out[w] += area;
  };
  for (const Area& a : shapes_of<Area>(p))
    add(a.fill, (a.corners[1].x - a.corners[0].x) * (a.corners[1].y - a.corners[0].y) / 2);
  for (const Box& b : shapes_of<Box>(p))
    if (b.about.starts_with("worker ")) add(*b.fill, b.width * b.height);
  return out;
}

TEST(ExchangeBlockMap, EachWorkerHasItsShareOfTheHeadsOfEachBlock) {
  for (const Mask& mask : {Mask::causal(), Mask::full()}) {
    const Plan plan = ulysses_of(4, Pass::Forward, mask);
    const Plan* const plans[] = {&plan};
    const Picture p = block_map(plans);
    const std::vector<double> found = areas(p, 4);
    for (const double a : found) EXPECT_NEAR(a, found[0], 1e-6);
    std::set<std::string> heads;
    for (const Box& b : shapes_of<Box>(p))
      if (b.about.starts_with("worker ")) {
        heads.insert(b.about);
        EXPECT_EQ(b.hatch, Hatch::None) << "nobody helps";
      }
    EXPECT_EQ(heads,
              (std::set<std::string>{"worker 0, step 0, heads 0", "worker 1, step 0, heads 1",
                                     "worker 2, step 0, heads 2", "worker 3, step 0, heads 3"}));
    EXPECT_TRUE(has_words(p, "Bands of a block are its heads, head 0 at the top."));
    EXPECT_TRUE(has_words(p, "the busiest worker has 1.00x the average work"));
  }
}

TEST(ExchangeBlockMap, HeadsCountInTheEvenShare) {
  const Plan plan = ulysses_of(3);
  const Plan* const plans[] = {&plan};
  EXPECT_TRUE(has_words(block_map(plans), "the busiest worker has 1.50x the average work"))
      << "two of four heads on one of three workers";
}

TEST(ExchangeTaskGraph, MembersStandSideBySideAndAreJoined) {
  const Plan plan = ulysses_of(3);
  const std::string dot = task_graph_dot(plan);
  EXPECT_THAT(dot, HasSubstr("{ rank=same l0 t0 t1 t2 }\n"));
  EXPECT_THAT(dot, HasSubstr("t0 -> t1 [dir=none constraint=false"));
  EXPECT_THAT(dot, HasSubstr("t1 -> t2 [dir=none constraint=false"));
  EXPECT_THAT(dot, Not(HasSubstr("t2 -> t3 [dir=none"))) << "of another exchange";
  EXPECT_THAT(dot, HasSubstr("label=\"all-to-all q\""));
  EXPECT_THAT(dot, HasSubstr("label=\"q0-2 k0-2 h2-3\""));
  EXPECT_THAT(dot, HasSubstr("double line: one exchange"));
  EXPECT_THAT(task_graph_dot(plan, {WorkerId{1}}),
              HasSubstr("label=\"all-to-all q of 3 workers\""));
}

TEST(ExchangeTrace, NamesTheExchangeAndItsMembers) {
  const Timeline t = evenly_timed(ulysses_of(3));
  const std::string chrome = chrome_trace(t);
  EXPECT_THAT(chrome, HasSubstr("\"cat\":\"exchange\",\"name\":\"all-to-all q\""));
  EXPECT_THAT(chrome, HasSubstr("\"tensor\":\"query\",\"form\":\"all-to-all\",\"members\":3"));
  EXPECT_THAT(chrome, HasSubstr("\"name\":\"attend q0-2 k0-2 h0\""));
  EXPECT_THAT(chrome, HasSubstr("\"name\":\"attend q0-2 k0-2 h2-3\""));
  const std::string kineto = kineto_trace(t, 1);
  EXPECT_THAT(kineto, HasSubstr("\"name\":\"ncclDevKernel_SendRecv\""));
  EXPECT_THAT(kineto, HasSubstr("\"Collective name\":\"all_to_allv\",\"Group size\":3"));
  const Timeline gather = evenly_timed(all_gather_by_hand(small_problem(2, 8)));
  EXPECT_THAT(kineto_trace(gather, 0), HasSubstr("ncclDevKernel_AllGather_RING_LL"));
}

TEST(ExchangeGantt, TheLegendHasTheColoursOfTheChart) {
  Timeline t = evenly_timed(ulysses_of(3));
  for (const TimelineExchange& e : t.exchanges)  // only results take time
    for (std::uint32_t id = e.first.value; id < e.end(); ++id)
      if (cargo_of(t, id) != "o") t.tasks[id].end_ps = t.tasks[id].start_ps;
  const Picture p = gantt(t);
  EXPECT_TRUE(has_words(p, "exchange among the joined workers"));
  const std::vector<Box> boxes = shapes_of<Box>(p);
  EXPECT_TRUE(std::ranges::any_of(boxes, [](const Box& b) { return b.fill == ink::results; }));
  EXPECT_FALSE(std::ranges::any_of(boxes, [](const Box& b) { return b.fill == ink::keys; }));
}

// 32 rows are too thin for words in the bars of exchanges, which then stand beside them.
TEST(ExchangeGantt, OfManyRowsNamesItsExchanges) {
  Problem p = small_problem(32, 32 * 512);
  p.heads = p.kv_heads = 32;
  const Picture picture =
      gantt(evenly_timed(build_plan(p, find_schedule("usp:ulysses=8:consecutive=ring"))));
  const std::vector<Label> labels = shapes_of<Label>(picture);
  EXPECT_TRUE(
      std::ranges::any_of(labels, [](const Label& l) { return l.text.starts_with("all-to-all"); }));
}

TEST(ExchangeGantt, TwoRunsAreComparedInWords) {
  const Picture p =
      gantt(evenly_timed(ulysses_of(2)), evenly_timed(all_gather_by_hand(small_problem(2, 1024))));
  const std::string text = svg(p);
  EXPECT_THAT(text, HasSubstr("all exchange of results"));
  EXPECT_THAT(text, HasSubstr("all exchange of keys and values"));
  EXPECT_THAT(text, Not(HasSubstr("rounded_partial")));
}

// Rings of USP that run between neighbours: the members of a group are two apart.
TEST(ExchangePicture, AttendsOfWorkersThatAreNoNeighboursSaySo) {
  Problem p = small_problem(8, 8 * 512);
  p.heads = p.kv_heads = 8;
  const Plan plan = build_plan(p, find_schedule("usp:ulysses=4:consecutive=ring"));
  const Timeline t = evenly_timed(plan);
  const std::string chart = svg(gantt(t));
  EXPECT_THAT(chart, HasSubstr("q0-6/2 k0-6/2 h0-1"));
  EXPECT_THAT(chart, HasSubstr(">of workers 0, 2, 4 and 6</text>"));
  EXPECT_THAT(chrome_trace(t), HasSubstr("\"name\":\"attend q0-6/2 k0-6/2 h0-1\""));
  EXPECT_THAT(task_graph_dot(plan, {WorkerId{0}, 0, 2}), HasSubstr("q0-6/2 k0-6/2 h0-1"));
  EXPECT_THAT(html_page({&t, 1}), HasSubstr("\"0-6/2\",\"0-6/2\",\"0-1\"]"));
  EXPECT_THAT(svg(gantt(evenly_timed(ulysses_of(4)))), Not(HasSubstr("of workers 0, 2")));
}

TEST(ExchangeHtml, ThePageHasTheExchangesAndTheSpans) {
  const Timeline t = evenly_timed(ulysses_of(3));
  const std::string page = html_page({&t, 1});
  EXPECT_THAT(page,
              HasSubstr("\"receive\",\"other\",\"other\",\"exchange\",\"other\"],"));  // roles
  EXPECT_THAT(page, HasSubstr("\"exchanges\":[[0,3,\"all-to-all\"],[3,3,\"all-to-all\"],"));
  EXPECT_THAT(page, HasSubstr("[8,\"0-2\",\"0-2\",\"2-3\"]"));
}

}  // namespace
}  // namespace ringsched
