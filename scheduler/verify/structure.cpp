// Structure and communication: what can be checked for each task on its own.
#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "exchanges.hpp"
#include "jobs.hpp"

namespace ringsched {

namespace {

// What is asked about a region again and again.
struct Sizes {
  explicit Sizes(const Plan& plan)
      : rows(rows_of_regions(plan)),
        any_empty(std::ranges::count(plan.regions, 0u, &Region::count) > 0) {
    for (const Region& r : plan.regions)
      tokens.emplace_back(plan.layout.ranges(r.count <= kSmall ? r : Region{r.first, 1}));
  }

  static constexpr std::uint32_t kSmall = 4;  // chunks
  const std::vector<Tokens> rows;
  const bool any_empty;          // regions: most plans have none, and every task would be asked
  std::vector<TokenSet> tokens;  // by region, if it is small
};

class StructureCheck {
 public:
  StructureCheck(const Plan& plan, const Sizes& sizes, Findings& findings)
      : plan_(plan), sizes_(sizes), findings_(findings), right_works_(plan.pieces.size()) {}

  void run(std::uint32_t first, std::uint32_t end) {
    for (std::uint32_t id = first; id < end && !findings_.full(); ++id) check_task({id});
  }

 private:
  template <class... Args>
  void wrong(TaskId id, fmt::format_string<Args...> text, Args&&... args) {
    findings_.add(Rule::Structure, {id}, "{}: {}", name_of(plan_, id),
                  fmt::format(text, std::forward<Args>(args)...));
  }

  // The tensor that a task reads as its `index`-th input, if it may: of this value, and complete;
  // or, for an operation that adds up, a part.
  const std::optional<Tensor>& input(TaskId id, std::size_t index, ValueId wanted) {
    std::optional<Tensor>& found = inputs_[index];
    if (!is_made_before(id, index)) return found;
    const Task& task = plan_.tasks[id.value];
    const Tensor& t = found.emplace(plan_.tensor(task.inputs[index]));
    const Operation::Does does = operation(task.kind).does;
    const bool takes_both = does == Operation::Does::Transfer || is_member(task.kind);
    if (t.worker != task.worker()) {
      findings_.add(Rule::Communication, {id},
                    "{} reads the {} of {} held by worker {} without having received it",
                    name_of(plan_, id), plan_.name(t.value), name_of(region(t.rows)),
                    t.worker.value);
      found.reset();
    } else if (t.value != wanted) {
      wrong(id, "input {} is a {}, and should be a {}", index, plan_.name(t.value),
            plan_.name(wanted));
      found.reset();
    } else if (sizes_.any_empty && region(t.rows).count == 0) {
      wrong(id, "input {} is of a member that got nothing from its exchange", index);
      found.reset();
    } else if (does == Operation::Does::Combine && t.complete) {
      wrong(id, "input {} is already complete; adding to it would count twice", index);
    } else if (does != Operation::Does::Combine && !takes_both && !t.complete) {
      wrong(id, "input {} is a {} that is not complete", index, plan_.name(wanted));
    }
    return found;
  }

  bool is_made_before(TaskId id, std::size_t index) {
    const TensorId t = plan_.tasks[id.value].inputs[index];
    if (!t.valid()) {
      wrong(id, "input {} is missing", index);
      return false;
    }
    if (t.value >= plan_.initial.size() + 2 * plan_.tasks.size()) {
      wrong(id, "input {} is not a tensor of this plan", index);
      return false;
    }
    const TaskId maker = plan_.producer(t);
    if (!maker.valid()) return true;
    if (maker >= id) {
      findings_.add(Rule::Communication, {id, maker},
                    "{} uses its input {} before it is there: it is made by {}", name_of(plan_, id),
                    index, name_of(plan_, maker));
      return false;
    }
    const bool has =
        (t.value - plan_.output(maker).value) < outputs_of(plan_.tasks[maker.value].kind);
    if (!has)
      wrong(id, "input {} is an output that {} does not have", index, name_of(plan_, maker));
    return has;
  }

  Region region(RegionId id) const { return plan_.regions[id.value]; }

  bool is_within(TaskId id, RegionId part, const Tensor& t) {
    if (part == t.rows) return true;
    const Region p = region(part), whole = region(t.rows);
    if (whole.contains(p)) return true;
    wrong(id, "it uses {}, but its {} tensor holds only {}", name_of(p), plan_.name(t.value),
          name_of(whole));
    return false;
  }

