#include "ringsched/runtime/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <memory>
#include <thread>

#include "backends/cpu/cpu_device.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/runtime/inputs.hpp"
#include "ringsched/runtime/memory_plan.hpp"
#include "ringsched/runtime/numbers.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "transports/local.hpp"

namespace ringsched {

namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kHeads = 8;
// A task of a run finds little of what it reads in the core's own cache: other tasks have been
// there since. So as much memory is taken in turns.
constexpr std::int64_t kInTurns = 64 << 20;
constexpr std::int64_t kMostCopies = 32;

double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

// A quarter took less: whatever else the machine does only adds to a time.
double typical(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 4), x.end());
  return x[x.size() / 4];
}

Plan plan_of(std::uint32_t workers, std::int64_t tokens, std::uint32_t dim, Dtype dtype,
             bool causal, Pass pass) {
  Problem p;
  p.workers = workers;
  p.tokens = {tokens};
  p.heads = p.kv_heads = kHeads;
  p.head_dim = dim;
  p.dtype = dtype;
  p.mask = causal ? Mask::causal() : Mask::full();
  p.pass = pass;
  return build_plan(p, find_schedule("ring"));
}

// Memory for a task, several times over, with ordinary numbers in it.
class Bench {
 public:
  Bench(const Plan& plan, TaskId task) : plan_(plan), task_(task), operations_(plan) {
    const MemoryPlan memory = plan_memory(plan);
    const WorkerId worker = plan.tasks[task.value].worker();
    const std::int64_t size = std::max<std::int64_t>(memory.size[worker.value].value, 64);
    const std::int64_t copies = std::clamp<std::int64_t>(kInTurns / size, 1, kMostCopies);
    const auto words = static_cast<std::size_t>(size + 7) / 8;
    const std::int64_t numbers = size / (plan.problem.dtype == Dtype::Fp32 ? 4 : 2);
    for (std::int64_t c = 0; c < copies; ++c) {
      auto& block = blocks_.emplace_back(words);
      auto* const data = reinterpret_cast<std::byte*>(block.data());
      for (std::int64_t i = 0; i < numbers; ++i)
        put_number(data, plan.problem.dtype, i,
                   static_cast<float>((i * 2654435761 % 1000) - 500) / 500);
      Operands operands;
      const Task& t = plan.tasks[task.value];
      for (std::size_t i = 0; i < 3; ++i)
        if (t.inputs[i].valid()) operands.inputs[i] = data + memory.offset[t.inputs[i].value];
      for (std::uint32_t n = 0; n < outputs_of(t.kind); ++n)
        operands.outputs[n] = data + memory.offset[plan.output(task, n).value];
      operands_.push_back(operands);
    }
  }
  void perform() { operations_.perform(task_, operands_[next_++ % operands_.size()], scratch_); }

 private:
  const Plan& plan_;
  const TaskId task_;
  CpuOperations operations_;
  cpu::Scratch scratch_;
  std::vector<std::vector<std::uint64_t>> blocks_;
  std::vector<Operands> operands_;
  std::size_t next_ = 0;
};

// The time of a task, while every core does the same; the mean over the cores.
double seconds_of(const Plan& plan, TaskKind kind, TensorKind makes, unsigned cores) {
  TaskId task;
  for (std::uint32_t id = 0; id < plan.tasks.size() && !task.valid(); ++id)
    if (plan.tasks[id].kind == kind && plan.tasks[id].makes == makes) task = {id};
  std::barrier together(static_cast<std::ptrdiff_t>(cores));
  std::vector<double> typicals(cores);
  std::vector<std::thread> threads;
  for (unsigned c = 0; c < cores; ++c)
    threads.emplace_back([&, c] {
      Bench bench(plan, task);
      bench.perform();
      together.arrive_and_wait();
      std::vector<double> times;
      const Clock::time_point began = Clock::now();
      while (times.size() < 3 || (seconds_since(began) < 0.1 && times.size() < 1000)) {
        const Clock::time_point start = Clock::now();
        bench.perform();
        times.push_back(seconds_since(start));
      }
      typicals[c] = typical(times);
      together.arrive_and_wait();
    });
  double sum = 0;
  for (unsigned c = 0; c < cores; ++c) {
    threads[c].join();
    sum += typicals[c];
  }
  return sum / cores;
}

MeasuredKernel kernel(bool backward, bool causal, Dtype dtype, std::uint32_t dim,
                      const CalibrationOptions& options, unsigned cores) {
  MeasuredKernel k{backward, causal, dtype, dim, {}, {}};
  for (std::int64_t n = 64; n <= options.most_tokens; n *= 2) {
    const Plan plan = plan_of(1, n, dim, dtype, causal, backward ? Pass::Both : Pass::Forward);
    const double s = seconds_of(plan, backward ? TaskKind::AttendBackward : TaskKind::Attend,
                                backward ? TensorKind::QueryGradient : TensorKind::Partial, cores);
    const auto pairs = static_cast<double>(causal ? n * (n + 1) / 2 : n * n);
    k.tokens.push_back(n);
    k.tflops.push_back((backward ? 10 : 4) * pairs * dim * kHeads / s / 1e12);
  }
  return k;
}

// Going from task to task: the clock read twice, and those told who wait.
double task_us() {
  constexpr int tasks = 20'000;
  const Plan plan = plan_of(1, 64, 8, Dtype::Fp32, true, Pass::Forward);
  Control control;
  CpuDevice device(plan, {0}, control, {});
  const std::array<TaskId, 1> task{TaskId{0}};
  for (int i = 0; i < tasks; ++i) {
    device.begin(Lane::Compute, task);
    device.call(Lane::Compute, [] {});
    device.end(Lane::Compute, task);
  }
  const Clock::time_point zero = Clock::now();
  device.start(zero);
  device.join();
  return seconds_since(zero) / tasks * 1e6;
}

