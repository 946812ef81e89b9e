// Explains a wrong command line, on one line: what was given, what is allowed, where to read on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace ringsched {

// `arguments`: the command line without the program's name.
std::string usage_error(const CLI::App& program, const CLI::ParseError&,
                        const std::vector<std::string_view>& arguments);

// Throws Error if a flag of one value is followed by more: "--workers 4 8". Where a command takes
// files, CLI11 would read the second value as the name of one.
void refuse_stray_values(const CLI::App& program, const std::vector<std::string_view>& arguments);

// Throws Error if `value` is a list but the flag takes one value, because ringsched sweep takes
// lists.
void refuse_list(std::string_view flag, std::string_view value);

}  // namespace ringsched
