#include "backends/cpu/task_timer.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "backends/cpu/cores.hpp"
#include "backends/cpu/message_timer.hpp"
#include "backends/cpu/operations.hpp"
#include "ringsched/runtime/device.hpp"
#include "ringsched/runtime/memory_plan.hpp"
#include "ringsched/runtime/numbers.hpp"

namespace ringsched {

namespace {

constexpr double kLong = 0.15, kEnough = 0.03;   // seconds
constexpr std::int64_t kInTurns = 64 << 20;      // bytes, for each core
constexpr std::int64_t kMostBlocks = 32;         // likewise
constexpr std::size_t kPattern = (1 << 19) - 1;  // numbers, with a period that no tile has
constexpr std::size_t kPage = 4096;

// Places what a task reads and writes close together, without the rest of its worker's memory.
// Otherwise the same few tensors would be used over and over, and stay in a cache that a run has to
// share.
class Place {
 public:
  Place(const Plan& plan, TaskId id) : plan_(plan), id_(id), places_(plan_memory(plan)) {
    for_each([&](TensorId t) { at_[places_.offset[t.value]] = bytes(t); });
    for (auto& [offset, taken] : at_) {
      const std::int64_t needs = taken;
      taken = size_;
      size_ += (needs + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
    }
  }

  std::int64_t size() const { return size_; }

  Operands operands(std::byte* block) const {
    const auto place = [&](TensorId t) { return block + at_.at(places_.offset[t.value]); };
    const Task& task = plan_.tasks[id_.value];
    Operands out;
    for (std::size_t i = 0; i < task.inputs.size(); ++i)
      if (task.inputs[i].valid()) out.inputs[i] = place(task.inputs[i]);
    for (std::uint32_t n = 0; n < outputs_of(task.kind); ++n)
      out.outputs[n] = place(plan_.output(id_, n));
    return out;
  }

 private:
  template <class Do>
  void for_each(Do what) const {
    const Task& task = plan_.tasks[id_.value];
    for (const TensorId t : task.inputs)
      if (t.valid()) what(t);
    for (std::uint32_t n = 0; n < outputs_of(task.kind); ++n) what(plan_.output(id_, n));
  }
  std::int64_t bytes(TensorId t) const {
    const Tensor tensor = plan_.tensor(t);
    return plan_.bytes(Piece{tensor.value, tensor.rows, tensor.columns}).value;
  }

  const Plan& plan_;
  const TaskId id_;
  const MemoryPlan places_;
  std::map<std::int64_t, std::int64_t> at_;  // by offset in the worker's memory
  std::int64_t size_ = 0;
};

}  // namespace

TaskTimer::TaskTimer(unsigned cores) : cores_(cores), scratch_(cores) {
  std::mt19937 random;
  std::normal_distribution<float> normal;
  for (std::size_t d = 0; d < std::size(numbers_); ++d) {
    const auto dtype = static_cast<Dtype>(d);
    numbers_[d].resize(kPattern * static_cast<std::size_t>(size_of(dtype)));
    for (std::size_t i = 0; i < kPattern; ++i)
      put_number(numbers_[d].data(), dtype, static_cast<std::int64_t>(i), normal(random));
  }
}

std::span<std::byte> TaskTimer::memory(std::size_t bytes) {
  if (bytes > size_) {
    memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes + kPage);
    size_ = bytes;
  }
  // Tensors are aligned, in a run.
  void* start = memory_.get();
  std::size_t space = size_ + kPage;
  return {static_cast<std::byte*>(std::align(kPage, bytes, start, space)), bytes};
}

std::vector<double> TaskTimer::seconds(const Plan& plan, TaskId task,
                                       std::optional<unsigned> alone) {
  const unsigned count = alone ? 1 : cores_;
  const Place place(plan, task);
  const auto size = static_cast<std::size_t>(place.size()) / kPage * kPage + kPage;
  const auto blocks = cores_ * static_cast<std::size_t>(std::clamp<std::int64_t>(
                                   kInTurns / place.size(), 1, kMostBlocks));
  const std::span<std::byte> all = memory(blocks * size);
  const std::vector<std::byte>& numbers = numbers_[static_cast<std::size_t>(plan.problem.dtype)];

  std::atomic<std::size_t> next{0}, measuring{count};
  std::vector<std::atomic<bool>> taken(blocks);  // a slow thread may have one for a whole turn
  std::barrier together(static_cast<std::ptrdiff_t>(count));
  std::vector<double> means(count);
  const std::vector<int> cores = core_numbers();
  const auto measure = [&](unsigned n) {
    const unsigned core = alone.value_or(n);
    if (core < cores.size() && cores.size() >= cores_) pin(pthread_self(), cores[core]);
    for (std::size_t b = n; b < blocks; b += count)
      for (std::size_t at = 0; at < size; at += numbers.size())
        std::memcpy(all.data() + b * size + at, numbers.data(),
                    std::min(numbers.size(), size - at));
    CpuOperations operations(plan);
    const auto perform = [&] {
      std::size_t b = next++ % blocks;
      while (taken[b].exchange(true)) b = next++ % blocks;
      operations.perform(task, place.operands(all.data() + b * size), scratch_[core]);
      taken[b] = false;
    };
    together.arrive_and_wait();
    Clock::time_point began = Clock::now();
    perform();
    means[n] = seconds_since(began);
    if (means[n] < kLong) {  // that was the warm-up
      began = Clock::now();
      int times = 0;
      for (double passed = 0; passed < kEnough; passed = seconds_since(began)) {
        perform();
        ++times;
      }
      means[n] = seconds_since(began) / times;
    }
    // The others are not left alone.
    for (--measuring; measuring > 0 && means[n] < kLong;) perform();
  };
  std::vector<std::thread> threads;
  for (unsigned n = 0; n < count; ++n) threads.emplace_back(measure, n);
  for (std::thread& t : threads) t.join();
  return means;
}

}  // namespace ringsched
