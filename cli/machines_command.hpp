// `machines` and what stands below it.
#pragma once

#include "commands.hpp"
#include "format_flag.hpp"

namespace ringsched {

// `format` is that of `machines`: its --format may stand before `check`.
void add_check_command(CLI::App& machines, Format& format, ExitCode&);
void add_new_command(CLI::App& machines);

}  // namespace ringsched
