#include "help.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

namespace ringsched {

namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kIndent = 28;  // of descriptions

// The words of `text` after `name`, in lines that start at kIndent; '\n' starts a line.
std::string entry(const std::string& name, std::string_view text) {
  std::string out, line = "  " + name;
  if (line.size() + 2 > kIndent) {
    out = line + "\n";
    line.clear();
  }
  line.resize(kIndent, ' ');
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const bool first = line.size() == kIndent;
    const bool starts_line = at > 0 && text[at - 1] == '\n';
    if (starts_line || (!first && line.size() + 1 + end - at > kColumns)) {
      out += line + "\n";
      line.assign(kIndent, ' ');
    } else if (!first) {
      line += ' ';
    }
    line += text.substr(at, end - at);
    at = end + 1;
  }
  return out + line + "\n";
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = Formatter::make_help(app, std::move(name), mode);
    for (std::size_t at; (at = text.find("\n\n\n")) != text.npos;) text.erase(at, 1);
    return text;
  }
  std::string make_option(const CLI::Option* option, bool positional) const override {
    std::string name = option->get_name(positional, !positional);
    if (const std::size_t comma = name.find(','); comma != name.npos) name.insert(comma + 1, " ");
    if (option->get_type_size() != 0 && !option->get_type_name().empty())
      name += " " + option->get_type_name();
    const char* required = option->get_required() && !positional ? " (required)" : "";
    return entry(name, option->get_description() + required);
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_name(), command->get_description());
  }
};

struct CommandExamples {
  const char* command;
  std::array<const char*, 3> arguments;
};

constexpr CommandExamples kExamples[] = {
    {"", {"simulate --workers 8 --schedule balanced", "run --check", "COMMAND --help"}},
    {"schedules", {"schedules --format json"}},
    {"plan", {"plan --workers 4 --schedule zigzag", "plan --schedule ring --output ring.json"}},
    {"verify", {"verify plan.json", "plan --output - | ringsched verify -"}},
    {"machines", {"machines", "machines dgx-a100 > mine.toml", "machines check mine.toml"}},
    {"machines list", {"machines list", "machines list --format json"}},
    {"machines show", {"machines show dgx-a100"}},
    {"machines check", {"machines check mine.toml"}},
    {"machines new",
     {"machines new --gpu l20 --link pcie4 -o l20.toml",
      "machines new --gpu h800 --nodes 2 --nic ib400 -o h800.toml",
      "machines new --gpu a100 --gpus 4 --nodes 8 --nic ib200 --nics 2"}},
    {"simulate",
     {"simulate --workers 8 --schedule balanced",
      "simulate --machine dgx-a100 --schedule zigzag --gantt zigzag.svg",
      "simulate --machine dgx-a100 --what-if bandwidth=2x"}},
    {"run", {"run --workers 4 --schedule zigzag --check", "run --machine laptop --gantt both.svg"}},
    {"calibrate",
     {"calibrate --output mine.toml", "calibrate --dtype bf16 --head-dim 128 --output mine.toml"}},
    {"bench-links", {"bench-links --maxbytes 2M"}},
    {"sweep",
     {"sweep --machine dgx-a100,hgx-h100 --tokens 64K",
      "sweep --workers 4,8,16 --output sweep.csv"}},
    {"import",
     {"import traces/*.json --plan plan.json",
      "import traces/*.json --plan plan.json --annotation step -o run.json"}},
    {"compare", {"compare predicted.json measured.json --tolerance 10%"}},
    {"render",
     {"render timeline.json", "render timeline.json --output timeline.html",
      "render plan.json --output blocks.svg"}},
    {"plot",
     {"plot sweep.csv --output time.pdf --for column",
      "plot sweep.csv --kind map --output best.svg",
      "plot prediction.json --kind tornado --output tornado.svg"}},
    {"export", {"export --machine dgx-a100 --schedule ring --output ring.goal"}},
    {"validate", {"validate", "validate --rows", "validate --file mine.toml --format json"}},
    {"doctor", {"doctor", "doctor --format json"}}};

std::string footer(const std::array<const char*, 3>& arguments) {
  std::string out = "Examples:\n";
  for (const char* one : arguments)
    if (one) out += std::string("  ringsched ") + one + "\n";
  return out + "\nExit codes: 0 success, 1 a check failed, 2 bad input, 3 a run failed";
}

}  // namespace

void format_help(CLI::App& program) {
  auto formatter = std::make_shared<HelpFormatter>();
  formatter->label("Positionals", "Arguments");
  formatter->label("SUBCOMMAND", "COMMAND");
  program.formatter(std::move(formatter));
}

void add_footers(CLI::App& program) {
  for (const auto& [command, arguments] : kExamples) {
    CLI::App* app = &program;
    for (std::string_view rest = command; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      app = app->get_subcommand(std::string(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    app->footer(footer(arguments));
    app->group("Commands");
    for (CLI::Option* option : app->get_options())  // or these would put "Options" first
      if (option->get_positional()) option->group("Arguments");
    app->set_help_flag("-h,--help", "print this help and exit");  // again, so that it comes last
  }
}

}  // namespace ringsched
