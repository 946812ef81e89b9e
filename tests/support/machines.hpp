// Small machines with round figures, one for each thing that can be shared.
#pragma once

#include <string>
#include <vector>

#include "ringsched/machine/machine.hpp"

namespace ringsched {

// `devices` in one node, joined by this fabric. Slow enough for small problems to take their time.
Machine test_machine(Fabric, std::uint32_t devices);

struct NamedMachine {
  std::string name;
  Machine machine;
};
// For so many workers: a mesh, a switch, a switch with a narrow core, PCIe, a shared memory, nodes
// behind shared NICs, SMs taken by transfers, and several workers on a device.
std::vector<NamedMachine> test_machines(std::uint32_t workers);

}  // namespace ringsched
