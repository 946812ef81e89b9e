#include <fmt/format.h>

#include "prediction.hpp"
#include "ringsched/simulator/spread.hpp"
#include "ringsched/simulator/uncertainty.hpp"
#include "ringsched/timeline/timeline.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

std::string us(Picoseconds ps) { return microseconds(ps); }
double quotient(Picoseconds a, Picoseconds b) {
  return b.value > 0 ? static_cast<double>(a.value) / static_cast<double>(b.value) : 0;
}
std::string json_number(double x) { return fmt::format("{}", x); }

std::string answer_list(const std::vector<Answer>& answers) {
  std::string out;
  for (const Answer& a : answers)
    out += fmt::format("{}\n    {{\"change\": \"{}\", \"makespan_us\": {}}}",
                       out.empty() ? "" : ",", escaped(a.change), us(a.makespan));
  return out.empty() ? "[]" : "[" + out + "\n  ]";
}

std::string exchanges_json(const Prediction& p) {
  std::string list;
  for (const ExchangeReport& e : p.study.report.exchanges) {
    const bool measured = e.row != ExchangeCost::kLinks;
    list += fmt::format(
        "{}\n    {{\"form\": \"{}\", \"count\": {}, \"workers\": {}, \"nodes\": {}, "
        "\"workers_per_node\": {}, \"bytes\": {:.0f}, \"priced_by\": \"{}\"{}}}",
        list.empty() ? "" : ",", to_text(e.form), e.count, e.members, e.nodes,
        e.per_node > 0 ? fmt::format("{}", e.per_node) : "null", e.bytes,
        measured ? "collective" : "links",
        measured ? fmt::format(", \"source\": \"{}\"",
                               escaped(p.study.setup.machine.collectives[e.row].source))
                 : "");
  }
  return "[" + list + "\n  ]";
}

std::string lowered_json(const std::vector<LoweredForm>& forms) {
  std::string list;
  for (const LoweredForm& f : forms)
    list += fmt::format("{}\n    {{\"form\": \"{}\", \"count\": {}, \"as\": \"{}\"}}",
                        list.empty() ? "" : ",", to_text(f.form), f.count, to_text(f.as));
  return "[" + list + "\n  ]";
}

}  // namespace

std::string workers_json(const RunTimes& r) {
  std::string list;
  for (std::size_t i = 0; i < r.workers.size(); ++i) {
    const WorkerTimes& w = r.workers[i];
    list += fmt::format(
        "{}\n    {{\"worker\": {}, \"attending_us\": {}, \"overhead_us\": {}, \"waiting_us\": {}, "
        "\"out_of_work_us\": {}, \"transferring_us\": {}, \"hidden_us\": {}, "
        "\"waiting_for_sender_us\": {}, \"waiting_for_host_us\": {}}}",
        i == 0 ? "" : ",", i, us(w.attending), us(w.overhead), us(w.waiting), us(w.out_of_work),
        us(w.transferring), us(w.hidden), us(w.waiting_for_sender), us(w.waiting_for_host));
  }
  return "[" + list + "\n  ]";
}

