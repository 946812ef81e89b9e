// Replaces library.cpp: attention by the definition, using the CPU backend's attention, where cuDNN
// would run on a stream. It overwrites all of its workspace, which workers must not share.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "attention.hpp"
#include "backends/cuda/library.hpp"
#include "ringsched/runtime/control.hpp"
#include "ringsched/runtime/numbers.hpp"
#include "support/emulated_cuda/emulated_cuda.hpp"

namespace ringsched::cuda {

struct Library::Plans {};

namespace {

constexpr std::int64_t kWorkspace = 1 << 12;

bool is_asked_to(const char* what) {
  const char* const text = std::getenv("RINGSCHED_EMULATED_LIBRARY");
  return text && std::string_view(text) == what;
}

std::size_t elements(std::int64_t rows, std::uint32_t heads, const Shape& s) {
  return static_cast<std::size_t>(rows) * heads * s.head_dim;
}

void require_aligned(std::initializer_list<const void*> all) {
  for (const void* p : all)
    if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0)
      emulated::finding("cuDNN is given an address that is no multiple of 16");
}

// The tile as the CPU backend has it: all rows, all keys, a causal mask from the first row and key.
struct Whole {
  std::vector<std::int32_t> queries, keys;
  std::vector<cpu::VisibleKeys> visible;
  cpu::Shape shape;

  explicit Whole(const Shape& s)
      : queries(static_cast<std::size_t>(s.rows)),
        keys(static_cast<std::size_t>(s.keys)),
        visible(queries.size()),
        shape{s.dtype == Dtype::Bf16 ? cpu::Element::Bf16 : cpu::Element::Fp16, s.heads, s.kv_heads,
              s.head_dim, static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_dim)))} {
    for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<std::int32_t>(i);
    for (std::size_t i = 0; i < queries.size(); ++i) {
      queries[i] = static_cast<std::int32_t>(i);
      const auto last = static_cast<std::int32_t>(s.keys);
      visible[i].end[0] = s.causal ? std::min(static_cast<std::int32_t>(i) + 1, last) : last;
      visible[i].begin[1] = visible[i].end[1] = visible[i].end[0];
    }
  }
  cpu::Tile tile() const { return {queries, keys, visible}; }
};

cpu::Scratch& scratch() {
  thread_local cpu::Scratch memory;
  return memory;
}

void store_narrow(std::byte* to, const std::vector<float>& from, Dtype dtype) {
  for (std::size_t i = 0; i < from.size(); ++i)
    put_number(to, dtype, static_cast<std::int64_t>(i), from[i]);
}

void attend(const LibraryForward& f) {
  const Shape& s = f.shape;
  const std::size_t outputs = elements(s.rows, s.heads, s);
  emulated::reads(f.query, 2 * outputs);
  emulated::reads(f.key, 2 * elements(s.keys, s.kv_heads, s));
  emulated::reads(f.value, 2 * elements(s.keys, s.kv_heads, s));
  emulated::writes(f.output, 2 * outputs);
  emulated::writes(f.stats, static_cast<std::size_t>(4 * s.rows * s.heads));
  require_aligned({f.query, f.key, f.value, f.output, f.stats});
  const Whole whole(s);
  std::vector<float> output(outputs), lse(static_cast<std::size_t>(s.rows) * s.heads);
  cpu::attend(whole.shape, whole.tile(), f.query, f.key, f.value, output.data(), lse.data(),
              scratch());
  store_narrow(f.output, output, s.dtype);
  for (std::size_t i = 0; i < lse.size(); ++i)
    f.stats[i % s.heads * static_cast<std::size_t>(s.rows) + i / s.heads] = lse[i];
}

