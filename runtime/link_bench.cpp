#include "ringsched/runtime/link_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "answers.hpp"
#include "clock_fit.hpp"
#include "ringsched/runtime/device.hpp"
#include "ringsched/scheduler/builder.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "samples.hpp"

namespace ringsched {

namespace {

constexpr SettlingRule kRule = {5, 11, 2};

// Messages are exchanged on the calling thread.
class CallingThread final : public Device {
 public:
  std::byte* allocate(Bytes) override { return nullptr; }
  void upload(std::byte*, std::span<const std::byte>) override {}
  void download(std::span<std::byte>, const std::byte*) override {}
  void wait_for(Lane, TaskId) override {}
  void begin(Lane, std::span<const TaskId>) override {}
  void end(Lane, std::span<const TaskId>) override {}
  void compute(TaskId, const Operands&) override {}
  void call(Lane, std::function<void()> what) override { what_ = std::move(what); }
  void start(Clock::time_point) override { what_(); }
  bool finished() const override { return true; }
  void join() override {}
  TaskTime time_of(TaskId) const override { return {}; }
  LaneState state(Lane) const override { return {}; }

 private:
  std::function<void()> what_;
};

// Tasks identify messages, so this makes a plan in which each of these workers sends something to
// that one.
void to_next(const Problem& p, PlanBuilder& plan) {
  plan.step(0);
  std::vector<Keys> keys;
  for (std::uint32_t w = 0; w < p.workers; ++w)
    keys.push_back(plan.move(plan.keys({w}), {(w + 1) % p.workers}));
  for (std::uint32_t w = 0; w < p.workers; ++w)
    plan.merge(plan.attend(plan.queries({(w + 1) % p.workers}), keys[w]));
}

void first_and_last(const Problem& p, PlanBuilder& plan) {
  const WorkerId first{0}, last{p.workers - 1};
  plan.step(0);
  const Keys there = plan.move(plan.keys(first), last), here = plan.move(plan.keys(last), first);
  plan.merge(plan.attend(plan.queries(last), there));
  plan.merge(plan.attend(plan.queries(first), here));
}

Plan plan_of(std::uint32_t workers, LinkPattern kind) {
  Problem p;
  p.workers = workers;
  p.tokens = {workers};
  p.heads = p.kv_heads = 1;
  p.head_dim = 8;
  p.mask = Mask::full();
  return build_plan(p, {"links", "", "", find_schedule("ring").layout,
                        kind == LinkPattern::Next ? to_next : first_and_last});
}

TaskId send_between(const Plan& plan, std::uint32_t from, std::uint32_t to) {
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& t = plan.tasks[id];
    if (is_send(t.kind) && t.worker().value == from &&
        plan.tasks[t.peer.value].worker().value == to)
      return {id};
  }
  return {};
}

std::byte pattern(std::uint32_t from, std::int64_t i) {
  return static_cast<std::byte>(static_cast<std::uint64_t>(i) * 2654435761u + 7 * from + 1);
}

class Worker {
 public:
  Worker(const Plan& plan, Transport& transport, std::uint32_t self, LinkPattern kind)
      : transport_(transport), self_(self) {
    const std::uint32_t workers = plan.problem.workers, last = workers - 1;
    const bool alone = kind == LinkPattern::Alone;
    if (alone && self != 0 && self != last) return;
    takes_part_ = true;
    to_ = alone ? last - self : (self + 1) % workers;
    from_ = alone ? last - self : (self + last) % workers;
    sends_ = id_of(plan, self, to_);
    receives_ = id_of(plan, from_, self);
  }