  bool has_tokens_beyond(RegionId part, RegionId whole) const {
    const Region p = region(part), w = region(whole);
    for (std::uint32_t c = p.first.value; c < p.end(); ++c)
      if (!w.contains({{c}, 1}) && plan_.layout.chunks[c].count > 0) return true;
    return false;
  }

  bool has_columns(TaskId id, ColumnRange part, const Tensor& t) {
    if (t.columns.contains(part)) return true;
    wrong(id, "it uses {}, but its {} tensor holds only {}", heads(t.value, part),
          plan_.name(t.value), heads(t.value, t.columns));
    return false;
  }

  std::string heads(ValueId value, ColumnRange columns) const {
    return name_of(plan_.program[value].columns, columns);
  }

  void check_task(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    const Operation& op = operation(task.kind);
    inputs_ = {};
    if (sizes_.any_empty && !is_member(task.kind) && has_no_rows(task))
      return wrong(id, "it has no rows");
    switch (op.does) {
      case Operation::Does::Compute:
        check_compute(id);
        break;
      case Operation::Does::Combine:
        check_combine(id);
        break;
      case Operation::Does::Transfer:
        is_send(task.kind) ? check_send(id) : check_receive(id);
        break;
      case Operation::Does::Deliver:
        check_output(id);
        break;
      case Operation::Does::Exchange:
        check_member(id);
        check_completion(id);
        break;
      case Operation::Does::Repack:
        check_member(id);
        check_repacked(id);
        break;
    }
    for (std::size_t i = op.inputs; i < task.inputs.size(); ++i)
      if (task.inputs[i].valid()) wrong(id, "it has one input too many");
    if (task.completes >> op.outputs != 0)
      wrong(id, "it completes an output that it does not have");
    if (is_exchange(task.kind)) {
      if (task.with_previous) wrong(id, "a member of an exchange cannot be posted in a group");
    } else if (op.does != Operation::Does::Transfer) {
      if (task.lane != Lane::Compute) wrong(id, "it computes, but not on the compute lane");
      if (task.with_previous && !is_repack(task.kind))
        wrong(id, "only sends and receives are posted in groups");
    }
    check_work(id);
  }

  bool has_no_rows(const Task& task) const {
    return region(plan_.rows(task)).count == 0 ||
           (is_attend(task.kind) && region(task.keys).count == 0);
  }

  // Terms of a statement, from complete operands that hold everything that is read of them.
  void check_compute(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    const Operation& op = operation(task.kind);
    const Piece& made = plan_.piece(task);
    const Statement* const statement = plan_.program.statement(task.kind, made.value);
    if (!statement) {
      wrong(id, "it should not make a {}", plan_.name(made.value));
      return;
    }
    if (!statement->asked) wrong(id, "the problem does not need a {}", plan_.name(made.value));
    for (std::size_t i = 0; i < op.inputs; ++i) {
      const auto& t = input(id, i, statement->inputs[i]);
      if (!t) continue;
      const RegionId rows = i == op.inner ? task.keys : made.rows;
      // Rows without tokens have no terms, so a sum need not hold them.
      const Value& value = plan_.program[t->value];
      if (rows != t->rows && (!value.is_sum || has_tokens_beyond(rows, t->rows)))
        is_within(id, rows, *t);
      if (t->columns.count < value.columns.count)
        has_columns(id, query_heads_of(made).grouped(value.columns.group), *t);
    }
  }
  // The query heads of a piece: all that read its columns, if those are of keys.
  ColumnRange query_heads_of(const Piece& p) const {
    const std::uint32_t group = plan_.program[p.value].columns.group;
    return {p.columns.first * group, p.columns.count * group};
  }

  // Pieces of one value, together.
  void check_combine(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    const Piece& made = plan_.piece(task);
    const auto &a = input(id, 0, made.value), &b = input(id, 1, made.value);
    const bool softmax = plan_.program.type(made.value).algebra == Algebra::Softmax;
    if (softmax != (task.kind == TaskKind::Merge))
      wrong(id, "this operation cannot combine a {}", plan_.name(made.value));
    if (!a || !b) return;
    if (a->columns != made.columns || b->columns != made.columns)
      wrong(id, "{} and {} do not give {}", heads(made.value, a->columns),
            heads(made.value, b->columns), heads(made.value, made.columns));
    if (a->rows == made.rows && b->rows == made.rows) return;
    const Region ra = region(a->rows), rb = region(b->rows);
    const std::uint32_t first = std::min(ra.first.value, rb.first.value);
    const Region both{{first}, std::max(ra.end(), rb.end()) - first};
    if (const Region rows = region(made.rows); rows != both)
      wrong(id, "{} and {} give {}, not {}", name_of(ra), name_of(rb), name_of(both),
            name_of(rows));
  }

