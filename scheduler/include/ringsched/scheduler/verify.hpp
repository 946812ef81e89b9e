// Proves that a plan computes what its problem asks for, or says where it does not. verify()
// executes the plan symbolically: it reads nothing but the Plan and knows nothing of how schedules
// are built, so it serves plans from anywhere.
//
//   structure      ids, kinds, places, sizes and order of what each task reads
//   communication  each send has its receive, with the same tensor and size; members of an exchange
//                  agree, and what each gets is given by one of them, or added up from all
//   coverage       each complete tensor has each term of its cells once; all results are output
//   deadlock       all tasks end, although sends wait for their receives, members of an exchange
//                  for all others, and lanes go in order
//   memory         no receive buffer is overwritten while a task still reads it
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

enum class Rule : std::uint8_t { Structure, Communication, Coverage, Deadlock, Memory };

struct Violation {
  Rule rule = Rule::Structure;
  std::vector<TaskId> tasks;  // those at fault; empty where the fault is that one is missing
  WorkerId worker;
  Step step = 0;     // of the first task; 0 where there is none
  std::string text;  // one line, in terms of workers, steps, chunks and tasks
};

struct Verification {
  std::vector<Violation> violations;  // the first VerifyOptions::most
  bool more = false;                  // the rest was not looked for
  std::uint64_t unread = 0;           // receives of operands that no task reads: waste, no fault
  std::uint64_t hidden = 0;           // attends without a visible pair: waste, no fault
  // Per worker, memory that is enough whatever the timing; at most 2^63 - 1. It adds up everything
  // that the order of the worker's own lanes does not clearly force apart, so it may be more than
  // the least (docs/cli.md says how much). Empty when there are violations.
  std::vector<Bytes> peak;
  // If VerifyOptions::one_queue asks, and the plan holds: what would wait for what in a circle if
  // each worker issued its tasks of all lanes but compute as one queue, in the order of the plan.
  // NCCL may do that, whatever streams its calls are on. Empty: nothing would.
  std::string stuck_in_one_queue;

  bool holds() const { return violations.empty(); }
};

struct VerifyOptions {
  std::size_t most = 20;
  std::uint32_t threads = 0;  // 0: one for a small plan, up to four for a large one
  bool one_queue = false;     // fill Verification::stuck_in_one_queue
};

Verification verify(const Plan&, VerifyOptions = {});

std::string_view to_text(Rule);

}  // namespace ringsched
