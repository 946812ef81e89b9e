#include "rendezvous/crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#define RINGSCHED_HAS_CRC32C __attribute__((target("sse4.2")))
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define RINGSCHED_HAS_CRC32C __attribute__((target("+crc")))
#endif

namespace ringsched {

namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // the lowest power in the highest bit

constexpr std::array<std::uint32_t, 256> kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t x = i;
    for (int bit = 0; bit < 8; ++bit) x = (x >> 1) ^ (x & 1 ? kPolynomial : 0);
    table[i] = x;
  }
  return table;
}();

#ifdef RINGSCHED_HAS_CRC32C

// A product of polynomials, modulo kPolynomial.
constexpr std::uint32_t product(std::uint32_t a, std::uint32_t b) {
  std::uint32_t out = 0;
  for (std::uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) out ^= b;
    b = (b >> 1) ^ (b & 1 ? kPolynomial : 0);
  }
  return out;
}

// Multiplied by this, a checksum becomes that of the same bytes followed by `bytes` zeros.
constexpr std::uint32_t zeros(std::size_t bytes) {
  std::uint32_t out = 1u << 31, power = 1u << 23;  // x^0, x^8
  for (; bytes > 0; bytes /= 2, power = product(power, power))
    if (bytes % 2 != 0) out = product(out, power);
  return out;
}

#ifdef __x86_64__
bool has_instruction() { return __builtin_cpu_supports("sse4.2") != 0; }
RINGSCHED_HAS_CRC32C std::uint32_t step(std::uint32_t crc, std::uint64_t eight) {
  return static_cast<std::uint32_t>(_mm_crc32_u64(crc, eight));
}
RINGSCHED_HAS_CRC32C std::uint32_t step(std::uint32_t crc, unsigned char one) {
  return _mm_crc32_u8(crc, one);
}
#else
bool has_instruction() { return (::getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
RINGSCHED_HAS_CRC32C std::uint32_t step(std::uint32_t crc, std::uint64_t eight) {
  return __crc32cd(crc, eight);
}
RINGSCHED_HAS_CRC32C std::uint32_t step(std::uint32_t crc, unsigned char one) {
  return __crc32cb(crc, one);
}
#endif

std::uint64_t eight_at(const unsigned char* bytes) {
  std::uint64_t out;
  std::memcpy(&out, bytes, sizeof out);
  return out;
}

// An instruction takes three cycles, and one can begin in each: so sum three parts at once.
RINGSCHED_HAS_CRC32C std::uint32_t by_instruction(const void* bytes, std::size_t size,
                                                  std::uint32_t before) {
  constexpr std::size_t part = 4096;
  constexpr std::uint32_t one_part = zeros(part), two_parts = zeros(2 * part);
  const auto* at = static_cast<const unsigned char*>(bytes);
  std::uint32_t crc = ~before;
  for (; size >= 3 * part; at += 3 * part, size -= 3 * part) {
    std::uint32_t second = 0, third = 0;
    for (std::size_t i = 0; i < part; i += 8) {
      crc = step(crc, eight_at(at + i));
      second = step(second, eight_at(at + part + i));
      third = step(third, eight_at(at + 2 * part + i));
    }
    crc = product(two_parts, crc) ^ product(one_part, second) ^ third;
  }
  for (; size >= 8; at += 8, size -= 8) crc = step(crc, eight_at(at));
  for (; size > 0; ++at, --size) crc = step(crc, *at);
  return ~crc;
}

#endif

}  // namespace

std::uint32_t crc32c_by_table(const void* bytes, std::size_t size, std::uint32_t before) {
  const auto* at = static_cast<const unsigned char*>(bytes);
  std::uint32_t crc = ~before;
  for (; size > 0; ++at, --size) crc = (crc >> 8) ^ kTable[(crc ^ *at) & 0xff];
  return ~crc;
}

Crc32c crc32c_by_instruction() {
#ifdef RINGSCHED_HAS_CRC32C
  if (has_instruction()) return by_instruction;
#endif
  return nullptr;
}

std::uint32_t crc32c(const void* bytes, std::size_t size, std::uint32_t before) {
  static const Crc32c best = crc32c_by_instruction() ? crc32c_by_instruction() : crc32c_by_table;
  return best(bytes, size, before);
}

}  // namespace ringsched
