// The flags that describe a machine and the conditions of a run.
#pragma once

#include <string>
#include <vector>

#include "ringsched/machine/machine.hpp"
#include "ringsched/simulator/simulate.hpp"
#include "ringsched/simulator/what_if.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace ringsched {

class MachineFlags {
 public:
  // `usual`: the default machine; empty if there is no default.
  void add_machine_to(CLI::App& command, const char* usual = "ideal");
  bool given() const { return !name_.empty(); }
  // Those flags except --machine; `ideal`: with the flags of that machine.
  void add_figures_to(CLI::App& command, bool ideal = true);
  void add_conditions_to(CLI::App& command);

  // Throw Error if a value makes no sense.
  Machine machine() const { return machine(name_); }
  Machine machine(const std::string& name) const;
  Machine with_figures(Machine) const;  // those of the flags in place of its own
  double diagonal() const;
  std::string figures() const;                // the flags that were given, as text
  std::string first_figure() const;           // the first of them as typed: "--kernels fa2"
  std::string figures(const Machine&) const;  // the same, with the default kernel library
  // What stands for the kernels and the code around them, if no flag says it, and which flags
  // would.
  std::string defaults(const Machine&) const;
  // Which schedules the library of --software has itself; empty if none is given, or nothing says.
  std::string of_library(const Machine&) const;
  // Which machines' own libraries --software replaced, so far; else empty.
  const std::string& replaced() const { return replaced_; }
  Setup setup(const Machine&, std::uint32_t workers) const;
  // Throws Error if --runs was given but no run varies (`any_varies`).
  void check_runs(bool any_varies) const;
  const std::string& name() const { return name_; }
  bool has_own_software() const;  // --software is a file
  std::string file() const;       // of the user's own profile, else empty

 private:
  Conditions conditions(const Machine&, std::uint32_t workers) const;
  std::uint32_t ctas() const;  // 0: NCCL decides

  std::string name_ = "ideal", library_, software_, ctas_, diagonal_;
  std::string noise_, stragglers_, seed_ = "1", runs_;
  std::vector<std::string> slow_;
  mutable std::string replaced_;
};

// Whether runs with different seeds differ.
bool varies(const Conditions&);

// The unusual conditions, after the text `before`; may be empty.
// `middle`: it is the median of several runs.
std::string described(const Conditions&, std::string before = "", bool middle = false);
std::string described(const Setup&, std::string before = "");

// "0.05" or "5%". Throws Error naming `what`.
double parse_share(const std::string& text, std::string_view what, double most);

}  // namespace ringsched
