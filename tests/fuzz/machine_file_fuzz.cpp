// Whatever reads as a machine profile must be written as a text that reads as the same machine, and
// have no errors when all are collected; otherwise both ways must find the same first error. A
// machine must give routes, prices and a run, or an Error with the reason; and the parts of the
// run's report must add up.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/overlap.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "ringsched/simulator/gaps.hpp"
#include "ringsched/simulator/report.hpp"

namespace {

using namespace ringsched;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

bool is_line(const Error& e) {
  return std::string_view(e.what()).find('\n') == std::string_view::npos;
}

const Plan& small_plan() {
  static const Plan plan = [] {
    Problem p;
    p.workers = 4;
    p.tokens = {403};
    p.heads = 4;
    p.kv_heads = 2;
    p.head_dim = 16;
    p.pass = Pass::Both;
    return limit_communication(build_plan(p, find_schedule("balanced")), {});
  }();
  return plan;
}

void run(const Machine& m) {
  const Workload w = price(small_plan(), m);
  if (w.network.links() > 1'000'000) return;  // too slow to try thousands of
  const Simulation s = simulate(w);
  const Report r = report(w, s);
  const PathShare& p = r.path;
  expect(p.attending + p.overhead + p.startup + p.below_speed + p.wire + p.contention + p.host +
                 p.waiting ==
             r.makespan,
         "the path does not add up");
  for (const WorkerTimes& worker : r.workers)
    expect(worker.attending + worker.overhead + worker.waiting + worker.out_of_work == r.makespan,
           "a worker does not add up");
  for (const std::int64_t ps : slack(w, s, {})) expect(ps >= 0, "negative slack");
  one_device(w, m);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view toml(reinterpret_cast<const char*>(data), size);
  Machine m;
  const CheckedProfile checked = check_machine(toml, "input");
  for (const std::string& error : checked.errors) expect(is_line(Error(error)), "two lines");
  try {
    m = read_machine(toml, "input");
    expect(checked.machine == m, "it reads otherwise when it is checked");
  } catch (const Error& e) {
    expect(!checked.errors.empty() && checked.errors.front() == e.what(), "another first error");
    expect(is_line(e), "an error of several lines");
    expect(std::string_view(e.what()).starts_with("input:"), "an error without its place");
    return 0;
  }
  require_valid(m);
  m.bases.clear();  // what is written needs none
  expect(read_machine(to_toml(m), "written") == m, "what is written reads otherwise");
  gaps(m);
  try {
    run(m);
  } catch (const Error& e) {  // such as too few devices, or no figures for this pass
    expect(is_line(e), "an error of several lines");
  }
  return 0;
}
