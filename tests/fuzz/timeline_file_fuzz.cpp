// Whatever reads as a timeline must be written as a text that reads as the same timeline, does not
// differ from itself, and can be drawn or is refused in one line.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/timeline/compare.hpp"
#include "ringsched/timeline/timeline.hpp"
#include "ringsched/viz/gantt.hpp"
#include "ringsched/viz/terminal.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ringsched;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  Timeline t;
  try {
    t = read_timeline(json, "input");
  } catch (const Error& e) {
    const std::string_view what = e.what();
    if (what.find('\n') != what.npos || !what.starts_with("input:")) std::abort();
    return 0;
  }
  const std::string text = write_timeline(t);  // from here on an Error is a crash
  if (read_timeline(text, "its own text") != t) {
    std::fputs(text.c_str(), stderr);
    std::abort();
  }
  const Comparison c = compare(t, t);
  if (c.same_plan == t.plan_hash.empty() || !c.worst.empty() || c.error() != 0) std::abort();
  try {
    svg(gantt(t));
    svg(gantt(t, t));
    if (t.problem.workers <= 36) terminal_gantt(t, {60, true});
  } catch (const Error& e) {
    if (std::string_view(e.what()).find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
