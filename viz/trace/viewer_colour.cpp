// The colours that chrome://tracing knows, by name; it refuses a trace that names another. Perfetto
// ignores them.
#include <algorithm>
#include <array>

#include "gantt/internal.hpp"
#include "parts.hpp"

namespace ringsched {

namespace {

struct Named {
  std::string_view name;
  Colour colour;
};
// Without its greys, which stand for what is no attend.
constexpr std::array<Named, 25> kHues = {{{"thread_state_uninterruptible", {182, 125, 143}},
                                          {"thread_state_iowait", {255, 140, 0}},
                                          {"thread_state_running", {126, 200, 148}},
                                          {"thread_state_runnable", {133, 160, 210}},
                                          {"thread_state_unknown", {199, 155, 125}},
                                          {"background_memory_dump", {0, 180, 180}},
                                          {"light_memory_dump", {0, 0, 180}},
                                          {"detailed_memory_dump", {180, 0, 180}},
                                          {"vsync_highlight_color", {0, 0, 255}},
                                          {"good", {0, 125, 0}},
                                          {"bad", {180, 125, 0}},
                                          {"terrible", {180, 0, 0}},
                                          {"yellow", {255, 255, 0}},
                                          {"olive", {100, 100, 0}},
                                          {"rail_response", {67, 135, 253}},
                                          {"rail_animation", {244, 74, 63}},
                                          {"rail_idle", {238, 142, 0}},
                                          {"rail_load", {13, 168, 97}},
                                          {"startup", {230, 230, 0}},
                                          {"heap_dump_child_node_arrow", {204, 102, 0}},
                                          {"cq_build_running", {255, 255, 119}},
                                          {"cq_build_passed", {153, 238, 102}},
                                          {"cq_build_failed", {238, 136, 136}},
                                          {"cq_build_attempt_runnig", {222, 222, 75}},  // spelt so
                                          {"cq_build_attempt_passed", {103, 218, 35}}}};

int apart(Colour a, Colour b) {
  const int red = a.red - b.red, green = a.green - b.green, blue = a.blue - b.blue;
  return red * red + green * green + blue * blue;
}

}  // namespace

std::string_view viewer_colour(const Timeline& t, std::uint32_t task) {
  const TimelineTask& x = t.tasks[task];
  if (communicates(x.kind))
    return cargo_colour(t.value(x)) == ink::results ? "generic_work" : "cq_build_abandoned";
  if (!is_attend(x.kind)) return "generic_work";
  const Colour wanted = worker_colour(x.queries, t.problem.workers);
  return std::ranges::min_element(kHues, {},
                                  [&](const Named& n) { return apart(n.colour, wanted); })
      ->name;
}

}  // namespace ringsched
