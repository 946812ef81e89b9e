// A GPU made of loops: it does what streams, events and kernels would do, in a random order among
// those that streams allow. It uses the kernels' own arithmetic, row by row, and computes the
// library's attention from its definition.
#pragma once

#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/lowering.hpp"
#include "backends/cuda/stream_device.hpp"
#include "ringsched/runtime/execution.hpp"
#include "ringsched/runtime/inputs.hpp"

namespace ringsched::cuda {

void emulate(const DeviceCall&);

inline const Lowering::Refusal kTakesAll = [](const Shape&) { return std::string(); };

class Emulation {
 public:
  Emulation(const Plan&, const Lowering::Refusal&, std::uint64_t seed, bool check_finite = false);
  ~Emulation();

  std::unique_ptr<Device> device(WorkerId);
  Transport& transport() { return transport_; }
  StreamPlan& streams() { return streams_; }
  const Lowering& lowering() const { return lowering_; }
  // The lowest task that made a number that is none.
  std::uint32_t not_finite() const { return not_finite_; }

 private:
  class Worker;
  void start(WorkerId);
  void play();
  void perform(std::uint32_t lane, const Op&);
  const std::int32_t* positions(Region);

  const Plan& plan_;
  StreamPlan streams_;
  StreamTransport transport_;
  Lowering lowering_;
  std::mt19937_64 random_;
  const bool check_finite_;
  std::vector<std::vector<std::uint64_t>> blocks_, scratch_;
  std::vector<std::vector<std::int32_t>> positions_;  // by the region's first and last chunk
  std::vector<std::int64_t> bounds_;
  std::uint32_t not_finite_ = ~0u;
  std::uint32_t created_ = 0, started_ = 0;
};

// A plan on it; all are kept by reference.
std::unique_ptr<Execution> execution_of(const Plan&, Emulation&, Control&, const Inputs&);

}  // namespace ringsched::cuda
