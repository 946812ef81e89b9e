// Charts of sweeps, predictions and validations show what the files hold.
#include "ringsched/viz/plot.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "plot/axis.hpp"
#include "plot/frame.hpp"
#include "plot/style.hpp"
#include "plot/titles.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/lower.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/viz/sweep_plot.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"
#include "support/refusal.hpp"
#include "support/runs.hpp"
#include "support/tidy.hpp"

namespace ringsched {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHeader =
    "machine,workers,tokens,schedule,makespan_us,interval_low_us,interval_high_us,speedup,"
    "peak_bytes,fits,refused\n";

// Made up, so that the tests know what must be drawn.
std::string sweep(const std::vector<std::string>& machines, const std::vector<int>& workers,
                  const std::vector<int>& tokens, const std::vector<std::string>& schedules) {
  std::string csv = kHeader;
  for (const std::string& m : machines)
    for (const int w : workers)
      for (const int t : tokens) {
        double slower = 1;
        for (const std::string& s : schedules) {
          const double time = slower * t * t / w / 1e5;
          csv += fmt::format("{},{},{},{},{},{},{},{},{},yes,\n", m, w, t, s, time, 0.9 * time,
                             1.2 * time, w / slower, 1000.0 * t / w / slower);
          slower *= 1.3;
        }
      }
  return csv;
}

Records records(const std::string& csv) { return read_csv_records(csv, "s.csv"); }

const Page kPages[] = {{}, page_for("column"), page_for("text"), page_for("slide")};

void expect_good(const Picture& p, const Page& page) {
  expect_tidy(p);
  for (const Label& l : all<Label>(p)) EXPECT_GE(l.size, page.least_text - 1e-9) << l.text;
  if (page.fixed()) {
    EXPECT_DOUBLE_EQ(p.width, page.width);
  }
}

std::vector<std::string> words(const Picture& p) {
  std::vector<std::string> out;
  for (const Label& l : all<Label>(p)) out.push_back(l.text);
  return out;
}

Box box_of(const Picture& p, const std::string& about) {
  for (const Box& b : all<Box>(p))
    if (b.about == about) return b;
  ADD_FAILURE() << "nothing is about '" << about << "'";
  return {};
}

// The middle of what the pointer is told of with this text.
Point place(const Picture& p, const std::string& about) {
  for (const Area& a : all<Area>(p)) {
    if (a.about != about) continue;
    Point sum;
    for (const Point& c : a.corners) {
      sum.x += c.x / static_cast<double>(a.corners.size());
      sum.y += c.y / static_cast<double>(a.corners.size());
    }
    return sum;
  }
  ADD_FAILURE() << "nothing is about '" << about << "'";
  return {};
}

TEST(PlotTicks, AreRoundNumbers) {
  EXPECT_DOUBLE_EQ(nice_step(0.13), 0.2);
  EXPECT_DOUBLE_EQ(nice_step(1), 1);
  EXPECT_DOUBLE_EQ(nice_step(51), 100);
  EXPECT_EQ(short_count(65536), "64K");
  EXPECT_EQ(short_count(1 << 20), "1M");
  EXPECT_EQ(short_count(1000), "1000");
  EXPECT_EQ(short_count(8), "8");
  const auto texts = [](const PlotAxis& a) {
    std::vector<std::string> out;
    for (const Tick& t : a.ticks()) out.push_back(t.text);
    return out;
  };
  const PlotAxis ms = PlotAxis::over(4000, 21000, PlotUnit::Microseconds, 100, 30);
  EXPECT_EQ(ms.unit(), "ms");
  EXPECT_THAT(texts(ms), ElementsAre("0", "10", "20", "30"));
  EXPECT_DOUBLE_EQ(ms.share(15000), 0.5);
  const PlotAxis log = PlotAxis::over(1000, 90000, PlotUnit::Microseconds, 100, 30);
  EXPECT_TRUE(log.logarithmic());
  EXPECT_THAT(texts(log), ElementsAre("1", "2", "5", "10", "20", "50", "100"));
  EXPECT_NEAR(log.share(10000) - log.share(1000), log.share(50000) - log.share(5000), 1e-12);
}

TEST(PlotLabels, StandApartAsNearAsTheyCan) {
  EXPECT_THAT(spread_apart({1, 50}, 10, 0, 100), ElementsAre(1, 50));
  EXPECT_THAT(spread_apart({50, 50}, 10, 0, 100), ElementsAre(45, 55));
  EXPECT_THAT(spread_apart({0, 1, 2}, 10, 0, 100), ElementsAre(0, 10, 20));
  EXPECT_THAT(spread_apart({99, 99}, 10, 0, 100), ElementsAre(90, 100));
}

// Points stand where the numbers of the file say, on axes that are read from the ticks.
TEST(LinePlot, PutsThePointsOfTheFileWhereTheTicksSay) {
  const std::vector<int> tokens = {16384, 32768, 65536};
  const std::string csv = sweep({"m"}, {8}, tokens, {"ring", "zigzag"});
  const Records r = records(csv);
  for (const Page& page : kPages) {
    const Picture p = line_plot(sweep_lines(r, PlotY::Time), page);
    expect_good(p, page);
    std::map<std::string, Point> ticks;  // by what is written there
    for (const Label& l : all<Label>(p)) ticks[l.text] = {l.x, l.y};
    const Point ten = ticks.at("1"), two = ticks.at("5");  // ms, on a logarithmic axis
    for (std::size_t i = 0; i < r.rows.size(); ++i) {
      const std::string about =
          fmt::format("{}, tokens {}: makespan_us {}", r.rows[i][3], r.rows[i][2], r.rows[i][4]);
      const Point at = place(p, about);
      const double ms = std::stod(r.rows[i][4]) / 1000;
      const double wanted = ten.y + (two.y - ten.y) * std::log(ms) / std::log(5);
      // The words of a tick stand a little below it.
      const double below = 9 * 0.36 * (page.fixed() ? page.unit() : 1);
      EXPECT_NEAR(at.y, wanted - below, 0.6) << about;
      EXPECT_NEAR(at.x,
                  ticks
                      .at(std::stoi(r.rows[i][2]) == 16384   ? "16K"
                          : std::stoi(r.rows[i][2]) == 32768 ? "32K"
                                                             : "64K")
                      .x,
                  0.6)
          << about;
    }
  }
}

TEST(LineStyles, AreTheSameForAScheduleWhateverElseIsDrawn) {
  std::vector<std::string> all;
  for (const Schedule& s : schedules()) all.emplace_back(s.name);
  all.resize(std::min<std::size_t>(all.size(), 9));  // as many as colours
  const std::vector<LineStyle> styles = line_styles(all);
  std::map<std::pair<std::string, std::size_t>, std::string> looks;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(looks.emplace(std::pair(hex(styles[i].colour), styles[i].marker), all[i]).second)
        << all[i];
    const std::vector<std::string> others = {"ring:sends=all", "ring:sends=some", "usp:ulysses=2",
                                             all[i]};
    for (const auto& names : {std::vector<std::string>{all[i]}, others}) {
      const LineStyle again = line_styles(names).back();
      if (names.size() > 1 && (all[i] == "ring" || all[i] == "usp")) {
        EXPECT_NE(again.colour, styles[i].colour) << "another of that schedule has it";
        continue;
      }
      EXPECT_EQ(again.colour, styles[i].colour) << all[i];
      EXPECT_EQ(again.marker, styles[i].marker) << all[i];
      EXPECT_FALSE(again.dashed) << all[i];
    }
  }
  // Nine colours, then the same ones dashed and with other markers.
  std::vector<std::string> many;
  for (int i = 0; i < 36; ++i) many.push_back(fmt::format("usp:ulysses={}", i));
  std::map<std::pair<std::string, std::size_t>, int> times;
  for (const LineStyle& s : line_styles(many)) ++times[{hex(s.colour), s.marker % 9}];
  EXPECT_EQ(times.size(), 36u);
}

