#include "backends/cuda/calibrate.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <set>

#include "backends/cuda/bench.hpp"
#include "backends/cuda/kernels.hpp"

namespace ringsched::cuda {

namespace {

double mean(const std::vector<double>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

// What the driver's management library says about the clocks now.
std::string clocks_now(int gpu) {
  constexpr int of_multiprocessors = 1, of_memory = 2;
  void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (!library) return "";
  const auto init = reinterpret_cast<int (*)()>(::dlsym(library, "nvmlInit_v2"));
  const auto find = reinterpret_cast<int (*)(const char*, void**)>(
      ::dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
  const auto clock =
      reinterpret_cast<int (*)(void*, int, unsigned*)>(::dlsym(library, "nvmlDeviceGetClockInfo"));
  char bus[32] = {};
  void* device = nullptr;
  unsigned processors = 0, memory = 0;
  if (!init || !find || !clock || init() != 0 ||
      cudaDeviceGetPCIBusId(bus, sizeof bus, gpu) != cudaSuccess || find(bus, &device) != 0 ||
      clock(device, of_multiprocessors, &processors) != 0 || clock(device, of_memory, &memory) != 0)
    return "";
  return fmt::format("{} MHz, memory {} MHz", processors, memory);
}

class Calibration {
 public:
  Calibration(const CudaCalibration& options,
              const std::function<void(const std::string&, double)>& progress)
      : options_(options), progress_(progress), gpu_(0, options.workers, kBasicLanes.size()) {
    for (std::uint32_t w = 0; w < options.workers; ++w) {
      computes_.push_back(gpu_.stream(w, Lane::Compute));
      fetches_.push_back(gpu_.stream(w, Lane::Fetch));
    }
  }

  CudaFigures measure() {
    out_.name = gpu_name(0);
    out_.driver = driver_version();
    out_.library = gpu_.library().version();
    out_.workers = options_.workers;
    out_.heads = options_.heads;
    out_.kv_heads = options_.kv_heads;
    out_.multiprocessors = gpu_.multiprocessors(0);
    out_.shared = gpu_.shared();
    measure_launches();
    measure_attention();
    measure_passes();
    measure_messages();
    out_.remarks = fmt::format("{} shapes by cuDNN, {} by the kernel for any tile; made: {}",
                               by_library_, by_own_, gpu_.costs());
    if (const std::string why = gates_failed(); !why.empty())
      out_.remarks += fmt::format("; times include the host's: {}", why);
    progress_("", 1);
    return std::move(out_);
  }

 private:
  void report(const std::string& what) {
    const double all =
        static_cast<double>(4 * options_.head_dims.size() * options_.dtypes.size()) + 3;
    progress_(what, std::min(1.0, done_++ / all));
  }

  Problem problem(std::uint32_t workers, std::int64_t tokens, std::uint32_t dim, Dtype dtype,
                  bool causal, Pass pass) const {
    Problem p;
    p.workers = workers;
    p.tokens = {tokens};
    p.heads = options_.heads;
    p.kv_heads = options_.kv_heads;
    p.head_dim = dim;
    p.dtype = dtype;
    p.mask = causal ? Mask::causal() : Mask::full();
    p.pass = pass;
    return p;
  }

  std::vector<std::unique_ptr<Bench>> benches(const Plan& plan, bool narrow) {
    std::vector<std::unique_ptr<Bench>> out;
    for (std::uint32_t w = 0; w < options_.workers; ++w)
      out.push_back(std::make_unique<Bench>(gpu_, w, plan, narrow));
    return out;
  }

  // Sixteen-byte words that fill the L2 cache this many times.
  static std::int64_t words_of_caches(std::int64_t times) {
    int bytes = 0;
    require(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, 0), "asking for a GPU's cache");
    return times * std::max(bytes, 1 << 17) / 16;
  }

  // An idle GPU has slow clocks.
  void wake_up() {
    const std::string before = clocks_now(0);
    const std::int64_t words = words_of_caches(2);
    const DeviceMemory from(16 * words), to(16 * words);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
    while (std::chrono::steady_clock::now() < end) {
      for (int i = 0; i < 100; ++i)
        launch_copy(to.get(), from.get(), words, computes_[0], gpu_.multiprocessors(0));
      require(cudaStreamSynchronize(computes_[0]), "warming up");
    }
    if (!before.empty()) out_.clocks = fmt::format("{} at first, {} after", before, clocks_now(0));
  }

  void measure_launches() {
    report("launches");
    wake_up();
    const Event before, after;
    const std::vector<cudaStream_t> one{computes_[0]};
    out_.launch_without_times_us =
        1e6 * seconds_together(one, [&](std::size_t) { launch_nothing(one[0]); })[0];
    out_.launch_us = 1e6 * seconds_together(one, [&](std::size_t) {
                       require(cudaEventRecord(before.get(), one[0]), "recording an event");
                       launch_nothing(one[0]);
                       require(cudaEventRecord(after.get(), one[0]), "recording an event");
                     })[0];
  }

  // Almost all tiles of a run are merged on the worker that makes them, so their results stay
  // narrow. Making those of the first tile wide is part of output_bytes.
  void measure_kernel(bool backward, bool causal, Dtype dtype, std::uint32_t dim) {
    MeasuredKernel k{backward, causal, dtype, dim, {}, {}}, bare = k;
    for (const std::int64_t n : options_.tile_tokens()) {
      const Plan plan =
          bench_plan(problem(1, n, dim, dtype, causal, backward ? Pass::Both : Pass::Forward));
      const auto all = benches(plan, true);
      const TaskId task =
          backward ? first_task(plan, TaskKind::AttendBackward, attention::kQueryGradient)
                   : first_task(plan, TaskKind::Attend, attention::kPartial);
      for (const auto& bench : all) bench->come_to(task);
      const auto pairs = static_cast<double>(causal ? n * (n + 1) / 2 : n * n);
      const double flops = (backward ? 10 : 4) * pairs * dim * options_.heads;
      const double s =
          mean(seconds_together(computes_, [&](std::size_t i) { all[i]->perform(task); }));
      k.tokens.push_back(n);
      k.tflops.push_back(flops / std::max(s - 1e-6 * out_.launch_us, 0.2 * s) / 1e12);
      const bool library = all[0]->lowering().by_own().empty();
      (library ? by_library_ : by_own_) += 1;
      if (!library) continue;
      bare.tokens.push_back(n);
      bare.tflops.push_back(flops / 1e12 / mean(seconds_together(computes_, [&](std::size_t i) {
                              all[i]->perform_library(task);
                            })));
    }
    out_.kernels.push_back(k);
    if (!bare.tokens.empty()) out_.bare.push_back(bare);
  }

  void measure_attention() {
    for (const std::uint32_t dim : options_.head_dims)
      for (const Dtype dtype : options_.dtypes)
        for (const bool backward : {false, true})
          for (const bool causal : {false, true}) {
            report(fmt::format("{} attention, {}, {} x {}", backward ? "backward" : "forward",
                               causal ? "causal" : "full", to_text(dtype), dim));
            measure_kernel(backward, causal, dtype, dim);
          }
    if (!out_.clocks.empty()) out_.clocks += fmt::format(", {} at the end", clocks_now(0));
    measure_load();
  }

  // How much slower the largest full tile is when attends follow each other without a pause: a GPU
  // then exceeds its power limit, and lowers its clock.
  void measure_load() {
    report("attention without pauses");
    const Plan plan = bench_plan(problem(1, options_.tile_tokens().back(), options_.head_dims[0],
                                         options_.dtypes[0], false, Pass::Forward));
    const TaskId task = first_task(plan, TaskKind::Attend, attention::kPartial);
    const auto all = benches(plan, true);
    for (const auto& bench : all) bench->come_to(task);
    out_.under_load = load_slowdown(computes_, [&](std::size_t i) { all[i]->perform(task); });
  }

  // Beside which other things are measured.
  Plan largest_full_tile() const {
    return bench_plan(problem(1, std::min<std::int64_t>(4096, options_.max_tokens), 128,
                              Dtype::Bf16, false, Pass::Forward));
  }

  void measure_passes() {
    report("merging and summing");
    constexpr std::int64_t rows = 4096;
    constexpr std::uint32_t dim = 128;
    const Plan plan = bench_plan(problem(2, 2 * rows, dim, Dtype::Bf16, false, Pass::Both));
    const auto elements = static_cast<double>(rows * plan.problem.heads * dim);
    {
      // Workers seldom merge at the same moment, so one does while the others attend.
      Bench bench(gpu_, 0, plan, false);
      bench.fill_all();
      const Plan tile = largest_full_tile();
      const TaskId attend = first_task(tile, TaskKind::Attend, attention::kPartial);
      const auto others = benches(tile, true);
      for (const auto& other : others) other->come_to(attend);
      const auto seconds_of = [&](const std::function<void()>& pass) {
        constexpr int passes = 4;
        const double s = seconds_together(computes_,
                                          [&](std::size_t i) {
                                            if (i > 0) return others[i]->perform(attend);
                                            for (int n = 0; n < passes; ++n) pass();
                                          })[0] /
                         passes;
        return std::max(s - 1e-6 * out_.launch_us, 0.2 * s);
      };
      const auto seconds = [&](TaskKind kind, ValueId makes) {
        const TaskId task = first_task(plan, kind, makes);
        return seconds_of([&] { bench.perform(task); });
      };
      out_.memory_gb_per_s =
          out_.merge_bytes * elements / seconds(TaskKind::Merge, attention::kPartial) / 1e9;
      const double per_byte = out_.memory_gb_per_s * 1e9 / elements;
      out_.reduce_bytes = per_byte * seconds(TaskKind::Reduce, attention::kQueryGradient);
      out_.prepare_bytes = per_byte * seconds(TaskKind::Prepare, attention::kPreparedGradient);
      if (others[0]->lowering().by_own().empty()) {
        Bench wide(gpu_, 0, tile, false);
        wide.come_to(attend);
        const double more = seconds_of([&] { wide.perform(attend); }) -
                            seconds_of([&] { others[0]->perform(attend); });
        out_.output_bytes = std::max(0.0, per_byte * more * static_cast<double>(rows) /
                                              static_cast<double>(tile.problem.tokens.value));
      }
    }
    const std::int64_t words = words_of_caches(8);
    const DeviceMemory from(16 * words), to(16 * words);
    require(cudaMemset(from.get(), 0x5a, static_cast<std::size_t>(16 * words)), "filling memory");
    require(cudaStreamSynchronize(nullptr), "filling memory");  // workers' streams do not wait
    std::uint32_t sms = 0;
    for (std::uint32_t w = 0; w < options_.workers; ++w)
      sms += gpu_.parted() || w == 0 ? gpu_.multiprocessors(w) : 0;
    const Gpu whole(0, 1, kBasicLanes.size());
    const std::vector<cudaStream_t> one{whole.stream(0, Lane::Compute)};
    out_.copy_roof_gb_per_s =
        32.0 * static_cast<double>(words) / 1e9 / seconds_together(one, [&](std::size_t) {
          launch_copy(to.get(), from.get(), words, one[0], sms);
        })[0];
  }

  static constexpr std::int64_t kLeastMessage = 64 << 10, kMostMessage = 64 << 20;
  // A message of this many bytes from the next worker to this one.
  using Move = std::function<void(std::size_t worker, std::int64_t bytes)>;

  // Of one message with nothing beside it.
  double seconds_alone(const Move& move, std::int64_t bytes) {
    return seconds_together({fetches_[0]}, [&](std::size_t) { move(0, bytes); })[0];
  }

  static std::vector<MeasuredMessage> by_size(
      const std::function<double(std::int64_t)>& seconds_of) {
    std::vector<MeasuredMessage> out;
    double longest = 0;  // a longer message does not arrive sooner
    for (std::int64_t bytes = kLeastMessage; bytes <= kMostMessage; bytes *= 4) {
      longest = std::max(1.01 * longest, seconds_of(bytes));
      out.push_back({bytes, static_cast<double>(bytes) / longest / 1e9});
    }
    return out;
  }

  void measure_messages() {
    report("messages");
    std::vector<DeviceMemory> blocks;
    for (std::uint32_t w = 0; w < 2 * options_.workers; ++w) blocks.emplace_back(kMostMessage);
    const Move move = [&](std::size_t i, std::int64_t bytes) {
      const std::size_t sender = (i + 1) % options_.workers;
      copy(blocks[2 * i].get(), 0, blocks[2 * sender + 1].get(), 0, bytes, fetches_[i]);
    };
    out_.idle_messages = by_size([&](std::int64_t bytes) { return seconds_alone(move, bytes); });
    measure_beside_attention(move);
    out_.latency_us = 1e6 * seconds_alone(move, 1);
    const auto each = seconds_together(fetches_, [&](std::size_t i) { move(i, kMostMessage); });
    out_.copy_gb_per_s = static_cast<double>(kMostMessage) * static_cast<double>(fetches_.size()) /
                         *std::max_element(each.begin(), each.end()) / 1e9;
    for (const MeasuredMessage& m : out_.messages)  // one alone is no limit of all
      out_.copy_gb_per_s = std::max(out_.copy_gb_per_s, 1.01 * m.gb_per_s);
  }

  // Messages beside attention, and attention beside messages.
  void measure_beside_attention(const Move& move) {
    const Plan plan = largest_full_tile();
    const TaskId task = first_task(plan, TaskKind::Attend, attention::kPartial);
    const auto all = benches(plan, true);
    for (const auto& bench : all) bench->come_to(task);
    const double undisturbed =
        mean(seconds_together(computes_, [&](std::size_t i) { all[i]->perform(task); }));
    std::vector<cudaStream_t> both = computes_;
    both.insert(both.end(), fetches_.begin(), fetches_.end());
    // As many messages as last about as long as the attend.
    constexpr std::int64_t one_message = 16 << 20;
    const double all_messages =
        seconds_alone(move, one_message) * static_cast<double>(options_.workers);
    // But no more at a time than a stream's queue holds behind a gate.
    const int messages = std::clamp(static_cast<int>(undisturbed / all_messages), 1, 8);
    const auto beside = seconds_together(both, [&](std::size_t i) {
      if (i < computes_.size()) return all[i]->perform(task);
      for (int m = 0; m < messages; ++m) move(i - computes_.size(), one_message);
    });
    const auto count = static_cast<std::ptrdiff_t>(computes_.size());
    out_.slowdown = std::max(1.0, mean({beside.begin(), beside.begin() + count}) / undisturbed);
    std::vector<cudaStream_t> streams = computes_;
    streams.push_back(fetches_[0]);
    const auto seconds_beside = [&](std::int64_t bytes) {
      return seconds_together(streams,
                              [&](std::size_t i) {
                                if (i < computes_.size())
                                  all[i]->perform(task);
                                else
                                  move(0, bytes);
                              })
          .back();
    };
    // A copy that finds no free multiprocessor starts when the attend ends.
    const double least = seconds_alone(move, kLeastMessage);
    out_.messages_wait = seconds_beside(kLeastMessage) > least + 0.3 * undisturbed;
    out_.messages = out_.messages_wait ? out_.idle_messages : by_size(seconds_beside);
  }

  const CudaCalibration& options_;
  const std::function<void(const std::string&, double)>& progress_;
  Gpu gpu_;
  std::vector<cudaStream_t> computes_, fetches_;
  CudaFigures out_;
  double done_ = 0;
  int by_library_ = 0, by_own_ = 0;
};

}  // namespace

CudaFigures measure(const CudaCalibration& options,
                    const std::function<void(const std::string&, double)>& progress) {
  require_gpus();
  return Calibration(options, progress).measure();
}

std::vector<std::vector<std::uint32_t>> probe(std::uint32_t workers) {
  constexpr std::size_t most = 1024;  // multiprocessors
  require_gpus();
  const Gpu gpu(0, workers, kBasicLanes.size());
  const bool messages = gpu.message_multiprocessors() > 0;
  std::vector<DeviceMemory> seen;  // of computing, then of messages
  for (std::uint32_t i = 0; i < (messages ? 2 : 1) * workers; ++i) {
    seen.emplace_back(4 * most);
    require(cudaMemset(seen.back().get(), 0, 4 * most), "probing");
  }
  require(cudaDeviceSynchronize(), "probing");
  for (std::uint32_t i = 0; i < seen.size(); ++i) {
    const bool computes = i < workers;
    launch_probe(seen[i].get<std::uint32_t>(),
                 8 * (computes ? gpu.multiprocessors(i) : gpu.message_multiprocessors()),
                 computes ? gpu.stream(i, Lane::Compute) : gpu.stream(i - workers, Lane::Fetch));
  }
  require(cudaDeviceSynchronize(), "probing");
  std::vector<std::set<std::uint32_t>> found(workers + (messages ? 1 : 0));
  for (std::uint32_t i = 0; i < seen.size(); ++i) {
    std::vector<std::uint32_t> all(most);
    require(cudaMemcpy(all.data(), seen[i].get(), 4 * most, cudaMemcpyDeviceToHost), "probing");
    for (std::uint32_t m = 0; m < most; ++m)
      if (all[m] != 0) found[std::min(i, workers)].insert(m);
  }
  std::vector<std::vector<std::uint32_t>> out;
  for (const auto& one : found) out.emplace_back(one.begin(), one.end());
  return out;
}

}  // namespace ringsched::cuda
