#include "backends/cpu/message_timer.hpp"

#include <algorithm>
#include <array>
#include <barrier>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/task_timer.hpp"
#include "ringsched/scheduler/builder.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "transports/local.hpp"

namespace ringsched {

namespace {

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

}  // namespace

Plan bench_plan(std::uint32_t workers, std::int64_t tokens, std::uint32_t dim, Dtype dtype,
                bool causal, Pass pass) {
  Problem p;
  p.workers = workers;
  p.tokens = {tokens};
  p.heads = p.kv_heads = kBenchHeads;
  p.head_dim = dim;
  p.dtype = dtype;
  p.mask = causal ? Mask::causal() : Mask::full();
  p.pass = pass;
  return build_plan(p, find_schedule("ring"));
}

TaskId first_of(const Plan& plan, TaskKind kind, ValueId makes) {
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (plan.tasks[id].kind == kind && plan.value(plan.tasks[id]) == makes) return {id};
  throw std::logic_error("no task of the kind to be measured");
}

Busy::Busy(unsigned cores) {
  if (cores == 0) return;
  thread_ = std::thread([this, cores] {
    const Plan plan = bench_plan(1, 128, 64, Dtype::Fp32, true, Pass::Forward);
    const TaskId task = first_of(plan, TaskKind::Attend, attention::kPartial);
    TaskTimer timer(cores);
    timer.seconds(plan, task);
    begun_.count_down();
    while (!over_) timer.seconds(plan, task);
  });
  begun_.wait();
}

Busy::~Busy() {
  over_ = true;
  if (thread_.joinable()) thread_.join();
}

double message_seconds(std::span<std::byte> memory, std::int64_t bytes, int rounds) {
  const Plan plan = bench_plan(2, 2, 8, Dtype::Fp32, true, Pass::Forward);
  Control control;
  LocalTransport transport(plan, control);
  const std::int64_t room = (bytes + 63) / 64 * 64;
  const std::int64_t places = static_cast<std::int64_t>(memory.size()) / room;
  std::vector<double> times;
  const auto message = [&](bool sends, int i) {
    MessageEnd m;
    m.sends = sends;
    m.number = static_cast<std::uint32_t>(i);
    m.peer = {sends ? 1u : 0u};
    m.piece[0] = memory.data() + (2 * i + (sends ? 0 : 1)) % places * room;
    m.bytes[0] = bytes;
    return std::vector<MessageEnd>{m};
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

double copy_seconds(unsigned cores) {
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
  return median(times) / (static_cast<double>(bytes) * cores);
}

double task_seconds() {
  constexpr int tasks = 20'000;
  const Plan plan = bench_plan(1, 64, 8, Dtype::Fp32, true, Pass::Forward);
  Control control;
  const std::array<TaskId, 1> task{TaskId{0}};
  CpuDevice device(plan, {0}, task, control, {});
  for (int i = 0; i < tasks; ++i) {
    device.begin(Lane::Compute, task);
    device.call(Lane::Compute, [] {});
    device.end(Lane::Compute, task);
  }
  const Clock::time_point zero = Clock::now();
  device.start(zero);
  device.join();
  return seconds_since(zero) / tasks;
}

}  // namespace ringsched
