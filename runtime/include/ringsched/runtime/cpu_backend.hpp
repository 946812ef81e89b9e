// Workers on this machine's CPU.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "ringsched/runtime/control.hpp"
#include "ringsched/runtime/device.hpp"
#include "ringsched/runtime/inputs.hpp"
#include "ringsched/runtime/transport.hpp"

namespace ringsched {

// That the system lets this process use.
unsigned usable_cores();

class CoreGate;
// For workers of this process that take all cores, or are more; it is the only one of its run or
// not. `control` is kept by reference.
std::shared_ptr<CoreGate> make_core_gate(unsigned cores, bool alone, const Control&);

struct CpuOptions {
  bool check_finite = false;       // what a task makes must be finite, or the run is stopped
  std::shared_ptr<CoreGate> gate;  // none: every worker has a core
};
// For a worker whose tasks these are, all of them, in order. The plan and the control are kept by
// reference.
std::unique_ptr<Device> make_cpu_device(const Plan&, WorkerId, std::span<const TaskId>, Control&,
                                        const CpuOptions&);

// Between workers of this process.
std::unique_ptr<Transport> make_local_transport(const Plan&, const Control&);

// The forward result that a plan of the backward pass alone begins with.
void fill_forward_result(const Plan&, const Inputs&, const InitialTensor&, std::span<std::byte>);
// Of all heads in these rows.
void fill_forward_result(const Plan&, const Inputs&, Region, std::span<std::byte>);

// The instructions that attention uses here: "avx512", "amx", ... Throws Error where RINGSCHED_CPU
// caps them by none of these.
std::string cpu_instructions(Dtype);

}  // namespace ringsched
