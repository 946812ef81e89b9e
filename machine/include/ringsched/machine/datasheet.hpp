// A machine from datasheets, if nothing has been measured: figures of a GPU, a link and a NIC
// (machines/parts/), and how close attention kernels come to their peak. Wide spreads say how
// uncertain all of it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/machine/machine.hpp"

namespace ringsched {

struct DatasheetMachine {
  std::string gpu = {};
  std::uint32_t gpus = 8;  // in a node
  std::string link = {};   // empty: what usually joins such GPUs
  std::uint32_t nodes = 1;
  std::string nic = {};    // for several nodes
  std::uint32_t nics = 0;  // of a node; 0: one for each GPU
};

// Throws Error for unknown names and for combinations that do not exist.
Machine machine_of(const DatasheetMachine&);

struct DatasheetPart {
  std::string name, about;
};
std::vector<DatasheetPart> known_gpus();
std::vector<DatasheetPart> known_links();
std::vector<DatasheetPart> known_nics();

// The files of machines/parts: "gpus", "kernels", "links" and "nics".
std::vector<MachineProfile> datasheet_parts();

}  // namespace ringsched
