#include "machine_flags.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "content.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/simulator/spread.hpp"
#include "ringsched/simulator/what_if.hpp"
#include "text.hpp"
#include "usage_error.hpp"

namespace ringsched {

namespace {

// The number that `text` is, if it is one from `least` to `most`.
std::optional<double> number_in(std::string_view text, double least, double most) {
  double value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last || !(value >= least && value <= most))
    return std::nullopt;
  return value;
}

double number(std::string_view text, std::string_view what, double least, double most) {
  if (const auto value = number_in(text, least, most)) return *value;
  fail("{} is '{}'; use a number from {:g} to {:g}", what, text.substr(0, 40), least, most);
}

// Two numbers apart by a colon.
std::pair<std::string, std::string> pair_of(const std::string& text, const char* what,
                                            const char* example) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) fail("{} is '{}'; use {}", what, text.substr(0, 40), example);
  return {text.substr(0, colon), text.substr(colon + 1)};
}

}  // namespace

double parse_share(const std::string& text, std::string_view what, double most) {
  const bool percents = text.ends_with('%');
  const double unit = percents ? 100 : 1;
  const std::string_view digits(text.data(), text.size() - (percents ? 1 : 0));
  const auto given = number_in(digits, 0, unit * most);
  if (!given) {
    if (!percents && number_in(digits, 1, 100 * most))
      fail("{} is '{}', without a percent sign; use {}%", what, text, text);
    fail("{} is '{}'; use a percentage from 0% to {:g}%, e.g. 5%", what, text.substr(0, 40),
         100 * most);
  }
  const double share = *given / unit;
  if (!percents && share > 1)
    fail("{} {} means {:g}%; use {}% for {} percent", what, text, 100 * share, text, text);
  return share;
}

void MachineFlags::add_machine_to(CLI::App& command, const char* usual) {
  name_ = usual;
  command
      .add_option("-m,--machine", name_,
                  *usual
                      ? "machine to model: a name that 'ringsched machines' lists, or your own "
                        "FILE.toml (default ideal: a full block takes one unit of time; "
                        "communication and merges are free)"
                      : "also predict the run, and draw the prediction and the measurement "
                        "together in charts; "
                        "NAME is a machine that 'ringsched machines' lists, or your own FILE.toml")
      ->type_name("NAME")
      ->group("Machine");
  add_figures_to(command, *usual != 0);
}

void MachineFlags::add_figures_to(CLI::App& command, bool ideal) {
  command
      .add_option("--kernels", library_,
                  fmt::format("{}, if the profile has several (default: from the profile)",
                              ideal ? "attention kernels to model"
                                    : "with --machine: attention kernels that the prediction "
                                      "assumes"))
      ->type_name("LIBRARY")
      ->group("Machine");
  command
      .add_option(
          "--software", software_,
          fmt::format(
              "{}; it determines the cost of merges, of copies, and of work on the host CPU. A "
              "name that 'ringsched machines' lists, e.g. lightseq, or your own FILE.toml "
              "(default: from the profile)",
              ideal ? "distributed-attention library to model"
                    : "with --machine: distributed-attention library that the prediction "
                      "assumes"))
      ->type_name("NAME")
      ->group("Machine");
  if (!ideal) return;  // a run has this flag already
  command
      .add_option("--nccl-ctas", ctas_,
                  "maximum number of thread blocks that NCCL may use per GPU: transfers then "
                  "occupy at most N "
                  "SMs, and messages share at most N channels; 0 = NCCL decides (default 0)")
      ->type_name("N")
      ->group("Machine");
  command
      .add_option("--diagonal", diagonal_,
                  "only with --machine ideal: cost of a diagonal block, relative to a full block, "
                  "e.g. 0.6 (default 1/2)")
      ->type_name("D")
      ->group("Machine");
}

void MachineFlags::add_conditions_to(CLI::App& command) {
  const auto flag = [&](const char* name, std::string& value, const char* type, const char* help) {
    command.add_option(name, value, help)->type_name(type)->group("Conditions");
  };
  flag("--noise", noise_, "PERCENT",
       "standard deviation of each task's time, relative to its mean, e.g. 5% (default: from the "
       "profile, or 0)");
  flag("--stragglers", stragglers_, "P:FACTOR",
       "in each run, each worker is slow with probability P: its tasks take FACTOR times as long, "
       "e.g. 10%:1.5");
  command
      .add_option("--slow-worker", slow_,
                  "make this worker take FACTOR times as long, e.g. 3:2; repeatable")
      ->type_name("WORKER:FACTOR")
      ->allow_extra_args(false)
      ->group("Conditions");
  flag("--seed", seed_, "N", "random seed for noise and stragglers (default 1)");
  flag("--runs", runs_, "N",
       "number of runs to simulate, with the seeds SEED, SEED+1, ...; the median is reported "
       "(default 1; with noise, as many as finish in a few seconds, up to 1001)");
}

