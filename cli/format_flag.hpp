// --format, which most subcommands have.
#pragma once

namespace CLI {
class App;
}  // namespace CLI

namespace ringsched {

enum class Format { Text, Json };
void add_format_flag(CLI::App& command, Format& format);

}  // namespace ringsched
