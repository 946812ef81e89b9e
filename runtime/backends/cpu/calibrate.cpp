#include "ringsched/runtime/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <tuple>

#include "backends/cpu/message_timer.hpp"
#include "backends/cpu/task_timer.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/device.hpp"
#include "samples.hpp"

namespace ringsched {

namespace {

constexpr std::int64_t kLeastTokens = 64;
constexpr std::int64_t kBetween = 1024;  // tokens: the tile that is timed on one core alone, too
constexpr int kFewest = 3;               // samples of a point, when time is short
constexpr std::int64_t kPassRows = 1024;
constexpr std::uint32_t kPassDim = 128;
constexpr std::size_t kMessageMemory = 256 << 20;  // bytes, so that messages come from no cache
constexpr std::int64_t kLeastMessage = 16 << 10, kMostMessage = 16 << 20;

// One thing that is timed.
struct Point {
  std::string what;
  std::function<double(int round)> sample;  // seconds
  double guess;                             // how long a sample takes
  bool beside_attention = false;            // the other cores compute meanwhile
  Samples times;
  double last = 0, spent = 0;  // seconds for the last sample, and for all of them
};

// Full and causal tiles of one pass, dtype and head dimension.
struct KernelPair {
  bool backward;
  Dtype dtype;
  std::uint32_t head_dim;
  std::size_t first_point;  // of the full tiles, by size; then come the causal ones
};

std::string name_of(const KernelPair& k) {
  return fmt::format("{} {} x {}", k.backward ? "backward" : "forward", to_text(k.dtype),
                     k.head_dim);
}

double pairs_of(std::int64_t tokens, bool causal) {
  return static_cast<double>(causal ? tokens * (tokens + 1) / 2 : tokens * tokens);
}

// All points are sampled in turn. So a neighbour that is busy for a second or two disturbs one
// sample of many points and not all samples of a few. Points that a usable profile needs come
// first.
class Calibration {
 public:
  Calibration(const CalibrationOptions& options,
              const std::function<void(const CalibrationProgress&)>& progress)
      : options_(options),
        progress_(progress),
        cores_(options.cores > 0 ? options.cores : usable_cores()),
        timer_(cores_) {
    rule_.timeout = options.timeout;
    const std::span<std::byte> memory = timer_.memory(kMessageMemory);
    std::fill(memory.begin(), memory.end(), std::byte{1});
    for (std::int64_t n = kLeastTokens; n <= options.max_tokens; n *= 2) tokens_.push_back(n);
    add_passes();
    add_messages();
    for (const std::uint32_t dim : options.head_dims)
      for (const Dtype dtype : options.dtypes) {
        add_kernels({false, dtype, dim, points_.size()});
        if (options.backward) add_kernels({true, dtype, dim, points_.size()});
      }
  }

  CpuFigures measure() {
    began_ = Clock::now();
    for (int round = 0; round < rule_.most; ++round) {
      std::optional<Busy> busy;
      for (Point& p : points_) {
        if (!wants_sample(p)) continue;
        if (!p.beside_attention) busy.reset();
        // A message takes a core, so one is left to it.
        if (p.beside_attention && !busy) busy.emplace(cores_ - 1);
        const double left = seconds_left(), passed = seconds_since(began_);
        progress_({p.what, passed / (passed + left), left, figures()});
        const Clock::time_point start = Clock::now();
        const double seconds = p.sample(round);
        p.times.add(seconds);
        p.last = seconds_since(start);
        p.spent += p.last;
      }
    }
    progress_({"", 1, 0, figures()});
    return figures();
  }

 private:
  void add(std::string what, double guess, std::function<double(int)> sample,
           bool beside_attention = false) {
    points_.push_back(
        {std::move(what), std::move(sample), guess, beside_attention, Samples(options_.fastest)});
  }

