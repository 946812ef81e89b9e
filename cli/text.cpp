#include "text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "ringsched/scheduler/nearest.hpp"

namespace ringsched {

namespace {

std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // not a UTF-8 continuation byte
  }));
}

}  // namespace

void add_format_flag(CLI::App& command, Format& format) {
  static const std::map<std::string, Format> names = {{"text", Format::Text},
                                                      {"json", Format::Json}};
  command
      .add_option_function<std::string>(
          "--format", [&format](const std::string& name) { format = names.at(name); },
          "text (default) or json")
      ->check(CLI::IsMember({"text", "json"}, CLI::ignore_case))
      ->type_name("FORMAT");
}

std::string some_file(const std::string& name) {
  return name.empty() ? "the name of the file is empty" : "";
}

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

std::string duration(Picoseconds ps) {
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

std::string signed_duration(Picoseconds ps) {
  if (ps.value == 0) return "0 us";
  return (ps.value < 0 ? "-" : "+") + duration({ps.value < 0 ? -ps.value : ps.value});
}

std::string microseconds(Picoseconds ps) {
  std::string text = fmt::format("{}.{:06}", ps.value / 1'000'000, ps.value % 1'000'000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string grouped(std::int64_t n) {
  std::string digits = fmt::format("{}", n);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    if (digits[at - 1] != '-') digits.insert(at, 1, ' ');
  }
  return digits;
}

std::string counted(std::int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(n), noun, n == 1 ? "" : "s");
}

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

std::string usage_error(const CLI::App& program, const CLI::ParseError& wrong) {
  std::string command = "ringsched";
  for (const CLI::App* used : program.get_subcommands()) command += " " + used->get_name();
  const std::vector<std::string> unused = program.remaining();
  if (program.get_subcommands().empty() && !unused.empty() && !unused[0].starts_with('-')) {
    std::vector<std::string> names;
    for (const CLI::App* known : program.get_subcommands({})) names.push_back(known->get_name());
    return unknown_name("subcommand", unused[0],
                        std::vector<std::string_view>(names.begin(), names.end()));
  }
  return fmt::format("{} (see {} --help)", wrong.what(), command);
}

}  // namespace ringsched
