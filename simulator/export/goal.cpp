#include <fmt/format.h>

#include <iterator>
#include <limits>

#include "common.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/simulator/export.hpp"

namespace ringsched {

namespace {

void refuse_exchanges(const Plan& plan, const char* format) {
  if (plan.exchanges.empty()) return;
  fail("--format {} cannot express exchanges, and this plan has {}; add --exchanges direct", format,
       plan.exchanges.size());
}

}  // namespace

Goal goal(const Workload& w) {
  const Plan& plan = *w.plan;
  refuse_exchanges(plan, "goal");
  const Costs costs(w, {});
  const LaneUnits lanes = lane_units(plan);

  // A LogGP machine has one latency, so what messages take beyond the least of all goes into their
  // size.
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
    if (is_send(plan.tasks[id].kind))
      least = std::min(least, wire_of(w, costs, id).message.startup_ps);
  if (least == std::numeric_limits<std::int64_t>::max()) least = 0;
  Goal out;
  out.latency_ns = least / 1000;

  std::string& text = out.text;
  const auto put = std::back_inserter(text);
  fmt::format_to(put, "num_ranks {}\n", plan.problem.workers);
  for (std::uint32_t worker = 0; worker < plan.problem.workers; ++worker) {
    fmt::format_to(put, "rank {} {{\n", worker);
    std::string requirements;  // after all that they may name
    for (std::uint32_t l = 0; l < plan.lane_count(); ++l) {
      const auto& lane = lanes.tasks[std::size_t{worker} * plan.lane_count() + l];
      for (std::size_t at = 0; at < lane.size(); ++at) {
        const std::uint32_t id = lane[at];
        const Task& task = plan.tasks[id];
        if (is_transfer(task.kind)) {
          const bool sends = is_send(task.kind);
          const std::uint32_t send = sends ? id : task.peer.value;
          const std::int64_t ns =
              std::max<std::int64_t>(1, (wire_of(w, costs, send).alone_ps - least + 500) / 1000);
          fmt::format_to(put, "t{}: {} {}b {} {} tag {} cpu {} nic 0\n", id,
                         sends ? "send" : "recv", ns, sends ? "to" : "from",
                         plan.tasks[task.peer.value].worker_index, send, l);
        } else {
          fmt::format_to(put, "t{}: calc {} cpu {}\n", id, (costs.compute(id, task) + 500) / 1000,
                         l);
        }
        std::vector<std::uint32_t> needs = dependencies(plan, id);
        for (const std::uint32_t before : unit_before(plan, lane, at)) needs.push_back(before);
        std::sort(needs.begin(), needs.end());
        needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
        for (const std::uint32_t before : needs)
          if (plan.tasks[before].worker_index == worker)
            fmt::format_to(std::back_inserter(requirements), "t{} requires t{}\n", id, before);
      }
    }
    text += requirements + "}\n";
  }
  return out;
}

std::string workload_text(const Workload& w) {
  const Plan& plan = *w.plan;
  refuse_exchanges(plan, "workload");
  const Costs costs(w, {});
  std::string text;
  const auto put = std::back_inserter(text);
  fmt::format_to(put, "ringsched-workload 1\nworkers {}\nlanes {}\n", plan.problem.workers,
                 plan.lane_count());
  for (std::uint32_t l = 0; l < w.network.links(); ++l)
    fmt::format_to(put, "link {} {}\n", l, w.network.capacity({l}) * 1e12);
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    const auto lane = static_cast<unsigned>(task.lane);
    if (!is_transfer(task.kind)) {
      fmt::format_to(put, "compute {} {} {} {} deps", id, task.worker_index, lane,
                     costs.compute(id, task));
    } else {
      fmt::format_to(put, "{} {} {} {} {} {}", to_text(task.kind), id, task.worker_index, lane,
                     task.with_previous ? 1 : 0, task.peer.value);
      if (is_send(task.kind)) {
        const Wire wire = wire_of(w, costs, id);
        fmt::format_to(put, " {:.0f} {} route", wire.message.bytes, wire.message.startup_ps);
        for (const LinkId link : wire.route.over()) fmt::format_to(put, " {}", link.value);
      }
      text += " deps";
    }
    for (const std::uint32_t before : dependencies(plan, id)) fmt::format_to(put, " {}", before);
    text += '\n';
  }
  return text;
}

}  // namespace ringsched
