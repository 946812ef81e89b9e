// The instruction sets that the kernels are written for, and those that this CPU runs.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "attention.hpp"

namespace ringsched::cpu {

enum class Isa : std::uint8_t { Portable, Avx2, Avx512, Avx512Bf16, Amx };

inline constexpr std::array kIsas = {Isa::Portable, Isa::Avx2, Isa::Avx512, Isa::Avx512Bf16,
                                     Isa::Amx};

// Whether it equals the one before except for bf16.
constexpr bool for_bf16(Isa isa) { return isa >= Isa::Avx512Bf16; }

std::string_view name(Isa);

// Whether it was compiled in, and CPU and system support it. For Amx the system is asked once.
bool runs(Isa);

// The best that runs and that `cap` allows (a name; empty: no cap). Throws std::invalid_argument
// for an unknown name.
Isa best_isa(Element, std::string_view cap);

// The best that runs and that RINGSCHED_CPU allows.
Isa best_isa(Element);

// attend() and attend_backward() with one that runs.
void attend_with(Isa, const Shape&, const Tile&, const void* query, const void* key,
                 const void* value, float* output, float* lse, Scratch&);
void attend_backward_with(Isa, const Shape&, const Tile&, const void* query, const void* key,
                          const void* value, const void* output_gradient, const float* lse,
                          const float* delta, float* query_gradient, float* key_gradient,
                          float* value_gradient, Scratch&);

}  // namespace ringsched::cpu
