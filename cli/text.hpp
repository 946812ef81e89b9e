// Text for people: aligned columns, JSON strings, and values of flags.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ringsched/scheduler/words.hpp"

namespace ringsched {

// The values between commas. Throws Error naming the flag if one is empty.
std::vector<std::string> list_of(const std::string& text, const char* flag);

// "64K" as a number. Throws Error naming the flag unless it is from `least` to `most`.
std::int64_t number_of(const std::string& text, const char* flag, std::int64_t least,
                       std::int64_t most);

// The text in lines of up to `columns`, broken between words; each line after the first is
// indented.
std::string in_lines(std::string_view text, std::size_t indent = 0, std::size_t columns = 80);
// The same on a terminal, in its width; elsewhere the text stays on one line.
std::string on_terminal_lines(std::string_view text, std::size_t indent = 0);

// "12.5%", of a share.
std::string percent(double share);

// Escaped for a JSON string.
std::string escaped(std::string_view);

// As a cell of a CSV line.
std::string csv_cell(std::string_view);
// "key_value_gradient" in words, "key and value gradients". Files keep the names.
std::string value_words(std::string_view name);

// Rows of cells as aligned columns, two spaces apart; the first column is right-aligned. Widths
// count characters, not bytes. If a terminal is too narrow, a last column of words is wrapped;
// otherwise the columns that do not fit follow below, after the first `keys` columns again.
std::string table(const std::vector<std::vector<std::string>>& rows, std::size_t keys = 1);
// The same in this many columns (0: any number).
std::string table_within(const std::vector<std::vector<std::string>>& rows, std::size_t keys,
                         std::size_t columns);
// The same for rows with long names in the first column: where they do not fit, each name stands
// above its row, broken between words.
std::string table_of_names(const std::vector<std::vector<std::string>>& rows, std::size_t columns);

}  // namespace ringsched
