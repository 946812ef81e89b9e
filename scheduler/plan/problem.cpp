#include "ringsched/scheduler/problem.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"

namespace ringsched {

namespace {

constexpr std::array<std::string_view, 3> kDtypes = {"fp32", "bf16", "fp16"};
constexpr std::array<std::string_view, 3> kPasses = {"forward", "backward", "both"};

template <class Enum, std::size_t N>
Enum parse_name(std::string_view what, std::string_view text,
                const std::array<std::string_view, N>& names) {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == text) return static_cast<Enum>(i);
  throw Error(unknown_name(what, text, names));
}

void check_range(const std::string& what, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most) fail("{} is {}; use 1 to {}", what, value, most);
}

}  // namespace

std::string called(std::string_view argument, Naming naming) {
  std::string name(argument);
  if (naming == Naming::Arguments) return name;
  std::ranges::replace(name, '_', '-');
  return "--" + name;
}

void require_valid(const Problem& p, Naming naming) {
  const auto name = [&](std::string_view argument) { return called(argument, naming); };
  check_range(name("workers"), p.workers, kMaxWorkers);
  check_range(name("tokens"), p.tokens.value, kMaxTokens);
  check_range(name("heads"), p.heads, kMaxHeads);
  check_range(name("kv_heads"), p.kv_heads, kMaxHeads);
  check_range(name("head_dim"), p.head_dim, kMaxHeadDim);
  if (p.tokens.value < p.workers)
    fail("{} is {}, but {} workers need at least {} (one each)", name("tokens"), p.tokens.value,
         p.workers, p.workers);
  if (p.heads % p.kv_heads != 0)
    fail("{} is {}, which does not divide {} ({})", name("kv_heads"), p.kv_heads, name("heads"),
         p.heads);
  if (const auto bounds = p.mask.document_bounds(); !bounds.empty())
    if (bounds.back() != p.tokens.value)
      fail("the mask's documents add up to {} tokens, but {} is {}", bounds.back(), name("tokens"),
           p.tokens.value);
  if (p.new_tokens.value == 0) return;
  std::int64_t shortest = p.tokens.value;
  for (const TokenRange& document : documents_of(p)) shortest = std::min(shortest, document.count);
  if (p.new_tokens.value < 1 || p.new_tokens.value > shortest) {
    // Each worker has a cached token at least.
    const auto documents = static_cast<std::int64_t>(documents_of(p).size());
    const std::int64_t most =
        std::clamp((p.tokens.value - p.workers) / documents, std::int64_t{1}, shortest);
    fail("{} is {}; use {}", name("new_tokens"), p.new_tokens.value,
         most == 1 ? "1" : fmt::format("1 to {}", most));
  }
  if (p.pass != Pass::Forward)
    fail("decoding ({} is {}) has only a forward pass, but {} is '{}'", name("new_tokens"),
         p.new_tokens.value, name("pass"), to_text(p.pass));
}

std::vector<TokenRange> documents_of(const Problem& p) {
  const std::span<const std::int64_t> bounds = p.mask.document_bounds();
  if (bounds.empty()) return {{0, 1, p.tokens.value}};
  std::vector<TokenRange> out;
  for (std::size_t d = 0; d + 1 < bounds.size(); ++d)
    out.push_back({bounds[d], 1, bounds[d + 1] - bounds[d]});
  return out;
}

bool has_query(const Problem& p, std::int64_t position) {
  if (!p.decodes()) return true;
  const std::span<const std::int64_t> bounds = p.mask.document_bounds();
  const auto end = std::ranges::upper_bound(bounds, position);
  return position >= (end == bounds.end() ? p.tokens.value : *end) - p.new_tokens.value;
}

std::int64_t size_of(Dtype dtype) { return dtype == Dtype::Fp32 ? 4 : 2; }
std::string_view to_text(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)]; }
std::string_view to_text(Pass pass) { return kPasses[static_cast<std::size_t>(pass)]; }
Dtype parse_dtype(std::string_view text) { return parse_name<Dtype>("dtype", text, kDtypes); }
Pass parse_pass(std::string_view text) { return parse_name<Pass>("pass", text, kPasses); }

std::int64_t parse_count(std::string_view text, std::string_view what) {
  const auto wrong = [&]() {
    fail("{} is '{}'; use a whole number{}", what, printable(text),
         text.starts_with('-') ? " that is not negative" : ", such as 4096 or 64K");
  };
  std::int64_t n = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, n);
  const auto too_large = [&] {
    fail("{} is '{}'; use a whole number up to {}", what, printable(text),
         std::numeric_limits<std::int64_t>::max());
  };
  if (error == std::errc::result_out_of_range && text[0] != '-') too_large();
  if (error != std::errc{} || n < 0) wrong();
  std::int64_t unit = 1;
  if (stop != end) {
    const std::size_t letter = std::string_view("kKmMgG").find(*stop);
    if (letter == std::string_view::npos || stop + 1 != end) wrong();
    for (std::size_t power = 0; power <= letter / 2; ++power) unit *= 1024;
  }
  if (n > std::numeric_limits<std::int64_t>::max() / unit) too_large();
  return n * unit;
}

}  // namespace ringsched