// All cores at attention, until it goes out of scope.
class Busy {
 public:
  explicit Busy(unsigned cores) : plan_(plan_of(1, 128, 64, Dtype::Fp32, true, Pass::Forward)) {
    for (unsigned c = 0; c < cores; ++c)
      threads_.emplace_back([this] {
        Bench bench(plan_, {0});
        while (!over_) bench.perform();
      });
  }
  ~Busy() {
    over_ = true;
    for (std::thread& t : threads_) t.join();
  }

 private:
  const Plan plan_;
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

// From when both ends are posted, or a little before, to when both know that it has arrived.
double message_seconds(std::int64_t bytes, int rounds) {
  const Plan plan = plan_of(2, 2, 8, Dtype::Fp32, true, Pass::Forward);
  Control control;
  LocalTransport transport(plan, control);
  std::vector<std::byte> from(static_cast<std::size_t>(bytes), std::byte{1}), to(from.size());
  std::vector<double> times;
  const auto message = [&](bool sends, int i, std::vector<std::byte>& where) {
    Message m;
    m.sends = sends;
    m.task = {static_cast<std::uint32_t>(i)};
    m.peer = {sends ? 1u : 0u};
    m.piece[0] = where.data();
    m.bytes[0] = bytes;
    return std::vector<Message>{m};
  };
  std::thread receiver([&] {
    for (int i = 0; i < rounds; ++i) transport.exchange_now({1}, message(false, i, to));
  });
  for (int i = 0; i < rounds; ++i) {
    const auto sent = message(true, i, from);
    const Clock::time_point start = Clock::now();
    transport.exchange_now({0}, sent);
    times.push_back(seconds_since(start));
  }
  receiver.join();
  return typical(times);
}

double copy_gb_per_s(unsigned cores) {
  constexpr std::size_t bytes = 16 << 20;
  constexpr int rounds = 9;
  std::barrier together(static_cast<std::ptrdiff_t>(cores));
  std::vector<double> times(rounds);
  std::vector<std::thread> threads;
  for (unsigned c = 0; c < cores; ++c)
    threads.emplace_back([&, c] {
      std::vector<std::byte> from(bytes, std::byte{1}), to(bytes);
      for (int r = 0; r < rounds; ++r) {
        together.arrive_and_wait();
        const Clock::time_point start = Clock::now();
        std::memcpy(to.data(), from.data(), bytes);
        together.arrive_and_wait();
        if (c == 0) times[static_cast<std::size_t>(r)] = seconds_since(start);
      }
    });
  for (std::thread& t : threads) t.join();
  return static_cast<double>(bytes) * cores / typical(times) / 1e9;
}

}  // namespace

CpuFigures measure_cpu(const CalibrationOptions& options,
                       const std::function<void(const std::string&, double)>& progress) {
  CpuFigures out;
  out.cores = options.cores > 0 ? options.cores : std::max(1u, std::thread::hardware_concurrency());
  out.instructions = cpu_instructions(Dtype::Bf16);
  const double all = static_cast<double>(options.head_dims.size() * options.dtypes.size() * 4) + 3;
  double done = 0;
  for (const std::uint32_t dim : options.head_dims)
    for (const Dtype dtype : options.dtypes)
      for (const bool backward : {false, true})
        for (const bool causal : {false, true}) {
          progress(fmt::format("{} attention, {}, {} x {}", backward ? "backward" : "forward",
                               causal ? "causal" : "full", to_text(dtype), dim),
                   done++ / all);
          out.kernels.push_back(kernel(backward, causal, dtype, dim, options, out.cores));
        }
  progress("merging and summing", done++ / all);
  const std::int64_t rows = 1024;
  const std::uint32_t dim = 128;
  const Plan plan = plan_of(2, 2 * rows, dim, Dtype::Bf16, false, Pass::Both);
  const auto elements = static_cast<double>(rows * kHeads * dim);
  const auto bytes_of = [&](TaskKind kind, TensorKind makes) {
    return seconds_of(plan, kind, makes, out.cores) / elements * out.memory_gb_per_s * 1e9;
  };
  out.memory_gb_per_s = out.merge_bytes * elements /
                        seconds_of(plan, TaskKind::Merge, TensorKind::Partial, out.cores) / 1e9;
  out.reduce_bytes = bytes_of(TaskKind::Reduce, TensorKind::QueryGradient);
  out.prepare_bytes = bytes_of(TaskKind::Prepare, TensorKind::PreparedGradient);
  out.task_us = task_us();
  progress("copying", done++ / all);
  out.copy_gb_per_s = copy_gb_per_s(out.cores);
  progress("messages", done++ / all);
  const Busy busy(out.cores);
  out.latency_us = message_seconds(1, 200) * 1e6;
  double longest = 0;  // a longer message does not arrive sooner
  for (std::int64_t bytes = 16 << 10; bytes <= 16 << 20; bytes *= 4) {
    longest = std::max(1.01 * longest, message_seconds(bytes, bytes > 4 << 20 ? 10 : 40));
    out.messages.push_back({bytes, static_cast<double>(bytes) / longest / 1e9});
  }
  // Two messages at once cannot be faster than one alone, and one alone is no limit.
  for (const MeasuredMessage& m : out.messages)
    out.copy_gb_per_s = std::max(out.copy_gb_per_s, 1.01 * m.gb_per_s);
  progress("", 1);
  return out;
}

}  // namespace ringsched
