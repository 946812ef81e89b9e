// Plans with exchanges, written task by task without the builder, so that tests of code that reads
// plans need no schedule. Shares are contiguous, with any number of workers and heads.
#pragma once

#include <cstdint>

#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// DeepSpeed Ulysses: all-to-all exchanges from shares of tokens to shares of heads and back. With
// fewer heads than workers some get nothing; a key/value head goes to all workers that read it, and
// its gradients are added up at home.
Plan ulysses_by_hand(const Problem&);

// Each worker gathers keys and values, `stride` heads of them at a time (0: all), and attends with
// its own queries; gradients of keys and values are added up at home. Backward gathers them again.
Plan all_gather_by_hand(const Problem&, std::uint32_t stride = 0);

// Each worker gathers all queries and attends to its own keys. The partial results are added up
// where they are needed: forward at home, for gradients on all workers (an all-reduce).
Plan gather_queries_by_hand(const Problem&);

// All tokens are worker 0's. It sends queries to all (a broadcast), and parts of the keys to each
// (a scatter); the partial results are added up on worker 0 (a reduce), as are the query gradients.
// Key gradients go to worker 0 as they are (a gather). The others have a chunk without tokens,
// which plan files do not know.
Plan star_by_hand(const Problem&);

}  // namespace ringsched
