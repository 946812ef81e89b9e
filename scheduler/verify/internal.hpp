// What the parts of verify() share: the list of findings and how tasks are named in them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ringsched/scheduler/task_name.hpp"
#include "ringsched/scheduler/verify.hpp"

namespace ringsched {

class Findings {
 public:
  Findings(const Plan& plan, std::size_t most) : plan_(plan), most_(most) {}

  // About tasks; worker and step are those of the first.
  template <class... Args>
  void add(Rule rule, std::vector<TaskId> tasks, fmt::format_string<Args...> text, Args&&... args) {
    if (!has_room()) return;
    const Task& first = plan_.tasks[tasks.front().value];
    list_.push_back({rule, std::move(tasks), first.worker(), first.step,
                     fmt::format(text, std::forward<Args>(args)...)});
  }
  // About something that is missing.
  template <class... Args>
  void add_missing(Rule rule, WorkerId worker, fmt::format_string<Args...> text, Args&&... args) {
    if (has_room())
      list_.push_back({rule, {}, worker, 0, fmt::format(text, std::forward<Args>(args)...)});
  }

  Findings fresh() const { return Findings(plan_, most_); }
  // What was found after all this.
  void append(Findings&& later) {
    for (Violation& v : later.list_)
      if (!full()) list_.push_back(std::move(v));
    more_ = more_ || later.more_;
  }

  bool full() const { return list_.size() >= most_; }
  bool empty() const { return list_.empty(); }
  void hand_over(Verification& to) && {
    to.violations = std::move(list_);
    to.more = more_ || to.violations.size() >= most_;
  }

 private:
  bool has_room() {
    more_ = more_ || full();
    return !full();
  }

  const Plan& plan_;
  std::size_t most_;
  std::vector<Violation> list_;
  bool more_ = false;
};

// Empty: it is an initial tensor, or there is no such input.
inline TaskId maker_of(const Plan& plan, TensorId input) {
  return input.valid() ? plan.producer(input) : TaskId{};
}

// By task: the last member of the group that it is posted in, which names the group.
TaskColumn<std::uint32_t> groups_of(const Plan&);

// How many tokens each region holds.
std::vector<Tokens> rows_of_regions(const Plan&);

void verify_tables(const Plan&, std::uint32_t threads, Findings&);
void verify_structure(const Plan&, std::uint32_t threads, Findings&);
void verify_edges(const Plan&, Findings&);
void verify_coverage(const Plan&, Findings&);
void verify_deadlock(const Plan&, Findings&);
// What waits for what in a circle if each worker issues everything except lane compute as one
// queue.
std::string circle_in_one_queue(const Plan&);
// What it computes for nothing.
void verify_memory(const Plan&, Findings&, Verification&);

}  // namespace ringsched