  // Of a task with all cores busy. `alone`: of the same on one core, while the others rest.
  double task_seconds_on_all(const Plan& plan, TaskId task, int round, Samples* alone) {
    if (alone) alone->add(timer_.seconds(plan, task, static_cast<unsigned>(round) % cores_)[0]);
    const std::vector<double> by_core = timer_.seconds(plan, task);
    noise_.add(by_core);
    return std::accumulate(by_core.begin(), by_core.end(), 0.0) / cores_;
  }

  void add_passes() {
    const Plan plan = bench_plan(2, 2 * kPassRows, kPassDim, Dtype::Bf16, false, Pass::Both);
    for (const auto& [what, kind, makes] :
         {std::tuple{"merging", TaskKind::Merge, attention::kPartial},
          {"summing", TaskKind::Reduce, attention::kQueryGradient},
          {"preparing", TaskKind::Prepare, attention::kPreparedGradient}})
      add(what, 0.1, [this, plan, task = first_of(plan, kind, makes)](int round) {
        return task_seconds_on_all(plan, task, round, nullptr);
      });
  }

  void add_messages() {
    add("going from task to task", 0.1, [](int) { return task_seconds(); });
    add("copying", 0.2, [this](int) { return copy_seconds(cores_); });
    const auto message = [this](std::int64_t bytes, int rounds) {
      return [this, bytes, rounds](int) {
        return message_seconds(timer_.memory(kMessageMemory), bytes, rounds);
      };
    };
    add("messages of 1 byte", 0.05, message(1, 200), true);
    for (std::int64_t bytes = kLeastMessage; bytes <= kMostMessage; bytes *= 4)
      add(fmt::format("messages of {} KiB", bytes >> 10), 0.1,
          message(bytes, bytes > 4 << 20 ? 20 : 100), true);
    kernels_begin_ = points_.size();
  }

  void add_kernels(KernelPair k) {
    kernels_.push_back(k);
    for (const bool causal : {false, true})
      for (const std::int64_t n : tokens_) {
        const Plan plan =
            bench_plan(1, n, k.head_dim, k.dtype, causal, k.backward ? Pass::Both : Pass::Forward);
        const TaskId task =
            k.backward ? first_of(plan, TaskKind::AttendBackward, attention::kQueryGradient)
                       : first_of(plan, TaskKind::Attend, attention::kPartial);
        Samples* alone = nullptr;
        if (cores_ > 1 && n == std::min(kBetween, tokens_.back())) {
          alone_.push_back({points_.size(), Samples(options_.fastest)});
          alone = &alone_.back().times;
        }
        add(fmt::format("{} {}, {} tokens", name_of(k), causal ? "causal" : "full", n),
            0.1 + 2e-11 * flops(k, n, causal), [this, plan, task, alone](int round) {
              return task_seconds_on_all(plan, task, round, alone);
            });
      }
  }

  static double flops(const KernelPair& k, std::int64_t tokens, bool causal) {
    return (k.backward ? 10 : 4) * pairs_of(tokens, causal) * k.head_dim * kBenchHeads;
  }

  bool wants_sample(const Point& p) const {
    if (p.times.size() >= kFewest && seconds_since(began_) > options_.enough) return false;
    return needs_more(p.times, p.spent, rule_);
  }

  // Assumes that what is not sampled yet exceeds its guess by the same factor as the rest did, and
  // that everything settles soon.
  double seconds_left() const {
    double took = 0, guessed = 0, needed = 0, wanted = 0;
    for (const Point& p : points_) {
      took += p.last;
      guessed += p.times.size() > 0 ? p.guess : 0;
    }
    const double scale = guessed > 0 ? took / guessed : 1;
    for (const Point& p : points_) {
      if (!wants_sample(p)) continue;
      const double each = p.times.size() > 0 ? p.last : scale * p.guess;
      const double most = std::max(each, rule_.timeout - p.spent);
      const double few = std::min(std::max(0, kFewest - p.times.size()) * each, most);
      needed += few;
      wanted += std::min(std::max(1, rule_.least - p.times.size()) * each, most) - few;
    }
    const double spare = options_.enough - seconds_since(began_) - needed;
    return needed + std::clamp(wanted, 0.0, std::max(spare, 1e-3));
  }

