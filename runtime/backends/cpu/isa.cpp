#include "isa.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string>

#if defined(RINGSCHED_BF16)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ringsched::cpu {

namespace {

#if defined(RINGSCHED_BF16)
// Linux gives a process the tile registers only on request, because they enlarge its signal frames.
bool ask_for_tiles() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  unsigned leaf7[4], leaf0[4];
  const auto cpuid = [](unsigned leaf, unsigned(&out)[4]) {
    __asm__("cpuid" : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3]) : "a"(leaf), "c"(0));
  };
  cpuid(0, leaf0);
  if (leaf0[0] < 7) return false;
  cpuid(7, leaf7);
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24;
  if ((leaf7[3] & (kBf16 | kTile)) != (kBf16 | kTile)) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#endif

}  // namespace

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::Portable:
      return "portable";
    case Isa::Avx2:
      return "avx2";
    case Isa::Avx512:
      return "avx512";
    case Isa::Avx512Bf16:
      return "avx512bf16";
    case Isa::Amx:
      return "amx";
  }
  return "";
}

bool runs(Isa isa) {
  switch (isa) {
    case Isa::Portable:
      return true;
#if defined(RINGSCHED_X86)
    case Isa::Avx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::Avx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
#if defined(RINGSCHED_BF16)
    case Isa::Avx512Bf16:
      return runs(Isa::Avx512) && __builtin_cpu_supports("avx512bf16");
    case Isa::Amx: {
      static const bool kGranted = runs(Isa::Avx512Bf16) && ask_for_tiles();
      return kGranted;
    }
#endif
    default:
      return false;
  }
}

Isa best_isa(Element element, std::string_view cap) {
  Isa best = Isa::Portable;
  bool found = cap.empty();
  std::string names;
  for (const Isa isa : kIsas) {
    names += (names.empty() ? "" : ", ") + std::string(name(isa));
    const bool above = found && !cap.empty();
    if (name(isa) == cap) found = true;
    if (above || (for_bf16(isa) && element != Element::Bf16) || !runs(isa)) continue;
    best = isa;
  }
  if (!found)
    throw std::invalid_argument("RINGSCHED_CPU is '" + std::string(cap) + "', not one of " + names);
  return best;
}

Isa best_isa(Element element) {
  const char* const cap = std::getenv("RINGSCHED_CPU");
  return best_isa(element, cap == nullptr ? "" : cap);
}

}  // namespace ringsched::cpu