TEST(LinePlot, IsTidyForFewAndManySchedules) {
  std::vector<std::string> names;
  for (const char* name :
       {"ring", "striped", "zigzag", "balanced", "balanced-split", "double-ring:node=4", "ulysses",
        "all-gather", "usp:ulysses=8:consecutive=ring", "another", "another:2", "yet another"}) {
    names.emplace_back(name);
    for (const auto& machines : {std::vector<std::string>{"m"}, {"dgx-a100", "hgx-h100"}})
      for (const auto& workers : {std::vector<int>{4}, {4, 8, 32}})
        for (const Page& page : kPages) {
          const Records r = records(sweep(machines, workers, {8192, 1 << 20}, names));
          SCOPED_TRACE(names.size());
          for (const PlotY y : {PlotY::Time, PlotY::Memory, PlotY::TokensPerSecond})
            expect_good(line_plot(sweep_lines(r, y), page), page);
          if (workers.size() > 1)
            expect_good(line_plot(sweep_lines(r, PlotY::Speedup, "workers"), page), page);
          expect_good(best_map(sweep_map(r), page), page);
          if (HasFailure()) return;
        }
  }
}

TEST(LinePlot, GivesWhatElseVariesPanels) {
  const Plot p =
      sweep_lines(records(sweep({"a", "b"}, {4, 8}, {1024, 2048}, {"ring"})), PlotY::Time);
  ASSERT_EQ(p.panels.size(), 4u);
  EXPECT_EQ(p.panels[0].name, "a, 4 workers");
  EXPECT_EQ(p.panels[3].name, "b, 8 workers");
  EXPECT_EQ(p.x_name, "tokens");
  // Tokens that follow the workers are no axis and no panel.
  const std::string weak = std::string(kHeader) +
                           "m,4,4096,ring,100,90,120,3,100,yes,\n"
                           "m,8,8192,ring,200,90,220,6,100,yes,\n";
  const Plot q = sweep_lines(records(weak), PlotY::Speedup);
  EXPECT_EQ(q.x_name, "workers");
  EXPECT_EQ(q.panels.size(), 1u);
  EXPECT_TRUE(q.ideal);
  const std::vector<std::string> said = words(line_plot(q, page_for("column")));
  EXPECT_THAT(said, testing::Contains("ideal"));
  EXPECT_THAT(said, testing::Contains("ring"));
}

TEST(LinePlot, LeavesOutWhatHasNoResultAndMarksWhatDoesNotFit) {
  const std::string csv = std::string(kHeader) +
                          "m,4,1024,ring,100,90,120,3,100,yes,\n"
                          "m,4,2048,ring,200,90,220,6,100,no,\n"
                          "m,4,4096,ring,,,,,,,no figures\n";
  const Plot p = sweep_lines(records(csv), PlotY::Time);
  ASSERT_EQ(p.panels[0].lines[0].points.size(), 2u);
  EXPECT_FALSE(p.panels[0].lines[0].points[0].hollow);
  EXPECT_TRUE(p.panels[0].lines[0].points[1].hollow);
  EXPECT_THAT(svg(line_plot(p)), HasSubstr("Hollow: does not fit"));
  EXPECT_THAT(svg(line_plot(p, page_for("column"))), Not(HasSubstr("Hollow")));
}

Plot lines_of(const std::vector<std::pair<std::string, std::vector<double>>>& lines,
              PlotUnit y = PlotUnit::Microseconds) {
  Plot plot{
      .heading = {}, .subject = {}, .x_name = "tokens", .y_name = "time", .y = y, .panels = {{}}};
  for (const auto& [name, values] : lines) {
    PlotLine& line = plot.panels[0].lines.emplace_back(PlotLine{name, {}});
    for (const double v : values)
      line.points.push_back({.x = 1024.0 * std::pow(2, line.points.size()), .y = v, .about = {}});
  }
  return plot;
}

