// Reads Measurements from TOML. Errors have file, line and key, for everything that breaks the
// rules of docs/validation.md.
#include "ringsched/simulator/measurements.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "machine/toml_section.hpp"
#include "published.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"

namespace ringsched {

namespace {

struct MeasureName {
  Measure measure;
  const char *key, *unit;
};
constexpr std::array<MeasureName, 6> kMeasures = {
    {{Measure::IterationsPerS, "iterations_per_s", "iterations/s"},
     {Measure::Ms, "ms", "ms"},
     {Measure::Speedup, "speedup", "speed-up over one device"},
     {Measure::SpeedupOver, "speedup_over", "speed-up over another schedule"},
     {Measure::TflopsPerDevice, "tflops_per_device", "TFLOP/s per device"},
     {Measure::Overhead, "overhead", "overhead of communication"}}};

const MeasureName& name_of(Measure q) {
  return *std::ranges::find(kMeasures, q, &MeasureName::measure);
}

std::map<std::string, Measure> measures() {
  std::map<std::string, Measure> out;
  for (const MeasureName& q : kMeasures) out.emplace(q.key, q.measure);
  return out;
}

std::map<std::string, Pass> passes() {
  return {{"forward", Pass::Forward}, {"backward", Pass::Backward}, {"both", Pass::Both}};
}
std::map<std::string, Dtype> dtypes() {
  return {{"fp32", Dtype::Fp32}, {"bf16", Dtype::Bf16}, {"fp16", Dtype::Fp16}};
}

// A problem as far as the file describes it: a group's, which each result may complete.
struct Described {
  Problem problem;
  bool workers = false, tokens = false, heads = false, kv_heads = false;
};

// Calls make() and adds the place to its errors.
template <class Make>
auto at(const Section& s, std::string_view key, Make make) {
  try {
    return make();
  } catch (const Error& e) {
    s.wrong(*s.table().get(key), fmt::format("{}: {}", s.key(key), e.what()));
  }
}

// A number, or a string such as "64K".
void read_tokens(Section& s, std::string_view key, Tokens& tokens) {
  if (s.has(key) && s.table().get(key)->is_string()) {
    std::string text;
    s.text(key, text);
    tokens = {at(s, key, [&] { return parse_count(text, key); })};
    return;
  }
  std::uint32_t count = 0;
  s.count(key, count, 1, static_cast<std::uint32_t>(kMaxTokens));
  if (count > 0) tokens = {count};
}

void read_problem(Section& s, Described& d) {
  Problem& p = d.problem;
  s.count("workers", p.workers, 1, kMaxWorkers);
  read_tokens(s, "tokens", p.tokens);
  s.count("heads", p.heads, 1, kMaxHeads);
  s.count("kv_heads", p.kv_heads, 1, kMaxHeads);
  s.count("head_dim", p.head_dim, 1, kMaxHeadDim);
  s.choice("dtype", p.dtype, dtypes());
  s.choice("pass", p.pass, passes());
  read_tokens(s, "new_tokens", p.new_tokens);
  std::string mask;
  constexpr std::size_t kMostOfMask = 20'000;  // bytes: packs for 64 GPUs have 600 documents
  s.text("mask", mask, kMostOfMask);
  if (!mask.empty()) p.mask = at(s, "mask", [&] { return parse_mask(mask); });
  d.workers = d.workers || s.has("workers");
  d.tokens = d.tokens || s.has("tokens");
  d.heads = d.heads || s.has("heads");
  d.kv_heads = d.kv_heads || s.has("kv_heads");
  if (!d.kv_heads) p.kv_heads = p.heads;
}

MeasuredResult read_result(Section& s, Described d, Measure measure, double scale, double noise) {
  MeasuredResult m;
  m.noise = noise;
  s.number("noise", m.noise, 0, 1);
  m.line = s.table().source().begin.line;
  s.required("schedule", true);
  const char* const value = s.has("measured") ? "measured" : "published";
  s.required(value, true);
  s.text("schedule", m.schedule);
  at(s, "schedule", [&] { return find_schedule(m.schedule); });
  std::string overlap;
  s.text("overlap", overlap);
  if (!overlap.empty()) m.overlap = at(s, "overlap", [&] { return parse_overlap(overlap); });
  s.number(value, m.published, measure == Measure::Overhead ? 0 : 1e-9, 1e12);
  m.published *= scale;
  read_problem(s, d);
  for (const auto& [there, key] :
       {std::pair{d.workers, "workers"}, {d.tokens, "tokens"}, {d.heads, "heads"}})
    if (!there)
      s.wrong(s.table(), fmt::format("{} is missing, here and in group.problem{}", s.key(key),
                                     s.given_keys()));
  try {
    require_valid(d.problem);
  } catch (const Error& e) {
    s.wrong(s.table(), e.what());
  }
  m.problem = d.problem;
  return m;
}

// The text of a string of several lines, after as many empty lines as precede it in the file, so
// that errors in it name the right line.
std::string in_place(const toml::node& string, const std::string& text) {
  const toml::source_region& region = string.source();
  const auto lines = static_cast<std::uint32_t>(std::ranges::count(text, '\n'));
  const std::uint32_t first = region.end.line > lines ? region.end.line - lines : 1;
  return std::string(first - 1, '\n') + text;
}

// Errors in the profile of several lines name the line of the file.
template <class Read>
auto with_right_line(const toml::node& n, const std::string& text, Read read) {
  try {
    return read(text);
  } catch (const Error&) {
    return read(in_place(n, text));  // throws again, with the right line
  }
}

// A group's machine, which later groups may share.
struct GivenMachine {
  std::optional<Machine> machine;
  bool own_kernels = false;  // its profile is in the file, or the group says which kernels it has
};

void read_machine_of(Section& s, const std::string& file, GivenMachine& given) {
  std::optional<Machine>& machine = given.machine;
  bool same = false;
  s.flag("same_machine", same);
  if (s.has("machine")) {
    const toml::node& n = *s.table().get("machine");
    const auto text = n.value_exact<std::string>();
    if (!text || text->empty())
      s.wrong(n, "group.machine must be a string: a name, a path or the text of a profile");
    if (same) s.wrong(n, "group.machine is given along with same_machine = true; keep one of them");
    const bool inside = text->find('\n') != std::string::npos;
    given.own_kernels = inside;
    machine = inside ? with_right_line(n, *text,
                                       [&](const std::string& t) { return read_machine(t, file); })
                     : at(s, "machine", [&] { return find_machine(*text); });
  } else if (!same) {
    s.wrong(s.table(), "group.machine is missing: a name, a path or the text of a profile");
  } else if (!machine) {
    s.wrong(*s.table().get("same_machine"), "group.same_machine: there is no group before this");
  }
  std::string kernels;
  s.text("kernels", kernels);
  const auto known = kernel_libraries(*machine);
  if (!kernels.empty() && std::ranges::find(known, kernels) == known.end())
    s.wrong(*s.table().get("kernels"), unknown_name("kernel library", kernels, known));
  if (!kernels.empty()) {
    machine->library = kernels;
    given.own_kernels = true;
  }
  if (!s.has("software")) return;
  const toml::node& n = *s.table().get("software");
  const auto software = n.value_exact<std::string>();
  if (!software || software->empty())
    s.wrong(n, "group.software must be a string: a name, a path or the text of a profile");
  machine->software = software->find('\n') == std::string::npos
                          ? at(s, "software", [&] { return find_software(*software); })
                          : with_right_line(n, *software, [&](const std::string& text) {
                              return read_software(text, file);
                            });
  // As with --software: it calls the kernels that it has. But a profile in the file has its own.
  if (!given.own_kernels && std::ranges::find(known, machine->software.kernels) != known.end())
    machine->library = machine->software.kernels;
}

MeasuredGroup read_group(Section& s, const std::string& file, GivenMachine& given) {
  MeasuredGroup g;
  g.file = file;
  for (const char* key : {"name", "quantity", "results"}) s.required(key, true);
  s.text("name", g.name);
  g.by = file;
  s.text("by", g.by);
  s.text("source", g.source);
  s.text("why", g.why);
  std::map<std::string, std::pair<Measure, double>> quantities = {
      {"us", {Measure::Ms, 1e-3}}, {"s", {Measure::Ms, 1e3}}};  // become ms
  for (const auto& [name, measure] : measures()) quantities[name] = {measure, 1};
  std::pair<Measure, double> of = {Measure::Ms, 1};
  s.choice("quantity", of, quantities);
  g.measure = of.first;
  const double scale = of.second;
  s.flag("order_only", g.order_only);
  s.flag("loop", g.loop);
  double noise = 0;
  s.number("noise", noise, 0, 1);
  s.text("over", g.over);
  if ((g.measure == Measure::SpeedupOver) == g.over.empty())
    s.wrong(s.table(), g.over.empty() ? "group.over is missing: the schedule of speedup_over"
                                      : "group.over is only for quantity = \"speedup_over\"");
  if (!g.over.empty()) at(s, "over", [&] { return find_schedule(g.over); });
  read_machine_of(s, file, given);
  g.machine = *given.machine;
  const bool is_ratio = g.measure == Measure::Speedup || g.measure == Measure::SpeedupOver ||
                        g.measure == Measure::Overhead;
  if (g.machine.ideal && !is_ratio)
    s.wrong(
        s.table(),
        "group.machine counts blocks, not time: use another machine, or a quantity that is a ratio "
        "(speedup, speedup_over, overhead)");
  Described problem;
  s.section(
      "problem", [&](Section& p) { read_problem(p, problem); }, false);
  s.sections(
      "results",
      [&](Section& r) { g.results.push_back(read_result(r, problem, g.measure, scale, noise)); },
      false);
  return g;
}

}  // namespace

std::string_view to_text(Measure q) { return name_of(q).key; }
std::string_view unit_of(Measure q) { return name_of(q).unit; }

Measurements read_measurements(std::string_view text, std::string_view name) {
  const std::string file(name);
  toml::table table;
  try {
    table = toml::parse(text, name);
  } catch (const toml::parse_error& e) {
    fail("{}:{}: not a TOML file: {}", file, e.source().begin.line,
         printable(e.description(), 200));
  }
  Section s(table, file, "");
  Measurements out;
  GivenMachine machine;
  s.required("group");
  s.sections(
      "group", [&](Section& g) { out.groups.push_back(read_group(g, file, machine)); }, false);
  const auto read_excluded = [&](Section& e) {
    Excluded x;
    for (const char* key : {"what", "reason"}) e.required(key);
    e.text("what", x.what);
    e.text("reason", x.reason);
    out.excluded.push_back(std::move(x));
  };
  s.sections("excluded", read_excluded, false);
  s.finish(false);
  return out;
}

Measurements published_measurements() {
  Measurements all;
  for (const PublishedFile& f : published_files()) {
    Measurements m = read_measurements(f.toml, f.name);
    std::ranges::move(m.groups, std::back_inserter(all.groups));
    std::ranges::move(m.excluded, std::back_inserter(all.excluded));
  }
  return all;
}

}  // namespace ringsched
