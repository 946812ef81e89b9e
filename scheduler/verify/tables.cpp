// What surrounds the tasks: the tables they name things in, and the edges, buffers and groups that
// order them.
#include <algorithm>

#include "jobs.hpp"

namespace ringsched {

namespace {

// Do the tables have everything that tasks name?
void check_names(const Plan& plan, std::uint32_t first, std::uint32_t end, Findings& findings) {
  for (std::uint32_t id = first; id < end; ++id) {
    const Task& t = plan.tasks[id];
    const bool known = t.worker_index < plan.problem.workers &&
                       static_cast<std::uint32_t>(t.kind) < kTaskKinds &&
                       static_cast<std::uint32_t>(t.lane) < plan.lane_count() &&
                       t.piece.value < plan.pieces.size() && t.work.value < plan.works.size() &&
                       (!is_attend(t.kind) || t.keys.value < plan.regions.size());
    if (!known) {
      findings.add(Rule::Structure, {TaskId{id}},
                   "task {} names a worker, lane, piece or work that the plan does not have", id);
    } else if (is_member(t.kind)) {
      const std::size_t there = (is_repack(t.kind) ? plan.repacks : plan.exchanges).size();
      const bool member = t.exchange.value < there && plan.exchange(t).first.value <= id &&
                          id < plan.exchange(t).end();
      if (!member)
        findings.add(Rule::Structure, {TaskId{id}},
                     "task {} is not a member of the {} that it names", id, to_text(t.kind));
    }
  }
}

// May a worker be given this although it is not its own? The forward pass may have brought it, and
// a plan of the backward pass alone does not say how.
bool may_be_kept(const Plan& plan, ValueId value) {
  return plan.problem.pass == Pass::Backward &&
         (value == attention::kQuery || value == attention::kKeyValue);
}

// Are the members of each exchange, or repack, there?
void check_members(const Plan& plan, TaskKind kind, Findings& findings) {
  std::uint32_t before = 0;
  const std::vector<Exchange>& all = is_repack(kind) ? plan.repacks : plan.exchanges;
  for (std::uint32_t e = 0; e < all.size(); ++e) {
    const Exchange& x = all[e];
    if (x.members == 0 || x.first.value < before || x.first.value >= plan.tasks.size() ||
        x.members > plan.tasks.size() - x.first.value) {
      findings.add_missing(Rule::Structure, {},
                           "{0} {1} has no members, or some that the plan does not have, or "
                           "that stand before those of an earlier {0}",
                           to_text(kind), e);
      return;
    }
    before = x.end();
    for (std::uint32_t id = x.first.value; id < x.end(); ++id)
      if (plan.tasks[id].kind != kind || plan.tasks[id].exchange.value != e)
        findings.add(Rule::Structure, {TaskId{id}},
                     "{} stands among the members of {} {}, but is not one of them",
                     name_of(plan, {id}), to_text(kind), e);
  }
}

// Whatever is posted with the task before it in its lane follows a transfer there. (The repack
// checks that its members follow each other.)
void check_groups(const Plan& plan, Findings& findings) {
  const LaneNumbers lanes(plan);
  std::vector<std::uint8_t> after_transfer(lanes.all);
  std::vector<TaskId> alone;
  for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
    const Task& task = plan.tasks[id];
    std::uint8_t& open = after_transfer[lanes.of(task)];
    if (task.with_previous && !open && !is_repack(task.kind)) alone.push_back({id});
    open = is_transfer(task.kind);
  }
  std::ranges::stable_sort(alone, {}, [&](TaskId t) { return lanes.of(plan.tasks[t.value]); });
  for (const TaskId id : alone)
    findings.add(Rule::Structure, {id},
                 "{}: \"with_previous\" is true, but no transfer precedes it on its lane",
                 name_of(plan, id));
}

}  // namespace