TEST(PlotTitles, SayWhichScheduleIsBestWhere) {
  EXPECT_EQ(title_of(lines_of({{"a", {1, 2, 3}}, {"b", {2, 3, 4}}})),
            "a is fastest from 1024 to 4K tokens");
  EXPECT_EQ(title_of(lines_of({{"a", {1, 5, 6}}, {"b", {2, 3, 4}}})),
            "b is fastest from 2K tokens on; below, a is fastest");
  EXPECT_EQ(title_of(lines_of({{"a", {1, 2, 5}}, {"b", {2, 3, 4}}})),
            "a is fastest up to 2K tokens; at 4K, b is fastest");
  EXPECT_EQ(title_of(lines_of({{"a", {1, 4, 3}}, {"b", {2, 3, 4}}})),
            "a is fastest in 2 of 3 settings");
  EXPECT_EQ(title_of(lines_of({{"a", {1, 2, 3}}, {"b", {1, 2, 3}}})),
            "a and b are fastest from 1024 to 4K tokens");
  EXPECT_EQ(title_of(lines_of({{"a", {1, 3, 3}}, {"b", {1, 2, 3}}})),
            "b is fastest from 1024 to 4K tokens");
  EXPECT_EQ(title_of(lines_of({{"a", {1, 2}}, {"b", {2, 3}}}, PlotUnit::PerSecond)),
            "b is fastest from 1024 to 2K tokens");
  EXPECT_EQ(title_of(lines_of({{"a", {1, 2}}, {"b", {2, 1}}}, PlotUnit::Memory)),
            "a needs the least memory at 1024 tokens; at 2K, b needs the least memory");
  EXPECT_EQ(title_of(lines_of({{"a", {1, 2}}, {"b", {2, 3}}}, PlotUnit::Times)),
            "b speeds up most from 1024 to 2K tokens");
  EXPECT_EQ(title_of(lines_of({{"a", {1, 2, 8}}})), "a: time grows 8.0x from 1024 to 4K tokens");
  Plot full = lines_of({{"a", {1, 2}}, {"b", {2, 3}}});
  for (PlotPoint& p : full.panels[0].lines[0].points) p.hollow = true;
  EXPECT_EQ(title_of(full), "b is fastest from 1024 to 2K tokens") << "a does not fit";
  full.panels.push_back(full.panels[0]);
  EXPECT_EQ(title_of(full), "b is fastest in all 4 settings");
}

// A difference of less than 3% makes none the fastest.
TEST(PlotTitles, NameTogetherWhatIsNearlyAsFast) {
  EXPECT_EQ(title_of(lines_of({{"a", {1, 2, 3}}, {"b", {1.02, 2.02, 3.02}}})),
            "a and b are fastest, within 3%, from 1024 to 4K tokens");
  EXPECT_EQ(title_of(lines_of({{"a", {1, 2}}, {"b", {1.04, 2.07}}})),
            "a is fastest from 1024 to 2K tokens");
  EXPECT_EQ(
      title_of(lines_of({{"a", {1, 2}}, {"b", {1.02, 2.02}}, {"c", {1.01, 2}}, {"d", {2, 3}}})),
      "3 schedules are within 3% of the fastest from 1024 to 2K tokens");
  EXPECT_EQ(title_of(lines_of({{"a", {1, 2, 3}}, {"b", {1.02, 2.2, 3.2}}})),
            "a is fastest from 2K tokens on; below, a and b are fastest, within 3%");
  EXPECT_EQ(title_of(lines_of({{"a", {1, 2, 3}}, {"b", {1.2, 2.02, 3.2}}})),
            "a is within 3% of the fastest from 1024 to 4K tokens");
  EXPECT_EQ(title_of(lines_of({{"a", {1, 2, 3}}, {"b", {1.2, 2.02, 3.02}}})),
            "a and b are fastest, within 3%, from 2K tokens on; below, a is fastest");
  EXPECT_EQ(title_of(lines_of({{"a", {1, 2}}, {"b", {1.02, 2.02}}}, PlotUnit::PerSecond)),
            "a and b are fastest, within 3%, from 1024 to 2K tokens");
  EXPECT_EQ(title_of(lines_of({{"a", {100, 200}}, {"b", {101, 199}}}, PlotUnit::Times)),
            "a and b speed up most, within 3%, from 1024 to 2K tokens");
  EXPECT_EQ(title_of(lines_of({{"a", {100, 200}}, {"b", {101, 201}}}, PlotUnit::Memory)),
            "a needs the least memory from 1024 to 2K tokens")
      << "memory is known";
  EXPECT_EQ(title_of(lines_of({{"a", {1, 2, 3}}, {"b", {2, 1, 3}}, {"c", {2, 3, 1}}})),
            "No schedule is fastest in more than one of 3 settings");
  Plot front = lines_of({{"a", {1}}, {"b", {1.01}}});
  front.panels[0].lines[1].points[0].x = 1;
  EXPECT_EQ(front_title(front), "a and b are fastest, within 3%; b needs the least memory");
  TimeBars bars{.heading = {}, .subject = {}, .panels = {{"", {{"a", 6, 0, 0, 2, 0}}}}};
  bars.panels[0].bars.push_back({"b", 6.1, 0, 0, 2, 0});
  EXPECT_EQ(title_of(bars), "a and b are fastest, within 3%");
  const auto map_of = [](double b, double c) {
    std::string csv = kHeader;
    for (const int tokens : {1024, 2048})
      for (const auto& [name, time] : {std::pair("a", 100.0), std::pair("b", b), std::pair("c", c)})
        csv += fmt::format("m,4,{},{},{},,,3,{},yes,\n", tokens, name, time, name[0] + 0);
    return sweep_map(records(csv));
  };
  EXPECT_EQ(title_of(map_of(110, 120)), "a is fastest in both settings");
  EXPECT_EQ(title_of(map_of(102, 120)), "a and b are fastest, within 3%, in both settings");
  EXPECT_EQ(title_of(map_of(102, 101)),
            "3 schedules are within 3% of the fastest in both settings");
  EXPECT_EQ(map_of(102, 101).panels[0].cells[0].tie, "c");
  EXPECT_EQ(map_of(104, 120).panels[0].cells[0].tie, "");
}

