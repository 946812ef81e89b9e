// The module ringsched._core. The package ringsched has the names that people use.
#include "module.hpp"

#include <cctype>

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

// Names arguments as Python does: "--kv-heads is 0" becomes "kv_heads is 0".
std::string with_keywords(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool flag = (i == 0 || text[i - 1] == ' ' || text[i - 1] == '(') &&
                      text.substr(i).starts_with("--") && i + 2 < text.size() &&
                      std::islower(static_cast<unsigned char>(text[i + 2]));
    if (!flag) {
      out += text[i];
      continue;
    }
    std::string name;
    for (i += 2;
         i < text.size() && (std::islower(static_cast<unsigned char>(text[i])) || text[i] == '-');
         ++i)
      name += text[i] == '-' ? '_' : text[i];
    --i;
    out += name == "pass"          ? "passes"
           : name == "slow_worker" ? "slow_workers"
           : name == "for"         ? "medium"
                                   : name;
  }
  return out;
}

}  // namespace

NB_MODULE(_core, m) {
  m.attr("__version__") = RINGSCHED_VERSION;
  const nb::exception<Error> error(m, "Error", PyExc_ValueError);
  error.attr("__doc__") = "Bad input: one line that says what was given and what is allowed.";
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* type) {
        try {
          std::rethrow_exception(thrown);
        } catch (const Error& e) {
          PyErr_SetString(static_cast<PyObject*>(type), with_keywords(e.what()).c_str());
        }
      },
      error.ptr());
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
