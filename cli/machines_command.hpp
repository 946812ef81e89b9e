// `machines` and what stands below it.
#pragma once

#include "commands.hpp"

namespace ringsched {

void add_check_command(CLI::App& machines, ExitCode&);
void add_new_command(CLI::App& machines);

}  // namespace ringsched
