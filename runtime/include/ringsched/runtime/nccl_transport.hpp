// Messages between GPUs by NCCL, one GPU and one worker for each process. The code is in a module,
// libringsched_nccl.so, loaded on request; this is its interface.
#pragma once

#include <string>
#include <vector>

#include "ringsched/runtime/link_bench.hpp"
#include "ringsched/runtime/world.hpp"

namespace ringsched {

struct NcclOptions {
  std::uint32_t place = 0;      // of this process on its machine: which GPU it takes
  int ctas = 0;                 // thread blocks that NCCL may take at most; 0: no limit
  bool register_memory = true;  // of workers, so that the network need not copy
  std::chrono::nanoseconds patience{};
};

// What the module exports as "ringsched_make_nccl_transport". Together with all processes of the
// world; keeps references to everything. Throws Error for plans that NCCL cannot carry, RunFailed.
using MakeNcclTransport = Transport* (*)(const Plan&, Control&, World&, const NcclOptions&);

struct NcclTable {
  std::string name;       // "sendrecv", "all_gather", ...
  double bus_factor = 1;  // what the busiest link carries for each byte of the size
  std::vector<LinkPoint> points;
};
struct NcclTables {
  std::string gpu;  // of this process, as its driver calls it
  std::vector<NcclTable> by_kind;
};
// Exported as "ringsched_bench_nccl".
using BenchNccl = void (*)(World&, Control&, const NcclOptions&, const LinkBenchOptions&,
                           const std::function<void(std::int64_t)>& begins, NcclTables&);
// Exported as "ringsched_nccl_version": "2.28.9".
using NcclVersion = void (*)(std::string&);

}  // namespace ringsched
