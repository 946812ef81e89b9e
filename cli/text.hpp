// Text for people: aligned columns, units, and one-line usage errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/scheduler/words.hpp"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace ringsched {

enum class Format { Text, Json };
void add_format_flag(CLI::App& command, Format& format);

// What stands between commas; `flag` is for the complaint if that is nothing.
std::vector<std::string> list_of(const std::string& text, const char* flag);

// For inside a JSON string.
std::string escaped(std::string_view);

// Rows of cells as aligned columns, two spaces apart; the first column is right-aligned. Widths
// count characters, not bytes.
std::string table(const std::vector<std::vector<std::string>>& rows);

// What CLI11 found wrong, on one line, with where to read more.
std::string usage_error(const CLI::App& program, const CLI::ParseError&);

}  // namespace ringsched