  bool sampled(std::size_t first, std::size_t end) const {
    return std::all_of(points_.begin() + static_cast<std::ptrdiff_t>(first),
                       points_.begin() + static_cast<std::ptrdiff_t>(end),
                       [](const Point& p) { return p.times.size() > 0; });
  }

  double slowdown() const {
    double sum = 0;
    int count = 0;
    for (const Alone& a : alone_) {
      if (points_[a.point].times.size() == 0) continue;
      sum += points_[a.point].times.counts() / a.times.counts();
      ++count;
    }
    return count > 0 ? std::max(sum / count, 1.0) : 1;
  }

  CpuFigures figures() const {
    CpuFigures out;
    out.cores = cores_;
    out.instructions = cpu_instructions(Dtype::Bf16);
    out.fastest = options_.fastest;
    out.points = points_.size();
    out.disturbed = static_cast<std::size_t>(std::count_if(
        points_.begin(), points_.end(), [](const Point& p) { return !p.times.settled(); }));
    out.slowdown = slowdown();
    out.noise = options_.fastest ? 0 : noise_.share();
    const bool rest = sampled(0, kernels_begin_);
    if (rest)
      fill_passes_and_messages(out);
    else
      out.missing.emplace_back("messages");
    for (const KernelPair& k : kernels_)
      if (rest && sampled(k.first_point, k.first_point + 2 * tokens_.size()))
        fill_kernels(out, k);
      else
        out.missing.push_back(name_of(k));
    return out;
  }

  void fill_kernels(CpuFigures& out, const KernelPair& k) const {
    auto next = points_.begin() + static_cast<std::ptrdiff_t>(k.first_point);
    for (const bool causal : {false, true}) {
      MeasuredKernel kernel{k.backward, causal, k.dtype, k.head_dim, tokens_, {}};
      for (const std::int64_t n : tokens_)
        kernel.tflops.push_back(flops(k, n, causal) / (next++)->times.counts() / 1e12);
      out.kernels.push_back(std::move(kernel));
    }
  }

  // In the order in which they were added.
  void fill_passes_and_messages(CpuFigures& out) const {
    auto next = points_.begin();
    const auto seconds = [&] { return (next++)->times.counts(); };
    const double elements = double{kPassRows} * kBenchHeads * kPassDim;
    out.memory_gb_per_s = out.merge_bytes * elements / seconds() / 1e9;
    const double bytes_per_second = out.memory_gb_per_s * 1e9 / elements;
    out.reduce_bytes = seconds() * bytes_per_second;
    out.prepare_bytes = seconds() * bytes_per_second;
    out.task_us = seconds() * 1e6;
    out.copy_gb_per_s = 1 / seconds() / 1e9;
    out.latency_us = seconds() * 1e6;
    double longest = 0;  // a longer message does not arrive sooner
    for (std::int64_t bytes = kLeastMessage; bytes <= kMostMessage; bytes *= 4) {
      longest = std::max(1.01 * longest, seconds());
      out.messages.push_back({bytes, static_cast<double>(bytes) / longest / 1e9});
      // Two messages at once cannot be faster than one alone, and one alone is no limit.
      out.copy_gb_per_s = std::max(out.copy_gb_per_s, 1.01 * out.messages.back().gb_per_s);
    }
  }

  struct Alone {
    std::size_t point;
    Samples times;
  };

  const CalibrationOptions& options_;
  const std::function<void(const CalibrationProgress&)>& progress_;
  const unsigned cores_;
  SettlingRule rule_;
  Clock::time_point began_;
  TaskTimer timer_;
  Noise noise_;
  std::vector<std::int64_t> tokens_;
  std::vector<Point> points_;
  std::size_t kernels_begin_ = 0;
  std::vector<KernelPair> kernels_;
  std::deque<Alone> alone_;  // points keep pointers into it
};

}  // namespace

CpuFigures measure_cpu(const CalibrationOptions& options,
                       const std::function<void(const CalibrationProgress&)>& progress) {
  return Calibration(options, progress).measure();
}

}  // namespace ringsched
