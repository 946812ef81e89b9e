#include "support/emulated_cuda/faults.hpp"
#include "support/emulated_cuda/shadow.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace emulated {

namespace {

struct Fault {
  bool later;
  std::string name;
  std::uint64_t at;
  cudaError_t code;
};

std::vector<Fault> faults;
cudaError_t next_fails = cudaSuccess;
std::uint64_t all_calls = 0;
std::map<std::string, std::uint64_t> calls;
bool has_failed = false;       // a call, by an injected error
std::uint64_t work_since = 0;  // what was put on streams after that

void read_faults(const char* text) {
  faults.clear();
  std::string left = text ? text : "";
  while (!left.empty()) {
    const std::string one = left.substr(0, left.find(','));
    left.erase(0, one.size() + 1);
    const std::size_t number = one.find('#'), code = one.find('=');
    if (number == one.npos || code == one.npos || code < number)
      finding("RINGSCHED_EMULATED_FAULTS has '" + one + "', but faults are NAME#N=CODE");
    const bool later = one.rfind("later:", 0) == 0;
    faults.push_back({later, one.substr(later ? 6 : 0, number - (later ? 6 : 0)),
                      std::strtoull(one.c_str() + number + 1, nullptr, 10),
                      static_cast<cudaError_t>(std::atoi(one.c_str() + code + 1))});
  }
}

struct AtTheEnd {
  AtTheEnd() { read_faults(std::getenv("RINGSCHED_EMULATED_FAULTS")); }
  ~AtTheEnd() {
    if (environment("RINGSCHED_EMULATED_REPORT", 0) == 0) return;
    for (const auto& [name, count] : calls)
      std::fprintf(stderr, "emulated CUDA: %8llu x %s\n", static_cast<unsigned long long>(count),
                   name.c_str());
    for (const auto& [name, count] : state().counts)
      std::fprintf(stderr, "emulated CUDA: %8llu x %s\n", static_cast<unsigned long long>(count),
                   name.c_str());
  }
} at_the_end;

// Cleaning up waits and reads back, but puts nothing new on the streams of workers.
bool puts_work(const std::string& name) {
  return name == "cudaLaunchKernel" || name == "cudaGraphLaunch" || name == "cudaStreamWaitEvent" ||
         name.starts_with("cudaEventRecord") || name.ends_with("Async");
}

cudaError_t injected(const char* name) {
  if (has_failed && puts_work(name)) ++work_since;
  ++all_calls;
  const std::uint64_t number = ++calls[name];
  for (const Fault& f : faults) {
    if (f.name == "*" ? f.at != all_calls : f.name != name || f.at != number) continue;
    if (!f.later) {
      has_failed = true;
      return f.code;
    }
    next_fails = f.code;
  }
  return cudaSuccess;
}

}  // namespace

bool breaks_the_gpu(cudaError_t e) {
  return e == cudaErrorIllegalAddress || e == cudaErrorLaunchFailure || e == cudaErrorAssert ||
         e == cudaErrorHardwareStackError || e == cudaErrorIllegalInstruction ||
         e == cudaErrorMisalignedAddress || e == cudaErrorInvalidAddressSpace ||
         e == cudaErrorInvalidPc || e == cudaErrorECCUncorrectable || e == cudaErrorLaunchTimeout;
}

cudaError_t take_injected_failure() { return std::exchange(next_fails, cudaSuccess); }

// Any call may tell of what went wrong before it.
cudaError_t pending_error(int device) {
  Device& d = state().devices[static_cast<std::size_t>(device)];
  return d.broken != cudaSuccess ? d.broken : std::exchange(d.late, cudaSuccess);
}

cudaError_t before_call(const char* name, unsigned rules) {
  if (this_thread().in_work) finding(std::string(name) + " is called by work on a stream");
  if (const cudaError_t e = injected(name); e != cudaSuccess) return e;
  if (rules & kNotInCapture)
    if (const auto capture = capture_of_this_thread()) {
      capture->invalid = true;
      return cudaErrorStreamCaptureUnsupported;
    }
  return rules & kWorksWhenBroken ? cudaSuccess : pending_error(this_thread().device);
}

