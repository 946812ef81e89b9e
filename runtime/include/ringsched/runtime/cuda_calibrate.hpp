// Measures a GPU as a run uses it: how long tasks take on it, or on each of its partitions with all
// of them busy, and messages between them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ringsched/runtime/calibrate.hpp"

namespace ringsched {

struct CudaFigures {
  std::string name, driver, library;
  std::string clocks;  // seen before and while it worked; empty: not known
  std::uint32_t workers = 1, multiprocessors = 0;  // of each worker
  std::string shared;                              // why they have no partitions; empty: they have
  // Of a merge of one worker while the others attend, at merge_bytes for each element.
  double memory_gb_per_s = 0;
  double merge_bytes = 10, reduce_bytes = 10, prepare_bytes = 8, output_bytes = 0;
  double copy_roof_gb_per_s = 0;  // of a kernel that copies on the whole GPU, read and written
  double launch_us = 0;           // a task of one kernel that does nothing, with its times taken
  double launch_without_times_us = 0;
  double copy_gb_per_s = 0;  // messages of all workers at once, together
  double latency_us = 0;
  double slowdown = 1;                    // of attention beside messages
  double under_load = 1;                  // of the largest full tile, by attends without a pause
  bool messages_wait = false;             // until the attend that runs has ended
  std::vector<MeasuredMessage> messages;  // one alone, beside attention, unless it waits
  std::vector<MeasuredMessage> idle_messages;  // one alone, and nothing else
  std::vector<MeasuredKernel> kernels;         // of one worker, all at work
  std::uint32_t heads = 0, kv_heads = 0;       // of those
  std::vector<MeasuredKernel> bare;            // cuDNN's part of them alone
  std::string remarks;                         // "48 shapes by cuDNN"
};

struct CudaCalibration {
  std::uint32_t workers = 1, heads = 32, kv_heads = 8;
  std::vector<std::uint32_t> head_dims = {128};
  std::vector<Dtype> dtypes = {Dtype::Bf16};
  std::int64_t max_tokens = 16384;

  // Of the tiles that are measured: 256, 512, ... up to the most, or that alone if it is less.
  std::vector<std::int64_t> tile_tokens() const {
    std::vector<std::int64_t> out;
    for (std::int64_t n = std::min<std::int64_t>(256, max_tokens); n <= max_tokens; n *= 2)
      out.push_back(n);
    return out;
  }
};

// What the module exports as "ringsched_measure_cuda". Throws RunFailed.
using MeasureCuda = void (*)(const CudaCalibration&,
                             const std::function<void(const std::string&, double)>& progress,
                             CudaFigures&);

}  // namespace ringsched
