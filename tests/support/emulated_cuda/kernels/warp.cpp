#include <cxxabi.h>
#include <sys/mman.h>

#include <cstring>

#include "support/emulated_cuda/faults.hpp"
#include "support/emulated_cuda/kernels/accesses.hpp"
#include "support/emulated_cuda/shadow.hpp"

// The macros for kernels would hide what this file is made of.
#include "support/emulated_cuda/kernels/warp.hpp"
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim

namespace emulated {

Thread3& indices() {
  static Thread3 all;
  return all;
}

namespace {

constexpr int kWarp = 32;
constexpr std::size_t kStack = 64 << 10;

enum class Status : std::uint8_t { Ready, Waiting, AtBarrier, Ended };

struct Lane {
  void* stack_pointer = nullptr;
  Status status = Status::Ended;
  Shuffle how{};
  unsigned mask = 0;
  std::uint32_t bits = 0, result = 0;
  int argument = 0, width = 32;
  uint3 thread{};
};

// A warp at work, with the stacks of its lanes.
struct Warp {
  Lane lanes[kWarp];
  std::byte* stacks = nullptr;
};

Warp* warp = nullptr;
int at = 0;  // the lane that runs
void* home = nullptr;
const Grid* grid = nullptr;
std::uint64_t dice = 1;
std::vector<std::unique_ptr<Warp>> spare;

// Saves what a function must keep, goes to another stack, and takes there what was kept.
extern "C" void emulated_change_stack(void** from, void* to);
asm(R"(
  .text
  .type emulated_change_stack, @function
emulated_change_stack:
  pushq %r15
  pushq %r14
  pushq %r13
  pushq %r12
  pushq %rbp
  pushq %rbx
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %rbx
  popq %rbp
  popq %r12
  popq %r13
  popq %r14
  popq %r15
  ret
  .size emulated_change_stack, . - emulated_change_stack
)");

void leave_lane() { emulated_change_stack(&warp->lanes[at].stack_pointer, home); }

void begin_lane() {
  grid->each_thread(grid->arguments.get());
  warp->lanes[at].status = Status::Ended;
  leave_lane();
}

std::string where() {
  const uint3 b = indices().block, t = warp->lanes[at].thread;
  return " (block " + std::to_string(b.x) + ", thread " + std::to_string(t.x) + ")";
}

std::unique_ptr<Warp> new_warp() {
  if (!spare.empty()) {
    auto w = std::move(spare.back());
    spare.pop_back();
    return w;
  }
  auto w = std::make_unique<Warp>();
  void* const stacks = ::mmap(nullptr, kWarp * kStack, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == MAP_FAILED) finding("no memory for the stacks of a warp");
  w->stacks = static_cast<std::byte*>(stacks);
  return w;
}

void start_lanes(Warp& w, unsigned first, unsigned threads) {
  for (unsigned l = 0; l < kWarp; ++l) {
    Lane& lane = w.lanes[l];
    lane.status = first + l < threads ? Status::Ready : Status::Ended;
    lane.thread = {first + l, 0, 0};
    // As if begin_lane, on a stack as functions begin with, had called emulated_change_stack.
    auto* top = reinterpret_cast<std::uintptr_t*>(w.stacks + (l + 1) * kStack) - 1;
    *--top = reinterpret_cast<std::uintptr_t>(&begin_lane);
    top -= 6;
    lane.stack_pointer = top;
  }
}

void run_lane(Warp& w, int l) {
  warp = &w;
  at = l;
  indices().thread = w.lanes[l].thread;
  kernel_stack(w.stacks + static_cast<std::size_t>(l) * kStack, kStack);
  emulated_change_stack(&home, w.lanes[l].stack_pointer);
}

[[noreturn]] void never_comes(const Warp& w) {
  for (int l = 0; l < kWarp; ++l) {
    if (w.lanes[l].status != Status::Waiting) continue;
    at = l;
    for (int other = 0; other < kWarp; ++other) {
      const Lane& o = w.lanes[other];
      if (!(w.lanes[l].mask >> other & 1)) continue;
      if (o.status == Status::Waiting && o.mask == w.lanes[l].mask && o.how == w.lanes[l].how)
        continue;
      finding("lane " + std::to_string(l) + " waits for lane " + std::to_string(other) +
              (o.status == Status::Ended ? ", which has ended" : ", which waits for others") +
              where());
    }
  }
  finding("the lanes of a warp wait for each other");
}

// Until all its lanes have ended, or wait for the block. True: they have ended.
bool run_warp(Warp& w) {
  for (;;) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    const int turn = static_cast<int>(dice >> 59), flip = dice >> 58 & 1 ? kWarp - 1 : 0;
    bool moved = false;
    for (int k = 0; k < kWarp; ++k) {
      const int l = ((k + turn) % kWarp) ^ flip;
      if (w.lanes[l].status != Status::Ready) continue;
      run_lane(w, l);
      moved = true;
    }
    if (moved) continue;
    int ended = 0, barrier = 0;
    for (const Lane& lane : w.lanes) {
      ended += lane.status == Status::Ended;
      barrier += lane.status == Status::AtBarrier;
    }
    if (ended == kWarp) return true;
    if (ended + barrier < kWarp) never_comes(w);
    return false;
  }
}

void run_block(unsigned threads) {
  std::vector<std::unique_ptr<Warp>> waiting;
  unsigned ended = 0;
  for (unsigned first = 0; first < threads; first += kWarp) {
    auto w = new_warp();
    start_lanes(*w, first, threads);
    if (run_warp(*w)) {
      spare.push_back(std::move(w));
      ++ended;
    } else {
      waiting.push_back(std::move(w));
    }
  }
  while (!waiting.empty()) {
    for (const auto& w : waiting)
      for (Lane& lane : w->lanes) {
        if (lane.status == Status::Ended && lane.thread.x < threads) ++ended;
        if (lane.status == Status::AtBarrier) lane.status = Status::Ready;
      }
    if (ended > 0) finding("some threads of a block have ended and others wait for them" + where());
    std::vector<std::unique_ptr<Warp>> again;
    for (auto& w : waiting) {
      const bool over = run_warp(*w);
      ended += over;
      (over ? spare : again).push_back(std::move(w));
    }
    waiting = std::move(again);
  }
}

void run_grid(const Grid& g) {
  grid = &g;
  indices().threads = g.threads;
  indices().blocks = g.blocks;
  const unsigned last = g.blocks.x - 1;
  const bool backwards = draw(2) == 1;
  dice = draw(~std::uint64_t{0});
  kernel_arguments(g.arguments.get(), g.arguments_bytes);
  for (unsigned b = 0; b <= last; ++b) {
    indices().block = {backwards ? last - b : b, 0, 0};
    if (g.shared_first)
      std::memset(g.shared_first, 0xff, static_cast<std::size_t>(g.shared_end - g.shared_first));
    run_block(g.threads.x);
  }
  kernel_arguments(nullptr, 0);
}

// Which lane a lane is given the number of; -1: its own.
int source(const Lane& lane, int l) {
  const int first = l / lane.width * lane.width, place = l % lane.width;
  switch (lane.how) {
    case Shuffle::Xor:
      return l ^ lane.argument;
    case Shuffle::Down:
      return place + lane.argument < lane.width ? l + lane.argument : l;
    case Shuffle::Up:
      return place >= lane.argument ? l - lane.argument : l;
    case Shuffle::From:
      return first + lane.argument % lane.width;
    case Shuffle::Sync:
    case Shuffle::Ballot:
      break;
  }
  return l;
}

// All lanes of the mask are there.
void exchange(unsigned mask) {
  std::uint32_t ballot = 0;
  for (int l = 0; l < kWarp; ++l)
    if (mask >> l & 1 && warp->lanes[l].bits) ballot |= 1u << l;
  for (int l = 0; l < kWarp; ++l) {
    if (!(mask >> l & 1)) continue;
    Lane& lane = warp->lanes[l];
    const int from = source(lane, l);
    if (from < 0 || from >= kWarp || !(mask >> from & 1))
      finding("a lane reads from lane " + std::to_string(from) + ", which is not in its mask" +
              where());
    lane.result = lane.how == Shuffle::Ballot ? ballot : warp->lanes[from].bits;
    lane.status = Status::Ready;
  }
}

}  // namespace

