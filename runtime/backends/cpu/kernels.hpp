// The kernels that the drivers (forward.cpp, backward.cpp) call: one table for each instruction
// set, all compiled from simd_*.hpp with another vector length.
//
// A matrix is stored in panels: [columns / width][rows][width], so that both a row of one operand
// and a column strip of the other are contiguous. The same panels serve as either operand of a
// product.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention.hpp"
#include "isa.hpp"

namespace ringsched::cpu {

// The keys of one block that a row sees, as places in the block; the second begins no earlier than
// the first ends.
struct KeySpans {
  std::int32_t begin[2];
  std::int32_t end[2];
};

enum class Into : std::uint8_t { Overwrite, Add, Rescale };

// c[row] (+)= sum over k in [k0, k1) of a[row][k] * b[k], for one panel of b and c. The transposed
// product reads a[k][row] instead: its rows are columns of one panel of a.
struct Product {
  const float* a;
  std::size_t a_panel;  // floats from one panel of a to the next
  const float* b;
  float* c;
  std::int32_t rows;
  std::int32_t k0;
  std::int32_t k1;
  std::int32_t columns;  // that matter, of the panel of b and c
  Into into;
  const float* rescale;  // of row: what c is multiplied with first
};

// Rows of scores, in panels, of the keys [k0, k1) of a block.
struct ScoreRows {
  float* scores;
  std::size_t panel;
  std::int32_t rows;
  std::int32_t k0;
  std::int32_t k1;
  const KeySpans* spans;  // of row; null where every row sees all keys
};

struct Kernels {
  std::int32_t width;
  std::int32_t lanes;

  // Rows base + offsets[row] times factor, as panels, padded with zeros. False if something is not
  // finite.
  bool (*pack)(Element, const void* base, const std::size_t* offsets, std::int32_t rows,
               std::int32_t columns, float factor, float* to, std::size_t to_panel);
  // Up to `width` rows of panels, as [columns][width]; rows beyond are zeros.
  void (*transpose)(const float* from, std::size_t from_panel, std::int32_t rows,
                    std::int32_t columns, float* to);
  void (*unpack)(const float* from, std::size_t from_panel, const float* factors, float* base,
                 const std::size_t* offsets, std::int32_t rows, std::int32_t columns);
  void (*multiply)(const Product&);
  void (*multiply_transposed)(const Product&);
  // Scores become exponentials relative to the new running maximum. `sum` holds `lanes` partial
  // sums for each row; multiply the earlier results by `rescale`.
  void (*exponentials)(const ScoreRows&, float* maximum, float* sum, float* rescale);
  // Scores become probabilities, and `gradients` (in the same panels) goes from the gradient of the
  // probabilities to that of the scores. Hidden entries become zero in both.
  void (*probabilities)(const ScoreRows&, float* gradients, const float* lse, const float* delta);

  // See merge_partials() and add_to() of combine.hpp.
  void (*merge)(float* a, float* a_lse, const float* b, const float* b_lse, std::int64_t rows,
                std::uint32_t width);
  void (*add)(float* a, const float* b, std::int64_t count);
};

// Rows of a product computed at once: masks are exploited for this many rows together.
inline constexpr std::int32_t kRowGroup = 6;

const Kernels& kernels(Isa);
// The kernels of the best instruction set that runs and that RINGSCHED_CPU allows.
const Kernels& best_kernels();

const Kernels& portable_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

}  // namespace ringsched::cpu
