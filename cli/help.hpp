// The help of every command, wrapped at 80 columns.
#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace ringsched {

// Sets the layout of the help. Commands added afterwards inherit it.
void format_help(CLI::App& program);

// Adds the examples and the exit codes below each command's help.
void add_footers(CLI::App& program);

}  // namespace ringsched
