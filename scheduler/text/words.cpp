#include "ringsched/scheduler/words.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>

#include "ringsched/scheduler/printable.hpp"

namespace ringsched {

std::string human(Bytes bytes) {
  static constexpr std::array<std::string_view, 7> units = {"B",   "KiB", "MiB", "GiB",
                                                            "TiB", "PiB", "EiB"};
  if (bytes.value == std::numeric_limits<std::int64_t>::max()) return "8 EiB or more";
  double value = static_cast<double>(bytes.value);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes.value)
                   : fmt::format("{:.1f} {}", value, units[unit]);
}

namespace {

std::string blocks(Picoseconds ps) {
  const double n = static_cast<double>(ps.value) / static_cast<double>(kBlock.value);
  std::string text = n != 0 && n < 0.001 ? fmt::format("{:.2g}", n) : fmt::format("{:.3f}", n);
  if (text.find('.') != text.npos && text.find('e') == text.npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
  }
  return text + (text == "1" ? " block" : " blocks");
}

}  // namespace

std::string duration(Picoseconds ps, TimeUnit unit_of_time) {
  if (unit_of_time == TimeUnit::Blocks) return blocks(ps);
  const double us = static_cast<double>(ps.value) * 1e-6;
  if (us == 0) return "0 us";
  if (us < 0.01) return fmt::format("{} ps", ps.value);
  static constexpr std::array<std::pair<double, const char*>, 3> units = {
      {{1, "us"}, {1e3, "ms"}, {1e6, "s"}}};
  std::size_t unit = 0;
  while (unit + 1 < units.size() && us >= 999.5 * units[unit].first) ++unit;
  const double value = us / units[unit].first;
  return fmt::format("{:.{}f} {}", value,
                     value < 9.995   ? 2
                     : value < 99.95 ? 1
                                     : 0,
                     units[unit].second);
}

std::string signed_duration(Picoseconds ps, TimeUnit unit) {
  if (ps.value == 0) return duration(ps, unit);
  return (ps.value < 0 ? "-" : "+") + duration({ps.value < 0 ? -ps.value : ps.value}, unit);
}

std::string microseconds(Picoseconds ps) {
  if (ps.value < 0) return "-" + microseconds({-ps.value});
  std::string text = fmt::format("{}.{:06}", ps.value / 1'000'000, ps.value % 1'000'000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string grouped(std::int64_t n) {
  std::string digits = fmt::format("{}", n);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    if (digits[at - 1] != '-') digits.insert(at, 1, ',');
  }
  return digits;
}

std::string counted(std::int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(n), noun, n == 1 ? "" : "s");
}

std::string new_tokens_text(const Problem& p) {
  const std::size_t documents = documents_of(p).size();
  return grouped(p.new_tokens.value) + " new" +
         (documents > 1 ? fmt::format(" in each of {} documents", documents) : "");
}

std::string described(const Problem& p) {
  const std::string tokens = counted(p.tokens.value, "token") +
                             (p.decodes() ? fmt::format(", {}", new_tokens_text(p)) : "");
  return fmt::format("{}, {} ({} kv) x {}, {}, {}, {}", tokens, counted(p.heads, "head"),
                     grouped(p.kv_heads), p.head_dim, to_text(p.dtype), printable(to_text(p.mask)),
                     p.pass == Pass::Both ? "forward and backward" : to_text(p.pass));
}

}  // namespace ringsched
