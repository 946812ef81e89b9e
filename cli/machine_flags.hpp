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
  // Without a usual one a machine must be asked for.
  void add_machine_to(CLI::App& command, const char* usual = "ideal");
  bool given() const { return !name_.empty(); }
  // All of those but --machine itself; `ideal`: that machine can be asked for.
  void add_figures_to(CLI::App& command, bool ideal = true);
  void add_conditions_to(CLI::App& command);

  // Throw Error where a value makes no sense.
  Machine machine() const { return machine(name_); }
  Machine machine(const std::string& name) const;
  double diagonal() const;
  std::string figures() const;                // what was given of them, for people
  std::string figures(const Machine&) const;  // and what is usual where there are several
  Setup setup(const Machine&, std::uint32_t workers) const;
  // Throws Error where --runs were asked for, and none of so many things to simulate varies.
  void check_runs(bool any_varies) const;
  const std::string& name() const { return name_; }
  std::string file() const;  // where it is a profile of one's own

 private:
  Conditions conditions(const Machine&, std::uint32_t workers) const;

  std::string name_ = "ideal", library_, software_, diagonal_;
  std::string noise_, stragglers_, seed_ = "1", runs_;
  std::vector<std::string> slow_;
};

// Do runs differ by their seed?
bool varies(const Conditions&);

// What is unusual about them, after what else there is to say; may be empty.
std::string described(const Conditions&, std::string before = "");
std::string described(const Setup&, std::string before = "");

// "0.05" or "5%". Throws Error naming `what`.
double parse_share(const std::string& text, std::string_view what, double most);

}  // namespace ringsched