  void check_send(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    const Piece& sent = plan_.piece(task);
    const auto& t = input(id, 0, sent.value);
    if (t) {
      if (!is_within(id, sent.rows, *t) || !has_columns(id, sent.columns, *t)) return;
      const bool whole = region(sent.rows) == region(t->rows) && sent.columns == t->columns;
      if (!t->complete && !whole)
        wrong(id, "a {} must be handed over whole, or the rest of it is lost",
              plan_.name(t->value));
    }
    if (!has_peer(id, TaskKind::Receive)) {
      findings_.add(Rule::Communication, {id}, "{} has no receive", name_of(plan_, id));
      return;
    }
    const TaskId peer = task.peer;
    const Task& receive = plan_.tasks[peer.value];
    if (peer < id)
      findings_.add(Rule::Communication, {id, peer}, "{} comes before {}, its send",
                    name_of(plan_, peer), name_of(plan_, id));
    if (receive.worker_index == task.worker_index) wrong(id, "it sends to its own worker");
    const Piece& expected = plan_.piece(receive);
    if (receive.piece != task.piece && expected != sent)
      findings_.add(Rule::Communication, {id, peer},
                    "{} carries {} ({} bytes), but {} expects {} {} ({} bytes)", name_of(plan_, id),
                    name_of(region(sent.rows)), plan_.bytes(sent).value, name_of(plan_, peer),
                    plan_.name(expected.value), name_of(region(expected.rows)),
                    plan_.bytes(expected).value);
    if (t && t->complete && !receive.completes_output())
      wrong(peer, "it receives a complete tensor, and must say so");
  }

  bool has_peer(TaskId id, TaskKind other) const {
    const TaskId peer = plan_.tasks[id.value].peer;
    return peer.value < plan_.tasks.size() && plan_.tasks[peer.value].kind == other &&
           plan_.tasks[peer.value].peer == id;
  }

  void check_receive(TaskId id) {
    if (!has_peer(id, TaskKind::Send))
      findings_.add(Rule::Communication, {id}, "{} has no send", name_of(plan_, id));
  }

  void check_output(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    const Piece& piece = plan_.piece(task);
    if (std::ranges::count(plan_.program.asked, plan_.program.unrounded(piece.value)) == 0)
      wrong(id, "a {} is not a result", plan_.name(piece.value));
    if (const auto& t = input(id, 0, piece.value)) {
      if (region(t->rows) != region(piece.rows))
        wrong(id, "its input holds {}", name_of(region(t->rows)));
      if (t->columns != piece.columns) wrong(id, "its input holds {}", heads(t->value, t->columns));
    }
    // In decoding every worker may have the result: only what reads queries made it.
    if (plan_.problem.decodes()) return;
    const Region rows = region(piece.rows);
    for (std::uint32_t c = rows.first.value; c < rows.end(); ++c)
      if (plan_.layout.owner({c}) != task.worker())
        return wrong(id, "chunk {} must be output on worker {}, which owns it", c,
                     plan_.layout.owner({c}).value);
  }

  // One member, and with the first all of them together.
  void check_member(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    const Exchange& e = plan_.exchange(task);
    const Task& first = plan_.tasks[e.first.value];
    const Piece& piece = plan_.piece(task);
    if (piece.value != plan_.value(first) || task.lane != first.lane || task.step != first.step)
      findings_.add(Rule::Communication, {id, e.first},
                    "{} and {} are members of one {}, with different values, lanes or steps",
                    name_of(plan_, id), name_of(plan_, e.first), to_text(task.kind));
    if (task.inputs[0].valid())
      input(id, 0, piece.value);
    else if (region(piece.rows).count == 0)
      wrong(id, "it gives nothing and gets nothing");
    if (id == e.first) ExchangeCheck(plan_, e, findings_).run();
  }

  void check_completion(TaskId id) {
    if (!plan_.tasks[id.value].completes_output())
      wrong(id, "what a member gets from an exchange is complete");
  }

