// The flags that describe a problem and its schedule. They mean the same in every subcommand.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"

namespace ringsched {

class ProblemFlags {
 public:
  void add_to(CLI::App& command);

  // Throw Error where a value makes no sense.
  Problem problem() const;
  const Schedule& schedule() const { return find_schedule(schedule_); }
  CommunicationLimits limits() const;

 private:
  std::string schedule_ = "balanced";
  std::string workers_ = "8", tokens_, heads_ = "32", kv_heads_, head_dim_ = "128";
  std::string dtype_ = "bf16", mask_ = "causal", pass_ = "forward";
  std::string overlap_ = "prefetch", buffers_ = "0";
};

}  // namespace ringsched
