// How the multiprocessors of one GPU are divided among workers.
#pragma once

#include <cstdint>
#include <vector>

namespace ringsched::cuda {

// What the driver says of a GPU: partitions have at least `least` multiprocessors, and a multiple
// of `step`.
struct Multiprocessors {
  std::uint32_t all = 0, least = 1, step = 1;
};

struct Partition {
  std::uint32_t each = 0;  // multiprocessors of one worker; 0: they cannot be divided
  std::uint32_t left = 0;  // in no partition
};

// As large as possible for `workers` of one size.
Partition part(const Multiprocessors&, std::uint32_t workers);
// The next smaller ones, for drivers that cannot make as many of these.
Partition smaller(const Multiprocessors&, const Partition&, std::uint32_t workers);

// Which GPU of `gpus` each of `workers` is on: evenly and in order, as in the simulator.
std::vector<std::uint32_t> gpu_of_each(std::uint32_t workers, std::uint32_t gpus);

}  // namespace ringsched::cuda