  // Members of a repack start and end together, so none can use what another makes.
  void check_repacked(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    const Exchange& e = plan_.exchange(task);
    if (task.with_previous != (id != e.first))
      wrong(id, "the members of a repack are one group, which begins with the first");
    if (const TaskId maker = maker_of(plan_, task.inputs[0]); maker.valid() && maker >= e.first)
      wrong(id, "it uses what another member of its repack makes");
    const bool gets_nothing = region(plan_.rows(task)).count == 0;
    if (!task.completes_output() && (gets_nothing || !plan_.program[plan_.value(task)].is_sum))
      wrong(id, "what it gets is complete");
  }

  // Tiles of many chunks are remembered: a short file can ask for the same one very often.
  Tile tile_of(RegionId queries, RegionId keys) {
    const Region q = region(queries), k = region(keys);
    const Mask& mask = plan_.problem.mask;
    if (q.count <= Sizes::kSmall && k.count <= Sizes::kSmall)
      return mask.tile(sizes_.tokens[queries.value], sizes_.tokens[keys.value]);
    const std::uint64_t key = (std::uint64_t{queries.value} << 32) | keys.value;
    const auto [known, is_new] = large_tiles_.try_emplace(key);
    if (is_new) known->second = mask.tile(plan_.layout.ranges(q), plan_.layout.ranges(k));
    return known->second;
  }

  // The work that a task states must follow from its regions.
  void check_work(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    const Operation& op = operation(task.kind);
    const Piece& piece = plan_.piece(task);
    const Work& stated = plan_.works[task.work.value];
    if (is_attend(task.kind)) {
      const Tile tile = tile_of(piece.rows, task.keys);
      if (stated.columns != piece.columns.count)
        wrong(id, "it states {} heads, and has {}", stated.columns, piece.columns.count);
      if (stated.rows != tile.rows || stated.keys != tile.keys || stated.pairs != tile.pairs ||
          stated.form != tile.form)
        wrong(id, "it states {} pairs of {} x {}, and has {} of {} x {}", stated.pairs.value,
              stated.rows, stated.keys, tile.pairs.value, tile.rows, tile.keys);
      return;
    }
    const bool combines = op.does == Operation::Does::Combine;
    const bool by_input = combines || op.does == Operation::Does::Compute;
    const std::optional<Tensor>& sized_by = inputs_[op.sized_by];
    if (by_input && !sized_by) return;  // said already
    const ValueId value = by_input ? sized_by->value : piece.value;
    const RegionId region = combines ? sized_by->rows : piece.rows;
    const bool of_piece = region == piece.rows && value == piece.value;
    WorkId& right = right_works_[task.piece.value];
    if (of_piece && right == task.work) return;
    const Tokens rows = sizes_.rows[region.value];
    const Bytes bytes = plan_.program.bytes(value, rows, piece.columns.count);
    if (stated.rows != rows.value || stated.columns != piece.columns.count || stated.bytes != bytes)
      findings_.add(Rule::Communication, {id},
                    "{}: it states {} rows and {} bytes, and has {} and {}", name_of(plan_, id),
                    stated.rows, stated.bytes.value, rows.value, bytes.value);
    else if (of_piece)
      right = task.work;
  }

  const Plan& plan_;
  const Sizes& sizes_;
  Findings& findings_;
  std::array<std::optional<Tensor>, 3> inputs_;  // of the task that is looked at, if they are there
  std::unordered_map<std::uint64_t, Tile> large_tiles_;
  std::vector<WorkId> right_works_;  // by piece: the work of moving or adding it, once checked
};

}  // namespace

void verify_structure(const Plan& plan, std::uint32_t threads, Findings& findings) {
  verify_tables(plan, threads, findings);
  if (!findings.empty()) return;  // tasks look things up in them
  const Sizes sizes(plan);
  const auto check = [&](std::uint32_t first, std::uint32_t end, Findings& found) {
    StructureCheck(plan, sizes, found).run(first, end);
  };
  Findings of_edges = findings.fresh();
  std::vector<CheckJob> jobs = jobs_over_tasks(plan, threads, check);
  jobs.emplace_back([&](Findings&) { verify_edges(plan, of_edges); });
  run_jobs(threads, jobs, findings);
  if (findings.empty()) findings.append(std::move(of_edges));
}

}  // namespace ringsched
