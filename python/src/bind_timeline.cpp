// Timeline: when each task ran, predicted or measured; and the comparison of two.
#include <fmt/format.h>

#include "cli/comparison.hpp"
#include "cli/pictures.hpp"
#include "held.hpp"
#include "module.hpp"
#include "plan_columns.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/timeline/accounting.hpp"
#include "ringsched/viz/gantt.hpp"
#include "ringsched/viz/html.hpp"
#include "ringsched/viz/terminal.hpp"
#include "ringsched/viz/trace.hpp"
#include "timelines.hpp"
#include "work.hpp"

namespace ringsched::python {

Table timeline_table(const TimelinePointer& p) {
  const TimelineTask none;
  const TimelineTask& t = p->tasks.empty() ? none : p->tasks[0];
  constexpr std::size_t stride = sizeof(TimelineTask);
  std::vector<std::string> values;
  for (const Value& v : p->values) values.push_back(v.name);
  return Table("tasks", p->tasks.size(), p)
      .view("kind", reinterpret_cast<const std::uint8_t*>(&t.kind), stride, kind_names())
      .view("lane", reinterpret_cast<const std::uint8_t*>(&t.lane), stride, p->lanes)
      .view("worker", &t.worker, stride)
      .view("queries", &t.queries, stride)
      .view("other", &t.other, stride)
      .view("makes", &t.makes.value, stride)
      .view("step", &t.step, stride)
      .view("start_ps", &t.start_ps, stride)
      .view("end_ps", &t.end_ps, stride);
}

Table workers_table(const RunTimes& times, std::shared_ptr<const void> keep) {
  const WorkerTimes none;
  const WorkerTimes& w = times.workers.empty() ? none : times.workers[0];
  Table table("workers", times.workers.size(), std::move(keep));
  const auto add = [&](const char* name, const Picoseconds& x) {
    table.view(name, &x.value, sizeof w);
  };
  add("attending_ps", w.attending);
  add("overhead_ps", w.overhead);
  add("waiting_ps", w.waiting);
  add("out_of_work_ps", w.out_of_work);
  add("transferring_ps", w.transferring);
  add("hidden_ps", w.hidden);
  add("waiting_for_sender_ps", w.waiting_for_sender);
  add("waiting_for_host_ps", w.waiting_for_host);
  return table;
}

void save(const Timeline& t, const std::string& path) {
  const FileKind kind = file_kind(path, "path", kTimelineKinds);
  aside([&] {
    if (kind == FileKind::Json) return write_timeline_file(t, path);
    if (kind == FileKind::Html) return write_text(html_page({&t, 1}), path);
    write_picture(gantt(t), kind, path, kPixels);
  });
}

std::string described_run(const Timeline& t) {
  return fmt::format("{} {} on {}, {} workers, {}", to_text(t.source), t.schedule, t.machine,
                     t.problem.workers, duration(t.makespan(), t.unit));
}

namespace {

struct HeldComparison {
  TimelinePointer first, second;
  Comparison c;
};

HeldComparison compared(const TimelinePointer& first, const TimelinePointer& second,
                        std::size_t worst) {
  require_complete(*first, "first");
  require_complete(*second, "second");
  return aside([&] { return HeldComparison{first, second, compare(*first, *second, worst)}; });
}

Table parts_table(const char* of, const std::vector<ComparedPart>& parts) {
  std::vector<std::string> names;
  std::vector<std::int64_t> tasks[2], time[2];
  std::vector<double> ratio;
  for (const ComparedPart& p : parts) {
    names.push_back(p.name);
    for (const int i : {0, 1}) {
      tasks[i].push_back(p.tasks[i]);
      time[i].push_back(p.time[i].value);
    }
    ratio.push_back(p.ratio());
  }
  return Table(of, parts.size())
      .text("name", names)
      .numbers("first_tasks", tasks[0])
      .numbers("second_tasks", tasks[1])
      .numbers("first_ps", time[0])
      .numbers("second_ps", time[1])
      .numbers("ratio", ratio);
}

Table worst_table(const Comparison& c) {
  std::vector<std::uint32_t> task;
  std::vector<std::int64_t> time[2];
  for (const ComparedTask& w : c.worst) {
    task.push_back(w.task);
    for (const int i : {0, 1}) time[i].push_back(w.took[i].value);
  }
  return Table("tasks", task.size())
      .numbers("task", task)
      .numbers("first_ps", time[0])
      .numbers("second_ps", time[1]);
}

Picture chart(const Timeline& t, const Timeline* beside, double width,
              std::optional<std::uint32_t> worker, const std::optional<std::string>& path) {
  if (!(width >= 400 && width <= 10000)) fail("width is {:g}; use 400 to 10000", width);
  GanttOptions options{width, {}, worker};
  if (path) options.path = parse_path_look("critical_path", *path);
  return aside([&] { return beside ? gantt(t, *beside, options) : gantt(t, options); });
}

void bind_comparison(nb::module_& m) {
  nb::class_<HeldComparison>(m, "Comparison", "Two timelines, side by side.")
      .def_prop_ro(
          "error", [](const HeldComparison& h) { return h.c.error(); },
          "Of the makespan: second over first, less 1.")
      .def_prop_ro("same_plan", [](const HeldComparison& h) { return h.c.same_plan; })
      .def_prop_ro("classes",
                   [](const HeldComparison& h) { return parts_table("classes", h.c.classes); })
      .def_prop_ro("workers",
                   [](const HeldComparison& h) { return parts_table("workers", h.c.workers); })
      .def_prop_ro(
          "worst", [](const HeldComparison& h) { return worst_table(h.c); },
          "The tasks that differ most, where both are of the same plan.")
      .def(
          "to_dict",
          [](const HeldComparison& h) {
            return nb::cast<nb::dict>(
                nb::module_::import_("json").attr("loads")(comparison_json(h.c, h.first->unit)));
          },
          "As `ringsched compare --format json` prints it.")
      .def("gantt", [](const HeldComparison& h) { return gantt(*h.first, *h.second); })
      .def("__repr__",
           [](const HeldComparison& h) {
             std::string text = comparison_text(*h.first, *h.second, h.c);
             text.pop_back();
             return text;
           })
      .def("_repr_html_", [](const HeldComparison& h) {
        return svg(gantt(*h.first, *h.second)) +
               table_html(parts_table("classes", h.c.classes), 20);
      });
}

using TimelineClass = nb::class_<Timeline>;

void bind_columns(TimelineClass& c) {
  const auto column = [](const char* name) {
    return [name](const TimelinePointer& t) {
      return nb::cast(timeline_table(t)).attr("__getitem__")(name);
    };
  };
  c.def_prop_ro("tasks", &timeline_table, "The tasks by columns; times in picoseconds.")
      .def_prop_ro("start_ps", column("start_ps"),
                   nb::for_getter(nb::sig("def start_ps(self) -> typing.Any")))
      .def_prop_ro("end_ps", column("end_ps"),
                   nb::for_getter(nb::sig("def end_ps(self) -> typing.Any")))
      .def_prop_ro("source", [](const Timeline& t) { return std::string(to_text(t.source)); })
      .def_ro("machine", &Timeline::machine)
      .def_ro("conditions", &Timeline::conditions)
      .def_ro("schedule", &Timeline::schedule)
      .def_ro("plan_hash", &Timeline::plan_hash)
      .def_ro("problem", &Timeline::problem)
      .def_ro("incomplete", &Timeline::incomplete, "Why the run did not come to its end, if so.")
      .def_prop_ro(
          "unit", [](const Timeline& t) { return t.unit == TimeUnit::Blocks ? "blocks" : "us"; },
          "What 10**6 ps are.")
      .def_prop_ro("makespan_us",
                   [](const Timeline& t) { return static_cast<double>(t.makespan().value) / 1e6; })
      .def_prop_ro("by_worker",
                   [](const Timeline& t) {
                     const auto times = std::make_shared<const RunTimes>(run_times(t));
                     return workers_table(*times, times);
                   })
      .def("__len__", [](const Timeline& t) { return t.tasks.size(); });
}

void bind_pictures(TimelineClass& c) {
  c.def(
       "gantt",
       [](const Timeline& t, const Timeline* beside, double width,
          std::optional<std::uint32_t> worker,
          const std::optional<std::string>& path) { return chart(t, beside, width, worker, path); },
       "beside"_a.none() = nb::none(), nb::kw_only(), "width"_a = 1100.0, "worker"_a = nb::none(),
       "critical_path"_a = nb::none(),
       "A chart of who did what when; of two runs, one above the other. critical_path: \"fade\", "
       "\"outline\" or \"none\"; by default \"fade\" where it can be followed.")
      .def(
          "chart",
          [](const Timeline& t, std::size_t columns) {
            return terminal_gantt(t, {.columns = columns});
          },
          "columns"_a = 100, "The chart as text.")
      .def("save", &save, "path"_a,
           "By the ending: .json a timeline file, .html a page, .svg a chart.");
}

void bind_as_value(TimelineClass& c) {
  c.def("to_json", [](const Timeline& t) { return write_timeline(t); })
      .def(
          "to_perfetto",
          [](const Timeline& t, const std::string& path) {
            aside([&] { write_text(chrome_trace(t), path); });
          },
          "path"_a, "Writes a trace for ui.perfetto.dev.")
      .def(
          "to_pandas",
          [](const TimelinePointer& t) { return nb::cast(timeline_table(t)).attr("to_pandas")(); },
          nb::sig("def to_pandas(self) -> typing.Any"))
      .def(
          "to_polars",
          [](const TimelinePointer& t) { return nb::cast(timeline_table(t)).attr("to_polars")(); },
          nb::sig("def to_polars(self) -> typing.Any"))
      .def(
          "__arrow_c_stream__",
          [](const TimelinePointer& t, const nb::object&) {
            return nb::cast(timeline_table(t)).attr("__arrow_c_stream__")();
          },
          "requested_schema"_a.none() = nb::none())
      .def("__eq__", [](const Timeline& a, const Timeline& b) { return a == b; })
      .def("__eq__", [](const Timeline&, nb::handle) { return false; })
      .def("__hash__", [](const Timeline& t) { return std::hash<std::string>()(t.plan_hash); })
      .def("__getstate__", [](const Timeline& t) { return write_timeline(t); })
      .def("__setstate__",
           [](Timeline& t, const std::string& text) {
             new (&t) Timeline(read_timeline(text, "timeline"));
           })
      .def("__repr__",
           [](const Timeline& t) { return fmt::format("<Timeline {}>", described_run(t)); })
      .def("_repr_html_", [](const Timeline& t) { return svg(gantt(t)); })
      .def("_repr_svg_", [](const Timeline& t) { return svg(gantt(t)); });
}

}  // namespace

void bind_timeline(nb::module_& m) {
  TimelineClass c(m, "Timeline", "When each task of a plan ran, predicted or measured.");
  bind_columns(c);
  bind_pictures(c);
  bind_as_value(c);
  bind_comparison(m);
  m.def("_compare", &compared, "first"_a, "second"_a, "worst"_a);
  m.def(
      "read_timeline",
      [](const std::string& path) {
        return aside([&] { return std::make_shared<Timeline>(read_timeline_file(path)); });
      },
      "path"_a, "Reads a timeline file.");
  m.def(
      "timeline_from_json",
      [](const std::string& text, const std::string& name) {
        return std::make_shared<Timeline>(read_timeline(text, name));
      },
      "text"_a, "name"_a = "timeline", "A timeline from the text of a timeline file.");
}

}  // namespace ringsched::python
