#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "builder/mistake.hpp"
#include "ringsched/scheduler/nearest.hpp"
#include "ringsched/scheduler/schedule.hpp"
#include "schedules/heads.hpp"

// One line for each schedule: function, name, layout, summary, source; then its parameters, each as
// {name, words, initial, least, most}.
// clang-format off
#define RINGSCHED_SENDS {"sends", "all: send every block round the whole ring, as libraries do; needed: stop when no worker needs it", 0, 0, 1, {"needed", "all"}}
#define RINGSCHED_SCHEDULES(X)                                                                          \
  X(ring, "ring", contiguous, "keys and values travel around a ring; unbalanced under a causal mask", "Ring Attention, arXiv:2310.01889", RINGSCHED_SENDS) \
  X(striped, "striped", striped, "ring over interleaved tokens; every tile half visible", "Striped Attention, arXiv:2311.09431", RINGSCHED_SENDS) \
  X(zigzag, "zigzag", zigzag_layout, "ring over pairs of chunks, one from each end; equal work in each step", "Llama 3, arXiv:2407.21783, section 3.3.2", \
    {"shares", "what to cut from both ends: the whole sequence, or each document of the mask", 0, 0, 1, {"sequence", "documents"}}, RINGSCHED_SENDS) \
  X(balanced, "balanced", contiguous, "workers that finish early help the others", "DistFlashAttn, arXiv:2310.03294") \
  X(balanced_split, "balanced-split", halves, "like balanced, but halves the last blocks, which gives every worker equal work", "ringsched") \
  X(double_ring, "double-ring", double_ring_layout, "a ring inside each node, and a slower ring between nodes", "LoongTrain, arXiv:2406.18485", \
    {"node", "workers in a node; 0: the largest divisor of the worker count, up to 8", 0, 0}, \
    {"ring", "ring or zigzag: what runs inside the nodes", 0, 0, 1, {"ring", "zigzag"}}) \
  X(ulysses, "ulysses", contiguous, "each worker takes some heads and all tokens; an all-to-all before and after", "DeepSpeed-Ulysses, arXiv:2309.14509", \
    {"pad", "1: add dummy heads so that every worker has the same number; 0: numbers may differ", 0, 0, 1}) \
  X(all_gather, "all-gather", all_gather_layout, "every worker gets all keys and values, all heads at once or some at a time", "Llama 3, arXiv:2407.21783, section 3.3.2", \
    {"stride", "key/value heads gathered at a time; 0: all of them", 0, 0}, \
    {"shares", "which tokens a worker holds: contiguous, zigzag (one part from each end), or documents (one part from each end of each document)", 0, 0, 2, {"contiguous", "zigzag", "documents"}}) \
  X(usp, "usp", usp_layout, "heads split inside groups of workers, a ring across the groups", "USP, arXiv:2405.07719", \
    {"ulysses", "workers in a group; 0: the largest number up to 8 that divides workers and heads", 0, 0}, \
    {"ring", "schedule to use between Ulysses groups", 0, 0, 3, {"ring", "zigzag", "striped", "balanced"}}, \
    {"consecutive", "which workers are numbered consecutively, so that they share a node: those of a Ulysses group, or of a ring", 0, 0, 1, {"ulysses", "ring"}}, RINGSCHED_SENDS) \
  X(flash_decode, "flash-decode", decode_layout, "decoding: each worker attends to its part of the cache, then one exchange", "Flash-Decoding, pytorch.org/blog/flash-decoding", \
    {"to", "which workers get the result: all, or one (the worker with the new tokens)", 0, 0, 1, {"all", "one"}}) \
  X(tree_decode, "tree-decode", decode_layout, "decoding: partial results merge in a tree, inside nodes first", "Tree Attention, arXiv:2408.04093", \
    {"node", "workers per node; the last node may have fewer", 8, 1}, \
    {"to", "which workers get the result: all, or one (the worker with the new tokens)", 0, 0, 1, {"all", "one"}}) \
  X(ring_decode, "ring-decode", decode_layout, "decoding: the cached keys, or partial results, go round", "Ring Attention, arXiv:2310.01889", \
    {"passes", "keys or results: what goes round", 0, 0, 1, {"keys", "results"}}) \
  // New schedules above this line.
