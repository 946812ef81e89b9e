#include "text.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/printable.hpp"

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
      ->check(CLI::IsMember({"text", "json"}))
      ->type_name("FORMAT");
}

std::vector<std::string> list_of(const std::string& text, const char* flag) {
  std::vector<std::string> out;
  std::size_t at = 0;
  for (;;) {
    const std::size_t comma = text.find(',', at);
    out.push_back(text.substr(at, comma - at));
    if (out.back().empty()) fail("{} is '{}': there is nothing between two commas", flag, text);
    if (comma == std::string::npos) return out;
    at = comma + 1;
  }
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
  if (program.get_subcommands().empty() && !unused.empty()) {
    if (unused[0].starts_with('-'))
      return fmt::format("{} comes before any subcommand (see ringsched --help)",
                         printable(unused[0], 40));
    std::vector<std::string> names;
    for (const CLI::App* known : program.get_subcommands({})) names.push_back(known->get_name());
    return unknown_name("subcommand", unused[0],
                        std::vector<std::string_view>(names.begin(), names.end()));
  }
  return fmt::format("{} (see {} --help)", wrong.what(), command);
}

}  // namespace ringsched
