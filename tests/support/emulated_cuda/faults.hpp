// How each function of the emulated runtime begins and ends: errors that a test asks for, errors
// still to be reported, and calls that a capture forbids.
//
// RINGSCHED_EMULATED_FAULTS is a list of NAME#N=CODE: the Nth call of function NAME (*: of any)
// returns that error and does nothing. "later:NAME#N=CODE": the call succeeds, and its work on a
// stream fails when it runs. Codes are cudaError_t; 700 and similar codes break the GPU for good.
#pragma once

#include "support/emulated_cuda/state.hpp"

namespace emulated {

enum Rules : unsigned {
  kAnyTime = 0,
  kNotInCapture = 1,     // forbidden while this thread captures
  kWorksWhenBroken = 2,  // does not tell of earlier errors
};

// What the call returns instead of working; cudaSuccess: it may work.
cudaError_t before_call(const char* name, unsigned rules);
cudaError_t after_call(const char* name, cudaError_t);
// An error that the next op on a stream is to fail with.
cudaError_t take_injected_failure();
bool breaks_the_gpu(cudaError_t);
cudaError_t pending_error(int device);

template <class Body>
cudaError_t call(const char* name, unsigned rules, Body body) {
  Lock lock(state().guard);
  cudaError_t status = before_call(name, rules);
  if (status == cudaSuccess) status = body(lock);
  return after_call(name, status);
}

}  // namespace emulated

#define EMULATED extern "C" __attribute__((visibility("default"))) cudaError_t
