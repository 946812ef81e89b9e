// The results for plans of five schedules, kept in a file: times, memory, accounts and pictures. A
// change of how plans are built or written must not move any of it by a picosecond or a byte. After
// an intended change, RINGSCHED_REFRESH=1 in the environment rewrites the file.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "ringsched/scheduler/verify.hpp"
#include "ringsched/viz/gantt.hpp"
#include "support/cases.hpp"
#include "support/machines.hpp"
#include "support/program.hpp"
#include "support/runs.hpp"

namespace ringsched {
namespace {

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// Without what names the version of the plan file or of the program.
std::string anonymous(Timeline run) {
  run.plan_hash.clear();
  run.program.clear();
  return write_timeline(run);
}

Problem random_problem(std::mt19937& random) {
  constexpr std::uint32_t workers[] = {1, 2, 3, 4, 5, 6, 8};
  constexpr std::uint32_t groups[] = {1, 2, 4};
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  Problem p;
  p.workers = workers[below(std::size(workers))];
  p.tokens = {p.workers + below(40 * p.workers)};
  p.kv_heads = 1 + below(3);
  p.heads = p.kv_heads * groups[below(std::size(groups))];
  p.head_dim = 8 * (1 + below(16));
  p.dtype = static_cast<Dtype>(below(3));
  p.pass = static_cast<Pass>(below(3));
  const std::int64_t half = p.tokens.value / 2;
  const std::string masks[] = {
      "causal", "full", "window:" + std::to_string(1 + below(20)), "prefix:5,window:3",
      half == 0
          ? "causal"
          : "documents:" + std::to_string(half) + "," + std::to_string(p.tokens.value - half)};
  p.mask = parse_mask(masks[below(std::size(masks))]);
  return p;
}

TEST(KeptResults, SaysAtLengthWhatItAlwaysSaid) {
  std::mt19937 random(21);
  std::string text;
  for (int i = 0; i < 200; ++i) {
    Problem p = random_problem(random);
    std::vector<NamedMachine> machines = test_machines(p.workers);
    std::erase_if(machines, [](const auto& m) {
      return m.name.starts_with("slow_host") || m.name.ends_with("posted_first");
    });
    machines.push_back({"ideal", find_machine("ideal")});
    const NamedMachine& machine = machines[random() % machines.size()];
    if (machine.name != "ideal") p.dtype = Dtype::Bf16;  // the kernel times that there are
    constexpr std::string_view names[] = {"ring", "striped", "zigzag", "balanced",
                                          "balanced-split"};
    const Schedule& schedule = find_schedule(names[random() % std::size(names)]);
    const CommunicationLimits limits = {static_cast<Overlap>(random() % 3), 0};
    const Plan plan = limit_communication(build_plan(p, schedule), limits);
    const Verification proof = verify(plan);
    ASSERT_TRUE(proof.holds()) << proof.violations[0].text;
    std::int64_t peaks = 0;
    for (const Bytes b : proof.peak) peaks += b.value;
    Conditions conditions;
    conditions.noise = i % 4 == 0 ? 0.1 : 0;
    const Timeline run = predicted_run(plan, machine.machine, conditions);
    text += fmt::format(
        "{} W={} tokens={} heads={}/{}x{} {} {} {} {} {}: {} tasks, {} ps, {} B, run {:016x}, "
        "chart {:016x}\n",
        schedule.name, p.workers, p.tokens.value, p.heads, p.kv_heads, p.head_dim, to_text(p.dtype),
        to_text(p.mask), to_text(p.pass), to_text(limits.overlap), machine.name, plan.tasks.size(),
        run.makespan().value, peaks, hash_of(anonymous(run)), hash_of(svg(gantt(run))));
  }
  const std::filesystem::path path = source_folder() / "tests" / "golden" / "kept_results.txt";
  if (std::getenv("RINGSCHED_REFRESH")) std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(text, read_all(path));
}

}  // namespace
}  // namespace ringsched
