#include "terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "ringsched/viz/terminal.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kLeast = 40, kUsual = 100, kMost = 240;

std::size_t given_columns() {
  const char* given = std::getenv("COLUMNS");
  return given && *given >= '1' && *given <= '9' ? std::strtoull(given, nullptr, 10) : 0;
}

std::string_view setting(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The first of these that is set decides, as for every program. A system without any is assumed to
// be modern.
bool is_ascii_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const std::string_view value = setting(name); !value.empty())
      return value.find("UTF-8") == value.npos && value.find("utf8") == value.npos &&
             value.find("UTF8") == value.npos && value.find("utf-8") == value.npos;
  return false;
}

// Terminals with all colours say so; other terminals' names tell how many they have.
enum class Colours { None, Indexed, All };

Colours colours() {
  if (!isatty(STDOUT_FILENO)) return Colours::None;
  // Open MPI gives each process a pseudo-terminal, wherever the output goes in the end.
  if (std::getenv("OMPI_COMM_WORLD_SIZE")) return Colours::None;
  if (!setting("NO_COLOR").empty()) return Colours::None;
  const std::string_view all = setting("COLORTERM"), term = setting("TERM");
  if (all == "truecolor" || all == "24bit" || term.ends_with("-direct")) return Colours::All;
  return term.find("256color") != term.npos ? Colours::Indexed : Colours::None;
}

}  // namespace

std::size_t terminal_columns() {
  if (!isatty(STDOUT_FILENO)) return 0;
  if (const std::size_t given = given_columns(); given > 0) return given;
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::size_t page_columns() {
  const std::size_t found = isatty(STDOUT_FILENO) ? terminal_columns() : given_columns();
  return found == 0 ? kUsual : std::clamp(found, kLeast, kMost);
}

std::string for_locale(const std::string& text) {
  return is_ascii_locale() ? in_ascii(text) : text;
}

std::string terminal_chart(const Timeline& t) {
  const Colours has = colours();
  return terminal_gantt(t, {.columns = page_columns(),
                            .colour = has != Colours::None,
                            .indexed = has == Colours::Indexed,
                            .plain = is_ascii_locale()});
}

}  // namespace ringsched
