// The flags that describe a problem and its schedule. They mean the same in every subcommand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ringsched/machine/machine.hpp"
#include "ringsched/scheduler/lower.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace ringsched {

class ProblemFlags {
 public:
  void add_to(CLI::App& command);
  // Only the flags that take one value in a sweep: the key/value heads, the head dimension, dtype,
  // mask, pass, buffers and exchanges.
  void add_rest_to(CLI::App& command);
  // For commands with a machine: by default, a worker for each of its devices. See on().
  void use_devices_of_machine();
  // For runs: fewer tokens and heads by default.
  void use_small_problem();
  // Throws Error if the file is not a plan, or if a flag describes a problem beside it.
  void refuse_beside(const std::string& plan_file) const;
  // The same flags with this many workers, unless --workers was given.
  ProblemFlags with_usual_workers(std::uint32_t workers) const;
  // The same flags with these values instead.
  ProblemFlags with(std::string schedule, std::string workers, std::string tokens,
                    std::string heads, std::string overlap) const;

  // The same flags with the schedule as the machine's library runs it, and with a worker for each
  // of its devices, unless --workers was given.
  ProblemFlags on(const Machine&) const;

  // Throw Error if a value makes no sense.
  Problem problem() const;
  Schedule schedule() const { return find_schedule(schedule_); }
  CommunicationLimits limits() const;
  Lowering lowering() const { return parse_lowering(exchanges_); }
  bool decodes() const { return !new_tokens_.empty(); }

 private:
  void flag(CLI::App& command, const char* name, std::string& value, const char* type,
            const char* help);
  void add_shape_to(CLI::App& command);
  void add_rest_of_communication_to(CLI::App& command);

  std::int64_t tokens_each_ = 8192;
  std::uint32_t usual_workers_ = 8;
  bool on_machine_ = false;
  std::string schedule_ = "balanced";
  std::string workers_, tokens_, heads_ = "32", kv_heads_, head_dim_ = "128";
  std::string dtype_ = "bf16", mask_ = "causal", pass_ = "forward", new_tokens_;
  std::vector<CLI::Option*> options_;
  std::string overlap_ = "prefetch", buffers_ = "0", exchanges_ = "native";
};

}  // namespace ringsched
