// Text for people: aligned columns, units, and one-line usage errors.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/scheduler/units.hpp"

namespace ringsched {

enum class Format { Text, Json };
void add_format_flag(CLI::App& command, Format& format);

// A check of CLI11 for the names of files: says what is wrong, or nothing.
std::string some_file(const std::string& name);

// "0 B", "768 B", "1.5 KiB", "33.6 MiB"
std::string human(Bytes);
// "0 us", "12.3 us", "4.56 ms", "7.89 s"
std::string duration(Picoseconds);
std::string signed_duration(Picoseconds);  // "+1.2 ms"
// "12.345678", to the picosecond, without trailing zeros: for JSON and CSV.
std::string microseconds(Picoseconds);
// 1234567 -> "1 234 567"
std::string grouped(std::int64_t);
// "1 task", "2 tasks"
std::string counted(std::int64_t, std::string_view noun);
// For inside a JSON string.
std::string escaped(std::string_view);

// Rows of cells as aligned columns, two spaces apart; the first column is right-aligned. Widths
// count characters, not bytes.
std::string table(const std::vector<std::vector<std::string>>& rows);

// What CLI11 found wrong, on one line, with where to read more.
std::string usage_error(const CLI::App& program, const CLI::ParseError&);

}  // namespace ringsched
