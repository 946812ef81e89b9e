// Plan: made from a schedule, a file or a builder; proven, drawn, and read by columns.
#include <fmt/format.h>

#include "asked.hpp"
#include "cli/pictures.hpp"
#include "cli/plan_summary.hpp"
#include "cli/verification_text.hpp"
#include "held.hpp"
#include "module.hpp"
#include "plan_columns.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/plan_file.hpp"
#include "ringsched/scheduler/verify.hpp"
#include "ringsched/viz/block_map.hpp"
#include "ringsched/viz/task_graph.hpp"
#include "table.hpp"
#include "work.hpp"

namespace ringsched::python {

namespace {

struct HeldVerification {
  PlanPointer plan;
  Verification v;
  std::size_t most = 20;
};

PlanPointer plan_of(const Problem& problem, const std::string& schedule, const nb::object& overlap,
                    const nb::object& buffers, const nb::object& exchanges) {
  const Communication how = communication_of(overlap, buffers, exchanges);
  return aside(
      [&] { return with_communication(build_plan(problem, find_schedule(schedule)), how, false); });
}

PlanPointer read_file(const std::string& path) {
  return aside([&] { return std::make_shared<const HeldPlan>(read_plan_file(path), path); });
}

std::string plan_json(const HeldPlan& p) {
  return aside([&] { return write_plan(p.plan()); });
}

HeldVerification verified(const PlanPointer& p, std::size_t most) {
  if (most == 0) fail("most is 0; use 1 or more");
  return aside([&] {
    return HeldVerification{p, verify(p->plan(), {.most = most, .one_queue = true}), most};
  });
}

std::string plan_text(const HeldPlan& p) {
  constexpr std::uint32_t most_workers = 16;
  const Plan& plan = p.plan();
  const PlanSummary s = summarise(plan);
  return fmt::format("{}\n\n{}steps     {}\ntasks     {}\nmoves     {}", headline(plan),
                     plan.problem.workers <= most_workers ? step_table(plan) + "\n" : "", s.steps,
                     tasks_line(s), moves_line(plan, s));
}

Picture map_of(const Plan& plan) {
  const Plan* const plans[] = {&plan};
  return block_map(plans);
}

std::string plan_html(const HeldPlan& p) {
  const std::string head = fmt::format("<p>{}</p>", escaped_html(headline(p.plan())));
  try {
    return head + svg(map_of(p.plan()));
  } catch (const Error&) {  // more blocks than anyone can distinguish
    return head + fmt::format("<p>{}</p>", escaped_html(tasks_line(summarise(p.plan()))));
  }
}

void raise_if_broken(const HeldVerification& h) {
  if (h.v.holds()) return;
  const Violation& first = h.v.violations.front();
  fail("{} does not verify ({}): {}", h.plan->plan().schedule, to_text(first.rule), first.text);
}

void bind_verification(nb::module_& m) {
  nb::class_<Violation>(m, "Violation", "One thing that is wrong with a plan.")
      .def_prop_ro("rule", [](const Violation& v) { return std::string(to_text(v.rule)); })
      .def_ro("text", &Violation::text)
      .def_prop_ro("tasks",
                   [](const Violation& v) {
                     std::vector<std::uint32_t> ids;
                     for (const TaskId t : v.tasks) ids.push_back(t.value);
                     return ids;
                   })
      .def_prop_ro("worker",
                   [](const Violation& v) -> std::optional<std::uint32_t> {
                     if (!v.worker.valid()) return std::nullopt;
                     return v.worker.value;
                   })
      .def_ro("step", &Violation::step)
      .def("__repr__",
           [](const Violation& v) { return fmt::format("{}: {}", to_text(v.rule), v.text); });
  nb::class_<HeldVerification>(m, "Verification",
                               "What the proof of a plan found; true if the plan holds.")
      .def("__bool__", [](const HeldVerification& h) { return h.v.holds(); })
      .def_prop_ro("holds", [](const HeldVerification& h) { return h.v.holds(); })
      .def_prop_ro("violations", [](const HeldVerification& h) { return h.v.violations; })
      .def_prop_ro(
          "more", [](const HeldVerification& h) { return h.v.more; },
          "There may be more violations; the rest was not looked for.")
      .def_prop_ro("unread_messages", [](const HeldVerification& h) { return h.v.unread; })
      .def_prop_ro("hidden_attends", [](const HeldVerification& h) { return h.v.hidden; })
      .def_prop_ro("needs_independent_lanes",
                   [](const HeldVerification& h) -> std::optional<bool> {
                     if (!h.v.holds()) return std::nullopt;
                     return !h.v.stuck_in_one_queue.empty();
                   })
      .def_prop_ro(
          "peak_bytes",
          [](const HeldVerification& h) {
            std::vector<std::int64_t> peak;
            for (const Bytes b : h.v.peak) peak.push_back(b.value);
            return peak;
          },
          "By worker: memory that is enough whatever the timing. Empty if the plan is broken.")
      .def("raise_if_broken", &raise_if_broken, "Raises Error with the first violation.")
      .def("__repr__", [](const HeldVerification& h) {
        std::string text =
            verification_text(h.plan->plan(), h.v, static_cast<std::int64_t>(h.most));
        text.pop_back();
        return text;
      });
}

using PlanClass = nb::class_<HeldPlan>;

void bind_columns(PlanClass& c) {
  c.def_prop_ro("problem", [](const HeldPlan& p) { return p.plan().problem; })
      .def_prop_ro("schedule", [](const HeldPlan& p) { return p.plan().schedule; })
      .def_prop_ro("layout", [](const HeldPlan& p) { return p.plan().layout.name; })
      .def_prop_ro(
          "hash", [](const HeldPlan& p) { return plan_hash(p.plan()); },
          "Sixteen digits that differ for plans that differ in what they do.")
      .def_prop_ro("lanes", [](const HeldPlan& p) { return p.plan().lanes; })
      .def_prop_ro("tasks", [](const PlanPointer& p) { return tasks_table(p); })
      .def_prop_ro(
          "chunks", [](const PlanPointer& p) { return chunks_table(p); },
          "Where the tokens are: chunk by chunk, worker by worker.")
      .def_prop_ro("pieces", [](const PlanPointer& p) { return pieces_table(p); })
      .def_prop_ro("works", [](const PlanPointer& p) { return works_table(p); })
      .def_prop_ro(
          "program", [](const PlanPointer& p) { return program_table(p); },
          "The values that the plan computes, and of what types they are.")
      .def("__len__", [](const HeldPlan& p) { return p.plan().tasks.size(); });
}

void bind_uses(PlanClass& c) {
  c.def("verify", &verified, "most"_a = 20, "Proves the plan, or says what is wrong with it.")
      .def(
          "block_map", [](const HeldPlan& p) { return map_of(p.plan()); },
          "Which worker computes which block of the attention matrix.")
      .def(
          "task_graph",
          [](const HeldPlan& p, std::optional<std::uint32_t> worker) {
            GraphPart part;
            if (worker) part.worker = WorkerId{*worker};
            return task_graph_dot(p.plan(), part);
          },
          "worker"_a = nb::none(), "The tasks and what they wait for, as text for Graphviz.")
      .def("to_json", &plan_json, "The text of its plan file.")
      .def(
          "write",
          [](const HeldPlan& p, const std::string& path) {
            aside([&] { write_plan_file(p.plan(), path); });
          },
          "path"_a, "Writes a plan file.");
}

void bind_as_value(PlanClass& c) {
  c.def("__eq__",
        [](const HeldPlan& a, const HeldPlan& b) {
          return &a == &b || write_plan(a.plan()) == write_plan(b.plan());
        })
      .def("__eq__", [](const HeldPlan&, nb::handle) { return false; })
      .def("__hash__",
           [](const HeldPlan& p) { return std::hash<std::string>()(plan_hash(p.plan())); })
      .def("__getstate__", &plan_json)
      .def("__setstate__",
           [](HeldPlan& p, const std::string& text) { new (&p) HeldPlan(read_plan(text, "plan")); })
      .def("__str__", &plan_text)
      .def("__repr__",
           [](const HeldPlan& p) {
             return fmt::format("<Plan {}; {}>", headline(p.plan()),
                                counted(static_cast<std::int64_t>(p.plan().tasks.size()), "task"));
           })
      .def("_repr_html_", &plan_html);
}

}  // namespace

void bind_plan(nb::module_& m) {
  bind_verification(m);
  PlanClass c(m, "Plan",
              "Who computes what, in which order, and what moves. Made by plan(), read_plan() or "
              "Builder; read by columns.");
  bind_columns(c);
  bind_uses(c);
  bind_as_value(c);
  m.def("_plan", &plan_of, "problem"_a, "schedule"_a, "overlap"_a, "buffers"_a, "exchanges"_a);
  m.def("read_plan", &read_file, "path"_a, "Reads a plan file.");
  m.def(
      "plan_from_json",
      [](const std::string& text, const std::string& name) {
        return aside([&] { return std::make_shared<const HeldPlan>(read_plan(text, name), name); });
      },
      "text"_a, "name"_a = "plan", "A plan from the text of a plan file.");
}

}  // namespace ringsched::python
