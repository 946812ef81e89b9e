// From the public functions to the drivers and their kernels.
#include "attention.hpp"

#include "bf16_kernels.hpp"
#include "drivers.hpp"
#include "isa.hpp"

namespace ringsched::cpu {

namespace {

// The environment is read once.
Isa chosen(Element element) {
  static const Isa kFloats = best_isa(Element::Fp32);
  static const Isa kBf16 = best_isa(Element::Bf16);
  return element == Element::Bf16 ? kBf16 : kFloats;
}

#if defined(RINGSCHED_BF16)
bool as_bf16(Isa isa, const Shape& shape) {
  return for_bf16(isa) && shape.element == Element::Bf16 && shape.scale != 0;
}
#endif

}  // namespace

const Kernels& kernels(Isa isa) {
#if defined(RINGSCHED_X86)
  if (isa == Isa::Avx2) return avx2_kernels();
  if (isa >= Isa::Avx512) return avx512_kernels();
#else
  static_cast<void>(isa);
#endif
  return portable_kernels();
}

const Kernels& best_kernels() { return kernels(chosen(Element::Fp32)); }

void attend_with(Isa isa, const Shape& shape, const Tile& tile, const void* query, const void* key,
                 const void* value, float* output, float* lse, Scratch& scratch) {
  if (tile.query_rows.empty()) return;
  const ForwardCall call{shape, tile, query, key, value, output, lse};
#if defined(RINGSCHED_BF16)
  const auto tiles = isa == Isa::Amx ? amx_forward : avx512bf16_forward;
  if (as_bf16(isa, shape) && tiles(call, scratch.memory())) return;
#endif
  forward(kernels(isa), call, scratch.memory());
}

void attend_backward_with(Isa isa, const Shape& shape, const Tile& tile, const void* query,
                          const void* key, const void* value, const void* output_gradient,
                          const float* lse, const float* delta, float* query_gradient,
                          float* key_gradient, float* value_gradient, Scratch& scratch) {
  const BackwardCall call{
      shape, tile,  query,          key,          value,         output_gradient,
      lse,   delta, query_gradient, key_gradient, value_gradient};
#if defined(RINGSCHED_BF16)
  const auto tiles = isa == Isa::Amx ? amx_backward : avx512bf16_backward;
  if (as_bf16(isa, shape) && tiles(call, scratch.memory())) return;
#endif
  backward(kernels(isa), call, scratch.memory());
}

void attend(const Shape& shape, const Tile& tile, const void* query, const void* key,
            const void* value, float* output, float* lse, Scratch& scratch) {
  attend_with(chosen(shape.element), shape, tile, query, key, value, output, lse, scratch);
}

void attend_backward(const Shape& shape, const Tile& tile, const void* query, const void* key,
                     const void* value, const void* output_gradient, const float* lse,
                     const float* delta, float* query_gradient, float* key_gradient,
                     float* value_gradient, Scratch& scratch) {
  attend_backward_with(chosen(shape.element), shape, tile, query, key, value, output_gradient, lse,
                       delta, query_gradient, key_gradient, value_gradient, scratch);
}

std::string_view attention_isa(Element element) { return name(chosen(element)); }

}  // namespace ringsched::cpu
