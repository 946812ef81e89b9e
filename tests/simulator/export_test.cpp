// Exported plans, read again by small readers in this file.
#include "ringsched/simulator/export.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"

namespace ringsched {
namespace {

using ::testing::HasSubstr;
using Ids = std::set<std::uint32_t>;

Plan plan_of(const Schedule& s, std::uint32_t workers, std::int64_t tokens) {
  return limit_communication(build_plan(small_problem(workers, tokens, Pass::Both), s), {});
}

std::int64_t compute_ps(const Workload& w, std::uint32_t id) {
  const Task& t = w.plan->tasks[id];
  return w.compute[static_cast<std::size_t>(t.kind) * w.plan->works.size() + t.work.value];
}

Ids needs_of(const Plan& plan, std::uint32_t id) {
  Ids all;
  for (const TensorId input : plan.tasks[id].inputs)
    if (input.valid() && plan.producer(input).valid()) all.insert(plan.producer(input).value);
  for (const ControlEdge& e : plan.controls)
    if (e.after.value == id) all.insert(e.before.value);
  return all;
}

// All tasks of the unit before that of this task in its lane.
Ids lane_needs_of(const Plan& plan, std::uint32_t id) {
  const auto same = [&](std::uint32_t other) {
    return plan.tasks[other].worker_index == plan.tasks[id].worker_index &&
           plan.tasks[other].lane == plan.tasks[id].lane;
  };
  Ids all;
  bool in_own_unit = plan.tasks[id].with_previous;
  for (std::uint32_t other = id; other-- > 0;) {
    if (!same(other)) continue;
    if (!in_own_unit) all.insert(other);
    if (!plan.tasks[other].with_previous && !all.empty()) break;
    if (!plan.tasks[other].with_previous) in_own_unit = false;
  }
  return all;
}

// Two workers; worker 0 sends its keys: 64 tokens x 64 bytes at 0.1 GB/s are 40.96 us after 2.
// A causal tile of 64 x 65 / 2 pairs takes 1 + 38.034 us at 7 GFLOP/s, a full one 1 + 52.429 us at
// 10 GFLOP/s, a merge 1 + 0.025 us.
TEST(Goal, OfATinyPlan) {
  const Plan plan = build_plan(small_problem(2, 128), find_schedule("ring"));
  const Workload w = price(plan, test_machine(Fabric::Switch, 2));
  const Goal g = goal(w);
  EXPECT_EQ(g.latency_ns, 2000);
  EXPECT_EQ(g.text, R"(num_ranks 2
rank 0 {
t0: calc 39034 cpu 0
t6: calc 0 cpu 0
t2: send 40960b to 1 tag 2 cpu 1 nic 0
t6 requires t0
}
rank 1 {
t1: calc 39034 cpu 0
t4: calc 53429 cpu 0
t5: calc 1025 cpu 0
t7: calc 0 cpu 0
t3: recv 40960b from 0 tag 2 cpu 1 nic 0
t4 requires t1
t4 requires t3
t5 requires t1
t5 requires t4
t7 requires t5
}
)");
}

class ExportedSchedule : public testing::TestWithParam<Case> {};

TEST_P(ExportedSchedule, AsGoalPairsItsMessagesAndNamesWhatIsThere) {
  const auto [schedule, workers] = GetParam();
  const Plan plan = plan_of(*schedule, workers, 40 * workers);
  const Workload w = price(plan, test_machine(Fabric::Switch, workers));
  std::istringstream text(goal(w).text);
  std::string line, word;
  std::getline(text, line);
  EXPECT_EQ(line, "num_ranks " + std::to_string(workers));
  std::map<std::string, std::vector<std::string>> messages;  // by tag: "send 7b 0 1", "recv 7b 0 1"
  std::map<std::uint32_t, Ids> needs;
  Ids labels, rank_labels;
  std::uint32_t rank = 0;
  while (std::getline(text, line)) {
    std::istringstream words(line);
    std::string label, kind, size, direction, other, tag;
    words >> label >> kind;
    if (label == "rank") {
      rank = static_cast<std::uint32_t>(std::stoul(kind));
      rank_labels.clear();
    } else if (label.ends_with(":")) {
      const auto id = static_cast<std::uint32_t>(std::stoul(label.substr(1)));
      EXPECT_TRUE(labels.insert(id).second) << line;
      rank_labels.insert(id);
      EXPECT_EQ(plan.tasks[id].worker_index, rank);
      words >> size;
      if (kind == "calc") {
        EXPECT_EQ(std::stoll(size), (compute_ps(w, id) + 500) / 1000) << line;
        continue;
      }
      words >> direction >> other >> word >> tag;
      const std::string mine = std::to_string(rank);
      messages[tag].push_back(size + " " +
                              (kind == "send" ? mine + " " + other : other + " " + mine));
    } else if (kind == "requires") {
      words >> other;
      const auto id = static_cast<std::uint32_t>(std::stoul(label.substr(1)));
      const auto before = static_cast<std::uint32_t>(std::stoul(other.substr(1)));
      EXPECT_TRUE(rank_labels.contains(id) && rank_labels.contains(before)) << line;
      needs[id].insert(before);
    }
  }
  EXPECT_EQ(labels.size(), plan.tasks.size());
  for (const auto& [tag, ends] : messages) {
    ASSERT_EQ(ends.size(), 2u) << tag;
    EXPECT_EQ(ends[0], ends[1]);
  }
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    Ids expected = needs_of(plan, id);
    expected.merge(lane_needs_of(plan, id));
    std::erase_if(expected, [&](std::uint32_t before) {
      return plan.tasks[before].worker_index != plan.tasks[id].worker_index;
    });
    EXPECT_EQ(needs[id], expected) << id;
  }
}

// The grammar of docs/model.md, word by word.
TEST_P(ExportedSchedule, AsTextHoldsAllThatTheEnginesRead) {
  const auto [schedule, workers] = GetParam();
  const Plan plan = plan_of(*schedule, workers, 40 * workers);
  for (const auto& [name, machine] : test_machines(workers)) {
    const Workload w = price(plan, machine);
    std::istringstream text(workload_text(w));
    std::string line, word;
    std::getline(text, line);
    EXPECT_EQ(line, "ringsched-workload 1");
    std::getline(text, line);
    EXPECT_EQ(line, "workers " + std::to_string(workers));
    std::getline(text, line);
    EXPECT_EQ(line, "lanes " + std::to_string(plan.lane_count()));
    for (std::uint32_t l = 0; l < w.network.links(); ++l) {
      std::uint32_t link = 0;
      double rate = 0;
      text >> word >> link >> rate;
      EXPECT_EQ(word, "link");
      EXPECT_EQ(link, l);
      EXPECT_NEAR(rate, w.network.capacity({l}) * 1e12, 1e-6 * rate) << name;
    }
    text >> std::ws;
    for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
      const Task& t = plan.tasks[id];
      ASSERT_TRUE(std::getline(text, line)) << id;
      std::istringstream words(line);
      std::string kind;
      std::uint32_t task = 0, worker = 0, lane = 0, joined = 0, peer = 0;
      words >> kind >> task >> worker >> lane;
      EXPECT_EQ(kind, is_transfer(t.kind) ? to_text(t.kind) : "compute");
      EXPECT_EQ(task, id);
      EXPECT_EQ(worker, t.worker_index);
      EXPECT_EQ(lane, static_cast<std::uint32_t>(t.lane));
      if (is_transfer(t.kind)) {
        words >> joined >> peer;
        EXPECT_EQ(joined, t.with_previous ? 1u : 0u);
        EXPECT_EQ(peer, t.peer.value);
      } else {
        std::int64_t ps = 0;
        words >> ps;
        EXPECT_EQ(ps, compute_ps(w, id));
      }
      if (t.kind == TaskKind::Send) {
        const Route route = w.network.route(t.worker(), plan.tasks[t.peer.value].worker());
        std::int64_t bytes = 0, startup = 0;
        words >> bytes >> startup >> word;
        EXPECT_EQ(bytes, plan.works[t.work.value].bytes.value);
        const unsigned transfers = w.transfers_of(t);
        EXPECT_EQ(startup,
                  transfers * w.startup[static_cast<std::size_t>(route.distance)]
                                       [t.work.value + w.starts_apart(t) * plan.works.size()]);
        EXPECT_EQ(word, "route");
        for (const LinkId l : route.over()) {
          words >> word;
          EXPECT_EQ(word, std::to_string(l.value));
        }
      }
      words >> word;
      EXPECT_EQ(word, "deps");
      Ids deps;
      for (std::uint32_t before = 0; words >> before;) deps.insert(before);
      EXPECT_EQ(deps, needs_of(plan, id));
    }
    EXPECT_FALSE(std::getline(text, line));
  }
}

INSTANTIATE_TEST_SUITE_P(Export, ExportedSchedule, testing::ValuesIn(schedules_of_messages(6)),
                         [](const auto& i) { return i.param.name(); });

}  // namespace
}  // namespace ringsched