TEST(PlotNames, LeaveOutAParameterThatDistinguishesNothing) {
  EXPECT_THAT(without_usual({"ring:sends=all", "usp:ring=zigzag:sends=all", "usp:sends=all:node=2",
                             "zigzag:sends=alloy"}),
              ElementsAre("ring", "usp:ring=zigzag", "usp:node=2", "zigzag:sends=alloy"));
  EXPECT_THAT(without_usual({"ring:sends=all", "ring", "ring:sends=all"}),
              ElementsAre("ring:sends=all", "ring", "ring:sends=all"));
  EXPECT_THAT(without_usual({"ring:sends=all", "ring:sends=all"}), ElementsAre("ring", "ring"));
  const auto names = [](const std::vector<std::string>& schedules) {
    std::vector<std::string> out;
    const Plot plot = sweep_lines(records(sweep({"a"}, {2}, {8, 16}, schedules)), PlotY::Time);
    for (const PlotLine& line : plot.panels[0].lines) out.push_back(line.name);
    return out;
  };
  EXPECT_THAT(names({"ring", "usp:sends=all"}), ElementsAre("ring", "usp"));
  EXPECT_THAT(names({"usp", "usp:sends=all"}), ElementsAre("usp", "usp:sends=all"));
  TimeBars bars;
  bars.panels = {{"", {{"usp:sends=all", 10, 0, 0, 0, 0}}}};
  EXPECT_THAT(words(time_bars(bars)), testing::Contains("usp"));
}

TEST(GroupStyles, Differ) {
  const std::vector<LineStyle> styles = group_styles(24);
  std::set<std::pair<std::string, std::size_t>> seen;
  for (const LineStyle& s : styles)
    EXPECT_TRUE(seen.emplace(hex(s.colour), s.marker).second) << hex(s.colour);
}

TEST(PlotTitles, OfOtherChartsSayWhatTheyShow) {
  EXPECT_EQ(title_of(sweep_map(records(sweep({"a"}, {2, 4}, {8, 16}, {"ring", "zigzag"})))),
            "ring is fastest in all 4 settings");
  Plot front = lines_of({{"a", {1}}, {"b", {2}}});
  EXPECT_EQ(front_title(front), "a is fastest, a and b need the least memory");
  front.panels[0].lines[1].points[0].x = 1;
  EXPECT_EQ(front_title(front), "a is fastest, b needs the least memory");
  front.panels[0].lines[0].points[0].x = 1;
  EXPECT_EQ(front_title({.heading = {},
                         .subject = {},
                         .x_name = {},
                         .y_name = {},
                         .panels = {{"", {front.panels[0].lines[0]}}}}),
            "a is fastest and needs the least memory");
  EXPECT_EQ(agreement_title(lines_of({{"a", {1024, 2200, 9000}}}), 0.1),
            "2 of 3 predictions are within 10% of what was published");
  TimeBars bars{.heading = {}, .subject = {}, .panels = {{"", {{"a", 6, 0, 0, 2, 0}}}}};
  EXPECT_EQ(title_of(bars), "a attends for 75% of its time");
  bars.panels[0].bars.push_back({"b", 6, 0, 0, 6, 0});
  EXPECT_EQ(title_of(bars),
            "a is fastest: it attends for 75% of its time; b, the slowest, for 50%");
  Tornado t{
      .heading = {}, .subject = {}, .base = 100, .changes = {{"zero latency", 95}, {"c", 120}}};
  EXPECT_EQ(title_of(t), "Zero latency would help most: the run would end 5.0% sooner");
  t.changes[0].second = 100;
  EXPECT_EQ(title_of(t), "No change here makes the run shorter");
  RunsPlot runs{.heading = {}, .subject = {}, .rows = {{"a", {9, 10, 11}}}};
  EXPECT_EQ(title_of(runs), "a: the middle 90% of 3 runs differ by up to 22%");
  runs.rows.push_back({"b", {9, 9, 11}});
  EXPECT_EQ(title_of(runs), "b has the lowest median, 10% below that of a");
}

// A title that needs more than a line gets more, and nothing is cut.
TEST(PlotTitles, AreWrapped) {
  const std::string a(30, 'a'), b(30, 'b');
  const Plot plot = lines_of({{a, {1, 2}}, {b, {2, 1}}});
  for (const Page& page : {Page{}, page_for("slide")}) {
    const Picture p = line_plot(plot, page);
    expect_good(p, page);
    std::string title;
    for (const Label& l : all<Label>(p))
      if (l.bold) title += (title.empty() ? "" : " ") + l.text;
    EXPECT_EQ(title, title_of(plot));
  }
}

TEST(BestMap, NamesTheFastestAndTies) {
  const std::string csv = std::string(kHeader) +
                          "m,4,1024,ring,100,,,3,100,yes,\n"
                          "m,4,1024,zigzag,101,,,3,100,yes,\n"
                          "m,4,2048,ring,300,,,3,100,yes,\n"
                          "m,4,2048,zigzag,200,,,3,100,yes,\n"
                          "m,8,1024,ring,10,,,3,100,no,\n"
                          "m,8,1024,zigzag,20,,,3,100,yes,\n";
  const BestMap m = sweep_map(records(csv));
  ASSERT_EQ(m.panels.size(), 1u);
  const auto& cells = m.panels[0].cells;
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(cells[0].best, "ring");
  EXPECT_EQ(cells[0].tie, "zigzag");
  EXPECT_EQ(cells[1].best, "zigzag");  // 8 workers: ring does not fit
  EXPECT_EQ(cells[2].best, "zigzag");
  EXPECT_EQ(cells[2].tie, "");
  for (const Page& page : kPages) expect_good(best_map(m, page), page);
  EXPECT_THAT(words(best_map(m, page_for("column"))), testing::Contains("zigzag"));
}

// One node: `usp` is `ulysses`. That is no tie; the second is the next that differs.
TEST(BestMap, HasNoTieOfSchedulesWithOnePlan) {
  const auto cells = [](const std::string& third) {
    const std::string csv =
        "machine,workers,tokens,schedule,makespan_us,idle_fraction,overlap_fraction,"
        "exposed_communication_us,peak_bytes\n"
        "m,4,1024,ulysses,100,0.1,0,5,100\nm,4,1024,usp,100,0.1,0,5,100\n"
        "m,4,2048,ulysses,100,0.1,0,5,100\nm,4,2048,usp,100,0.1,0,5,101\n" +
        third;
    return sweep_map(records(csv)).panels[0].cells;
  };
  EXPECT_EQ(cells("")[0].tie, "");
  EXPECT_EQ(cells("")[1].tie, "usp");
  EXPECT_EQ(cells("m,4,1024,zigzag,101,0.1,0,5,100\n")[0].tie, "zigzag");
  // Of two with one plan, the one that is best elsewhere as well is named.
  const auto more = cells("m,4,4096,usp,50,0.1,0,5,100\nm,4,8192,usp,70,0.1,0,5,100\n");
  EXPECT_EQ(more[0].best, "usp");
  EXPECT_EQ(more[2].best, "usp");
}

