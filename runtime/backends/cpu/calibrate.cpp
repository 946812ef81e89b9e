#include "ringsched/runtime/calibrate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/samples.hpp"
#include "backends/cpu/task_timer.hpp"
#include "ringsched/runtime/cpu_backend.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "transports/local.hpp"

namespace ringsched {

namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kHeads = 8;
constexpr std::int64_t kBetween = 1024;  // tokens: the tile of which it is asked what others cost

double seconds_since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
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

TaskId first_of(const Plan& plan, TaskKind kind, TensorKind makes) {
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (plan.tasks[id].kind == kind && plan.tasks[id].makes == makes) return {id};
  throw std::logic_error("no task of the kind to be measured");
}

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

// A task whose time is asked for. All are timed in turn, several times over.
struct Timed {
  std::string what;
  Plan plan;
  TaskId task;
  Samples seconds;
  std::optional<Samples> alone;  // the same on one core, while the others rest
};

constexpr int kRounds = 5, kMostRounds = 11;
constexpr double kLeast = 8;  // seconds: what a neighbour does may last for some of them

// The same for what is measured by itself.
template <class Measure>
double timed_alone(bool fastest, Measure measure) {
  Samples times(fastest);
  for (int round = 0; round < 3 || (round < kMostRounds && !times.settled()); ++round)
    times.add(measure());
  return times.counts();
}

Timed timed(std::string what, Plan plan, TaskKind kind, TensorKind makes, bool fastest) {
  const TaskId task = first_of(plan, kind, makes);
  return {std::move(what), std::move(plan), task, Samples(fastest), {}};
}

double slowdown(const std::vector<Timed>& tasks) {
  double sum = 0;
  int count = 0;
  for (const Timed& t : tasks)
    if (t.alone) {
      sum += t.seconds.counts() / t.alone->counts();
      ++count;
    }
  return count > 0 ? std::max(sum / count, 1.0) : 1;
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

// So many cores at attention, until it goes out of scope.
class Busy {
 public:
  explicit Busy(unsigned cores) {
    if (cores == 0) return;
    thread_ = std::thread([this, cores] {
      const Plan plan = plan_of(1, 128, 64, Dtype::Fp32, true, Pass::Forward);
      const TaskId task = first_of(plan, TaskKind::Attend, TensorKind::Partial);
      for (TaskTimer timer(cores); !over_;) timer.seconds(plan, task);
    });
  }
  ~Busy() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// From when both ends are posted, or a little before, to when both know that it has arrived.
double message_seconds(std::span<std::byte> memory, std::int64_t bytes, int rounds) {
  const Plan plan = plan_of(2, 2, 8, Dtype::Fp32, true, Pass::Forward);
  Control control;
  LocalTransport transport(plan, control);
  const std::int64_t room = (bytes + 63) / 64 * 64;
  const std::int64_t places = static_cast<std::int64_t>(memory.size()) / room;
  std::vector<double> times;
  const auto message = [&](bool sends, int i) {
    Message m;
    m.sends = sends;
    m.task = {static_cast<std::uint32_t>(i)};
    m.peer = {sends ? 1u : 0u};
    m.piece[0] = memory.data() + (2 * i + (sends ? 0 : 1)) % places * room;
    m.bytes[0] = bytes;
    return std::vector<Message>{m};
  };
  std::thread receiver([&] {
    for (int i = 0; i < rounds; ++i) transport.exchange_now({1}, message(false, i));
  });
  for (int i = 0; i < rounds; ++i) {
    const auto sent = message(true, i);
    const Clock::time_point start = Clock::now();
    transport.exchange_now({0}, sent);
    times.push_back(seconds_since(start));
  }
  receiver.join();
  return median(times);
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
  return static_cast<double>(bytes) * cores / median(times) / 1e9;
}

}  // namespace

CpuFigures measure_cpu(const CalibrationOptions& options,
                       const std::function<void(const std::string&, double)>& progress) {
  CpuFigures out;
  out.cores = options.cores > 0 ? options.cores : usable_cores();
  out.instructions = cpu_instructions(Dtype::Bf16);
  out.fastest = options.fastest;
  std::vector<Timed> tasks;
  for (const std::uint32_t dim : options.head_dims)
    for (const Dtype dtype : options.dtypes)
      for (const bool backward : {false, true})
        for (const bool causal : {false, true}) {
          if (backward && !options.backward) continue;
          MeasuredKernel k{backward, causal, dtype, dim, {}, {}};
          for (std::int64_t n = 64; n <= options.most_tokens; n *= 2) {
            k.tokens.push_back(n);
            const bool between = n <= kBetween && (n == kBetween || 2 * n > options.most_tokens);
            tasks.push_back(
                timed(fmt::format("{} attention, {}, {} x {}, {} tokens",
                                  backward ? "backward" : "forward", causal ? "causal" : "full",
                                  to_text(dtype), dim, n),
                      plan_of(1, n, dim, dtype, causal, backward ? Pass::Both : Pass::Forward),
                      backward ? TaskKind::AttendBackward : TaskKind::Attend,
                      backward ? TensorKind::QueryGradient : TensorKind::Partial, options.fastest));
            if (between && out.cores > 1) tasks.back().alone.emplace(options.fastest);
          }
          out.kernels.push_back(std::move(k));
        }
  const std::size_t others = tasks.size();
  constexpr std::int64_t rows = 1024;
  const Plan plan = plan_of(2, 2 * rows, 128, Dtype::Bf16, false, Pass::Both);
  tasks.push_back(timed("merging", plan, TaskKind::Merge, TensorKind::Partial, options.fastest));
  tasks.push_back(
      timed("summing", plan, TaskKind::Reduce, TensorKind::QueryGradient, options.fastest));
  tasks.push_back(
      timed("preparing", plan, TaskKind::Prepare, TensorKind::PreparedGradient, options.fastest));

  TaskTimer timer(out.cores);
  Noise noise;
  const Clock::time_point began = Clock::now();
  double done = 0;
  for (int round = 0; round < kMostRounds; ++round) {
    const bool enough = round >= kRounds && seconds_since(began) > kLeast;
    for (Timed& t : tasks) {
      if (enough && t.seconds.settled()) continue;
      progress(round < kRounds ? t.what : t.what + ", again: not settled yet",
               std::min(0.99, done++ / static_cast<double>(kRounds * tasks.size())));
      if (t.alone)
        t.alone->add(timer.seconds(t.plan, t.task, static_cast<unsigned>(round) % out.cores)[0]);
      const std::vector<double> by_core = timer.seconds(t.plan, t.task);
      noise.add(by_core);
      t.seconds.add(std::accumulate(by_core.begin(), by_core.end(), 0.0) / out.cores);
    }
  }
  out.points = tasks.size();
  out.slowdown = slowdown(tasks);
  out.noise = options.fastest ? 0 : noise.share();
  out.disturbed = static_cast<std::size_t>(std::count_if(
      tasks.begin(), tasks.end(), [](const Timed& t) { return !t.seconds.settled(); }));
  auto next = tasks.begin();
  for (MeasuredKernel& k : out.kernels)
    for (const std::int64_t n : k.tokens) {
      const auto pairs = static_cast<double>(k.causal ? n * (n + 1) / 2 : n * n);
      k.tflops.push_back((k.backward ? 10 : 4) * pairs * k.head_dim * kHeads /
                         (next++)->seconds.counts() / 1e12);
    }
  const double elements = double{rows} * kHeads * 128;
  const auto per_element = [&](std::size_t i) {
    return tasks[others + i].seconds.counts() / elements * out.memory_gb_per_s * 1e9;
  };
  out.memory_gb_per_s = out.merge_bytes * elements / tasks[others].seconds.counts() / 1e9;
  out.reduce_bytes = per_element(1);
  out.prepare_bytes = per_element(2);
  out.task_us = timed_alone(options.fastest, task_us);
  progress("copying and sending", 1);
  out.copy_gb_per_s =
      1 / timed_alone(options.fastest, [&] { return 1 / copy_gb_per_s(out.cores); });
  // A message takes a core, so one is left to it; the others are at work.
  const Busy busy(out.cores - 1);
  const std::span<std::byte> memory = timer.memory(256 << 20);
  out.latency_us =
      timed_alone(options.fastest, [&] { return message_seconds(memory, 1, 200); }) * 1e6;
  double longest = 0;  // a longer message does not arrive sooner
  for (std::int64_t bytes = 16 << 10; bytes <= 16 << 20; bytes *= 4) {
    const int rounds = bytes > 4 << 20 ? 20 : 100;
    longest = std::max(1.01 * longest, timed_alone(options.fastest, [&] {
                         return message_seconds(memory, bytes, rounds);
                       }));
    out.messages.push_back({bytes, static_cast<double>(bytes) / longest / 1e9});
  }
  // Two messages at once cannot be faster than one alone, and one alone is no limit.
  for (const MeasuredMessage& m : out.messages)
    out.copy_gb_per_s = std::max(out.copy_gb_per_s, 1.01 * m.gb_per_s);
  return out;
}

}  // namespace ringsched
