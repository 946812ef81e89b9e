// Questions to a prediction, answered by simulating again: "bandwidth=2x", "worker:3=2x".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ringsched/machine/machine.hpp"
#include "ringsched/simulator/simulate.hpp"

namespace ringsched {

struct Setup {
  Machine machine;
  Conditions conditions;
  // Runs with consecutive seeds, reporting the median; 0: as many as needed.
  std::uint32_t runs = 1;
};

// The setup after a change. Throws Error if there is no such change, or the machine has nothing to
// change there.
Setup changed(Setup, std::string_view change, std::uint32_t workers);

// The machine if NCCL may use at most `blocks` thread blocks. Each is a channel and takes an SM, so
// transfers hold fewer SMs and messages share fewer channels. 0: no limit.
Machine with_thread_blocks(Machine, std::uint32_t blocks);

struct KnownChange {
  std::string_view name;  // as typed, with its value
  std::string_view meaning;
};
const std::vector<KnownChange>& known_changes();

}  // namespace ringsched
