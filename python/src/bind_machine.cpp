// Machines and schedules: lists of both.
#include <fmt/format.h>
#include <nanobind/stl/pair.h>

#include "module.hpp"
#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/file.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "table.hpp"

namespace ringsched::python {

namespace {

Table machines() {
  std::vector<std::string> names, summaries, libraries;
  std::vector<std::uint32_t> nodes, devices;
  for (const MachineProfile& profile : machine_profiles()) {
    const Machine m = read_machine(profile.toml, profile.name);
    names.push_back(m.name);
    summaries.push_back(m.summary);
    nodes.push_back(m.nodes);
    devices.push_back(m.ideal ? 0 : m.devices());
    std::string list;
    for (const std::string_view name : kernel_libraries(m))
      if (!name.empty()) list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
    libraries.push_back(list);
  }
  return Table("machines", names.size())
      .text("name", names)
      .numbers("nodes", nodes)
      .numbers("devices", devices)
      .text("summary", summaries)
      .text("kernels", libraries);
}

Table schedule_list() {
  std::vector<std::string> names, summaries, sources, parameters;
  std::vector<Schedule> all(schedules().begin(), schedules().end());
  all.insert(all.end(), decode_schedules().begin(), decode_schedules().end());
  for (const Schedule& s : all) {
    names.push_back(s.name);
    summaries.emplace_back(s.summary);
    sources.emplace_back(s.source);
    std::string list;
    for (const Parameter& p : s.parameters)
      list += fmt::format("{}{}={}", list.empty() ? "" : ", ", p.name, value_text(p, p.initial));
    parameters.push_back(list);
  }
  return Table("schedules", names.size())
      .text("name", names)
      .text("summary", summaries)
      .text("parameters", parameters)
      .text("source", sources);
}

std::string toml_of(const Machine& m) {
  for (const MachineProfile& p : machine_profiles())
    if (p.name == m.name && read_machine(p.toml, p.name) == m) return std::string(p.toml);
  return to_toml(m);
}

}  // namespace

void bind_machine(nb::module_& m) {
  nb::class_<Machine>(m, "Machine", "A machine to simulate, as its profile describes it.")
      .def(nb::new_([](const std::string& name) { return find_machine(name); }), "name"_a,
           "By the name of a profile, or the path of a TOML file.")
      .def_static(
          "from_toml",
          [](const std::string& toml, const std::string& name) { return read_machine(toml, name); },
          "text"_a, "name"_a = "machine", "From the text of a profile.")
      .def_ro("name", &Machine::name)
      .def_ro("summary", &Machine::summary)
      .def_ro("nodes", &Machine::nodes)
      .def_prop_ro(
          "devices",
          [](const Machine& x) -> std::optional<std::uint32_t> {
            if (x.ideal) return std::nullopt;
            return x.devices();
          },
          "How many it has; None: as many as are asked for.")
      .def("to_toml", &toml_of, "Its profile, with the source of each figure.")
      .def("__eq__", [](const Machine& a, const Machine& b) { return a == b; })
      .def("__eq__", [](const Machine&, nb::handle) { return false; })
      .def("__hash__", [](const Machine& x) { return std::hash<std::string>()(x.name); })
      .def("__getstate__", [](const Machine& x) { return nb::make_tuple(toml_of(x), x.name); })
      .def("__setstate__",
           [](Machine& x, const std::pair<std::string, std::string>& state) {
             new (&x) Machine(read_machine(state.first, state.second));
           })
      .def("__repr__",
           [](const Machine& x) { return fmt::format("<Machine {}: {}>", x.name, x.summary); });
  m.def("machines", &machines, "The profiles that come with ringsched.");
  m.def("schedules", &schedule_list, "The schedules there are, and their parameters.");
}

}  // namespace ringsched::python
