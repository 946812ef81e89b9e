#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/problem.hpp"

namespace ringsched {

namespace {

std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // not a UTF-8 continuation byte
  }));
}

}  // namespace

std::vector<std::string> list_of(const std::string& text, const char* flag) {
  std::vector<std::string> out;
  std::size_t at = 0;
  for (;;) {
    const std::size_t comma = text.find(',', at);
    out.push_back(text.substr(at, comma - at));
    if (out.back().empty()) fail("{} is '{}': a value is missing beside a comma", flag, text);
    if (comma == std::string::npos) return out;
    at = comma + 1;
  }
}

std::int64_t number_of(const std::string& text, const char* flag, std::int64_t least,
                       std::int64_t most) {
  const std::int64_t n = parse_count(text, flag);
  if (n < least || n > most) fail("{} is {}; use {} to {}", flag, text, least, most);
  return n;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    if (widths.size() < row.size()) widths.resize(row.size());
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - width(row[c]), ' ');
      line += c == 0 ? padding + row[c] : "  " + row[c] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace ringsched
