// Plans from flags or files, and the study of one in words.
#pragma once

#include <string>
#include <vector>

#include "problem_flags.hpp"
#include "ringsched/simulator/study.hpp"

namespace ringsched {

ProvedPlan proved_plan(const ProblemFlags&);
ProvedPlan proved_plan(const std::string& file);  // throws Error if it does not verify

// A study, and which of the machine's figures and what conditions it is of, for people; may be
// empty.
struct Prediction {
  const ProvedPlan& proved;
  Study study;
  std::string figures;
};
Prediction predict(const ProvedPlan&, Setup, double diagonal, const std::string& figures);

// What fixed when a task started: "data", "lane", "buffers", "SMs" or "nothing".
const char* to_text(Cause::Kind);

// Where each worker's time went.
std::string worker_table(const RunTimes&);
std::string workers_json(const RunTimes&);

std::string prediction_text(const Prediction&, const std::vector<Answer>& answers,
                            const std::vector<Answer>& improvements, bool path);
std::string prediction_json(const Prediction&, const std::vector<Answer>& answers,
                            const std::vector<Answer>& improvements, bool path);

}  // namespace ringsched
