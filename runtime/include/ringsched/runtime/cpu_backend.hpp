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

// The cores that the system lets this process use.
unsigned usable_cores();

class CoreGate;
// For the workers of this process, which take all cores, or outnumber them. `alone`: this process
// is the only one of its run. Keeps a reference to `control`.
std::shared_ptr<CoreGate> make_core_gate(unsigned cores, bool alone, const Control&);

struct CpuOptions {
  bool check_finite = false;       // every result must be finite, or the run stops
  std::shared_ptr<CoreGate> gate;  // none: every worker has a core
};
// A device for a worker with these tasks: all of them, in order. Keeps references to the plan and
// the control.
std::unique_ptr<Device> make_cpu_device(const Plan&, WorkerId, std::span<const TaskId>, Control&,
                                        const CpuOptions&);

// Between workers of this process.
std::unique_ptr<Transport> make_local_transport(const Plan&, const Control&);

// The forward result that a plan with only a backward pass begins with.
void fill_forward_result(const Plan&, const Inputs&, const InitialTensor&, std::span<std::byte>);
// Of all heads in these rows.
void fill_forward_result(const Plan&, const Inputs&, Region, std::span<std::byte>);

// The instructions that attention uses here: "avx512", "amx", ... Throws Error if RINGSCHED_CPU is
// not one of these.
std::string cpu_instructions(Dtype);

}  // namespace ringsched