// clang-format on

namespace ringsched {

Layout all_gather_layout(const Problem&, const Arguments&);
Layout double_ring_layout(const Problem&, const Arguments&);
Layout usp_layout(const Problem&, const Arguments&);
Layout zigzag_layout(const Problem&, const Arguments&);

#define TYPE(...) const Problem&, PlanBuilder& __VA_OPT__(, const Arguments&)
#define DECLARE(function, name, layout, summary, source, ...) void function(TYPE(__VA_ARGS__));
RINGSCHED_SCHEDULES(DECLARE)
#undef DECLARE

namespace {

// Those that decode come last.
std::span<const Schedule> all_schedules() {
#define ROW(function, name, layout, summary, source, ...)                                     \
  {name,         summary, source, layout, static_cast<void (*)(TYPE(__VA_ARGS__))>(function), \
   {__VA_ARGS__}},
  static const std::vector<Schedule> all = [] {
    std::vector<Schedule> rows = {RINGSCHED_SCHEDULES(ROW)};
    // Not the one of std::ranges, which clang 14 (tests/fuzz) does not compile.
    std::stable_partition(rows.begin(), rows.end(), [](const Schedule& s) { return !s.decodes(); });
    return rows;
  }();
#undef ROW
#undef TYPE
  return all;
}

std::size_t whole_sequences() {
  const auto all = all_schedules();
  return static_cast<std::size_t>(std::ranges::find_if(all, &Schedule::decodes) - all.begin());
}

}  // namespace

std::span<const Schedule> schedules() { return all_schedules().first(whole_sequences()); }
std::span<const Schedule> decode_schedules() { return all_schedules().subspan(whole_sequences()); }

Schedule find_schedule(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  std::vector<std::string_view> names;
  for (const Schedule& s : all_schedules()) {
    names.push_back(s.name);
    if (s.name != name) continue;
    Schedule found = s;
    if (name.size() < text.size())
      found.arguments = Arguments::parse(name, s.parameters, text.substr(name.size() + 1));
    for (const Parameter& p : s.parameters)
      if (const std::uint32_t n = found.arguments[p.name]; n != p.initial)
        found.name += fmt::format(":{}={}", p.name, value_text(p, n));
    return found;
  }
  throw Error(unknown_name("schedule", name, names));
}

namespace {

// A schedule that has a parameter `pad` gets heads that its workers split evenly, if that is 1.
bool pads(const Schedule& s) {
  return std::ranges::count(s.parameters, "pad", &Parameter::name) > 0 && s.arguments["pad"] == 1;
}

}  // namespace

Problem problem_for(const Schedule& schedule, Problem p, Naming naming) {
  if (schedule.decodes() && p.pass != Pass::Forward)
    fail("schedule {} is for decoding, which has only a forward pass, but {} is '{}'",
         schedule.name, called("pass", naming), to_text(p.pass));
  if (schedule.decodes() && !p.decodes()) p.new_tokens = {1};
  if (!schedule.decodes() && p.decodes()) {
    std::vector<std::string_view> names;
    for (const Schedule& s : decode_schedules()) names.push_back(s.name);
    fail("schedule {} does not decode, but {} is {}; use {}", schedule.name,
         called("new_tokens", naming), p.new_tokens.value, any_of(names));
  }
  require_valid(p, naming);
  return p;
}

Plan build_plan(const Problem& asked, const Schedule& schedule, std::uint64_t most_tasks) {
  const Problem wanted = problem_for(schedule, asked);
  const Problem problem = pads(schedule) ? with_padded_heads(wanted, wanted.workers) : wanted;
  PlanBuilder builder(problem, schedule.layout(problem, schedule.arguments), most_tasks);
  try {
    schedule.build(problem, builder, schedule.arguments);
    Plan plan = std::move(builder).finish(schedule.name);
    plan.dummy_heads = problem.heads - wanted.heads;
    plan.dummy_kv_heads = problem.kv_heads - wanted.kv_heads;
    return plan;
  } catch (const ScheduleMistake& mistake) {
    fail("schedule {}, {}", schedule.name, mistake.what());
  }
}

}  // namespace ringsched
