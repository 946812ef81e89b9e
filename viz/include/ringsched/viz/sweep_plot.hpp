// Charts from files: the rows of `ringsched sweep`, the JSON of `simulate` and of `validate`.
#pragma once

#include <string>
#include <string_view>

#include "ringsched/timeline/timeline.hpp"
#include "ringsched/viz/plot.hpp"
#include "ringsched/viz/records.hpp"

namespace ringsched {

enum class PlotY : std::uint8_t { Time, Speedup, TokensPerSecond, Memory };
// "time", "speedup", "tokens-per-second" or "memory". Throws Error for other names.
PlotY parse_plot_y(std::string_view);

// All of these throw Error, starting with the file's name, if a column is missing, no row has a
// result, or nothing varies that could be drawn.

// Does the number of tokens or of workers vary?
bool has_lines(const Records&);
// `x`: "tokens", "workers", or empty for what varies. Anything else that varies gets its own
// panels.
Plot sweep_lines(const Records&, PlotY, const std::string& x = {});
BestMap sweep_map(const Records&);
// Time against memory.
Plot sweep_front(const Records&);
TimeBars sweep_bars(const Records&);

// Of the JSON of `ringsched simulate`.
TimePanel prediction_bar(const std::string& json, const std::string& name, PlotUnit&);
Tornado prediction_tornado(const std::string& json, const std::string& name);
// "kernels=2x" as "kernels 2x faster"; what it does not know, as it is.
std::string change_in_words(const std::string& change);
// The makespans of all runs, of the JSON of `simulate` or `run`; `subject`: the problem.
RunsRow prediction_runs(const std::string& json, const std::string& name, PlotUnit&,
                        std::string& subject);
// Of the JSON of `ringsched validate`: one panel for each quantity with at least five results.
Plot validation_plot(const std::string& json, const std::string& name);

TimeBar timeline_bar(const Timeline&);
// What messages carry from worker to worker; exchanges as if each share went straight to where it
// is wanted. Throws Error if the timeline does not say.
Traffic traffic_of(const Timeline&, std::uint32_t per_node);
Traffic traffic_of(const Plan&, std::string_view machine, std::uint32_t per_node);
// Bytes alive over time: the fullest worker, the range of all, and a device's memory (0: unknown).
// Throws Error if the timeline does not say.
Picture memory_plot(const Timeline&, double device_bytes, const Page& = {});

}  // namespace ringsched