std::uint32_t collective(Shuffle how, unsigned mask, std::uint32_t bits, int argument, int width) {
  Lane& me = warp->lanes[at];
  if (!(mask >> at & 1)) finding("a lane is not in its own mask" + where());
  if (width < 1 || width > kWarp || (width & (width - 1)) != 0)
    finding("a shuffle has a width of " + std::to_string(width) + where());
  me = {me.stack_pointer, Status::Waiting, how, mask, bits, 0, argument, width, me.thread};
  bool all = true;
  for (int l = 0; l < kWarp; ++l) {
    const Lane& lane = warp->lanes[l];
    if (mask >> l & 1)
      all = all && lane.status == Status::Waiting && lane.mask == mask && lane.how == how;
  }
  if (all) exchange(mask);
  while (me.status == Status::Waiting) leave_lane();
  return me.result;
}

void block_barrier() {
  warp->lanes[at].status = Status::AtBarrier;
  leave_lane();
}

// Blocks are dealt to all multiprocessors of the part.
unsigned special_register(const char* name) {
  if (std::strcmp(name, "smid") == 0) {
    const Running& r = *running();
    return r.first_multiprocessor + indices().block.x % r.multiprocessors;
  }
  if (std::strcmp(name, "laneid") == 0) return static_cast<unsigned>(at);
  finding(std::string("kernels read the register ") + name + ", which the emulation does not have");
}

std::uint32_t atomic(std::uint32_t* p, std::uint32_t (*f)(std::uint32_t, std::uint32_t),
                     std::uint32_t x) {
  touch(p, 4, Access::Read, "updates");
  const std::uint32_t old = *p;
  *p = f(old, x);
  return old;
}

std::string kernel_name(const char* kernel, const char* type) {
  if (!*type) return kernel;
  int status = 0;
  char* const text = abi::__cxa_demangle(type, nullptr, nullptr, &status);
  const std::string whole = status == 0 ? text : type;
  std::free(text);
  return std::string(kernel) + "(" + whole.substr(whole.rfind(':') + 1) + ")";
}

void launch_grid(const Grid& g) {
  call("cudaLaunchKernel", kAnyTime, [&](Lock&) {
    const dim3 &b = g.blocks, &t = g.threads;
    if (b.x == 0 || b.y == 0 || b.z == 0 || t.x * t.y * t.z == 0 || t.x * t.y * t.z > 1024 ||
        b.x > 0x7fffffffu)
      return cudaErrorInvalidConfiguration;
    if (b.y * b.z * t.y * t.z != 1 || g.shared != 0)
      finding(g.name + " is launched in a way that the emulation does not have");
    const std::shared_ptr<Stream> s = stream_of(g.stream);
    if (s->device != this_thread().device) return cudaErrorInvalidResourceHandle;
    Op op;
    op.work.name = g.name;
    op.work.run = [g] { run_grid(g); };
    return put(s, std::move(op));
  });
}

}  // namespace emulated
