// Whether two plans are the same, for tests of code that stores plans.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "ringsched/scheduler/plan_file.hpp"

namespace ringsched {

// The same tasks in the same order, however regions and works are numbered.
inline void expect_same(const Plan& a, const Plan& b) {
  EXPECT_EQ(a.problem, b.problem);
  EXPECT_EQ(a.layout, b.layout);
  EXPECT_EQ(a.schedule, b.schedule);
  EXPECT_EQ(a.lanes, b.lanes);
  EXPECT_EQ(a.controls, b.controls);
  EXPECT_EQ(a.slots, b.slots);
  EXPECT_EQ(a.exchanges, b.exchanges);
  EXPECT_EQ(a.repacks, b.repacks);
  const auto expect_same_piece = [&](const Piece& x, const Piece& y) {
    EXPECT_EQ(x.value, y.value);
    EXPECT_EQ(a.regions[x.rows.value], b.regions[y.rows.value]);
    EXPECT_EQ(x.columns, y.columns);
  };
  ASSERT_EQ(a.initial.size(), b.initial.size());
  for (std::uint32_t i = 0; i < a.initial.size(); ++i) {
    SCOPED_TRACE(fmt::format("given tensor {}", i));
    EXPECT_EQ(a.initial[i].worker, b.initial[i].worker);
    expect_same_piece(a.piece(a.initial[i]), b.piece(b.initial[i]));
  }
  ASSERT_EQ(a.tasks.size(), b.tasks.size());
  for (std::uint32_t i = 0; i < a.tasks.size(); ++i) {
    const Task &s = a.tasks[i], &t = b.tasks[i];
    SCOPED_TRACE(fmt::format("task {}", i));
    EXPECT_EQ(s.kind, t.kind);
    expect_same_piece(a.piece(s), b.piece(t));
    EXPECT_EQ(s.lane, t.lane);
    EXPECT_EQ(s.completes, t.completes);
    EXPECT_EQ(s.with_previous, t.with_previous);
    EXPECT_EQ(s.worker_index, t.worker_index);
    EXPECT_EQ(s.step, t.step);
    EXPECT_EQ(s.inputs, t.inputs);
    EXPECT_EQ(a.works[s.work.value], b.works[t.work.value]);
    if (is_attend(s.kind)) {
      EXPECT_EQ(a.regions[s.keys.value], b.regions[t.keys.value]);
    }
    if (is_transfer(s.kind)) {
      EXPECT_EQ(s.peer, t.peer);
    }
    if (is_member(s.kind)) {
      EXPECT_EQ(s.exchange, t.exchange);
    }
  }
}

inline void expect_round_trip(const Plan& plan) {
  const std::string text = write_plan(plan);
  const Plan back = read_plan(text, "plan");
  EXPECT_EQ(write_plan(back), text);
  expect_same(plan, back);
}

}  // namespace ringsched
