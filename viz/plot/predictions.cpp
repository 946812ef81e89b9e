// Charts of the JSON of `simulate` and of `validate`.
#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/words.hpp"
#include "ringsched/viz/sweep_plot.hpp"

namespace ringsched {

namespace {

using namespace simdjson;

constexpr double kMost = 1e18;

// A JSON object, for as long as the parser lives.
class Document {
 public:
  Document(const std::string& text, const std::string& name) : name_(name) {
    dom::element top;
    if (const error_code wrong = parser_.parse(text).get(top); wrong != SUCCESS) {
      require_json_object(text, name);
      fail("{} is not JSON: {}", name, error_message(wrong));
    }
    if (top.get(top_) != SUCCESS) fail("{}: expected an object", name);
    const auto has = [&](const char* field) { return top_[field].error() == SUCCESS; };
    if (!has("unit") && !has("groups") && !has("runs_us"))
      fail("{} is not an output of ringsched sweep, simulate, run or validate", name);
  }
  dom::object top() const { return top_; }
  double number(dom::object o, const char* field) const {
    double x = 0;
    if (o[field].get(x) != SUCCESS) fail("{}: \"{}\" is missing or not a number", name_, field);
    if (!(std::abs(x) <= kMost)) fail("{}: \"{}\" is {:g}", name_, field, x);
    return x;
  }
  std::string text(dom::object o, const char* field) const {
    std::string_view s;
    if (o[field].get(s) != SUCCESS) fail("{}: \"{}\" is missing or not a string", name_, field);
    return printable(s, 80);
  }
  dom::array list(dom::object o, const char* field) const {
    dom::array a;
    if (o[field].get(a) != SUCCESS) fail("{}: \"{}\" is missing or not a list", name_, field);
    return a;
  }
  dom::object object(dom::element e) const {
    dom::object o;
    if (e.get(o) != SUCCESS) fail("{}: expected an object in a list", name_);
    return o;
  }
  dom::object object(dom::object o, const char* field) const {
    dom::object found;
    if (o[field].get(found) != SUCCESS)
      fail("{}: \"{}\" is missing or not an object", name_, field);
    return found;
  }
  // Two numbers, the second not below the first; none if the field is missing or null.
  std::optional<std::pair<double, double>> interval(dom::object o, const char* field) const {
    dom::array ends;
    if (o[field].get(ends) != SUCCESS) return std::nullopt;
    double low = 0, high = 0;
    if (ends.size() != 2 || ends.at(0).get(low) != SUCCESS || ends.at(1).get(high) != SUCCESS ||
        !(low >= 0 && low <= high && high <= kMost))
      fail("{}: \"{}\" must be two numbers, the smaller first", name_, field);
    return std::pair(low, high);
  }
  PlotUnit unit() const {
    return text(top_, "unit") == "blocks" ? PlotUnit::Blocks : PlotUnit::Microseconds;
  }
  std::string run() const {
    return fmt::format("{} on {}, {:.0f} workers", text(top_, "schedule"), text(top_, "machine"),
                       number(top_, "workers"));
  }