std::string prediction_json(const Prediction& p, const std::vector<Answer>& answers,
                            const std::vector<Answer>& better, bool path) {
  const Report& r = p.study.report;
  const Problem& problem = p.proved.plan.problem;
  std::string out = "{\n";
  const auto key = [&](const char* name, const std::string& value) {
    out += fmt::format("  \"{}\": {},\n", name, value);
  };
  const auto text = [&](const char* name, std::string_view value) {
    key(name, fmt::format("\"{}\"", escaped(value)));
  };
  text("schedule", p.proved.plan.schedule);
  text("machine", p.study.setup.machine.name);
  text("conditions", p.figures);
  text("plan_hash", plan_hash(p.proved.plan));
  key("workers", fmt::format("{}", problem.workers));
  key("tokens", fmt::format("{}", problem.tokens.value));
  key("tasks", fmt::format("{}", p.proved.plan.tasks.size()));
  text("unit", p.unit() == TimeUnit::Blocks ? "blocks" : "us");
  key("makespan_us", us(r.makespan));
  if (const std::optional<Fit>& f = p.fit)
    key("calibration",
        fmt::format("{{\"figure\": \"{}\", \"factor\": {}, \"spread\": {}, \"spreads_away\": {}, "
                    "\"within_spread\": {}, \"spread_left\": {}, \"predicted_before_us\": {}, "
                    "\"too_weak\": \"{}\"}}",
                    f->figure, json_number(f->factor), json_number(f->spread),
                    json_number(f->sigmas()), f->within_spread(), json_number(f->left),
                    us(f->predicted), f->too_weak));
  if (const auto sure = interval(p.study.possible, r.makespan))
    key("interval_80_us", fmt::format("[{}, {}]", us(sure->low), us(sure->high)));
  std::string extrapolated;
  for (const std::string& what : p.study.workload.extrapolated)
    extrapolated += fmt::format("{}\"{}\"", extrapolated.empty() ? "" : ", ", escaped(what));
  key("extrapolated", "[" + extrapolated + "]");
  key("idle_fraction", json_number(r.idle_fraction));
  key("hta_idle_fraction", json_number(r.hta_idle_fraction));
  key("overlap_fraction", json_number(r.overlap_fraction));
  key("hta_overlap_fraction", json_number(r.hta_overlap_fraction));
  key("exposed_communication_us", us(r.exposed_communication));
  key("speedup", json_number(quotient(p.study.one_device, r.makespan)));
  key("speedup_over_ring", p.study.ring ? json_number(quotient(*p.study.ring, r.makespan))
                           : p.proved.plan.schedule.starts_with("ring") ? "1"
                                                                        : "null");
  key("one_device_us", us(p.study.one_device));
  key("slowest_device", json_number(p.study.workload.pace));
  key("peak_bytes", fmt::format("{}", p.proved.peak.value));
  const std::optional<bool> fits = memory_fits(p.study, p.proved.peak);
  key("fits", !fits ? "null" : *fits ? "true" : "false");
  key("bounds",
      fmt::format("{{\"work_us\": {}, \"worker_us\": {}, \"chain_us\": {}, "
                  "\"link_us\": {}, \"best_us\": {}, \"gap\": {}}}",
                  us(r.bounds.work), us(r.bounds.worker), us(r.bounds.chain), us(r.bounds.link),
                  us(r.bounds.best()), json_number(quotient(r.makespan, r.bounds.best()))));
  if (const std::string_view what = attends_bound_by(p.proved.plan, p.study.setup.machine);
      !what.empty())
    text("attends_bound_by", std::string(what));
  key("critical_path",
      fmt::format("{{\"attending_us\": {}, \"overhead_us\": {}, \"wire_us\": {}, "
                  "\"startup_us\": {}, \"below_link_speed_us\": {}, \"contention_us\": {}, "
                  "\"host_us\": {}, \"waiting_us\": {}, "
                  "\"steps\": {}}}",
                  us(r.path.attending), us(r.path.overhead), us(r.path.wire), us(r.path.startup),
                  us(r.path.below_speed), us(r.path.contention), us(r.path.host),
                  us(r.path.waiting), r.path_steps.size()));
  std::string list;
  if (path) {
    const auto room = slack(p.study.workload, p.study.run, p.study.conditions);
    for (const PathStep& step : r.path_steps) {
      const Task& t = p.proved.plan.tasks[step.task.value];
      list += fmt::format(
          "{}\n    {{\"task\": {}, \"kind\": \"{}\", \"worker\": {}, \"step\": {}, "
          "\"start_us\": {}, \"end_us\": {}, \"waited_for\": \"{}\"}}",
          list.empty() ? "" : ",", step.task.value, to_text(t.kind), t.worker_index, t.step,
          us(step.start), us(step.end), to_text(step.cause));
    }
    key("path", "[" + list + "\n  ]");
    list.clear();
    for (const std::int64_t ps : room) list += (list.empty() ? "" : ", ") + us({ps});
    key("slack_us", "[" + list + "]");
    list.clear();
  }
  key("by_worker", workers_json(r));
  list.clear();
  for (const LinkReport& l : r.links)
    list += fmt::format(
        "{}\n    {{\"link\": \"{}\", \"bytes\": {:.0f}, \"busy_us\": {}, "
        "\"utilisation\": {}}}",
        list.empty() ? "" : ",", escaped(p.study.workload.network.name(l.link)), l.bytes,
        us(l.busy), json_number(l.utilisation));
  key("links", list.empty() ? "[]" : "[" + list + "\n  ]");
  if (!r.exchanges.empty()) key("exchanges", exchanges_json(p));
  if (!p.proved.lowered.empty()) key("lowered_exchanges", lowered_json(p.proved.lowered));
  if (!p.study.makespans.empty()) {
    const auto at = [&](double x) { return us(percentile(p.study.makespans, x)); };
    std::string each;
    for (const Picoseconds t : p.study.makespans) each += (each.empty() ? "" : ", ") + us(t);
    key("runs", fmt::format("{{\"count\": {}, \"p5_us\": {}, \"p50_us\": {}, \"p95_us\": {}, "
                            "\"worst_us\": {},\n    \"makespans_us\": [{}]}}",
                            p.study.makespans.size(), at(5), at(50), at(95), at(100), each));
  }
  key("improvements", answer_list(better));
  key("what_if", answer_list(answers));
  out.erase(out.size() - 2);
  return out + "\n}\n";
}

}  // namespace ringsched
