// The module ringsched._core. The package ringsched has the names that people use.
#include "module.hpp"

#include "cli/program.hpp"
#include "ringsched/scheduler/error.hpp"

namespace ringsched::python {

namespace {

int command(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  const auto argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  const nb::gil_scoped_release released;
  return run_program(argc, argv.data());
}

}  // namespace

NB_MODULE(_core, m) {
  m.attr("__version__") = RINGSCHED_VERSION;
  const nb::exception<Error> error(m, "Error", PyExc_ValueError);
  error.attr("__doc__") = "Bad input: one line that says what was given and what is allowed.";
  bind_table(m);
  bind_picture(m);
  bind_problem(m);
  bind_plan(m);
  bind_builder(m);
  bind_machine(m);
  bind_timeline(m);
  bind_run(m);
  bind_sweep(m);
  m.def("_command", &command, "arguments"_a, "The program ringsched; its exit code.");
}

}  // namespace ringsched::python
