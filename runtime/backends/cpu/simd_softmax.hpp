// Scores to exponentials, running maxima and sums; scores to probabilities and their gradients.
#pragma once

#include "simd_vector.hpp"

namespace ringsched::cpu {
namespace {

constexpr float kInfinity = __builtin_inff();

// Calls visit(place in the scores, first key) for each vector of the row that holds keys of [k0,
// k1).
template <class Visit>
inline void each_vector(const ScoreRows& s, std::int32_t row, Visit visit) {
  for (std::int32_t k = s.k0 / kLanes * kLanes; k < s.k1; k += kLanes) {
    const std::size_t at = static_cast<std::size_t>(k / kWidth) * s.panel +
                           static_cast<std::size_t>(row * kWidth + k % kWidth);
    visit(at, k);
  }
}

// Calls visit(the scores, -infinity where hidden; their place).
template <class Visit>
inline void each_score(const ScoreRows& s, std::int32_t row, Visit visit) {
  if (s.spans == nullptr) {
    each_vector(s, row, [&](std::size_t at, std::int32_t) { visit(load(s.scores + at), at); });
  } else {
    const KeySpans spans = s.spans[row];
    each_vector(s, row, [&](std::size_t at, std::int32_t k) {
      visit(seen(spans, k) ? load(s.scores + at) : broadcast(-kInfinity), at);
    });
  }
}

// All maxima come before the first exponential, so that no row waits for a reduction over its
// lanes.
void exponentials(const ScoreRows& s, float* running, float* sum, float* rescale) {
  for (std::int32_t first = 0; first < s.rows; first += kLanes) {
    const std::int32_t end = first + kLanes < s.rows ? first + kLanes : s.rows;
    alignas(64) float less[RINGSCHED_LANES] = {};
    alignas(64) float change[RINGSCHED_LANES] = {};
    for (std::int32_t row = first; row < end; ++row) {
      Floats most = broadcast(-kInfinity);
      each_score(s, row, [&](Floats x, std::size_t) { most = maximum(x, most); });
      const float of_row = largest(most);
      const float before = running[row];
      running[row] = of_row > before ? of_row : before;
      // A row in which nothing is visible yet, or all scores are -infinity: -infinity less
      // -infinity would be NaN.
      less[row - first] = running[row] == -kInfinity ? 0.0f : running[row];
      change[row - first] = before - less[row - first];
    }
    store(change, exponential(load(change)));
    for (std::int32_t row = first; row < end; ++row) {
      const Floats by = broadcast(less[row - first]);
      float* const sums = sum + row * kLanes;
      Floats total = load(sums) * change[row - first];
      each_score(s, row, [&](Floats x, std::size_t at) {
        const Floats e = exponential(x - by);
        store(s.scores + at, e);
        total += e;
      });
      store(sums, total);
      rescale[row] = change[row - first];
    }
  }
}

void probabilities(const ScoreRows& s, float* gradients, const float* lse, const float* delta) {
  for (std::int32_t row = 0; row < s.rows; ++row) {
    const Floats by = broadcast(lse[row]);
    const Floats less = broadcast(delta[row]);
    const auto probability = [&](Floats x) {
      // A probability is at most 1; rounding of large scores could make it anything.
      return exponential(minimum(Floats{}, x - by));
    };
    if (s.spans == nullptr) {
      each_vector(s, row, [&](std::size_t at, std::int32_t) {
        const Floats p = probability(load(s.scores + at));
        store(s.scores + at, p);
        store(gradients + at, p * (load(gradients + at) - less));
      });
    } else {
      const KeySpans spans = s.spans[row];
      each_vector(s, row, [&](std::size_t at, std::int32_t k) {
        const Ints sees = seen(spans, k);
        const Floats p = probability(load(s.scores + at));
        store(s.scores + at, sees ? p : Floats{});
        store(gradients + at, sees ? p * (load(gradients + at) - less) : Floats{});
      });
    }
  }
}

}  // namespace
}  // namespace ringsched::cpu
