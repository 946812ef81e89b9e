// The processes that share a run, and what they tell each other outside of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringsched/runtime/control.hpp"
#include "ringsched/runtime/device.hpp"
#include "ringsched/runtime/transport.hpp"

namespace ringsched {

// What to add to a time of this process's clock to get rank 0's, in nanoseconds: measured when the
// first clock read `at`, with at most this `error`.
struct ClockReading {
  std::int64_t at = 0, offset = 0, error = 0;
};

// The same from two readings, because clocks drift.
struct ClockLine {
  ClockReading before, after;

  std::int64_t correction(std::int64_t at) const;
  double drift() const;  // per second
  std::int64_t error() const { return std::max(before.error, after.error); }
};

class World {
 public:
  virtual ~World() = default;
  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t size() const = 0;
  virtual std::string name() const = 0;  // what joins them: "mpi", "tcp"
  // The texts of all processes, by rank. Returns once all have called it. Throws RunFailed.
  virtual std::vector<std::string> gather(const std::string&) = 0;
  // Together with all others. Throws RunFailed.
  virtual ClockReading read_clock() = 0;
  // After a success, together with all others. Throws RunFailed.
  virtual void leave() {}
  // After a failure: why this process ends, and what else it leaves. The others are told to end.
  // Process 0 learns what became of all; a process that nobody knows about has no words. Does not
  // throw, and takes at most some seconds.
  struct LastWords {
    std::string why, left;
    bool gone = false;  // `why` says how
    int code = 3;       // for the others to exit with, too
  };
  virtual std::vector<std::optional<LastWords>> last_words(const LastWords& own) = 0;
  // Ends the others as far as it can, and this process with them if there are any.
  virtual void abort(int code) = 0;
  // Exchanges by messages, even if MPI or NCCL has collectives.
  virtual void use_messages_only() {}
  // Together with all others. Keeps references to `control` and the plan.
  virtual std::unique_ptr<Transport> transport(const Plan&, Control&) = 0;

  // Workers are spread evenly and in order.
  std::uint32_t rank_of(WorkerId w, std::uint32_t workers) const {
    return static_cast<std::uint32_t>(std::uint64_t{w.value} * size() / workers);
  }
};

// One process alone.
std::unique_ptr<World> make_local_world();

// What started this process, and where the others are, by flags or by the environment of launchers:
// torchrun, mpirun, srun.
struct Launch {
  std::string launcher;  // empty: nobody, so it is alone
  std::string found;     // what showed it: "RANK and WORLD_SIZE"
  std::uint32_t rank = 0, size = 1;
  std::optional<std::uint32_t> local_rank;  // among those of this machine
  std::string master;                       // HOST:PORT of process 0; empty: not said
};
struct LaunchFlags {
  std::string rank, ranks, master;
};
// Flags come first, then torchrun, Open MPI, PMI and Slurm. Throws Error if they make no sense.
Launch launched_by(const LaunchFlags& = {});

struct TcpOptions {
  std::string secret;  // RINGSCHED_SECRET
  // The time limit for all processes to join, and for each time they meet.
  std::chrono::nanoseconds patience{};
};
// Processes that meet at the address of process 0. Keeps a reference to the control, and tells it
// when the others end. Throws Error if process 0 refuses this one, RunFailed if it is not found, or
// not all processes join.
std::unique_ptr<World> make_tcp_world(const Launch&, const TcpOptions&, Control&);

// What the MPI module exports as "ringsched_make_mpi_world". Throws RunFailed.
using MakeWorld = World* (*)();
// Exported as "ringsched_mpi_speaks_pmi": whether that MPI finds others by PMI-1 or PMI-2, as
// MPICH's mpirun and srun --mpi=pmi2 need, and not by PMIx alone.
using MpiSpeaksPmi = bool (*)();

}  // namespace ringsched
