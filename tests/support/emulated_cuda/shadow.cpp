#include "support/emulated_cuda/shadow.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unordered_set>

namespace emulated {

namespace {

constexpr std::size_t kUnit = 2, kPage = 4096, kUnits = kPage / kUnit;
constexpr std::size_t kRoom = 512;         // around an allocation, which belongs to nobody
constexpr std::size_t kKept = 256u << 20;  // of freed memory, so that its use is seen
constexpr int kNew = 0xff, kFreed = 0xfe;  // NaNs in every format

// Who touched two bytes last: the op that wrote, and a set of ops that have read since.
struct Cell {
  std::uint32_t writer = 0, readers = 0;
};
constexpr std::uint32_t kIsSet = 0x80000000u;  // readers: an index into `sets`, else one op

struct Page {
  Cell all;                      // of the whole page, unless
  std::unique_ptr<Cell[]> each;  // its parts differ
};

struct Allocation {
  std::byte* at = nullptr;
  std::size_t bytes = 0;
  int device = 0;
  void* block = nullptr;
  std::vector<Page> pages;
};

struct OpFacts {
  std::uint32_t chain, position;
  const std::string* name;
  int stream;
};

std::map<std::uintptr_t, std::unique_ptr<Allocation>> live, freed;
std::deque<std::uintptr_t> freed_order;
std::size_t freed_bytes = 0;
std::vector<OpFacts> ops(1);
std::unordered_set<std::string> names;
std::vector<std::vector<std::uint32_t>> sets;
Running* now = nullptr;
Allocation* recent = nullptr;

std::uintptr_t number(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

Allocation* find_in(const std::map<std::uintptr_t, std::unique_ptr<Allocation>>& all,
                    std::uintptr_t at) {
  auto next = all.upper_bound(at);
  if (next == all.begin()) return nullptr;
  Allocation* const a = std::prev(next)->second.get();
  return at < number(a->at) + a->bytes + kRoom ? a : nullptr;
}

std::string named(std::uint32_t op) {
  return "'" + *ops[op].name + "' on stream " + std::to_string(ops[op].stream);
}

std::string place(const Allocation& a, std::uintptr_t at) {
  return "byte " + std::to_string(static_cast<std::int64_t>(at - number(a.at))) + " of " +
         std::to_string(a.bytes) +
         (a.device < 0 ? " on the host" : " on GPU " + std::to_string(a.device));
}

[[noreturn]] void wrong_address(std::uintptr_t at, std::size_t bytes, const char* what) {
  std::string out = (now ? named(now->id) : std::string("the host")) + " " + what + " " +
                    std::to_string(bytes) + " bytes that are not allocated";
  if (const Allocation* a = find_in(live, at))
    out += ": from " + place(*a, at);
  else if (const Allocation* f = find_in(freed, at))
    out += ": from " + place(*f, at) + ", which was freed";
  finding(out);
}

bool before(std::uint32_t op, const Past& past) {
  return past.has(ops[op].chain, ops[op].position);
}

template <class F>
void each_reader(std::uint32_t readers, F f) {
  if (readers & kIsSet)
    for (const std::uint32_t op : sets[readers & ~kIsSet]) f(op);
  else if (readers != 0)
    f(readers);
}

[[noreturn]] void race(const Allocation& a, std::size_t at, Access access, std::uint32_t other,
                       const char* did) {
  finding("nothing orders " + named(now->id) + ", which " +
          (access == Access::Read ? "reads " : "writes ") + place(a, number(a.at) + at) + ", and " +
          named(other) + ", which " + did + " it");
}

// With this op; without those that come before it, which are ordered through it from now on.
std::uint32_t with_reader(std::uint32_t readers, std::uint32_t op) {
  static std::uint32_t last_readers = 0, last_op = 0, last_result = 0;
  if (readers == last_readers && op == last_op) return last_result;
  std::vector<std::uint32_t> left;
  each_reader(readers, [&](std::uint32_t r) {
    if (!before(r, *now->past)) left.push_back(r);
  });
  std::uint32_t result = op;
  if (!left.empty()) {
    left.push_back(op);
    sets.push_back(std::move(left));
    result = static_cast<std::uint32_t>(sets.size() - 1) | kIsSet;
  }
  last_readers = readers, last_op = op, last_result = result;
  return result;
}

bool has_reader(std::uint32_t readers, std::uint32_t op) {
  if (!(readers & kIsSet)) return readers == op;
  return sets[readers & ~kIsSet].back() == op;
}

// `now->ordered` is an op that is known to come before the one that runs: mostly the one asked
// about.
bool is_ordered(std::uint32_t op) {
  if (op == 0 || op == now->ordered || op == now->id) return true;
  if (!before(op, *now->past)) return false;
  now->ordered = op;
  return true;
}

inline void touch_cell(Cell& c, const Allocation& a, std::size_t at, Access access) {
  const std::uint32_t op = now->id;
  if (access == Access::Read) {
    if (c.readers == op) return;
    if (!is_ordered(c.writer)) race(a, at, access, c.writer, "writes");
    if (!has_reader(c.readers, op)) c.readers = with_reader(c.readers, op);
    return;
  }
  if (c.writer == op && c.readers == 0) return;
  if (!is_ordered(c.writer)) race(a, at, access, c.writer, "writes");
  each_reader(c.readers, [&](std::uint32_t r) {
    if (r != op && !before(r, *now->past)) race(a, at, access, r, "reads");
  });
  c = {op, 0};
}

// Part of a page, in bytes of the allocation.
void touch_page(Allocation& a, Page& page, std::size_t from, std::size_t to, Access access) {
  const std::size_t begin = from / kPage * kPage;
  const bool whole = from == begin && to == std::min(begin + kPage, a.bytes);
  if (whole && !page.each) return touch_cell(page.all, a, from, access);
  if (!page.each) {
    page.each = std::make_unique<Cell[]>(kUnits);
    std::fill_n(page.each.get(), kUnits, page.all);
  }
  for (std::size_t u = (from - begin) / kUnit; u <= (to - 1 - begin) / kUnit; ++u)
    touch_cell(page.each[u], a, begin + u * kUnit, access);
  if (whole && access == Access::Write) {
    page.all = page.each[0];
    page.each.reset();
  }
}

bool may_reach(const Allocation& a) {
  return a.device < 0 || a.device == now->device ||
         state().devices[static_cast<std::size_t>(now->device)].peers.contains(a.device);
}

void remember(Allocation* a) {
  recent = a;
  recent_memory = a ? Recent{number(a->at), a->bytes} : Recent{};
}

void keep_freed(std::unique_ptr<Allocation> a) {
  std::memset(a->at, kFreed, a->bytes);
  a->pages.clear();
  freed_bytes += a->bytes;
  const std::uintptr_t at = number(a->at);
  freed_order.push_back(at);
  freed[at] = std::move(a);
  while (freed_bytes > kKept) {
    const auto oldest = freed.find(freed_order.front());
    freed_order.pop_front();
    freed_bytes -= oldest->second->bytes;
    std::free(oldest->second->block);
    freed.erase(oldest);
  }
}

}  // namespace

Recent recent_memory;

Running* running() { return now; }
void set_running(Running* r) { now = r; }

std::uint32_t new_op(std::uint32_t chain, std::uint32_t position, const std::string& name,
                     int stream) {
  ops.push_back({chain, position, &*names.insert(name).first, stream});
  return static_cast<std::uint32_t>(ops.size() - 1);
}

void touch(const void* p, std::size_t bytes, Access access, const char* what) {
  if (bytes == 0 || !now) return;
  const std::uintptr_t at = number(p);
  Allocation* a = recent;
  if (!a || a->device != now->device || at - number(a->at) > a->bytes ||
      at - number(a->at) + bytes > a->bytes) {
    a = find_in(live, at);
    if (!a || at + bytes > number(a->at) + a->bytes) wrong_address(at, bytes, what);
    if (!may_reach(*a))
      finding(named(now->id) + " uses " + place(*a, at) + ", which its GPU cannot reach");
    if (a->device >= 0 && a->device != now->device) ++state().counts["did reach into another GPU"];
    remember(a);
  }
  now->bytes += static_cast<double>(bytes);
  const std::size_t first = at - number(a->at);
  if (Page& page = a->pages[first / kPage];
      page.each && first % kPage + bytes <= kPage && bytes <= 16) {
    for (std::size_t u = first % kPage / kUnit; u <= (first % kPage + bytes - 1) / kUnit; ++u)
      touch_cell(page.each[u], *a, first, access);
    return;
  }
  for (std::size_t from = first; from < first + bytes;) {
    const std::size_t to = std::min((from / kPage + 1) * kPage, first + bytes);
    touch_page(*a, a->pages[from / kPage], from, to, access);
    from = to;
  }
}

// At a multiple of 256 bytes and of no more.
void* allocate(std::size_t bytes, int device) {
  auto a = std::make_unique<Allocation>();
  const std::size_t all = (bytes + 2 * kRoom + 1023) / 512 * 512;
  a->block = std::aligned_alloc(512, all);
  if (!a->block) return nullptr;
  a->at = static_cast<std::byte*>(a->block) + kRoom / 2;
  a->bytes = bytes;
  a->device = device;
  a->pages.resize(bytes / kPage + 1);
  std::memset(a->block, kNew, all);
  void* const at = a->at;
  freed.erase(number(at));
  live[number(at)] = std::move(a);
  return at;
}

bool release(void* at, const char* what) {
  const auto found = live.find(number(at));
  if (found == live.end()) return false;
  Allocation& a = *found->second;
  const Past& host = *state().host;
  const auto check = [&](std::uint32_t op) {
    if (op != 0 && !before(op, host))
      finding(std::string(what) + " of memory that " + named(op) + " may still use");
  };
  for (const Page& page : a.pages)
    for (std::size_t u = 0; u < (page.each ? kUnits : 1); ++u) {
      const Cell& c = page.each ? page.each[u] : page.all;
      check(c.writer);
      each_reader(c.readers, check);
    }
  if (recent == &a) remember(nullptr);
  keep_freed(std::move(found->second));
  live.erase(found);
  return true;
}

int owner(const void* p, std::size_t bytes) {
  const Allocation* const a = find_in(live, number(p));
  return a && number(p) + bytes <= number(a->at) + a->bytes ? a->device : -2;
}

std::size_t size_of_allocation(const void* at) {
  const auto found = live.find(number(at));
  return found == live.end() ? 0 : found->second->bytes;
}

std::size_t allocations() { return live.size(); }

void spoil(bool inputs) {
  const auto is_to_go = [inputs](std::uint32_t op) {
    const std::string& by = *ops[op].name;
    if (by.find("FillInputs") != by.npos) return inputs;
    return !inputs && by != "cudaMemcpy" && by != "cudaMemset";
  };
  for (const auto& [at, a] : live) {
    if (a->device < 0) continue;
    for (std::size_t p = 0; p < a->pages.size(); ++p) {
      const Page& page = a->pages[p];
      const std::size_t cells = page.each ? kUnits : 1, bytes = page.each ? kUnit : kPage;
      for (std::size_t c = 0; c < cells; ++c) {
        const std::uint32_t writer = (page.each ? page.each[c] : page.all).writer;
        const std::size_t from = p * kPage + c * bytes;
        if (writer != 0 && from < a->bytes && is_to_go(writer))
          std::memset(a->at + from, kNew, std::min(bytes, a->bytes - from));
      }
    }
  }
}

}  // namespace emulated