 private:
  const std::string& name_;
  dom::parser parser_;
  dom::object top_;
};

constexpr std::size_t kFewest = 5;  // results that make a panel

}  // namespace

TimePanel prediction_bar(const std::string& json, const std::string& name, PlotUnit& unit) {
  const Document d(json, name);
  unit = d.unit();
  TimeBar b;
  b.name = d.text(d.top(), "schedule");
  double workers = 0;
  for (const dom::element e : d.list(d.top(), "by_worker")) {
    const dom::object w = d.object(e);
    const double host = d.number(w, "waiting_for_host_us");
    b.attending += d.number(w, "attending_us");
    b.overhead += d.number(w, "overhead_us");
    b.waiting_for_host += host;
    b.waiting += std::max(0.0, d.number(w, "waiting_us") - host);
    b.done += d.number(w, "out_of_work_us");
    ++workers;
  }
  if (workers == 0) fail("{}: \"by_worker\" is empty", name);
  for (double* x : {&b.attending, &b.overhead, &b.waiting_for_host, &b.waiting, &b.done})
    *x = std::max(0.0, *x / workers);
  b.exposed = std::max(0.0, d.number(d.top(), "exposed_communication_us"));
  b.bound = std::max(0.0, d.number(d.object(d.top(), "bounds"), "best_us"));
  if (const auto sure = d.interval(d.top(), "interval_80_us")) std::tie(b.low, b.high) = *sure;
  if (!(b.total() > 0)) fail("{}: the run takes no time", name);
  return {fmt::format("{}, {:.0f} workers, {} tokens", d.text(d.top(), "machine"), workers,
                      grouped(static_cast<std::int64_t>(d.number(d.top(), "tokens")))),
          {b}};
}

std::string change_in_words(const std::string& change) {
  const std::size_t equals = change.find('=');
  if (equals == change.npos) return change;
  const std::string what = change.substr(0, equals), how = change.substr(equals + 1);
  if (change == "latency=0x") return "zero latency";
  if (change == "communication-sms=0") return "transfers without SMs";
  const bool less = how.starts_with("0");
  if (less) return change;
  if (what.starts_with("worker:")) return "worker " + what.substr(7) + " " + how + " slower";
  for (const auto& [name, words] :
       {std::pair{"kernels", "kernels"}, std::pair{"bandwidth", "links"},
        std::pair{"fabric", "links in nodes"}, std::pair{"network", "network"},
        std::pair{"memory", "memory"}, std::pair{"host", "host"}})
    if (what == name) return fmt::format("{} {} faster", words, how);
  if (what == "channels") return how + " NCCL channels";
  return change;
}

Tornado prediction_tornado(const std::string& json, const std::string& name) {
  const Document d(json, name);
  Tornado t;
  t.unit = d.unit();
  t.base = d.number(d.top(), "makespan_us");
  if (!(t.base > 0)) fail("{}: the run takes no time", name);
  t.subject = d.run();
  for (const char* list : {"improvements", "what_if"})
    for (const dom::element e : d.list(d.top(), list)) {
      const dom::object o = d.object(e);
      const std::string change = d.text(o, "change");
      const double time = d.number(o, "makespan_us");
      if (time < 0 || time > 1000 * t.base) fail("{}: {} takes {:g} us", name, change, time);
      if (std::none_of(t.changes.begin(), t.changes.end(),
                       [&](const auto& c) { return c.first == change_in_words(change); }))
        t.changes.emplace_back(change_in_words(change), time);
    }
  if (t.changes.empty())
    fail("{} has no changes to draw; use ringsched simulate --machine NAME --format json", name);
  return t;
}

RunsRow prediction_runs(const std::string& json, const std::string& name, PlotUnit& unit,
                        std::string& subject) {
  const Document d(json, name);
  dom::array times;
  dom::object runs;
  RunsRow row{d.text(d.top(), "schedule"), {}};
  unit = PlotUnit::Microseconds;
  if (d.top()["runs_us"].get(times) == SUCCESS) {
    row.name += " measured";
  } else if (d.top()["runs"].get(runs) == SUCCESS) {
    times = d.list(runs, "makespans_us");
    unit = d.unit();
  } else {
    fail("{} has one run; use ringsched simulate --noise 5% --format json, or ringsched run", name);
  }
  for (const dom::element e : times) {
    double x = 0;
    if (e.get(x) != SUCCESS || !(x >= 1e-9 && x <= kMost))
      fail("{}: the makespans of runs must be numbers from 1e-9 to 1e18", name);
    row.times.push_back(x);
  }
  if (row.times.size() < 2) fail("{} has one run: nothing to compare", name);
  subject = fmt::format("{:.0f} workers, {} tokens", d.number(d.top(), "workers"),
                        grouped(static_cast<std::int64_t>(d.number(d.top(), "tokens"))));
  return row;
}

Plot validation_plot(const std::string& json, const std::string& name) {
  const Document d(json, name);
  Plot plot;
  plot.x_name = "published";
  plot.y_name = "predicted";
  plot.x = plot.y = PlotUnit::Times;
  for (const dom::element e : d.list(d.top(), "groups")) {
    const dom::object g = d.object(e);
    const std::string unit = d.text(g, "unit"), by = d.text(g, "by");
    bool order_only = false;
    if (g["order_only"].get(order_only) == SUCCESS && order_only) continue;
    // The title of a panel that is half a column wide.
    const std::string quantity = unit == "speed-up over another schedule"
                                     ? "speed-up between schedules"
                                 : unit == "speed-up over one device"
                                     ? unit
                                     : fmt::format("{} ({})", unit == "ms" ? "time" : "rate", unit);
    auto panel = std::find_if(plot.panels.begin(), plot.panels.end(),
                              [&](const PlotPanel& p) { return p.name == quantity; });
    if (panel == plot.panels.end()) panel = plot.panels.insert(panel, PlotPanel{quantity, {}});
    auto line = std::find_if(panel->lines.begin(), panel->lines.end(),
                             [&](const PlotLine& l) { return l.name == by; });
    if (line == panel->lines.end()) line = panel->lines.insert(line, PlotLine{by, {}});
    for (const dom::element r : d.list(g, "results")) {
      const dom::object o = d.object(r);
      bool impossible = false;
      if (o["impossible"].get(impossible) == SUCCESS && impossible) continue;
      PlotPoint p;
      p.x = d.number(o, "published");
      p.y = d.number(o, "predicted");
      if (!(p.x > 0) || !(p.y > 0)) continue;
      const auto sure = d.interval(o, "interval_80");
      if (sure && sure->first > 0) std::tie(p.low, p.high) = *sure;
      p.about = fmt::format("{}, {}: published {}, predicted {}", d.text(g, "name"),
                            d.text(o, "schedule"), p.x, p.y);
      line->points.push_back(std::move(p));
    }
  }
  const auto size = [](const PlotPanel& p) {
    std::size_t n = 0;
    for (const PlotLine& line : p.lines) n += line.points.size();
    return n;
  };
  std::size_t left_out = 0;
  for (const PlotPanel& p : plot.panels) left_out += size(p) < kFewest ? size(p) : 0;
  if (left_out > 0)
    plot.notes = {fmt::format("Not drawn: {} result{} in units that have fewer than {}.", left_out,
                              left_out == 1 ? "" : "s", kFewest)};
  std::erase_if(plot.panels, [&](const PlotPanel& p) { return size(p) < kFewest; });
  std::stable_sort(plot.panels.begin(), plot.panels.end(),
                   [&](const PlotPanel& a, const PlotPanel& b) { return size(a) > size(b); });
  for (PlotPanel& p : plot.panels)
    std::erase_if(p.lines, [](const PlotLine& line) { return line.points.empty(); });
  if (plot.panels.empty()) fail("{}: no quantity has {} results or more to draw", name, kFewest);
  return plot;
}

}  // namespace ringsched
