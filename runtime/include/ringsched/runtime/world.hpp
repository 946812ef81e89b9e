// The processes that a run is spread over, and what they tell each other outside of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ringsched/runtime/control.hpp"
#include "ringsched/runtime/device.hpp"
#include "ringsched/runtime/transport.hpp"

namespace ringsched {

class World {
 public:
  virtual ~World() = default;
  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t size() const = 0;
  // Everybody's text, by rank. Returns once all have called it.
  virtual std::vector<std::string> gather(const std::string&) = 0;
  // What to add to a time of this process's clock to have it by the clock of rank 0.
  virtual std::chrono::nanoseconds clock_offset() = 0;
  // Ends the others as far as it can, and this process with them if there are any.
  virtual void abort(int code) = 0;
  // `control` and the plan are kept by reference.
  virtual std::unique_ptr<Transport> transport(const Plan&, Control&) = 0;

  // Workers are spread evenly and in order.
  std::uint32_t rank_of(WorkerId w, std::uint32_t workers) const {
    return static_cast<std::uint32_t>(std::uint64_t{w.value} * size() / workers);
  }
};

// One process alone.
std::unique_ptr<World> make_local_world();

// Who started this process, by what they leave in the environment: mpirun, srun, torchrun.
struct Launch {
  std::string launcher;  // empty: nobody, so it is alone
  std::uint32_t rank = 0, size = 1;
};
Launch launched_by();

// What the module of the MPI transport has under the name "ringsched_make_mpi_world". Throws
// RunFailed.
using MakeWorld = World* (*)();

}  // namespace ringsched
