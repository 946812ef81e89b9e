// Streams as queues, and which of them goes on.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "support/emulated_cuda/faults.hpp"
#include "support/emulated_cuda/shadow.hpp"

namespace emulated {

namespace {

constexpr double kNsOfOp = 2000, kNsOfByte = 0.1;  // of the emulated clock
constexpr int kPatience = 10;                      // seconds without any progress

// Now and then one stream is far ahead of all others, or does nothing while any other can.
struct Mood {
  std::uint64_t turns = 0, favourite = 0, kind = 0;
};

// Null: what is left at the end of a stream is not to be done yet, unless somebody waits.
std::shared_ptr<Stream> choose(std::vector<std::shared_ptr<Stream>>& ready, bool somebody_waits) {
  static Mood mood;
  const auto& all = state().streams;
  if (mood.turns++ % 64 == 0) {
    mood.favourite = draw(all.size());
    mood.kind = draw(3);
  }
  std::shared_ptr<Stream> next = ready[draw(ready.size())];
  const bool starves = state().starved < all.size();
  if (starves) mood = {1, state().starved, 2};
  const auto& favourite = all[mood.favourite % all.size()];
  if (mood.kind == 2 && next == favourite) {
    std::erase(ready, favourite);
    if (!ready.empty()) return ready[draw(ready.size())];
    if (!somebody_waits && favourite->queue.size() < 4 && draw(starves ? 24 : 16) != 0)
      return nullptr;
    mood.turns = 0;
    return favourite;
  }
  if (mood.kind != 1 || draw(4) == 0) return next;
  const bool can = std::find(ready.begin(), ready.end(), favourite) != ready.end();
  return can ? favourite : next;
}

bool may_go_on(const Stream& s) {
  if (s.queue.empty()) return false;
  const Op& op = s.queue.front();
  return (!op.waits || op.waits->done) && (!op.work.ready || op.work.ready());
}

std::string stuck(const char* what) {
  std::string out = std::string("nothing goes on, and ") + what + " waits:";
  for (const auto& s : state().streams)
    if (!s->queue.empty())
      out += " stream " + std::to_string(s->number) + " at '" + s->queue.front().work.name +
             "' of " + std::to_string(s->queue.size());
  return out;
}

// An ordinary stream waits for the default one, and that for all ordinary ones.
void order_with_default_stream(const std::shared_ptr<Stream>& s) {
  auto& legacy = state().devices[static_cast<std::size_t>(s->device)].legacy;
  const auto after = [&](const std::shared_ptr<Stream>& other) {
    if (other->queue.empty() && state().host->has(other->chain, state().positions[other->chain]))
      return;
    const auto record = std::make_shared<Record>();
    other->queue.push_back(
        {{"default stream", {}, {}, {}}, nullptr, record, state().host, {}, false});
    s->queue.push_back({{"default stream", {}, {}, {}}, record, nullptr, state().host, {}, false});
  };
  if (s->blocking && legacy) after(legacy);
  if (s != legacy) return;
  for (const auto& other : state().streams)
    if (other->blocking && other->device == s->device && other != s) after(other);
}

// As many as there are, and not more than CUDA_VISIBLE_DEVICES names.
int visible_gpus() {
  const int all = environment("RINGSCHED_EMULATED_GPUS", 1);
  const char* const named = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!named) return all;
  const std::string_view names = named;
  return std::min(all, 1 + static_cast<int>(std::count(names.begin(), names.end(), ',')));
}

}  // namespace

State& state() {
  static State& all = *[] {
    auto* const s = new State;
    s->dice.seed(seed());
    s->devices.resize(static_cast<std::size_t>(visible_gpus()));
    s->host = std::make_shared<Past>();
    for (std::size_t d = 0; d < s->devices.size(); ++d)
      s->devices[d].whole =
          std::make_shared<Part>(Part{static_cast<int>(d), 0, kMultiprocessors, true});
    return s;
  }();
  return all;
}

int environment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text && *text ? std::atoi(text) : otherwise;
}

std::uint64_t seed() {
  return static_cast<std::uint64_t>(environment("RINGSCHED_EMULATED_SEED", 1));
}
std::uint64_t draw(std::uint64_t below) { return state().dice() % below; }

Thread& this_thread() {
  thread_local Thread t;
  return t;
}

std::uintptr_t next_handle() { return state().next_handle += 0x10; }

void finding(const std::string& what) {
  std::fprintf(stderr, "emulated CUDA, seed %llu: %s\n", static_cast<unsigned long long>(seed()),
               what.c_str());
  std::fflush(nullptr);
  std::_Exit(70);
}

void Past::join(const Past& other) {
  if (seen.size() < other.seen.size()) seen.resize(other.seen.size(), 0);
  for (std::size_t i = 0; i < other.seen.size(); ++i) seen[i] = std::max(seen[i], other.seen[i]);
  ns = std::max(ns, other.ns);
}

void host_knows(const Past& past) {
  const auto joined = std::make_shared<Past>(*state().host);
  joined->join(past);
  state().host = joined;
}

