#include "format_flag.hpp"

#include <CLI/CLI.hpp>
#include <string>

#include "ringsched/scheduler/nearest.hpp"

namespace ringsched {

void add_format_flag(CLI::App& command, Format& format) {
  command
      .add_option_function<std::string>(
          "--format",
          [&format](const std::string& name) {
            check_choice("--format", name, {"text", "json"});
            format = name == "json" ? Format::Json : Format::Text;
          },
          "text or json (default text)")
      ->type_name("FORMAT");
}

}  // namespace ringsched
