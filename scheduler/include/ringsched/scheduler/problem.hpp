// What to compute: the sizes of one exact attention, and how many workers share it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/scheduler/mask.hpp"
#include "ringsched/scheduler/units.hpp"

namespace ringsched {

enum class Dtype : std::uint8_t { Fp32, Bf16, Fp16 };
enum class Pass : std::uint8_t { Forward, Backward, Both };

struct Problem {
  std::uint32_t workers = 8;
  Tokens tokens{65536};  // in all, not per worker
  std::uint32_t heads = 32;
  std::uint32_t kv_heads = 8;
  std::uint32_t head_dim = 128;
  Dtype dtype = Dtype::Bf16;
  Mask mask = Mask::causal();
  Pass pass = Pass::Forward;
  // 0: every token has a query. Otherwise this is decoding: only this many tokens at the end of the
  // sequence have one (of each document, if there are several: they are the batch). The keys of the
  // tokens before them are cached.
  Tokens new_tokens{0};

  bool decodes() const { return new_tokens.value != 0; }

  friend bool operator==(const Problem&, const Problem&) = default;
};

inline constexpr std::uint32_t kMaxWorkers = 65535;
inline constexpr std::int64_t kMaxTokens = (std::int64_t{1} << 31) - 1;  // pairs then fit 63 bits
inline constexpr std::uint32_t kMaxHeads = 16384;
inline constexpr std::uint32_t kMaxHeadDim = 4096;

// Throws Error naming the field, its value and what is allowed.
// How messages call the sizes of a problem: as the arguments of the library (kv_heads), or as the
// flags of the command line (--kv-heads).
enum class Naming : std::uint8_t { Arguments, Flags };
std::string called(std::string_view argument, Naming naming);
void require_valid(const Problem&, Naming = Naming::Arguments);

// Has the token at this position a query?
bool has_query(const Problem&, std::int64_t position);
// The sequence, cut into its documents.
std::vector<TokenRange> documents_of(const Problem&);

std::int64_t size_of(Dtype);  // bytes of one element
std::string_view to_text(Dtype);
std::string_view to_text(Pass);
Dtype parse_dtype(std::string_view text);
Pass parse_pass(std::string_view text);

// A count as people type it: "65536", "64K" (times 1024), "1M", "2G". Throws Error naming `what`.
std::int64_t parse_count(std::string_view text, std::string_view what);

}  // namespace ringsched
