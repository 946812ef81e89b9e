// Plans from flags or files, and the study of one in words.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "problem_flags.hpp"
#include "ringsched/simulator/fitted.hpp"
#include "ringsched/simulator/study.hpp"

namespace ringsched {

ProvedPlan proved_plan(const ProblemFlags&, bool announced = true);
ProvedPlan proved_plan(const std::string& file);  // throws Error if it does not verify

// "noise 5%; exchanges ring": these conditions, and what replaced the exchanges, if requested.
std::string with_exchanges(std::string conditions, const ProvedPlan&);

// A study, and its kernels, software and conditions as text, which may be empty.
struct Prediction {
  const ProvedPlan& proved;
  Study study;
  std::string figures;
  std::optional<Fit> fit = {};  // to a measured time; then the study is of the fitted machine

  TimeUnit unit() const { return study.setup.machine.ideal ? TimeUnit::Blocks : TimeUnit::Seconds; }
};
Prediction predict(const ProvedPlan&, Setup, double diagonal, const std::string& figures);

// "ms=12.3". Throws Error for anything that is not a time.
Picoseconds measured_time(const std::string& text);

// Why a task started when it did: "data", "lane", "buffers", "kernel" or "nothing".
const char* to_text(Cause::Kind);

// Where each worker's time went.
std::string worker_table(const RunTimes&, TimeUnit = TimeUnit::Seconds);
// The note below the table if workers take turns on the cores.
std::string turns_note(std::uint32_t workers, std::uint32_t cores);
// "label            text", wrapped at 80 columns: after commas and semicolons, or if a part between
// them is longer than a line, between words.
std::string report_line(std::string_view label, std::string_view text);
std::string workers_json(const RunTimes&);

std::string prediction_text(const Prediction&, const std::vector<Answer>& answers,
                            const std::vector<Answer>& improvements, bool path);
std::string prediction_json(const Prediction&, const std::vector<Answer>& answers,
                            const std::vector<Answer>& improvements, bool path);

}  // namespace ringsched