  void prepare(std::int64_t bytes) {
    if (!takes_part_) return;
    out_.resize(static_cast<std::size_t>(bytes));
    in_.assign(out_.size(), std::byte{0});
    for (std::int64_t i = 0; i < bytes; ++i) out_[static_cast<std::size_t>(i)] = pattern(self_, i);
  }
  // Seconds for this many rounds of what was prepared.
  double run(LinkPattern kind, int rounds) {
    if (!takes_part_) return 0;
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < rounds; ++i) {
      if (kind == LinkPattern::Next) {
        exchange({message(true), message(false)});
        continue;
      }
      exchange({message(self_ == 0)});
      exchange({message(self_ != 0)});
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  std::int64_t wrong() const {
    std::int64_t n = 0;
    for (std::size_t i = 0; i < in_.size(); ++i)
      n += in_[i] != pattern(from_, static_cast<std::int64_t>(i)) ? 1 : 0;
    return n;
  }

 private:
  static TaskId id_of(const Plan& plan, std::uint32_t from, std::uint32_t to) {
    const TaskId id = send_between(plan, from, to);
    if (!id.valid()) throw RunFailed(fmt::format("no message goes from {} to {}", from, to));
    return id;
  }
  MessageEnd message(bool sends) {
    MessageEnd m;
    m.sends = sends;
    m.task = sends ? sends_ : receives_;
    m.number = m.task.value;
    m.peer = {sends ? to_ : from_};
    m.piece[0] = sends ? out_.data() : in_.data();
    m.bytes[0] = static_cast<std::int64_t>(out_.size());
    return m;
  }
  void exchange(std::vector<MessageEnd> group) {
    transport_.exchange(device_, {self_}, Lane::Fetch, std::move(group));
    device_.start({});
  }

  Transport& transport_;
  CallingThread device_;
  const std::uint32_t self_;
  bool takes_part_ = false;
  std::uint32_t to_ = 0, from_ = 0;
  TaskId sends_, receives_;
  std::vector<std::byte> out_, in_;
};

// One sample of the workers of this process, one thread each.
LinkSample measure(std::vector<std::unique_ptr<Worker>>& workers, LinkPattern kind,
                   std::int64_t bytes, int warm_up, int rounds, const std::function<void()>& meet,
                   Control& control) {
  std::barrier together(static_cast<std::ptrdiff_t>(workers.size()), [&]() noexcept {});
  std::vector<LinkSample> each(workers.size());
  std::atomic<bool> failed{false};
  std::vector<std::exception_ptr> errors(workers.size());
  const auto work = [&](std::size_t i) {
    try {
      workers[i]->prepare(bytes);
      if (warm_up > 0) {
        workers[i]->run(kind, warm_up);
        workers[i]->prepare(bytes);
      }
      together.arrive_and_wait();
      if (workers.size() == 1) meet();
      each[i].seconds = workers[i]->run(kind, rounds);
      each[i].wrong = workers[i]->wrong();
      return;
    } catch (const Stopped&) {
    } catch (...) {
      errors[i] = std::current_exception();
      control.stop("worker failed");  // short: it takes no memory
    }
    failed = true;
    together.arrive_and_drop();
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < workers.size(); ++i) threads.emplace_back(work, i);
  work(0);
  for (std::thread& t : threads) t.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  if (failed) throw RunFailed(control.why());
  LinkSample out;
  for (const LinkSample& m : each) {
    out.seconds = std::max(out.seconds, m.seconds);
    out.wrong += m.wrong;
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> sizes_of(const LinkBenchOptions& o) {
  std::vector<std::int64_t> out;
  for (double bytes = static_cast<double>(o.least); bytes <= static_cast<double>(o.most);
       bytes *= o.factor) {
    const auto whole = static_cast<std::int64_t>(std::llround(bytes));
    if (out.empty() || whole > out.back()) out.push_back(whole);
  }
  return out;
}

std::uint32_t processes_here(World& world) {
  const std::vector<std::string> all = world.gather(name_of_clock());
  return static_cast<std::uint32_t>(std::count(all.begin(), all.end(), all[world.rank()]));
}

std::uint32_t place_here(World& world, std::optional<std::uint32_t> said) {
  const std::vector<std::string> all = world.gather((said ? "+" : "-") + name_of_clock());
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].starts_with('+') && !all[rank].starts_with('-'))
      throw RunFailed(fmt::format("process {} sent a host name that cannot be read", rank));
  const auto knows = [](const std::string& one) { return one.starts_with('+'); };
  if (std::all_of(all.begin(), all.end(), knows)) return said.value_or(0);
  const std::string here = all[world.rank()].substr(1);
  return static_cast<std::uint32_t>(
      std::count_if(all.begin(), all.begin() + world.rank(),
                    [&](const std::string& one) { return one.substr(1) == here; }));
}

LinkPoint settled_point(World& world, std::int64_t bytes, int messages,
                        const std::function<LinkSample()>& sample) {
  LinkPoint point{bytes};
  Samples times;
  // All processes decide by what they all gathered.
  for (double spent = 0; needs_more(times, spent, kRule);) {
    const LinkSample own = sample();
    double slowest = 0;
    const std::string answer = AnswerWriter().number(own.seconds).whole(own.wrong).bytes();
    for (AnswerReader& one : gather_answers(world, answer, "a sample")) {
      slowest = std::max(slowest, one.finite_magnitude());
      point.wrong += one.whole(0, std::int64_t{1} << 40);
      one.end();
    }
    times.add(slowest);
    spent += slowest;
  }
  point.us = 1e6 * times.counts() / messages;
  point.settled = times.settled();
  return point;
}

std::vector<LinkPoint> measure_links(World& world, Control& control, LinkPattern kind,
                                     const LinkBenchOptions& options,
                                     const std::function<void(std::int64_t)>& begins) {
  const bool alone = world.size() == 1;
  const std::uint32_t count = alone ? 2 : world.size();
  const Plan plan = plan_of(count, kind);
  std::vector<std::unique_ptr<Worker>> workers;  // their messages outlive the transport
  const std::unique_ptr<Transport> transport = world.transport(plan, control);
  transport->begin_run();
  for (std::uint32_t w = 0; w < count; ++w)
    if (alone || w == world.rank())
      workers.push_back(std::make_unique<Worker>(plan, *transport, w, kind));
  std::vector<LinkPoint> out;
  for (const std::int64_t bytes : sizes_of(options)) {
    begins(bytes);
    int warm_up = options.warm_up;
    out.push_back(
        settled_point(world, bytes, options.rounds * (kind == LinkPattern::Alone ? 2 : 1), [&] {
          world.gather("");
          return measure(
              workers, kind, bytes, std::exchange(warm_up, 0), options.rounds,
              [&] { world.gather(""); }, control);
        }));
  }
  return out;
}

}  // namespace ringsched
