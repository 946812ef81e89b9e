// Turns keyword arguments into flags of the command, so that both mean the same and cause the same
// errors.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "cli/machine_flags.hpp"
#include "cli/problem_flags.hpp"
#include "held.hpp"
#include "module.hpp"

namespace ringsched::python {

class Asked {
 public:
  CLI::App& app() { return app_; }
  // A list becomes "a,b,c".
  void add(const char* flag, nb::handle value);
  void parse();

 private:
  CLI::App app_;
  std::vector<std::string> arguments_;
};

// The text of one value, "a,b" of a list.
std::string text_of(const char* flag, nb::handle value);

Communication communication_of(const nb::object& overlap, const nb::object& buffers,
                               const nb::object& exchanges);

struct MachineAsked {
  nb::object kernels, software, nccl_ctas, diagonal, noise, stragglers, slow_workers, seed, runs;
};

MachineFlags machine_flags(const MachineAsked&);
void add_machine_asked(Asked&, const MachineAsked&);

}  // namespace ringsched::python