// One that nobody uses any more may serve again once the host knows of all that was on it.
std::uint32_t make_chain() {
  State& all = state();
  for (auto c = all.retired.begin(); c != all.retired.end(); ++c)
    if (const std::uint32_t chain = *c; all.host->has(chain, all.positions[chain])) {
      all.retired.erase(c);
      return chain;
    }
  all.positions.push_back(0);
  return static_cast<std::uint32_t>(all.positions.size() - 1);
}

void retire_chain(std::uint32_t chain) { state().retired.push_back(chain); }

cudaError_t put(const std::shared_ptr<Stream>& s, Op op) {
  op.host = state().host;
  op.fails = take_injected_failure();
  if (s->part && !s->part->alive)
    finding("'" + op.work.name + "' on a stream of a destroyed green context");
  if (s->capture) return add_node(s, std::move(op), nullptr);
  order_with_default_stream(s);
  s->queue.push_back(std::move(op));
  if (draw(8) == 0) some_steps(4);
  return cudaSuccess;
}

void perform(Op& op, Stream& s, std::uint32_t chain, Past& past) {
  State& all = state();
  past.join(*op.host);
  if (op.waits) past.join(op.waits->past);
  const std::uint32_t position = ++all.positions[chain];
  if (past.seen.size() <= chain) past.seen.resize(chain + 1, 0);
  past.seen[chain] = position;
  Device& device = all.devices[static_cast<std::size_t>(s.device)];
  if (device.broken != cudaSuccess) {
    if (op.work.dropped) op.work.dropped();
  } else if (op.fails != cudaSuccess) {
    (breaks_the_gpu(op.fails) ? device.broken : device.late) = op.fails;
  } else if (op.work.run) {
    Running now{new_op(chain, position, op.work.name, s.number), &past, s.device, 0, 1, 0, 0};
    const std::shared_ptr<Part>& part = s.part ? s.part : device.whole;
    now.first_multiprocessor = part->first;
    now.multiprocessors = part->count;
    set_running(&now);
    this_thread().in_work = true;
    op.work.run();
    this_thread().in_work = false;
    set_running(nullptr);
    past.ns += kNsOfByte * now.bytes;
  }
  if (op.timed) past.ns += kNsOfOp;
  if (op.records) {
    op.records->past = past;
    op.records->chain = chain;
    op.records->position = position;
    op.records->done = true;
  }
  ++all.counts["did " + op.work.name];
  if (device.broken != cudaSuccess) drop_work(s.device);
}

// What an error leaves undone. Events count as recorded: nobody waits for them.
void drop_work(int device) {
  for (const auto& s : state().streams) {
    if (s->device != device) continue;
    for (Op& op : s->queue) {
      if (op.records) op.records->done = true;
      if (op.work.dropped) op.work.dropped();
    }
    s->queue.clear();
  }
}

bool step(bool somebody_waits) {
  std::vector<std::shared_ptr<Stream>> ready;
  for (const auto& s : state().streams)
    if (may_go_on(*s)) ready.push_back(s);
  if (ready.empty()) return false;
  const std::shared_ptr<Stream> s = choose(ready, somebody_waits);
  if (!s) return false;
  Op op = std::move(s->queue.front());
  s->queue.pop_front();
  perform(op, *s, s->chain, s->past);
  if (s->destroyed && s->queue.empty()) {
    state().devices[static_cast<std::size_t>(s->device)].ended.join(s->past);
    retire_chain(s->chain);
    std::erase(state().streams, s);
  }
  return true;
}

// Half of the time nothing moves unless somebody waits.
void some_steps(std::uint64_t most) {
  if (this_thread().in_work || draw(2) == 0) return;
  for (std::uint64_t n = draw(most + 1); n > 0 && step(false); --n) {
  }
}

bool idle(int device) {
  return std::all_of(state().streams.begin(), state().streams.end(),
                     [&](const auto& s) { return s->device != device || s->queue.empty(); });
}

void host_knows_all_of(int device) {
  host_knows(state().devices[static_cast<std::size_t>(device)].ended);
  for (const auto& s : state().streams)
    if (s->device == device) host_knows(s->past);
}

void wait_until(Lock& lock, const std::function<bool()>& done, const char* what) {
  auto moved = std::chrono::steady_clock::now();
  while (!done()) {
    if (step()) {
      moved = std::chrono::steady_clock::now();
      continue;
    }
    if (std::chrono::steady_clock::now() - moved > std::chrono::seconds(kPatience))
      finding(stuck(what));
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    lock.lock();
  }
}

cudaError_t enqueue(cudaStream_t handle, Work work) {
  Lock lock(state().guard);
  const std::shared_ptr<Stream> s = stream_of(handle);
  cudaError_t status = pending_error(this_thread().device);
  if (status == cudaSuccess && s->device != this_thread().device)
    status = cudaErrorInvalidResourceHandle;
  if (status == cudaSuccess) {
    Op op;
    op.work = std::move(work);
    status = put(s, std::move(op));
  }
  if (status != cudaSuccess) this_thread().last = status;
  return status;
}

void reads(const void* from, std::size_t bytes) { touch(from, bytes, Access::Read, "reads"); }
void writes(void* to, std::size_t bytes) { touch(to, bytes, Access::Write, "writes"); }

}  // namespace emulated
