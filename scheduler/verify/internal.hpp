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
    if (full()) {
      more_ = true;
      return;
    }
    const Task& first = plan_.tasks[tasks.front().value];
    list_.push_back({rule, std::move(tasks), first.worker(), first.step,
                     fmt::format(text, std::forward<Args>(args)...)});
  }
  // About something that is not there.
  template <class... Args>
  void add_missing(Rule rule, WorkerId worker, fmt::format_string<Args...> text, Args&&... args) {
    if (full()) {
      more_ = true;
      return;
    }
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
  const Plan& plan_;
  std::size_t most_;
  std::vector<Violation> list_;
  bool more_ = false;
};

// The tasks of each (worker, lane) in program order.
struct Lanes {
  explicit Lanes(const Plan&);
  std::size_t count() const { return first.size() - 1; }

  LaneNumbers numbers;
  std::vector<std::uint32_t> first;  // lane l holds tasks[first[l]] to tasks[first[l + 1] - 1]
  std::vector<TaskId> tasks;
};

// How many tokens each region holds: sums over chunks, made once.
class RegionRows {
 public:
  explicit RegionRows(const Plan&);
  Tokens operator[](RegionId id) const { return rows_[id.value]; }

 private:
  std::vector<Tokens> rows_;
};

// Walks along plan.controls, which are sorted by their ends, with a loop over the tasks: forwards
// from the first task or back from the last.
class ControlsInOrder {
 public:
  explicit ControlsInOrder(const Plan& plan) : left_(plan.controls) {}
  // Of the task that comes next, the edges that end at it.
  std::span<const ControlEdge> before_next(TaskId next) {
    std::size_t n = 0;
    while (n < left_.size() && left_[n].after == next) ++n;
    const auto edges = left_.first(n);
    left_ = left_.subspan(n);
    return edges;
  }
  std::span<const ControlEdge> before_previous(TaskId previous) {
    std::size_t n = 0;
    while (n < left_.size() && left_[left_.size() - 1 - n].after == previous) ++n;
    const auto edges = left_.last(n);
    left_ = left_.first(left_.size() - n);
    return edges;
  }

 private:
  std::span<const ControlEdge> left_;
};

void verify_tables(const Plan&, std::uint32_t threads, Findings&);
void verify_structure(const Plan&, std::uint32_t threads, Findings&);
void verify_edges(const Plan&, Findings&);
void verify_coverage(const Plan&, Findings&);
void verify_deadlock(const Plan&, Findings&);
void verify_memory(const Plan&, Findings&, std::vector<Bytes>& peak);

}  // namespace ringsched