TEST(FrontPlot, GoesThroughThoseThatNoneBeatsInBoth) {
  const std::string csv = std::string(kHeader) +
                          "m,4,1024,ring,100,,,3,1000,yes,\n"
                          "m,4,1024,zigzag,50,,,3,2000,yes,\n"
                          "m,4,1024,striped,110,,,3,3000,yes,\n";
  for (const Page& page : kPages) {
    const Picture p = front_plot(sweep_front(records(csv)), page);
    expect_good(p, page);
    const Point ring = place(p, "ring: peak_bytes 1000, makespan_us 100");
    const Point zigzag = place(p, "zigzag: peak_bytes 2000, makespan_us 50");
    const Point striped = place(p, "striped: peak_bytes 3000, makespan_us 110");
    EXPECT_LT(ring.x, zigzag.x);
    EXPECT_LT(ring.y, zigzag.y);
    EXPECT_LT(striped.y, ring.y);
    std::size_t longest = 0;
    Stroke front;
    for (const Stroke& s : all<Stroke>(p))
      if (s.points.size() > longest) {
        longest = s.points.size();
        front = s;
      }
    ASSERT_EQ(front.points.size(), 5u);
    EXPECT_NEAR(front.points[1].y, ring.y, 0.2);
    EXPECT_NEAR(front.points[3].x, zigzag.x, 0.2);
    EXPECT_NEAR(front.points[3].y, zigzag.y, 0.2);
    for (const char* name : {"ring", "zigzag", "striped"})
      EXPECT_THAT(words(p), testing::Contains(name));
  }
}

// A mark and its words belong together: words without a line stand nearest to their own mark, marks
// at one place share theirs, and no name is lost.
TEST(FrontPlot, NamesNoMarkByTheWordsOfAnother) {
  std::string csv = std::string(kHeader) +
                    "m,4,1024,ring,100,,,3,1000,yes,\nm,4,1024,double-ring,100,,,3,1000,yes,\n";
  const std::vector<std::string> crowd = {"zigzag", "striped", "balanced", "balanced-split", "usp"};
  for (std::size_t i = 0; i < crowd.size(); ++i)
    csv += "m,4,1024," + crowd[i] + "," + std::to_string(50 + i) + ",,,3," +
           std::to_string(1990 + 10 * i) + ",yes,\n";
  for (const Page& page : kPages) {
    const Picture p = front_plot(sweep_front(records(csv)), page);
    expect_good(p, page);
    EXPECT_THAT(words(p), testing::Contains("ring, double-ring"));
    std::map<std::string, Point> marks;
    for (std::size_t i = 0; i < crowd.size(); ++i)
      marks[crowd[i]] = place(p, crowd[i] + ": peak_bytes " + std::to_string(1990 + 10 * i) +
                                     ", makespan_us " + std::to_string(50 + i));
    for (const std::string& name : crowd) {
      EXPECT_THAT(words(p), testing::Contains(testing::HasSubstr(name)));
      for (const Label& l : all<Label>(p)) {
        if (l.text != name || l.y > p.height * 0.8) continue;  // the key is below
        const Box b = bounds(l);
        const auto far = [&](Point at) {
          return std::hypot(std::max({b.x - at.x, 0.0, at.x - b.x - b.width}),
                            std::max({b.y - at.y, 0.0, at.y - b.y - b.height}));
        };
        const bool led = std::ranges::any_of(all<Stroke>(p), [&](const Stroke& s) {
          return s.points.size() == 2 &&
                 std::hypot(s.points[0].x - marks[name].x, s.points[0].y - marks[name].y) < 0.5;
        });
        if (led) continue;
        for (const auto& [other, at] : marks) EXPECT_LE(far(marks[name]), far(at)) << name;
      }
    }
  }
}

