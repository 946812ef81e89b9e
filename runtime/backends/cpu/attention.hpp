// Exact attention of one tile on one CPU core, forward and backward: what the cpu backend runs for
// an attend. The program chooses the fastest code for this CPU when it runs; see attention_isa().
//
// Rows are tokens. A matrix of n rows and H heads of D elements is stored as [n][H][D], without
// gaps. Query head h reads key-value head h / (heads / kv_heads). A matrix may have more heads than
// a call works on; then its pointer is at the first head of the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace ringsched::cpu {

enum class Element : std::uint8_t { Fp32, Bf16, Fp16 };

// Heads in a row of each matrix, if there are more than the call works on. 0: just those.
struct HeadsInRow {
  std::uint32_t query = 0;            // of `query`
  std::uint32_t key = 0;              // of `key` and `value`
  std::uint32_t output = 0;           // of `output`, `query_gradient`, and of the `lse` of attend()
  std::uint32_t output_gradient = 0;  // and of `lse` and `delta` beside it
  std::uint32_t key_gradient = 0;     // and of `value_gradient`
};

struct Shape {
  Element element = Element::Fp32;
  std::uint32_t heads = 1;
  std::uint32_t kv_heads = 1;
  std::uint32_t head_dim = 128;
  float scale = 1;  // of the scores, before their softmax
  HeadsInRow in_row = {};
};

// What one query row sees: the keys [begin[i], end[i]) for i = 0, 1, as places in `key_rows`. The
// second run begins no earlier than the first ends, and either may be empty.
struct VisibleKeys {
  std::int32_t begin[2] = {0, 0};
  std::int32_t end[2] = {0, 0};
};

// The rows of the matrices that take part, in order: row i of the tile is row query_rows[i] of
// `query`, key j of the tile is row key_rows[j] of `key` and of `value`.
struct Tile {
  std::span<const std::int32_t> query_rows;
  std::span<const std::int32_t> key_rows;
  std::span<const VisibleKeys> visible;  // one for each query row
};

// Scratch memory, kept from call to call so that nothing is allocated twice. One per thread.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(Scratch&&) noexcept;
  Scratch& operator=(Scratch&&) noexcept;
  // Called between the blocks of a tile, every millisecond or so; may throw, to give up the tile.
  void on_pause(std::function<void()>);
  struct Memory;
  Memory& memory() { return *memory_; }

 private:
  std::unique_ptr<Memory> memory_;
};

// Writes row i of `output` ([tile rows][heads][head_dim]) and of `lse` ([tile rows][heads]): the
// normalised attention over the visible keys, and the natural logarithm of the sum of the
// exponentials of their scores. A row that sees no key, or only scores of -infinity, gets zeros and
// -infinity. NaN reaches the rows that see it; what a row does not see has no influence on it.
void attend(const Shape&, const Tile&, const void* query, const void* key, const void* value,
            float* output, float* lse, Scratch&);

// `lse` and `delta` (the row sums of output gradient times output) belong to the whole attention,
// not to this tile; both are [tile rows][heads], and row i of `output_gradient` is
// query_rows[i] of its matrix, like the query. Writes (does not add to) row i of `query_gradient`,
// and row j of `key_gradient` and `value_gradient` ([tile keys][kv_heads][head_dim]).
void attend_backward(const Shape&, const Tile&, const void* query, const void* key,
                     const void* value, const void* output_gradient, const float* lse,
                     const float* delta, float* query_gradient, float* key_gradient,
                     float* value_gradient, Scratch&);

// The instruction sets the above may use, best last: "portable", "avx2", "avx512", "avx512bf16",
// "amx". The environment variable RINGSCHED_CPU caps the choice, for tests and comparisons. This
// and the two above throw std::invalid_argument if it names none of them.
std::string_view attention_isa(Element);

}  // namespace ringsched::cpu
