// The schedules, and how one becomes a plan.
#pragma once

#include <concepts>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ringsched/scheduler/builder.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// A number that the user may choose: --schedule NAME:parameter=number; or one of some words.
struct Parameter {
  std::string_view name;
  std::string_view words;     // one line for `ringsched schedules NAME`
  std::uint32_t initial = 1;  // where none is given
  std::uint32_t least = 1, most = 65535;
  std::vector<std::string_view> choices = {};  // if any, the number is the place of a word here
};

// As it is typed.
std::string value_text(const Parameter&, std::uint32_t number);

// The numbers chosen for the parameters of a schedule.
class Arguments {
 public:
  // From "parameter=number:parameter=word". Throws Error for what `schedule` does not accept.
  static Arguments parse(std::string_view schedule, std::span<const Parameter>,
                         std::string_view text);
  explicit Arguments(std::span<const Parameter> = {});

  std::uint32_t operator[](std::string_view parameter) const;  // which the schedule must have

 private:
  std::vector<std::pair<std::string_view, std::uint32_t>> numbers_;
};

// The function that makes the calls: takes a problem and a builder, and arguments if it has
// parameters.
class ScheduleCalls {
 public:
  template <std::invocable<const Problem&, PlanBuilder&> F>
  ScheduleCalls(F calls)
      : calls_([calls](const Problem& p, PlanBuilder& b, const Arguments&) { calls(p, b); }) {}
  template <std::invocable<const Problem&, PlanBuilder&, const Arguments&> F>
  requires(!std::same_as<F, ScheduleCalls>) ScheduleCalls(F calls) : calls_(calls) {}

  void operator()(const Problem& p, PlanBuilder& b, const Arguments& a) const { calls_(p, b, a); }

 private:
  std::function<void(const Problem&, PlanBuilder&, const Arguments&)> calls_;
};

// Where the tokens are: takes the number of workers and the tokens; or, if it depends on more than
// these, the problem and the arguments. For a schedule that decodes, it takes the problem alone.
class ScheduleLayout {
 public:
  ScheduleLayout(Layout (*plain)(std::uint32_t, Tokens))
      : layout_(
            [plain](const Problem& p, const Arguments&) { return plain(p.workers, p.tokens); }) {}
  ScheduleLayout(Layout (*chosen)(const Problem&, const Arguments&)) : layout_(chosen) {}
  ScheduleLayout(Layout (*decoding)(const Problem&))
      : layout_([decoding](const Problem& p, const Arguments&) { return decoding(p); }),
        decodes_(true) {}
  template <std::invocable<std::uint32_t, Tokens> F>
  ScheduleLayout(F layout)
      : layout_(
            [layout](const Problem& p, const Arguments&) { return layout(p.workers, p.tokens); }) {}

  Layout operator()(const Problem& p, const Arguments& a) const { return layout_(p, a); }
  bool decodes() const { return decodes_; }

 private:
  std::function<Layout(const Problem&, const Arguments&)> layout_;
  bool decodes_ = false;
};

struct Schedule {
  std::string name;          // as typed after --schedule, with what is not the default
  std::string_view summary;  // one line for `ringsched schedules`
  std::string_view source;   // the paper or page it comes from
  ScheduleLayout layout;
  ScheduleCalls build;
  std::vector<Parameter> parameters = {};
  Arguments arguments = Arguments(parameters);

  bool decodes() const { return layout.decodes(); }
};

std::span<const Schedule> schedules();         // of whole sequences
std::span<const Schedule> decode_schedules();  // of new tokens against cached keys

// By "NAME" or "NAME:parameter=number". Throws Error with the nearest name.
Schedule find_schedule(std::string_view text);

// The problem that a schedule solves: one that decodes has one new token by default. Throws Error
// if the two do not fit.
Problem problem_for(const Schedule&, Problem, Naming = Naming::Arguments);

// The plan as the schedule means it: communication runs as far ahead as its data allow. Another
// pass limits it (overlap.hpp). Throws Error if the problem makes no sense or the plan would have
// more than `most_tasks`.
Plan build_plan(const Problem&, const Schedule&, std::uint64_t most_tasks = kMostTasks);

}  // namespace ringsched
