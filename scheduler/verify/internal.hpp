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
  static std::size_t of(const Task& t) {
    return std::size_t{t.worker_index} * kLanes + static_cast<std::size_t>(t.lane);
  }
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

// The edges of plan.controls that end at a task. They are sorted by it.
class ControlIndex {
 public:
  explicit ControlIndex(const Plan&);
  std::span<const ControlEdge> before(TaskId task) const {
    if (first_.empty()) return {};
    return edges_.subspan(first_[task.value], first_[task.value + 1] - first_[task.value]);
  }

 private:
  std::span<const ControlEdge> edges_;
  std::vector<std::uint32_t> first_;
};

void verify_tables(const Plan&, Findings&);
void verify_structure(const Plan&, Findings&);
void verify_edges(const Plan&, Findings&);
void verify_coverage(const Plan&, Findings&);
void verify_deadlock(const Plan&, const Lanes&, const ControlIndex&, Findings&);
void verify_memory(const Plan&, const Lanes&, const ControlIndex&, Findings&,
                   std::vector<Bytes>& peak);

}  // namespace ringsched