Machine MachineFlags::machine(const std::string& name) const {
  if (!is_machine_file(name)) refuse_list("--machine", name);
  const Machine own = find_machine(name);
  Machine m = with_figures(own);
  if (!software_.empty() && !own.software.host.issues_in_no_time() && m.software != own.software) {
    const bool kernels = library_.empty() && m.library != own.library;
    replaced_ += fmt::format(
        "{}--software {} replaces the [software] and [host] of profile '{}'{}; leave it out to use "
        "the profile's.",
        replaced_.empty() ? "" : " ", software_, own.name,
        kernels ? fmt::format(", and its kernels {} those of {}", m.library, own.library) : "");
  }
  return m;
}

Machine MachineFlags::with_figures(Machine m) const {
  if (!library_.empty()) {
    const auto known = kernel_libraries(m);
    if (std::find(known.begin(), known.end(), library_) == known.end())
      throw Error(m.ideal || known == std::vector<std::string_view>{""}
                      ? fmt::format("--kernels {}: machine '{}' has no choice of kernel "
                                    "libraries; leave out --kernels",
                                    library_, m.name)
                      : unknown_name("kernel library", library_, known));
    m.library = library_;
  }
  if (!software_.empty()) {
    if (is_machine_file(software_) && content_of(beginning_of(software_)) == Content::Machine)
      fail("{} is a machine profile; --software takes a file with [software] and [host]",
           software_);
    m.software = find_software(software_);
    const auto known = kernel_libraries(m);
    if (library_.empty() && std::ranges::find(known, m.software.kernels) != known.end())
      m.library = m.software.kernels;
    if (m.ideal) fail("--software has no meaning on machine 'ideal', where merges are free");
  }
  if (ctas() > 0 && (m.sms == 0 || m.comm_sms == 0))
    fail("--nccl-ctas {}: on machine '{}' transfers hold no SMs", ctas_, m.name);
  m = with_thread_blocks(std::move(m), ctas());
  if (!m.ideal && !diagonal_.empty())
    fail("--diagonal is only for machine 'ideal'; '{}' takes this cost from its kernel times",
         m.name);
  return m;
}

bool MachineFlags::has_own_software() const { return is_machine_file(software_); }

std::string MachineFlags::file() const { return is_machine_file(name_) ? name_ : ""; }

std::uint32_t MachineFlags::ctas() const {
  return ctas_.empty() ? 0 : static_cast<std::uint32_t>(number_of(ctas_, "--nccl-ctas", 0, 64));
}

std::string MachineFlags::figures() const {
  std::string out;
  for (const auto& [name, value] : {std::pair{"kernels", library_},
                                    {"software", software_},
                                    {"NCCL thread blocks", ctas() > 0 ? ctas_ : ""},
                                    {"diagonal", diagonal_}})
    if (!value.empty()) out += fmt::format("{}{} {}", out.empty() ? "" : "; ", name, value);
  return out;
}

std::string MachineFlags::first_figure() const {
  return !library_.empty()    ? "--kernels " + library_
         : !software_.empty() ? "--software " + software_
         : ctas() > 0         ? "--nccl-ctas " + ctas_
         : !diagonal_.empty() ? "--diagonal " + diagonal_
                              : "";
}

std::string MachineFlags::figures(const Machine& m) const {
  std::string given = figures();
  if (!library_.empty() || kernel_libraries(m).size() < 2) return given;
  return fmt::format("kernels {}{}{}", m.library, given.empty() ? "" : "; ", given);
}

std::string MachineFlags::defaults(const Machine& m) const {
  std::string out;
  if (const auto known = kernel_libraries(m); library_.empty() && known.size() > 1) {
    std::string others;
    for (const std::string_view name : known)
      if (name != m.library) others += fmt::format("{}{}", others.empty() ? "" : " or ", name);
    out = fmt::format("{} kernels (to change: --kernels {})", m.library, others);
  }
  if (software_.empty())
    out += fmt::format("{}{} (to change: --software NAME)", out.empty() ? "" : " and ",
                       m.software.host.issues_in_no_time()
                           ? "no distributed-attention library: the host takes no time"
                           : "the distributed-attention library of the profile");
  return out.empty() || m.ideal ? "" : fmt::format("These results for {} assume {}.", m.name, out);
}

