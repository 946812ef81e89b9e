// Charts of many runs, for papers: lines over tokens or workers, which schedule is best where, time
// against memory, and where time goes. The data are plain; ringsched/viz/sweep_plot.hpp makes them
// from the rows of a sweep.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ringsched/viz/page.hpp"

namespace ringsched {

enum class PlotUnit : std::uint8_t {
  Count,  // tokens and workers: 64K
  Microseconds,
  Blocks,
  Memory,  // bytes
  PerSecond,
  Times,  // one over another
  Percent,
};

struct PlotPoint {
  double x = 0, y = 0;
  double low = 0, high = 0;  // an interval around y; none if they are equal
  bool hollow = false;       // such as a run that does not fit in a device's memory
  std::string about;         // text for a pointer resting on it, in SVG
};

struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;  // by x
};

struct PlotPanel {
  std::string name;  // what distinguishes it from the others
  std::vector<PlotLine> lines;
};

// Small multiples on the same axes.
struct Plot {
  // The title, and what all panels share. In all charts, no title means a sentence about the data.
  std::string heading, subject;
  std::string x_name, y_name;  // without units
  PlotUnit x = PlotUnit::Count, y = PlotUnit::Microseconds;
  bool ideal = false;  // a line where y = x
  std::vector<PlotPanel> panels;
  std::vector<std::string> notes = {};  // below the picture
};

// A line for each schedule, named at its end, with its interval as a band.
Picture line_plot(const Plot&, const Page& = {});
// A point for each schedule, and the front: those that no other beats in both.
Picture front_plot(const Plot&, const Page& = {});
// Points around the line y = x, and a band of `tolerance` to both sides of it. Lines are groups;
// each panel has axes of its own.
Picture agreement_plot(const Plot&, double tolerance, const Page& = {});

// Of the least time: no chart says of schedules that differ by less that one of them is fastest.
constexpr double kNearlyAsFast = 0.03;

// Which schedule is fastest where.
struct BestCell {
  double x = 0, y = 0;
  std::string best, tie;  // tie: the second, if it is nearly as fast
  std::string about;
  std::vector<std::string> near = {};  // the best and all that are nearly as fast
};
struct BestPanel {
  std::string name;
  std::vector<BestCell> cells;
};
struct BestMap {
  std::string heading, subject, x_name, y_name;
  std::vector<BestPanel> panels;
};
Picture best_map(const BestMap&, const Page& = {});

// Where the time of a run goes, as a bar: the parts add up to all of it.
struct TimeBar {
  std::string name;
  double attending = 0, overhead = 0, waiting_for_host = 0, waiting = 0, done = 0;
  double exposed = 0;        // communication while nothing is computed
  double bound = 0;          // no run can take less; 0: not known
  double low = 0, high = 0;  // contain the time in 80% of cases; equal: not known
  double total() const { return attending + overhead + waiting_for_host + waiting + done; }
};
struct TimePanel {
  std::string name;
  std::vector<TimeBar> bars;
};
struct TimeBars {
  std::string heading, subject;
  PlotUnit unit = PlotUnit::Microseconds;
  std::vector<TimePanel> panels;
};
Picture time_bars(const TimeBars&, const Page& = {});

// Who sends how much to whom.
struct Traffic {
  std::string heading, subject;
  std::string warning = {};  // drawn even without a heading: that the run did not end
  std::uint32_t workers = 0;
  std::uint32_t per_node = 0;  // workers of a node, in order; 0: all are in one
  std::vector<double> bytes;   // from worker i to worker j at i * workers + j
};
Picture traffic_map(const Traffic&, const Page& = {});

// Makespans of repeated runs.
struct RunsRow {
  std::string name;
  std::vector<double> times;  // not empty
};
struct RunsPlot {
  std::string heading, subject;
  PlotUnit unit = PlotUnit::Microseconds;
  std::vector<RunsRow> rows;
};
Picture runs_plot(const RunsPlot&, const Page& = {});

// What changes would do to a time.
struct Tornado {
  std::string heading, subject;
  PlotUnit unit = PlotUnit::Microseconds;
  double base = 0;
  std::vector<std::pair<std::string, double>> changes;  // and the time after them
};
Picture tornado(const Tornado&, const Page& = {});

}  // namespace ringsched
