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

std::size_t columns() {
  if (const char* given = std::getenv("COLUMNS"); given && *given >= '1' && *given <= '9')
    return std::clamp<std::size_t>(std::strtoull(given, nullptr, 10), kLeast, kMost);
  winsize size{};
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return std::clamp<std::size_t>(size.ws_col, kLeast, kMost);
  return kUsual;
}

bool colour() {
  if (!isatty(STDOUT_FILENO)) return false;
  // Open MPI gives each process a pseudo-terminal, wherever the output goes in the end.
  if (std::getenv("OMPI_COMM_WORLD_SIZE")) return false;
  const char *refused = std::getenv("NO_COLOR"), *term = std::getenv("TERM");
  return !(refused && *refused) && term && std::string_view(term) != "dumb";
}

}  // namespace

std::string terminal_chart(const Timeline& t) { return terminal_gantt(t, {columns(), colour()}); }

}  // namespace ringsched
