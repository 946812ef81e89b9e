// Sweeps: schedules ranked over many problems and machines.
#include <algorithm>

#include "asked.hpp"
#include "cli/sweep.hpp"
#include "module.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/simulator/spread.hpp"
#include "ringsched/viz/sweep_plot.hpp"
#include "table.hpp"
#include "work.hpp"

namespace ringsched::python {

namespace {

struct HeldSweep {
  std::vector<SweepRow> rows;
};

HeldSweep swept(const nb::dict& lists, const nb::dict& rest, const MachineAsked& machine,
                unsigned jobs) {
  SweepQuestion question;
  Asked asked;
  question.add_to(asked.app());
  for (const nb::dict& flags : {lists, rest})
    for (const auto [flag, value] : flags) asked.add(nb::str(flag).c_str(), value);
  add_machine_asked(asked, machine);
  asked.parse();
  return aside([&] {
    const std::vector<SweepCell> cells = cells_of(question);
    HeldSweep sweep{std::vector<SweepRow>(cells.size())};
    in_parallel(
        cells.size(), [&](std::size_t i) { sweep.rows[i] = answer(cells[i], question); }, jobs);
    return sweep;
  });
}

double number(const std::string& text) {
  return text.empty() ? std::numeric_limits<double>::quiet_NaN() : std::stod(text);
}

Table rows_table(const HeldSweep& s) {
  Table table("rows", s.rows.size());
  const auto words = [&](const char* name, std::string SweepRow::*field) {
    std::vector<std::string> column;
    for (const SweepRow& row : s.rows) column.push_back(row.*field);
    table.text(name, column);
  };
  const auto numbers = [&](const char* name, std::string SweepRow::*field) {
    std::vector<double> column;
    for (const SweepRow& row : s.rows) column.push_back(number(row.*field));
    table.numbers(name, column);
  };
  const auto counts = [&](const char* name, std::string SweepRow::*field) {
    std::vector<std::int64_t> column;
    for (const SweepRow& row : s.rows)
      column.push_back((row.*field).empty() ? 0 : std::stoll(row.*field));
    table.numbers(name, column);
  };
  words("machine", &SweepRow::machine);
  counts("workers", &SweepRow::workers);
  counts("tokens", &SweepRow::tokens);
  counts("heads", &SweepRow::heads);
  words("schedule", &SweepRow::schedule);
  counts("new_tokens", &SweepRow::new_tokens);
  words("overlap", &SweepRow::overlap);
  words("exchanges", &SweepRow::exchanges);
  words("conditions", &SweepRow::conditions);
  numbers("makespan_us", &SweepRow::makespan_us);
  numbers("interval_low_us", &SweepRow::interval_low_us);
  numbers("interval_high_us", &SweepRow::interval_high_us);
  std::vector<double> wins;
  for (const std::optional<double>& share : best_wins(s.rows))
    wins.push_back(share.value_or(std::numeric_limits<double>::quiet_NaN()));
  table.numbers("slower_in", wins);
  numbers("idle_fraction", &SweepRow::idle_fraction);
  numbers("overlap_fraction", &SweepRow::overlap_fraction);
  numbers("exposed_communication_us", &SweepRow::exposed_communication_us);
  numbers("speedup", &SweepRow::speedup);
  counts("peak_bytes", &SweepRow::peak_bytes);
  words("fits", &SweepRow::fits);
  words("extrapolated", &SweepRow::extrapolated);
  words("refused", &SweepRow::refused);
  return table;
}

std::string best(const HeldSweep& s) {
  const SweepRow* first = nullptr;
  for (const SweepRow& row : s.rows)
    if (row.holds() && (!first || std::pair(row.fits == "no", row.makespan()) <
                                      std::pair(first->fits == "no", first->makespan())))
      first = &row;
  if (!first) fail("the sweep has no result: {}", s.rows.empty() ? "" : s.rows[0].refused);
  return first->schedule;
}

std::string csv_of(const HeldSweep& s) {
  std::string csv = sweep_csv_header();
  for (const SweepRow& row : s.rows) csv += to_csv(row);
  return csv;
}

Picture plotted(const HeldSweep& s, std::string kind, const std::string& y, const std::string& x,
                const std::string& medium, const std::string& title) {
  const Records records = read_csv_records(csv_of(s), "the sweep");
  if (kind.empty()) kind = has_lines(records) ? "lines" : "breakdown";
  if (kind != "lines" && (!y.empty() || !x.empty()))
    fail("x and y are only for kind='lines'; this is {}", kind);
  Page page = medium.empty() ? Page{} : page_for(medium);
  page.title = title;
  if (kind == "lines")
    return line_plot(sweep_lines(records, parse_plot_y(y.empty() ? "time" : y), x), page);
  if (kind == "map") return best_map(sweep_map(records), page);
  if (kind == "pareto") return front_plot(sweep_front(records), page);
  if (kind == "breakdown") return time_bars(sweep_bars(records), page);
  fail("kind is '{}'; use lines, map, pareto or breakdown", kind);
}

std::string html(const HeldSweep& s) {
  std::string out = "<pre>" + escaped_html(ranked_table(s.rows)) + "</pre>";
  const bool results = std::ranges::any_of(s.rows, [](const SweepRow& row) { return row.holds(); });
  if (results && has_lines(read_csv_records(csv_of(s), "the sweep")))
    out += svg(plotted(s, "lines", "", "", "", ""));
  return out;
}

}  // namespace

void bind_sweep(nb::module_& m) {
  nb::class_<HeldSweep>(m, "Sweep", "What a sweep found. print(sweep) ranks the schedules.")
      .def_prop_ro("rows", &rows_table)
      .def_prop_ro("best", &best, "The schedule with the shortest makespan of all rows.")
      .def("__len__", [](const HeldSweep& s) { return s.rows.size(); })
      .def(
          "to_pandas",
          [](const HeldSweep& s) { return nb::cast(rows_table(s)).attr("to_pandas")(); },
          nb::sig("def to_pandas(self) -> typing.Any"))
      .def(
          "to_polars",
          [](const HeldSweep& s) { return nb::cast(rows_table(s)).attr("to_polars")(); },
          nb::sig("def to_polars(self) -> typing.Any"))
      .def(
          "__arrow_c_stream__",
          [](const HeldSweep& s, const nb::object&) {
            return nb::cast(rows_table(s)).attr("__arrow_c_stream__")();
          },
          "requested_schema"_a.none() = nb::none())
      .def("to_csv", &csv_of, "As `ringsched sweep --format csv` prints it.")
      .def("__repr__",
           [](const HeldSweep& s) {
             std::string text = ranked_table(s.rows);
             text.pop_back();
             return text;
           })
      .def("plot", &plotted, nb::kw_only(), "kind"_a = "", "y"_a = "", "x"_a = "", "medium"_a = "",
           "title"_a = "",
           "A Picture, as `ringsched plot` draws it. kind: lines, map, pareto or breakdown "
           "(default: lines "
           "if tokens or workers vary, else breakdown); y, of lines: time, speedup, "
           "tokens-per-second or "
           "memory; medium: column, text or slide.")
      .def("_repr_html_", &html);
  m.def(
      "_sweep",
      [](const nb::dict& lists, const nb::dict& rest, const nb::dict& machine, unsigned jobs) {
        const auto get = [&](const char* name) -> nb::object { return machine[name]; };
        return swept(
            lists, rest,
            {get("kernels"), get("software"), get("nccl_ctas"), get("diagonal"), get("noise"),
             get("stragglers"), get("slow_workers"), get("seed"), get("runs")},
            jobs);
      },
      "lists"_a, "rest"_a, "machine"_a, "jobs"_a);
}

}  // namespace ringsched::python
