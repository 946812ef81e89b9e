#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "format_flag.hpp"
#include "launch_flags.hpp"
#include "ringsched/runtime/agreement.hpp"
#include "ringsched/runtime/link_bench.hpp"
#include "ringsched/runtime/meeting.hpp"
#include "ringsched/scheduler/error.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

struct BenchLinksCommand {
  JoinFlags join;
  std::string least = "8", most = "64M", factor = "4", rounds = "20", warm_up = "5";
  std::string deadline = "60";
  Format format = Format::Text;
};

struct Table {
  std::string name, what;
  double bus_factor = 1;  // of what the busiest link carries
  std::vector<LinkPoint> points;
};

struct Tables {
  std::string gpu;  // where messages are between GPUs
  std::vector<Table> by_kind;
};

std::string transport_name(const BenchLinksCommand& c, const World& world) {
  return c.join.transport == "nccl" ? "nccl" : world.name();
}

LinkBenchOptions options_of(const BenchLinksCommand& c) {
  LinkBenchOptions o;
  constexpr std::int64_t most = std::int64_t{16} << 30;
  o.least = number_of(c.least, "--minbytes", 1, most);
  o.most = number_of(c.most, "--maxbytes", 1, most);
  if (o.most < o.least) fail("--maxbytes is {}, less than --minbytes ({})", c.most, c.least);
  o.factor = static_cast<double>(number_of(c.factor, "--stepfactor", 2, 1'000'000));
  o.rounds = static_cast<int>(number_of(c.rounds, "--iters", 1, 1'000'000));
  o.warm_up = static_cast<int>(number_of(c.warm_up, "--warmup_iters", 0, 1'000'000));
  return o;
}

// As nccl-tests prints it: how long a message takes, and how fast that is. For messages between
// two, the algorithm's rate equals the link's.
std::string text_of(const std::string& transport, const World& world, const Tables& tables) {
  std::string out;
  const std::string gpu = tables.gpu.empty() ? "" : ", " + tables.gpu;
  for (const Table& t : tables.by_kind) {
    out += fmt::format("{}# {}, {} {}{}: {}\n", out.empty() ? "" : "\n", transport, world.size(),
                       gpu.empty() && world.size() == 1 ? "process, workers as threads"
                       : world.size() == 1              ? "process"
                                                        : "processes",
                       gpu, t.what);
    out += fmt::format("#{:>12}{:>12}{:>10}{:>10}{:>10}\n", "size", "time", "algbw", "busbw",
                       "#wrong");
    out += fmt::format("#{:>12}{:>12}{:>10}{:>10}{:>10}\n", "(B)", "(us)", "(GB/s)", "(GB/s)", "");
    for (const LinkPoint& p : t.points)
      out += fmt::format("{:>13}{:>12.2f}{:>10.3f}{:>10.3f}{:>10}\n", p.bytes, p.us, p.gb_per_s(),
                         t.bus_factor * p.gb_per_s(), p.wrong);
  }
  std::size_t unsettled = 0, all = 0;
  for (const Table& t : tables.by_kind)
    for (const LinkPoint& p : t.points) {
      unsettled += p.settled ? 0 : 1;
      ++all;
    }
  if (unsettled > 0)
    out +=
        fmt::format("\n# {} of {} timings did not settle: their samples differ by more than 5%\n",
                    unsettled, all);
  return out;
}

std::string json_of(const std::string& transport, const World& world, const Launch& launch,
                    const LinkBenchOptions& o, const Tables& tables) {
  std::string out = fmt::format(
      "{{\n  \"transport\": \"{}\",\n  \"processes\": {},\n  \"launcher\": \"{}\",\n  "
      "\"launched_by\": \"{}\",\n  \"iters\": {},\n  \"warmup_iters\": {}",
      transport, world.size(), escaped(launch.launcher), escaped(launch.found), o.rounds,
      o.warm_up);
  if (!tables.gpu.empty()) out += fmt::format(",\n  \"gpu\": \"{}\"", escaped(tables.gpu));
  for (const Table& t : tables.by_kind) {
    out += fmt::format(",\n  \"{}\": [", t.name);
    const char* before = "";
    for (const LinkPoint& p : t.points) {
      out += fmt::format(
          "{}\n    {{\"bytes\": {}, \"time_us\": {:.3f}, \"algbw_gb_per_s\": {:.6f}, "
          "\"busbw_gb_per_s\": {:.6f}, \"wrong\": {}, \"settled\": {}}}",
          before, p.bytes, p.us, p.gb_per_s(), t.bus_factor * p.gb_per_s(), p.wrong, p.settled);
      before = ",";
    }
    out += "\n  ]";
  }
  return out + "\n}\n";
}

