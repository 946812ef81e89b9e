// Exchanges by MPI's own collectives. An exchange is one collective if each member is in a
// different process, on a communicator of these; others are messages. The plan alone decides which
// call it is, so all processes agree.
#pragma once

#include <mpi.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exchange_member.hpp"
#include "message_numbers.hpp"
#include "ringsched/runtime/world.hpp"

namespace ringsched {

// Throws RunFailed with MPI's words.
void require_success(int status, const char* what);

enum class MpiCall : std::uint8_t {
  Messages,
  Alltoallw,      // any shares; sums are added up here, always in one order
  Allgatherv,     // all get the same rows, which are contiguous
  ReduceScatter,  // MPI adds up, in its own order
};

class MpiCollectives {
 public:
  // Together with all processes of the world, because it makes communicators. Keeps references to
  // everything.
  MpiCollectives(const Plan&, const World&);
  // Leaves the communicators to MPI if the run failed: others may be gone.
  void free();

  MpiCall call(ExchangeId e) const { return calls_[e.value]; }
  // Starts this process's part of an exchange. Its member's memory is ready, and stays so until all
  // requests are complete. Exchanges of one lane start in the order of the plan.
  void start(const ExchangeMember&, std::vector<MPI_Request>&);
  // "6 exchanges by MPI_Ialltoallw, 2 by messages"; empty if the plan has none.
  std::string words() const;

 private:
  struct Prepared;
  std::shared_ptr<Prepared> prepared(const ExchangeMember&) const;
  void make_communicators();

  const Plan& plan_;
  const World& world_;
  const MessageNumbers numbers_;
  std::vector<MpiCall> calls_;               // by exchange
  std::vector<MPI_Comm> communicators_;      // this process is in some; else MPI_COMM_NULL
  std::vector<std::uint32_t> communicator_;  // by exchange: the place there
  std::map<TaskId, std::shared_ptr<Prepared>> prepared_;  // by member: MPI reads it meanwhile
};

}  // namespace ringsched
