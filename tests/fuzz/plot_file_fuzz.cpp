// Whatever reads as a sweep, a prediction or a validation must give charts, or an Error of one
// line.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/viz/sweep_plot.hpp"

namespace {

using namespace ringsched;

template <class Draw>
void attempt(Draw draw) {
  try {
    draw();
  } catch (const Error& e) {
    if (std::string_view(e.what()).find('\n') == std::string_view::npos) return;
    std::fprintf(stderr, "an error of several lines: %s\n", e.what());
    std::abort();
  }
}

void draw_sweep(const Records& r) {
  for (const PlotY y : {PlotY::Time, PlotY::Speedup, PlotY::TokensPerSecond, PlotY::Memory})
    for (const char* x : {"", "tokens", "workers"})
      attempt([&] { svg(line_plot(sweep_lines(r, y, x), page_for("column"))); });
  attempt([&] { svg(best_map(sweep_map(r))); });
  attempt([&] { svg(front_plot(sweep_front(r))); });
  attempt([&] { svg(time_bars(sweep_bars(r))); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  attempt([&] { draw_sweep(read_csv_records(text, "input")); });
  attempt([&] { draw_sweep(read_json_records(text, "input")); });
  attempt([&] { svg(tornado(prediction_tornado(text, "input"))); });
  attempt([&] {
    TimeBars bars;
    bars.panels = {prediction_bar(text, "input", bars.unit)};
    svg(time_bars(bars));
  });
  attempt([&] { svg(agreement_plot(validation_plot(text, "input"), 0.1)); });
  return 0;
}