cudaError_t after_call(const char*, cudaError_t status) {
  if (status != cudaSuccess && status != cudaErrorNotReady) this_thread().last = status;
  return status;
}

}  // namespace emulated

// For tests in the same process: other faults, counted from now on, and how many calls there were.
extern "C" __attribute__((visibility("default"))) void emulated_cuda_faults(const char* text) {
  const emulated::Lock lock(emulated::state().guard);
  emulated::calls.clear();
  emulated::all_calls = emulated::work_since = 0;
  emulated::has_failed = false;
  emulated::next_fails = emulated::this_thread().last = cudaSuccess;
  emulated::read_faults(text);
  emulated::State& all = emulated::state();
  for (emulated::Device& d : all.devices) d.broken = d.late = cudaSuccess;
  for (const auto& c : all.captures)  // of a call that was to end it, and failed
    for (const auto& s : c->branches) s->capture = nullptr;
  all.captures.clear();
}
// How often work was put on a stream after a call had failed. More than never: its error was
// dropped.
extern "C" __attribute__((visibility("default"))) std::uint64_t emulated_cuda_work_after_a_fault() {
  const emulated::Lock lock(emulated::state().guard);
  return emulated::work_since;
}
// How often work of this name was done.
extern "C" __attribute__((visibility("default"))) std::uint64_t emulated_cuda_did(
    const char* name) {
  const emulated::Lock lock(emulated::state().guard);
  const auto found = emulated::state().counts.find(std::string("did ") + name);
  return found == emulated::state().counts.end() ? 0 : found->second;
}
// How much work streams still have.
extern "C" __attribute__((visibility("default"))) std::uint64_t emulated_cuda_pending() {
  const emulated::Lock lock(emulated::state().guard);
  std::uint64_t all = 0;
  for (const auto& s : emulated::state().streams) all += s->queue.size();
  return all;
}
// From now on this one of all streams does nothing while any other can. How many there are.
extern "C" __attribute__((visibility("default"))) std::size_t emulated_cuda_starve(
    std::size_t stream) {
  const emulated::Lock lock(emulated::state().guard);
  emulated::state().starved = stream;
  return emulated::state().streams.size();
}
// Overwrites what was made on GPUs, or the inputs that were made there, once all work is done.
extern "C" __attribute__((visibility("default"))) void emulated_cuda_spoil(bool inputs) {
  const emulated::Lock lock(emulated::state().guard);
  while (emulated::step()) {
  }
  emulated::spoil(inputs);
}
// How often each function was called since: its name and the number, a line for each.
extern "C" __attribute__((visibility("default"))) const char* emulated_cuda_called() {
  const emulated::Lock lock(emulated::state().guard);
  static std::string text;
  text.clear();
  for (const auto& [name, count] : emulated::calls)
    text += name + " " + std::to_string(count) + "\n";
  return text.c_str();
}
// Allocations, streams, events, graphs and parts of GPUs that have not been given back.
extern "C" __attribute__((visibility("default"))) std::uint64_t emulated_cuda_alive() {
  const emulated::Lock lock(emulated::state().guard);
  const emulated::State& s = emulated::state();
  return emulated::allocations() + s.stream_handles.size() + s.event_handles.size() +
         s.graph_handles.size() + s.exec_handles.size() + s.part_handles.size();
}

EMULATED cudaGetLastError() {
  const emulated::Lock lock(emulated::state().guard);
  emulated::Thread& t = emulated::this_thread();
  const cudaError_t broken = emulated::state().devices[static_cast<std::size_t>(t.device)].broken;
  const cudaError_t last = std::exchange(t.last, cudaSuccess);
  return broken != cudaSuccess ? broken : last;
}

extern "C" __attribute__((visibility("default"))) const char* cudaGetErrorString(cudaError_t e) {
  thread_local std::string text;
  switch (e) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorNotSupported:
      return "operation not supported";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    default:
      text = "emulated error " + std::to_string(static_cast<int>(e));
      return text.c_str();
  }
}