TEST(TimeBarsPlot, HasPartsAsLongAsTheNumbersSay) {
  TimeBars bars;
  bars.heading = "Where the time goes";
  bars.panels = {
      {"", {{"ring", 10'000, 2'000, 1'000, 3'000, 4'000, 2'500, 15'000, 18'000, 25'000}}}};
  for (const Page& page : kPages) {
    const Picture p = time_bars(bars, page);
    expect_good(p, page);
    std::map<std::string, double> length;
    for (const Box& b : all<Box>(p))
      if (!b.about.empty()) length[b.about] = b.width;
    const double per_ms = length.at("ring: attend 10.0 ms") / 10;
    EXPECT_NEAR(length.at("ring: overhead 2.00 ms"), 2 * per_ms, 1e-6);
    EXPECT_NEAR(length.at("ring: wait for the host 1.00 ms"), per_ms, 1e-6);
    EXPECT_NEAR(length.at("ring: wait 3.00 ms"), 3 * per_ms, 1e-6);
    EXPECT_NEAR(length.at("ring: done 4.00 ms"), 4 * per_ms, 1e-6);
    EXPECT_THAT(words(p), testing::Contains("lower bound"));
    EXPECT_THAT(words(p), testing::Contains("80% interval"));
    const double begin = box_of(p, "ring: attend 10.0 ms").x;
    EXPECT_TRUE(std::ranges::any_of(all<Stroke>(p), [&](const Stroke& s) {
      return s.points.size() == 2 && s.points[0].y == s.points[1].y &&
             std::abs(s.points[0].x - begin - 18 * per_ms) < 1e-6 &&
             std::abs(s.points[1].x - begin - 25 * per_ms) < 1e-6;
    })) << "from 18 to 25 ms";
    EXPECT_THAT(words(p), testing::Contains("20.0 ms"));
  }
}

TEST(TimeBarsPlot, GivesPanelsAxesOfTheirOwnWhereSomeWouldBeFlat) {
  const auto widest = [](double second) {
    TimeBars bars;
    bars.heading = "Where the time goes";
    bars.panels = {{"a", {{"ring", 1000, 0, 0, 0, 0, 0, 0}}},
                   {"b", {{"ring", second, 0, 0, 0, 0, 0, 0}}}};
    std::vector<double> widths;
    for (const Box& b : all<Box>(time_bars(bars)))
      if (b.about.find("attend") != b.about.npos) widths.push_back(b.width);
    return widths;
  };
  const std::vector<double> shared = widest(4000), own = widest(50'000);
  EXPECT_NEAR(shared[1] / shared[0], 4, 1e-6);
  EXPECT_LT(own[1] / own[0], 2.1);
}

// A timeline's bar is the makespan, and the parts are those of its accounts.
TEST(TimeBarsPlot, OfATimelineAddUpToItsMakespan) {
  for (const NamedRun& r : predicted_runs(4)) {
    const TimeBar b = timeline_bar(r.timeline);
    const double makespan = static_cast<double>(r.timeline.makespan().value) / 1e6;
    EXPECT_NEAR(b.total(), makespan, 1e-6 * makespan) << r.name;
    EXPECT_LE(b.exposed, b.total() - b.attending - b.overhead + 1e-6 * makespan) << r.name;
  }
}

TEST(TimeBarsPlot, OfATimelineHasItsBoundAndItsInterval) {
  Timeline t = predicted_runs(4)[0].timeline;
  EXPECT_EQ(timeline_bar(t).bound, 0) << "not known";
  t.bound = Picoseconds{3'000'000};
  t.interval = {Picoseconds{4'000'000}, Picoseconds{9'000'000}};
  const TimeBar b = timeline_bar(t);
  EXPECT_EQ(b.bound, 3);
  EXPECT_EQ(b.low, 4);
  EXPECT_EQ(b.high, 9);
}

TEST(TornadoPlot, PutsTheGreatestChangeFirst) {
  Tornado t;
  t.heading = "What would help";
  t.base = 100;
  t.changes = {{"latency=0x", 95}, {"kernels=2x", 60}, {"worker:3=2x", 120}};
  for (const Page& page : kPages) {
    const Picture p = tornado(t, page);
    expect_good(p, page);
    std::map<std::string, Box> bars;
    for (const Box& b : all<Box>(p))
      if (!b.about.empty()) bars[b.about] = b;
    const Box &best = bars.at("kernels=2x: -40.0%"), &worse = bars.at("worker:3=2x: +20.0%"),
              &least = bars.at("latency=0x: -5.0%");
    EXPECT_LT(best.y, worse.y);
    EXPECT_LT(worse.y, least.y);
    EXPECT_NEAR(best.width, 8 * least.width, 1e-6);
    EXPECT_NEAR(best.x + best.width, worse.x, 1e-6);
    for (const double more : {61.0, 90.0, 101.0, 190.0, 900.0}) {
      Tornado other = t;
      other.changes[2].second = more;
      expect_good(tornado(other, page), page);
    }
    Tornado far = t;
    far.changes[2].second = 900;
    EXPECT_THAT(words(tornado(far, page)), testing::Contains("9.0x"));
  }
}

TEST(MemoryPlot, ReachesWhatTheFullestWorkerHolds) {
  for (const std::uint32_t workers : {1u, 4u, 32u}) {
    const Timeline t =
        predicted_run(build_plan(small_problem(workers, 64 * workers), find_schedule("ring")),
                      test_machine(Fabric::Switch, workers));
    for (const Page& page : kPages)
      for (const double device : {0.0, 1.0, 1e6, 1e15})
        expect_good(memory_plot(t, device, page), page);
  }
  Timeline bare = predicted_runs(2)[0].timeline;
  bare.details.clear();
  EXPECT_THROW(memory_plot(bare, 0), Error);
  // The grey area is explained where it is.
  for (const std::uint32_t workers : {1u, 4u}) {
    const Picture p =
        memory_plot(predicted_run(build_plan(small_problem(workers, 256), find_schedule("ring")),
                                  test_machine(Fabric::Switch, workers)),
                    0);
    EXPECT_EQ(all<Area>(p).empty(), workers == 1);
    EXPECT_EQ(std::ranges::count(words(p), "Grey: from the emptiest to the fullest worker."),
              workers == 1 ? 0 : 1);
  }
}

TEST(Plots, OfARunThatDidNotEndSaySo) {
  Timeline t = predicted_run(build_plan(small_problem(4, 256), find_schedule("ring")),
                             test_machine(Fabric::Switch, 4));
  const auto marked = HasSubstr("INCOMPLETE, given up after");
  const auto drawn = [&](const Page& page) {
    return std::vector{memory_plot(t, 0, page), traffic_map(traffic_of(t, 0), page)};
  };
  for (const Picture& p : drawn({})) EXPECT_THAT(words(p), Not(testing::Contains(marked)));
  t.incomplete = "process 1 is gone";
  for (const Page& page : kPages)
    for (const Picture& p : drawn(page)) {
      EXPECT_THAT(words(p), testing::Contains(marked));
      expect_good(p, page);
    }
  EXPECT_THAT(refusal([&] { timeline_bar(t); }), HasSubstr("its times cannot be compared"));
  // Only what has been sent counts.
  const Traffic all = traffic_of(t, 0);
  for (std::uint32_t i = 0; i < t.tasks.size(); ++i)
    if (is_send(t.tasks[i].kind) && t.tasks[i].worker == 0) t.unfinished.push_back({i});
  const Traffic sent = traffic_of(t, 0);
  for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(sent.bytes[i], i < 4 ? 0 : all.bytes[i]) << i;
}

// Against the plan, send by send.
TEST(TrafficPlot, AddsUpWhatEachWorkerSendsToEach) {
  for (const NamedRun& r : predicted_runs(5)) {
    if (!r.plan.exchanges.empty()) continue;
    SCOPED_TRACE(r.name);
    std::map<std::pair<std::uint32_t, std::uint32_t>, double> sent;
    for (const Task& t : r.plan.tasks)
      if (is_send(t.kind))
        sent[{t.worker_index, r.plan.tasks[t.peer.value].worker_index}] +=
            static_cast<double>(r.plan.bytes(r.plan.piece(t)).value);
    const Traffic traffic = traffic_of(r.timeline, 0);
    for (std::uint32_t from = 0; from < 5; ++from)
      for (std::uint32_t to = 0; to < 5; ++to)
        EXPECT_EQ(traffic.bytes[from * 5 + to], (sent[{from, to}])) << from << " to " << to;
    if (HasFailure()) return;
  }
}

// The messages that an exchange becomes carry what a timeline says that it carries.
TEST(TrafficPlot, OfExchangesIsThatOfTheirMessages) {
  std::size_t exchanges = 0, untold = 0;
  for (const char* name : {"ulysses", "usp:ulysses=2", "all-gather"})
    for (const Pass pass : {Pass::Forward, Pass::Both}) {
      SCOPED_TRACE(name);
      const Plan plan = build_plan(small_problem(4, 256, pass), find_schedule(name));
      const std::vector<double> parts = traffic_of(plan, "", 0).bytes;
      const Timeline t = timeline_of(plan, TimelineSource::Predicted, "");
      const std::string no = refusal([&] { traffic_of(t, 0); });
      if (!no.empty()) {
        EXPECT_THAT(no, HasSubstr("does not tell who gives what"));
        ++untold;
        continue;
      }
      exchanges += plan.exchanges.size();
      const std::vector<double> whole = traffic_of(t, 0).bytes;
      for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], parts[i], 1) << i;
    }
  EXPECT_GT(exchanges, 6u);
  EXPECT_EQ(untold, 1u);  // several workers have parts of the gradients of one head's keys
}

TEST(TrafficPlot, IsDarkerWhereMoreGoesAndSaysHowMuch) {
  Traffic t{.heading = "h", .subject = "s", .workers = 4, .per_node = 2, .bytes = {}};
  t.bytes.assign(16, 0);
  t.bytes[0 * 4 + 1] = 1 << 20;
  t.bytes[1 * 4 + 2] = 2 << 20;
  t.bytes[3 * 4 + 0] = 4 << 20;
  for (const Page& page : kPages) {
    const Picture p = traffic_map(t, page);
    expect_good(p, page);
    std::map<std::string, Box> cells;
    for (const Box& b : all<Box>(p))
      if (!b.about.empty()) cells[b.about] = b;
    ASSERT_EQ(cells.size(), 3u);
    const Box &few = cells.at("0 to 1: 1 MiB"), &some = cells.at("1 to 2: 2 MiB"),
              &most = cells.at("3 to 0: 4 MiB");
    EXPECT_GT(few.fill->green, some.fill->green);
    EXPECT_GT(some.fill->green, most.fill->green);
    EXPECT_NEAR(some.x - few.x, some.y - few.y, 1e-6);  // one to the right, one down
    EXPECT_NEAR(most.y - few.y, 3 * (some.y - few.y), 1e-6);
    EXPECT_LT(most.x, few.x);
    std::size_t lines = 0;  // between the two nodes
    for (const Stroke& s : all<Stroke>(p)) lines += s.colour == ink::black ? 1 : 0;
    EXPECT_EQ(lines, 2u);
    EXPECT_THAT(words(p), testing::Contains("4"));
  }
}

TEST(TrafficPlot, IsTidyForFewAndManyWorkers) {
  for (const std::uint32_t workers : {2u, 7u, 16u, 33u, 64u, 100u, 256u})
    for (const std::uint32_t per_node : {0u, 8u}) {
      SCOPED_TRACE(workers);
      Traffic t{
          .heading = "h", .subject = "s", .workers = workers, .per_node = per_node, .bytes = {}};
      double all = 0;
      for (std::uint32_t i = 0; i < workers * workers; ++i) {
        t.bytes.push_back(i % workers == i / workers ? 0 : 1e6 * (1 + i % 7));
        all += t.bytes.back();
      }
      for (const Page& page : kPages) expect_good(traffic_map(t, page), page);
    }
  Timeline alone = predicted_runs(1)[0].timeline;
  EXPECT_THAT(refusal([&] { traffic_of(alone, 0); }), HasSubstr("has one worker"));
  alone.details.clear();
  EXPECT_THROW(traffic_of(alone, 0), Error);
}

TEST(RunsPlot, HasABarAsHighAsThereAreRuns) {
  RunsPlot plot{.heading = "h", .subject = "s", .rows = {{"ring", {}}, {"zigzag", {}}}};
  for (int i = 0; i < 100; ++i) {
    plot.rows[0].times.push_back(1000 + 10 * (i % 10));
    plot.rows[1].times.push_back(i < 75 ? 2000 : 3000);
  }
  for (const Page& page : kPages) {
    const Picture p = runs_plot(plot, page);
    expect_good(p, page);
    std::map<std::string, Box> bars;
    std::size_t runs = 0;
    for (const Box& b : all<Box>(p)) {
      int count = 0;
      if (std::sscanf(b.about.c_str(), "ring: %d of 100 runs", &count) == 1)
        runs += static_cast<std::size_t>(count);
      if (!b.about.empty()) bars[b.about] = b;
    }
    EXPECT_EQ(runs, 100u);
    const Box &many = bars.at("zigzag: 75 of 100 runs"), &few = bars.at("zigzag: 25 of 100 runs");
    EXPECT_NEAR(many.height, 3 * few.height, 1e-6);
    EXPECT_LT(many.x, few.x);
    EXPECT_THAT(words(p), testing::Contains("median 2 ms"));
  }
  plot.rows.pop_back();
  for (double& t : plot.rows[0].times) t = 1000;  // no noise at all
  for (const Page& page : kPages) expect_good(runs_plot(plot, page), page);
}

TEST(AgreementPlot, PutsEqualNumbersOnTheLine) {
  Plot plot;
  plot.heading = "Predicted against published";
  plot.x_name = "published";
  plot.y_name = "predicted";
  plot.x = plot.y = PlotUnit::Times;
  plot.panels = {
      {"ms", {{"A", {{10, 10, 8, 12, false, "same"}, {100, 115, 0, 0, false, "more"}}}}}};
  for (const Page& page : kPages) {
    const Picture p = agreement_plot(plot, 0.1, page);
    expect_good(p, page);
    Stroke line;
    for (const Stroke& s : all<Stroke>(p))
      if (s.width == 0.8 * page.unit() && s.points.size() == 2 && s.points[0].x != s.points[1].x &&
          s.points[0].y != s.points[1].y)
        line = s;
    ASSERT_EQ(line.points.size(), 2u);
    const auto above = [&](Point at) {
      const double share = (at.x - line.points[0].x) / (line.points[1].x - line.points[0].x);
      return line.points[0].y + share * (line.points[1].y - line.points[0].y) - at.y;
    };
    EXPECT_NEAR(above(place(p, "same")), 0, 0.3);
    EXPECT_GT(above(place(p, "more")), 1);
    EXPECT_THAT(words(p), testing::IsSupersetOf({"within 10%", "80% interval"}));
    const auto edges = std::ranges::count_if(all<Stroke>(p), [&](const Stroke& s) {
      return s.points.size() == 2 && s.width < line.width && s.colour == ink::black;
    });
    EXPECT_EQ(edges, 4) << "two of the band, and two of its sign in the key";
    const Point same = place(p, "same");
    EXPECT_TRUE(std::ranges::any_of(all<Stroke>(p), [&](const Stroke& s) {
      return s.points.size() == 2 && std::abs(s.points[0].x - same.x) < 0.3 &&
             s.points[0].x == s.points[1].x && s.points[0].y > same.y && s.points[1].y < same.y;
    })) << "a whisker";
  }
}

// One prediction far off leaves the others their room.
TEST(AgreementPlot, DrawsAnOutlierAtTheEdge) {
  Plot plot;
  plot.x_name = "published";
  plot.y_name = "predicted";
  plot.x = plot.y = PlotUnit::Times;
  plot.panels = {{"speed-up",
                  {{"A", {{0.5, 0.6, 0, 0, false, "low"}, {1, 1.1, 0, 0, false, "one"}}},
                   {"B", {{1.5, 1.4, 1, 2, false, "high"}}}}}};
  std::vector<PlotPoint>& far = plot.panels[0].lines.emplace_back(PlotLine{"C", {}}).points;
  const auto apart = [](const Picture& p) { return place(p, "high").x - place(p, "low").x; };
  for (const Page& page : kPages) {
    far = {{2, 2, 0, 0, false, "far"}};
    const double usual = apart(agreement_plot(plot, 0.1, page));
    far = {{2, 5260, 4000, 7000, false, "far"}};
    const Picture p = agreement_plot(plot, 0.1, page);
    expect_good(p, page);
    EXPECT_GT(apart(p), 0.7 * usual);
    EXPECT_THAT(words(p), testing::IsSupersetOf({"5,260", "beyond the axis, with its value"}));
    EXPECT_LT(place(p, "far").y, place(p, "high").y);
    EXPECT_TRUE(std::ranges::any_of(all<Stroke>(p), [&](const Stroke& s) {
      return s.arrow && std::abs(s.points[0].x - place(p, "far").x) < 0.5 &&
             s.points[1].y < s.points[0].y;
    }));
    far = {{2, 3, 0, 0, false, "far"}};
    for (const std::string& word : words(agreement_plot(plot, 0.1, page)))
      EXPECT_THAT(word, Not(HasSubstr("beyond")));
  }
}

void expect_refused(const std::string& text, const std::string& why) {
  try {
    const Records r = read_csv_records(text, "s.csv");
    sweep_lines(r, PlotY::Time);
    ADD_FAILURE() << "read " << text;
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr(why));
    EXPECT_THAT(e.what(), Not(HasSubstr("\n")));
  }
}

TEST(SweepFile, IsRefusedInOneLineWhereItIsNone) {
  expect_refused("", "s.csv is empty");
  expect_refused("\n\n", "s.csv is empty");
  expect_refused(kHeader, "s.csv has no rows");
  expect_refused("a,b\n1,2\n", "s.csv has no column schedule; its columns are a, b");
  expect_refused("a,,b\n1,2,3\n", "column 2 has no name");
  expect_refused("a,a\n1,2\n", "two columns are called a");
  expect_refused("a,b\n1\n", "s.csv:2: expected 2 columns, found 1");
  const std::string good = "m,4,1024,ring,100,,,3,100,yes,\n";
  expect_refused(kHeader + good, "neither tokens nor workers vary");
  expect_refused(kHeader + std::string("m,4,1024,ring,,,,,,,no\n"), "no row has a result");
  expect_refused(kHeader + good + "m,4,2048,ring,x,,,3,100,yes,\n", "row 2: makespan_us is 'x'");
  expect_refused(kHeader + good + "m,4,2048,ring,1e999,,,3,100,yes,\n", "expected a number");
  expect_refused(kHeader + good + "m,4,-5,ring,7,,,3,100,yes,\n", "row 2: tokens is -5");
  expect_refused(kHeader + good + good + "m,4,2048,ring,7,,,3,100,yes,\n", "a second result");
  expect_refused(kHeader + good + "ideal,4,2048,ring,7,,,3,100,yes,\n", "times in blocks");
}

TEST(SweepFile, MayBeJsonAndHaveColumnsOfItsOwn) {
  const Records r = read_json_records(
      R"([{"schedule": "ring", "tokens": 1024, "workers": 4, "makespan_us": 12.5, "note": null},
          {"schedule": "ring", "tokens": 2048, "workers": 4, "makespan_us": 50, "note": "a, \"b\""}])",
      "s.json");
  EXPECT_EQ(r.rows[1][4], "a, \"b\"");
  EXPECT_DOUBLE_EQ(sweep_lines(r, PlotY::Time).panels[0].lines[0].points[0].y, 12.5);
  for (const char* bad : {"", "{}", "[1]", "[]", "[{\"a\": [1]}]", "[{\"a\": 1}, {\"b\": 1}]"})
    EXPECT_THROW(read_json_records(bad, "s.json"), Error) << bad;
  EXPECT_THAT(csv_cells("a,\"b,\"\"c\"\"\",,d"), ElementsAre("a", "b,\"c\"", "", "d"));
}

}  // namespace
}  // namespace ringsched