std::string MachineFlags::of_library(const Machine& m) const {
  if (software_.empty() || m.software.schedules.empty()) return "";
  return fmt::format(
      "{} itself has {}; other schedules are priced as if they were written like these", software_,
      m.software.schedules);
}

double MachineFlags::diagonal() const {
  if (diagonal_.empty()) return 0.5;
  const std::size_t slash = diagonal_.find('/');
  if (slash == std::string::npos) return number(diagonal_, "--diagonal", 0, 1);
  const double above =
      number(std::string_view(diagonal_).substr(0, slash), "--diagonal (numerator)", 0, 1e9);
  const double below =
      number(std::string_view(diagonal_).substr(slash + 1), "--diagonal (denominator)", 1, 1e9);
  if (above > below) fail("--diagonal is {}; use a number from 0 to 1", diagonal_);
  return above / below;
}

bool varies(const Conditions& c) { return c.noise > 0 || c.straggler_share > 0; }

std::string described(const Conditions& c, std::string out, bool middle) {
  const auto add = [&](std::string_view text) {
    if (!out.empty()) out += "; ";
    out += text;
  };
  std::string random;
  if (c.noise > 0) random = fmt::format("noise {:.12g}%", 100 * c.noise);
  if (c.straggler_share > 0)
    random += fmt::format("{}stragglers {:.12g}%:{}", random.empty() ? "" : " and ",
                          100 * c.straggler_share, c.straggler_factor);
  if (!random.empty())
    add(fmt::format("{}{} (seed {})", random, middle ? ", median run" : "", c.seed));
  for (std::size_t w = 0; w < c.slow_worker.size(); ++w)
    if (c.slow_worker[w] != 1) add(fmt::format("worker {} {}x slower", w, c.slow_worker[w]));
  return out;
}

std::string described(const Setup& s, std::string before) {
  std::string out = described(s.conditions, std::move(before));
  if (s.runs > 1) out += fmt::format("; median of {} runs", s.runs);
  if (s.runs == 0) out += fmt::format("; median of up to {} runs", kMostRuns);
  return out;
}

Setup MachineFlags::setup(const Machine& machine, std::uint32_t workers) const {
  Setup s{machine, conditions(machine, workers)};
  const Conditions& c = s.conditions;
  if (runs_.empty()) {
    s.runs = c.noise > 0 ? 0 : 1;
    return s;
  }
  const std::int64_t runs = number_of(runs_, "--runs", 1, 1'000'000);
  s.runs = varies(c) ? static_cast<std::uint32_t>(runs) : 1;
  return s;
}

void MachineFlags::check_runs(bool any_varies) const {
  if (!runs_.empty() && runs_ != "1" && !any_varies)
    fail("--runs {}: all runs would be identical; add --noise or --stragglers", runs_);
}

Conditions MachineFlags::conditions(const Machine& machine, std::uint32_t workers) const {
  Conditions c;
  const double usual = machine.ideal ? 0 : machine.noise;
  c.noise = noise_.empty() ? usual : parse_share(noise_, "--noise", kMostNoise);
  if (!stragglers_.empty()) {
    const auto [share, factor] = pair_of(stragglers_, "--stragglers", "P:FACTOR, e.g. 10%:1.5");
    c.straggler_share = parse_share(share, "--stragglers (P)", 1);
    c.straggler_factor = number(factor, "--stragglers (factor)", 1, 1e6);
  }
  for (const std::string& slow : slow_) {
    const auto [worker, factor] = pair_of(slow, "--slow-worker", "WORKER:FACTOR, e.g. 3:2");
    const auto w = number_in(worker, 0, workers - 1.0);
    if (!w || *w != static_cast<std::uint32_t>(*w))
      fail("--slow-worker {}: the worker must be {}", slow.substr(0, 40),
           workers == 1 ? "0" : fmt::format("0 to {}", workers - 1));
    c.slow_worker.resize(workers, 1);
    double& so_far = c.slow_worker[static_cast<std::size_t>(*w)];
    if (so_far != 1) fail("--slow-worker gives worker {} twice", worker);
    so_far = number(factor, "--slow-worker (factor)", 0.001, 1e6);
  }
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(seed_.data(), seed_.data() + seed_.size(), seed);
  if (error != std::errc() || end != seed_.data() + seed_.size())
    fail("--seed is '{}'; use a whole number from 0 to {}", seed_,
         std::numeric_limits<std::uint64_t>::max());
  c.seed = seed;
  return c;
}

}  // namespace ringsched
