// A CUDA runtime without a GPU, for tests: what code linked to it may call in addition to CUDA's
// own functions. Streams are queues; whenever the host calls, a seed decides which of them goes on.
//
// Every piece of work declares what memory it reads and writes. The runtime knows which work comes
// before which (streams, events, graphs, and what the host has waited for). It ends the process
// with one line, a finding, when two pieces of work touch the same bytes and nothing orders them,
// when memory is used that is not allocated, or when a rule is broken that hardware would not
// report. Errors that CUDA does report are returned as there.
//
// Environment: RINGSCHED_EMULATED_GPUS (1; not more than CUDA_VISIBLE_DEVICES names),
// RINGSCHED_EMULATED_SEED (1), RINGSCHED_EMULATED_PEERS=0 (no GPU reaches another),
// RINGSCHED_EMULATED_FAULTS (faults.hpp), RINGSCHED_EMULATED_LIBRARY=absent|some (what the stand-in
// for cuDNN refuses), RINGSCHED_EMULATED_REPORT=1 (counts at the end).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace emulated {

// Something that a stream does in its turn.
struct Work {
  std::string name;
  std::function<void()> run;           // under the runtime's lock; calls nothing of CUDA
  std::function<bool()> ready = {};    // whether it may run now; none: always
  std::function<void()> dropped = {};  // instead of run, when an error has ended the stream's GPU
};

// As a kernel launch: the stream must be of the current GPU. Captured where the stream is.
cudaError_t enqueue(cudaStream_t, Work);

// For Work::run: what it touches. Checked against the bounds of allocations and the order of work.
void reads(const void* from, std::size_t bytes);
void writes(void* to, std::size_t bytes);

// Ends the process with exit code 70: a rule is broken that no GPU would report.
[[noreturn]] void finding(const std::string& what);

std::uint64_t draw(std::uint64_t below);  // by the seed
std::uint64_t seed();

}  // namespace emulated
