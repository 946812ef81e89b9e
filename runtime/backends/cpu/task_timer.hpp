// Times single tasks, mostly with all cores busy, as in a run: on memory that is not in the core's
// own cache, because other tasks have run since, perhaps on another core.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "attention.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

class TaskTimer {
 public:
  explicit TaskTimer(unsigned cores);

  // Seconds that the task takes, by core, each the mean of as many times as fit into some
  // hundredths of a second; or of one core alone, while the others rest.
  std::vector<double> seconds(const Plan&, TaskId, std::optional<unsigned> alone = {});
  // Memory filled with ordinary numbers, of at least this many bytes.
  std::span<std::byte> memory(std::size_t bytes);

 private:
  const unsigned cores_;
  std::vector<cpu::Scratch> scratch_;
  std::vector<std::byte> numbers_[3];  // by dtype
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

}  // namespace ringsched