// Delta is formed from the output and its gradient, as cuDNN does.
void attend_backward(const LibraryBackward& f) {
  const Shape& s = f.shape;
  const std::size_t by_query = elements(s.rows, s.heads, s),
                    by_key = elements(s.keys, s.kv_heads, s);
  for (const std::byte* p : {f.query, f.output, f.output_gradient})
    emulated::reads(p, 2 * by_query);
  for (const std::byte* p : {f.key, f.value}) emulated::reads(p, 2 * by_key);
  emulated::reads(f.stats, static_cast<std::size_t>(4 * s.rows * s.heads));
  emulated::writes(f.query_gradient, 2 * by_query);
  for (std::byte* p : {f.key_gradient, f.value_gradient}) emulated::writes(p, 2 * by_key);
  require_aligned({f.query, f.key, f.value, f.output, f.output_gradient, f.stats, f.query_gradient,
                   f.key_gradient, f.value_gradient});
  const auto rows = static_cast<std::size_t>(s.rows);
  std::vector<float> lse(rows * s.heads), delta(lse.size());
  for (std::size_t r = 0; r < lse.size(); ++r) {
    lse[r] = f.stats[r % s.heads * rows + r / s.heads];
    double sum = 0;
    for (std::uint32_t d = 0; d < s.head_dim; ++d) {
      const auto at = static_cast<std::int64_t>(r * s.head_dim + d);
      sum += static_cast<double>(number_at(f.output, s.dtype, at)) *
             static_cast<double>(number_at(f.output_gradient, s.dtype, at));
    }
    delta[r] = static_cast<float>(sum);
  }
  const Whole whole(s);
  std::vector<float> dq(by_query), dk(by_key), dv(by_key);
  cpu::attend_backward(whole.shape, whole.tile(), f.query, f.key, f.value, f.output_gradient,
                       lse.data(), delta.data(), dq.data(), dk.data(), dv.data(), scratch());
  store_narrow(f.query_gradient, dq, s.dtype);
  store_narrow(f.key_gradient, dk, s.dtype);
  store_narrow(f.value_gradient, dv, s.dtype);
}

}  // namespace

Library::Library() = default;
Library::Library(const std::string&, int, bool) {}
Library::~Library() = default;

std::string Library::refusal(const Shape& s) {
  if (is_asked_to("absent")) return version();
  if (s.backward && s.rows < 2) return "the emulated cuDNN takes no single row backward";
  if (is_asked_to("some") && (s.rows + s.keys) % 3 == 0) return "the emulated cuDNN is asked to";
  asked_.insert(s);
  return "";
}

bool Library::takes(cudaStream_t) const { return true; }
std::int64_t Library::workspace_bytes() const { return asked_.empty() ? 0 : kWorkspace; }
std::string Library::version() const {
  return is_asked_to("absent") ? "cuDNN is not there" : "no cuDNN, but its definition";
}
std::string Library::costs() const { return "no plans of cuDNN"; }

Library::Caller::Caller(Library& library, cudaStream_t stream, std::byte* workspace)
    : library_(library), handle_(stream), workspace_(workspace) {}
Library::Caller::~Caller() = default;

bool Library::Caller::call(const DeviceCall& asked) {
  const auto* const forward = std::get_if<LibraryForward>(&asked);
  const auto* const backward = std::get_if<LibraryBackward>(&asked);
  if (forward)
    call(*forward);
  else if (backward)
    call(*backward);
  return forward || backward;
}

namespace {

void submit(void* stream, const Shape& s, const std::set<Shape>& asked, std::byte* workspace,
            const char* name, std::function<void()> run) {
  if (!asked.contains(s)) throw RunFailed("cuDNN: there is no plan for this shape");
  const cudaError_t status = emulated::enqueue(static_cast<cudaStream_t>(stream),
                                               {name,
                                                [=] {
                                                  emulated::writes(workspace, kWorkspace);
                                                  std::memset(workspace, 0xff, kWorkspace);
                                                  run();
                                                },
                                                {},
                                                {}});
  if (status != cudaSuccess) throw RunFailed(std::string("cuDNN: ") + cudaGetErrorString(status));
}

}  // namespace

void Library::Caller::call(const LibraryForward& f) {
  submit(handle_, f.shape, library_.asked_, workspace_, "cuDNN forward", [f] { attend(f); });
}

void Library::Caller::call(const LibraryBackward& f) {
  submit(handle_, f.shape, library_.asked_, workspace_, "cuDNN backward",
         [f] { attend_backward(f); });
}

}  // namespace ringsched::cuda