Facts facts_of(const BenchLinksCommand& c, const LinkBenchOptions& o, const World& world) {
  Facts facts = {{"the version", RINGSCHED_VERSION},
                 {"the transport", transport_name(c, world)},
                 {"--minbytes", std::to_string(o.least)},
                 {"--maxbytes", std::to_string(o.most)},
                 {"--stepfactor", fmt::format("{}", o.factor)},
                 {"--iters", std::to_string(o.rounds)},
                 {"--warmup_iters", std::to_string(o.warm_up)}};
  if (c.join.transport == "nccl") facts.emplace_back("the version of NCCL", nccl_version());
  return facts;
}

Tables measured(const BenchLinksCommand& c, Meeting& m, const LinkBenchOptions& options,
                std::chrono::nanoseconds deadline) {
  const char* const next =
      "each sends to the next and receives from the previous one, both at once";
  const auto begins = [&m](std::int64_t bytes) {
    m.watchdog.waits(fmt::format("measuring messages of {} bytes", bytes));
  };
  const auto links = [&](LinkPattern pattern) {
    return measure_links(m.world, m.control, pattern, options, begins);
  };
  if (c.join.transport != "nccl")
    return {"",
            {{"sendrecv", next, 1, links(LinkPattern::Next)},
             {"alone", "the first and the last send to each other in turn; time of one message", 1,
              links(LinkPattern::Alone)}}};
  NcclTables nccl;
  const std::uint32_t place = place_here(m.world, m.launch.local_rank);
  reinterpret_cast<BenchNccl>(nccl_function("ringsched_bench_nccl"))(
      m.world, m.control, nccl_options(c.join, place, deadline), options, begins, nccl);
  Tables out{nccl.gpu, {}};
  for (NcclTable& t : nccl.by_kind)
    out.by_kind.push_back(
        {t.name, t.name == "sendrecv" ? next : t.name, t.bus_factor, std::move(t.points)});
  return out;
}

// Whether all messages arrived as they were sent.
bool arrived_whole(const Tables& tables) {
  return std::all_of(tables.by_kind.begin(), tables.by_kind.end(), [](const Table& t) {
    return std::all_of(t.points.begin(), t.points.end(),
                       [](const LinkPoint& p) { return p.wrong == 0; });
  });
}

ExitCode run(const BenchLinksCommand& c) {
  const LinkBenchOptions options = options_of(c);
  const std::chrono::seconds deadline{number_of(c.deadline, "--deadline", 1, 1'000'000)};
  c.join.require_valid();
  return meet(c.join, deadline, [&](Meeting& m) {
    const std::string differs = disagreement(m.world, facts_of(c, options, m.world));
    if (!differs.empty()) return m.refuse(differs);
    const Tables tables = measured(c, m, options, deadline);
    if (m.first()) {
      const std::string transport = transport_name(c, m.world);
      fmt::print("{}", c.format == Format::Json
                           ? json_of(transport, m.world, m.launch, options, tables)
                           : text_of(transport, m.world, tables));
    }
    return arrived_whole(tables) ? 0 : 1;
  });
}

}  // namespace

void add_bench_links_command(CLI::App& program, ExitCode& code) {
  CLI::App* app =
      program.add_subcommand("bench-links", "Measure latency and bandwidth of messages, by size");
  auto command = std::make_shared<BenchLinksCommand>();
  command->join.add_to(*app, true);
  const auto flag = [&](const char* name, std::string& value, const char* type, const char* help) {
    app->add_option(name, value, help)->type_name(type);
  };
  flag("-b,--minbytes", command->least, "N", "smallest message in bytes (default 8)");
  flag("-e,--maxbytes", command->most, "N", "largest message in bytes (default 64M)");
  flag("-f,--stepfactor", command->factor, "N", "size multiplier (default 4)");
  flag("-n,--iters", command->rounds, "N",
       "timed messages per sample; each size is sampled until its time settles (default 20)");
  flag("-w,--warmup_iters", command->warm_up, "N",
       "warm-up messages per sample (default 5); named as in nccl-tests, so -w is not --workers "
       "here");
  flag("--deadline", command->deadline, "SECONDS", "time limit per message size (default 60)");
  add_format_flag(*app, command->format);
  app->callback([command, &code] { code = run(*command); });
}

}  // namespace ringsched