void verify_tables(const Plan& plan, std::uint32_t threads, Findings& findings) {
  if (plan.tasks.size() > kMostTasks)
    return findings.add_missing(Rule::Structure, {}, "the plan has {} tasks; a plan has at most {}",
                                plan.tasks.size(), kMostTasks);
  if (const std::string why = refusal_of_lanes(plan.lanes); !why.empty())
    return findings.add_missing(Rule::Structure, {}, "{}", why);
  const std::size_t chunks = plan.layout.chunks.size();
  const auto bad_region = [&](Region r) {
    return r.first.value >= chunks || r.count > chunks - r.first.value;
  };
  if (plan.dummy_heads >= plan.problem.heads || plan.dummy_kv_heads >= plan.problem.kv_heads)
    findings.add_missing(Rule::Structure, {}, "{} of {} heads are padding; at least one is not",
                         plan.dummy_heads, plan.problem.heads);
  if (plan.layout.workers() != plan.problem.workers)
    findings.add_missing(Rule::Structure, {}, "the layout has {} workers, the problem {}",
                         plan.layout.workers(), plan.problem.workers);
  if (plan.layout.owners.size() != chunks || std::ranges::any_of(plan.layout.shares, bad_region) ||
      std::ranges::any_of(plan.layout.owners,
                          [&](WorkerId w) { return w.value >= plan.problem.workers; }))
    findings.add_missing(Rule::Structure, {},
                         "the shares and owners of chunks do not form a layout");
  if (std::ranges::any_of(plan.regions, bad_region))
    findings.add_missing(Rule::Structure, {}, "a region reaches past the last of {} chunks",
                         chunks);
  const auto bad_piece = [&](const Piece& p) {
    return p.value.value >= plan.program.size() || p.rows.value >= plan.regions.size() ||
           p.columns.count == 0 || p.columns.first >= plan.program[p.value].columns.count ||
           p.columns.count > plan.program[p.value].columns.count - p.columns.first;
  };
  if (std::ranges::any_of(plan.pieces, bad_piece))
    findings.add_missing(Rule::Structure, {},
                         "a piece has no value, no region or columns past the last");
  if (const std::string why = findings.empty() ? refusal_of(plan.problem, plan.layout) : "";
      !why.empty())
    findings.add_missing(Rule::Structure, {}, "{}", why);
  if (!findings.empty()) return;
  const Region new_rows = query_rows(plan.problem, plan.layout, {0});
  for (const InitialTensor& t : plan.initial) {
    if (t.worker.value >= plan.problem.workers || t.piece.value >= plan.pieces.size()) {
      findings.add_missing(Rule::Structure, {}, "an initial tensor has no worker or no piece");
      continue;
    }
    const Piece& piece = plan.piece(t);
    if (plan.regions[piece.rows.value].count == 0)
      findings.add_missing(Rule::Structure, t.worker, "an initial {} has no rows",
                           plan.name(piece.value));
    else if (std::ranges::count(plan.program.given, piece.value) == 0)
      findings.add_missing(Rule::Structure, t.worker, "no {} is given", plan.name(piece.value));
    else if (plan.problem.decodes() && piece.value == attention::kQuery) {
      if (!new_rows.contains(plan.regions[piece.rows.value]))
        findings.add_missing(Rule::Structure, t.worker, "an initial {} has rows of cached tokens",
                             plan.name(piece.value));
    } else if (!may_be_kept(plan, piece.value) &&
               !plan.layout.share(t.worker).contains(plan.regions[piece.rows.value]))
      findings.add_missing(Rule::Structure, t.worker, "an initial {} is not where its chunks live",
                           plan.name(piece.value));
  }
  if (!findings.empty()) return;
  const auto check = [&](std::uint32_t first, std::uint32_t end, Findings& found) {
    check_names(plan, first, end, found);
  };
  run_jobs(threads, jobs_over_tasks(plan, threads, check), findings);
  for (const TaskKind kind : {TaskKind::Exchange, TaskKind::Repack})
    if (findings.empty()) check_members(plan, kind, findings);
}

void verify_edges(const Plan& plan, Findings& findings) {
  const auto order = [](const ControlEdge& e) { return std::pair(e.after, e.before); };
  if (!std::ranges::is_sorted(plan.controls, {}, order))
    findings.add_missing(Rule::Structure, {}, "the control edges are not in order");
  for (const ControlEdge& e : plan.controls) {
    if (e.after.value >= plan.tasks.size() || e.before >= e.after)
      findings.add_missing(Rule::Structure, {}, "task {} waits for task {}, which is not before it",
                           e.after.value, e.before.value);
    else if (plan.tasks[e.before.value].worker_index != plan.tasks[e.after.value].worker_index)
      findings.add(Rule::Structure, {e.after, e.before},
                   "{} waits for {}, but control edges stay on one worker", name_of(plan, e.after),
                   name_of(plan, e.before));
  }
  TaskId last{0};
  for (const BufferSlot& s : plan.slots) {
    if (s.receive.value >= plan.tasks.size() || s.receive < last ||
        !is_receive(plan.tasks[s.receive.value].kind))
      findings.add_missing(Rule::Structure, {},
                           "buffer {} is given to task {}, which is not a receive, "
                           "or is out of order",
                           s.slot, s.receive.value);
    last = s.receive;
  }
  check_groups(plan, findings);
}

}  // namespace ringsched
