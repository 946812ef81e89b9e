// Measures this machine: how long its CPU takes for the tasks of plans, by shape, and for messages
// between its workers, by size. All cores are busy meanwhile, as in a run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ringsched/scheduler/problem.hpp"

namespace ringsched {

struct MeasuredKernel {
  bool backward = false, causal = false;
  Dtype dtype = Dtype::Bf16;
  std::uint32_t head_dim = 128;
  std::vector<std::int64_t> tokens;
  std::vector<double> tflops;  // of one core; 4 d forward, 10 d backward for each visible pair
};

struct MeasuredMessage {
  std::int64_t bytes = 0;
  double gb_per_s = 0;
};

struct CpuFigures {
  unsigned cores = 1;
  std::string instructions;    // of bf16 attention
  double memory_gb_per_s = 0;  // of a merge on each core, at merge_bytes for each element
  double merge_bytes = 12, reduce_bytes = 12, prepare_bytes = 4;
  double task_us = 0;        // to go from task to task
  double copy_gb_per_s = 0;  // all cores copying
  double latency_us = 0;     // of an empty message
  std::vector<MeasuredMessage> messages;
  std::vector<MeasuredKernel> kernels;
  // How many points were sampled, and how many of these did not settle because something else was
  // running, or their time was up.
  std::size_t points = 0, disturbed = 0;
  bool fastest = false;  // as it was asked for
  double slowdown = 1;   // of a task with all cores at work, over one core alone
  double noise = 0;      // of the times of tasks, as a share of them; not of the fastest
  // What was asked for and has not been measured yet, in words. Kernels come in pairs, full and
  // causal, and count once both are measured.
  std::vector<std::string> missing;

  // Whether predictions can use it, even if something is missing.
  bool usable() const { return !kernels.empty(); }
};

struct CalibrationOptions {
  unsigned cores = 0;  // 0: all
  std::vector<std::uint32_t> head_dims = {128};
  std::vector<Dtype> dtypes = {Dtype::Bf16, Dtype::Fp32};
  std::int64_t max_tokens = 2048;
  bool backward = true;  // the backward pass, too
  bool fastest = false;  // keep the fastest time of each thing, not the mean
  double timeout = 2;    // seconds that all samples of one point may take together
  // Seconds after which a point with three samples gets no more, settled or not.
  double enough = 45;
};

struct CalibrationProgress {
  std::string what;         // is being measured next; empty: nothing is left
  double done = 0;          // a share
  double seconds_left = 0;  // estimated from what has been measured
  CpuFigures so_far;
};

// Calls `progress` before each sample. If it throws, the measurement ends.
CpuFigures measure_cpu(const CalibrationOptions&,
                       const std::function<void(const CalibrationProgress&)>& progress);

}  // namespace ringsched
