// Whatever reads as measurements must describe valid problems on valid machines, with existing
// schedules. Everything else must be refused in one line with the place.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/simulator/measurements.hpp"

namespace {

using namespace ringsched;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view toml(reinterpret_cast<const char*>(data), size);
  // A machine may be a file, and some of those never end.
  if (toml.find("/dev") != std::string_view::npos || toml.find("/proc") != std::string_view::npos)
    return 0;
  Measurements m;
  try {
    m = read_measurements(toml, "input");
  } catch (const Error& e) {
    const std::string_view what = e.what();
    expect(what.find('\n') == std::string_view::npos, "an error of several lines");
    expect(what.starts_with("input:"), "an error without its place");
    return 0;
  }
  expect(!m.groups.empty(), "no group");
  for (const MeasuredGroup& g : m.groups) {
    expect(!g.name.empty() && !g.by.empty() && !g.results.empty(), "a group without its parts");
    require_valid(g.machine);
    for (const MeasuredResult& r : g.results) {
      require_valid(r.problem);
      find_schedule(r.schedule);
      expect(r.published >= 0 && r.line > 0, "a result that is no number, or nowhere");
    }
  }
  return 0;
}
