// How the processes of a run find each other, and what carries their messages.
#pragma once

#include <memory>
#include <string>

#include "ringsched/runtime/nccl_transport.hpp"
#include "ringsched/runtime/world.hpp"

namespace ringsched {

// The values of the flags.
struct JoinOptions {
  LaunchFlags launch;
  std::string transport, ctas = "0";
  std::string exchanges;  // over mpi: "collectives" or "messages"; empty: collectives
  bool has_nccl = false;  // whether that is a transport, too

  // The transport to use. Empty: it depends on the launcher; nccl if `on_gpus`. Throws Error for an
  // unknown name.
  void require_valid(bool on_gpus = false) const;
  // Throws Error if a flag is about other processes, and there are none.
  void refuse_alone(const Launch&) const;
};

// Throws Error if that is impossible, RunFailed if the others are not found within `patience`.
std::unique_ptr<World> world_of(const JoinOptions&, const Launch&,
                                std::chrono::nanoseconds patience, Control&);

// What carries the messages of a plan between the processes of the world. Throws like world_of().
std::unique_ptr<Transport> transport_of(const JoinOptions&, std::uint32_t place, World&,
                                        const Plan&, Control&, std::chrono::nanoseconds patience);

// What the NCCL module exports under that name. Throws Error if there is no module.
void* nccl_function(const char* name);
std::string nccl_version();  // throws RunFailed if it is older than the one at build time
// `place`: of this process on its machine.
NcclOptions nccl_options(const JoinOptions&, std::uint32_t place,
                         std::chrono::nanoseconds patience);

// For people: "torchrun's RANK and WORLD_SIZE".
std::string set_by(const Launch&);

}  // namespace ringsched
