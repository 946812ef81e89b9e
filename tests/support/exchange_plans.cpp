#include "support/exchange_plans.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "ringsched/scheduler/plan_tables.hpp"

namespace ringsched {

namespace {

using namespace attention;

struct Cells {
  Region rows;
  ColumnRange columns;
};
using Tensors = std::vector<TensorId>;  // by worker
using CellsOfAll = std::vector<Cells>;  // by worker; without rows: nothing

class ByHand {
 public:
  explicit ByHand(const Problem& p, const char* name)
      : ByHand(p, contiguous(p.workers, p.tokens), name) {}
  ByHand(const Problem& p, Layout layout, const char* name) : tables_(plan_) {
    plan_.problem = p;
    plan_.program = program_of(p);
    plan_.layout = std::move(layout);
    plan_.schedule = name;
    tables_.add_shares();
    for (const ValueId v : plan_.program.given)
      for (std::uint32_t w = 0; w < p.workers; ++w)
        plan_.initial.push_back({tables_.id(Piece{v, {w}, all_columns(v)}), {w}});
  }

  Plan take() { return std::move(plan_); }

  std::uint32_t workers() const { return plan_.problem.workers; }
  ColumnRange all_columns(ValueId v) const { return plan_.program[v].all_columns(); }
  Region all_rows() const { return {{0}, static_cast<std::uint32_t>(plan_.layout.chunks.size())}; }
  // The columns of a value for these query heads: they, or the key/value heads that they read.
  ColumnRange columns(ValueId v, ColumnRange heads) const {
    return heads.count == 0 ? heads : heads.grouped(plan_.program[v].columns.group);
  }
  Cells share(std::uint32_t w, ColumnRange columns) const {
    return {plan_.layout.share({w}), columns};
  }
  CellsOfAll shares(ColumnRange columns) const {
    CellsOfAll out;
    for (std::uint32_t w = 0; w < workers(); ++w) out.push_back(share(w, columns));
    return out;
  }
  // All that is there from the beginning of a value.
  Tensors given(ValueId v) const {
    Tensors out;
    for (std::uint32_t i = 0; i < plan_.initial.size(); ++i)
      if (plan_.piece(plan_.initial[i]).value == v) out.push_back({i});
    return out;
  }
  bool is_given(ValueId v) const { return !given(v).empty(); }

  void set_step(Step step) { step_ = step; }
  // Attends meet the keys of their worker's share, not all keys.
  void attend_to_own_keys() { keys_ = plan_.layout.shares; }
  // The attends of worker w meet chunk w.
  void attend_to_a_chunk_each() {
    for (std::uint32_t w = 0; w < workers(); ++w) keys_.push_back({{w}, 1});
  }

  Tensors exchange(ValueId v, Lane lane, const Tensors& given, const CellsOfAll& wanted) {
    Tensors got(workers());
    Exchange e{{static_cast<std::uint32_t>(plan_.tasks.size())}, 0};
    const ExchangeId id{static_cast<std::uint32_t>(plan_.exchanges.size())};
    for (std::uint32_t w = 0; w < workers(); ++w) {
      const bool gets = wanted[w].rows.count > 0;
      if (!gets && !given[w].valid()) continue;
      Task t;
      t.kind = TaskKind::Exchange;
      t.lane = lane;
      t.exchange = id;
      const Cells cells = gets ? wanted[w] : Cells{{{0}, 0}, all_columns(v)};
      const TaskId member = add(w, t, v, cells, {given[w], {}, {}}, 1);
      if (gets) got[w] = plan_.output(member);
      ++e.members;
    }
    plan_.exchanges.push_back(e);
    return got;
  }

  TaskId compute(std::uint32_t w, TaskKind kind, ValueId made, Cells cells,
                 std::array<TensorId, 3> inputs, unsigned completes = 1) {
    Task t;
    t.kind = kind;
    if (is_attend(kind)) t.keys = tables_.id(keys_.empty() ? all_rows() : keys_[w]);
    return add(w, t, made, cells, inputs, completes);
  }
  TensorId output_of(TaskId t, std::uint32_t index = 0) const { return plan_.output(t, index); }
  void put_out(std::uint32_t w, ValueId v, ColumnRange columns, TensorId tensor) {
    compute(w, TaskKind::Output, v, share(w, columns), {tensor, {}, {}}, 0);
  }

 private:
  TaskId add(std::uint32_t worker, Task t, ValueId v, Cells cells, std::array<TensorId, 3> inputs,
             unsigned completes) {
    t.worker_index = static_cast<std::uint16_t>(worker);
    t.step = step_;
    t.piece = tables_.id(Piece{v, tables_.id(cells.rows), cells.columns});
    t.inputs = inputs;
    t.completes = completes & 3u;
    t.work = tables_.id(work_for(t, v, cells));
    plan_.tasks.push_back(t);
    return {static_cast<std::uint32_t>(plan_.tasks.size()) - 1};
  }

  Work work_for(const Task& t, ValueId made, Cells cells) const {
    if (is_attend(t.kind))
      return work_of(plan_.problem.mask.tile(plan_.layout.ranges(cells.rows),
                                             plan_.layout.ranges(plan_.regions[t.keys.value])),
                     cells.columns.count);
    const Statement* const s = plan_.program.statement(t.kind, made);
    return work_of(plan_.program, s ? s->inputs[operation(t.kind).sized_by] : made,
                   plan_.layout.rows(cells.rows), cells.columns.count);
  }

  Plan plan_;
  PlanTables tables_;
  Step step_ = 0;
  std::vector<Region> keys_;  // by worker, what its attends meet; empty: all
};

class Ulysses : ByHand {
 public:
  explicit Ulysses(const Problem& p) : ByHand(p, "ulysses_by_hand") {
    for (std::uint32_t w = 0; w < p.workers; ++w) {
      const std::uint32_t first = w * p.heads / p.workers;
      heads_.push_back({first, (w + 1) * p.heads / p.workers - first});
      const std::uint32_t group = p.heads / p.kv_heads;
      some_are_shared_ = some_are_shared_ || first % group != 0;
    }
  }

  Plan write(Pass pass) {
    const Tensors q = scatter_heads(kQuery, given(kQuery));
    const Tensors kv = scatter_heads(kKeyValue, given(kKeyValue));
    Tensors partial;
    if (is_given(kPartial))
      partial = scatter_heads(kPartial, given(kPartial));
    else
      partial = forward(q, kv, pass != Pass::Backward);
    if (pass != Pass::Forward) backward(q, kv, partial);
    return take();
  }

 private:
  Tensors scatter_heads(ValueId v, const Tensors& at_home) {
    CellsOfAll wanted;
    for (const ColumnRange heads : heads_)
      wanted.push_back({heads.count > 0 ? all_rows() : Region{}, columns(v, heads)});
    return exchange(v, Lane::Fetch, at_home, wanted);
  }
  void bring_home(ValueId v, const Tensors& of_heads) {
    const Tensors home = exchange(v, Lane::Return, of_heads, shares(all_columns(v)));
    for (std::uint32_t w = 0; w < workers(); ++w) put_out(w, v, all_columns(v), home[w]);
  }
  // Calls make(worker, cells of its heads) for all that have heads.
  template <class Make>
  Tensors for_each_share(Make make) {
    Tensors out(workers());
    for (std::uint32_t w = 0; w < workers(); ++w)
      if (heads_[w].count > 0) out[w] = make(w, Cells{all_rows(), heads_[w]});
    return out;
  }
  Tensors round(ValueId of, ValueId to, const Tensors& complete) {
    return for_each_share([&](std::uint32_t w, Cells c) {
      c.columns = columns(of, c.columns);
      return output_of(compute(w, TaskKind::Round, to, c, {complete[w], {}, {}}));
    });
  }

  Tensors forward(const Tensors& q, const Tensors& kv, bool put_out) {
    const Tensors partial = for_each_share([&](std::uint32_t w, Cells c) {
      return output_of(compute(w, TaskKind::Attend, kPartial, c, {q[w], kv[w], {}}));
    });
    const Tensors rounded = round(kPartial, kRoundedPartial, partial);
    set_step(1);
    if (put_out) bring_home(kRoundedPartial, rounded);
    return partial;
  }

  void backward(const Tensors& q, const Tensors& kv, const Tensors& partial) {
    set_step(2);
    const Tensors gradient = scatter_heads(kOutputGradient, given(kOutputGradient));
    Tensors dkv(workers());
    const Tensors dq = for_each_share([&](std::uint32_t w, Cells c) {
      const TaskId prepare =
          compute(w, TaskKind::Prepare, kPreparedGradient, c, {partial[w], gradient[w], {}});
      const TaskId attend = compute(w, TaskKind::AttendBackward, kQueryGradient, c,
                                    {q[w], output_of(prepare), kv[w]}, some_are_shared_ ? 1 : 3);
      dkv[w] = output_of(attend, 1);
      return output_of(attend);
    });
    const Tensors rounded = round(kQueryGradient, kRoundedQueryGradient, dq);
    set_step(3);
    bring_home(kRoundedQueryGradient, rounded);
    if (some_are_shared_)
      bring_home(kKeyValueGradient, dkv);
    else
      bring_home(kRoundedKeyValueGradient, round(kKeyValueGradient, kRoundedKeyValueGradient, dkv));
  }

  std::vector<ColumnRange> heads_;  // by worker
  bool some_are_shared_ = false;    // key/value heads, by workers
};

class AllGather : ByHand {
 public:
  AllGather(const Problem& p, std::uint32_t stride) : ByHand(p, "all_gather_by_hand") {
    const std::uint32_t step = stride == 0 ? p.kv_heads : stride, group = p.heads / p.kv_heads;
    for (std::uint32_t first = 0; first < p.kv_heads; first += step)
      heads_.push_back({first * group, std::min(step, p.kv_heads - first) * group});
  }

  Plan write(Pass pass) {
    Step step = 0;
    std::vector<Tensors> partials;  // by stride
    for (const ColumnRange heads : heads_) {
      if (is_given(kPartial)) break;
      set_step(step++);
      partials.push_back(forward(heads));
    }
    if (is_given(kPartial)) partials.assign(heads_.size(), given(kPartial));
    for (std::size_t i = 0; i < heads_.size() && pass != Pass::Forward; ++i) {
      set_step(step++);
      backward(heads_[i], partials[i]);
    }
    return take();
  }

 private:
  Tensors gather(ColumnRange heads) {
    const Cells all{all_rows(), columns(kKeyValue, heads)};
    return exchange(kKeyValue, Lane::Fetch, given(kKeyValue), CellsOfAll(workers(), all));
  }

  Tensors forward(ColumnRange heads) {
    const Tensors q = given(kQuery), kv = gather(heads);
    Tensors partial;
    for (std::uint32_t w = 0; w < workers(); ++w) {
      partial.push_back(
          output_of(compute(w, TaskKind::Attend, kPartial, share(w, heads), {q[w], kv[w], {}})));
      put_out(w, kPartial, heads, partial.back());
    }
    return partial;
  }

  void backward(ColumnRange heads, const Tensors& partial) {
    const Tensors q = given(kQuery), gradient = given(kOutputGradient), kv = gather(heads);
    Tensors dkv;
    for (std::uint32_t w = 0; w < workers(); ++w) {
      const Cells c = share(w, heads);
      const TaskId prepare =
          compute(w, TaskKind::Prepare, kPreparedGradient, c, {partial[w], gradient[w], {}});
      const TaskId attend = compute(w, TaskKind::AttendBackward, kQueryGradient, c,
                                    {q[w], output_of(prepare), kv[w]}, 1);
      put_out(w, kQueryGradient, heads, output_of(attend));
      dkv.push_back(output_of(attend, 1));
    }
    const ColumnRange kv_heads = columns(kKeyValue, heads);
    const Tensors home = exchange(kKeyValueGradient, Lane::Return, dkv, shares(kv_heads));
    for (std::uint32_t w = 0; w < workers(); ++w) put_out(w, kKeyValueGradient, kv_heads, home[w]);
  }

  std::vector<ColumnRange> heads_;  // of queries, by stride
};

class GatherQueries : ByHand {
 public:
  explicit GatherQueries(const Problem& p) : ByHand(p, "gather_queries_by_hand") {
    attend_to_own_keys();
  }

  Plan write(Pass pass) {
    const Tensors q = gather(kQuery), kv = given(kKeyValue);
    Tensors partial;
    if (is_given(kPartial))
      partial = gather(kPartial);
    else
      partial = forward(q, kv, pass);
    if (pass != Pass::Forward) backward(q, kv, partial);
    return take();
  }

 private:
  Cells all(ValueId v) const { return {all_rows(), all_columns(v)}; }
  CellsOfAll all_for_each(ValueId v) const { return CellsOfAll(workers(), all(v)); }
  Tensors gather(ValueId v) { return exchange(v, Lane::Fetch, given(v), all_for_each(v)); }

  Tensors forward(const Tensors& q, const Tensors& kv, Pass pass) {
    Tensors parts;
    for (std::uint32_t w = 0; w < workers(); ++w)
      parts.push_back(
          output_of(compute(w, TaskKind::Attend, kPartial, all(kPartial), {q[w], kv[w], {}}, 0)));
    const ColumnRange heads = all_columns(kPartial);
    const bool at_home = pass == Pass::Forward;
    const Tensors sum =
        exchange(kPartial, Lane::Return, parts, at_home ? shares(heads) : all_for_each(kPartial));
    for (std::uint32_t w = 0; w < workers(); ++w) {
      const TaskId own =
          compute(w, TaskKind::Round, kRoundedPartial, share(w, heads), {sum[w], {}, {}});
      put_out(w, kRoundedPartial, heads, output_of(own));
    }
    return sum;
  }

  void backward(const Tensors& q, const Tensors& kv, const Tensors& partial) {
    set_step(1);
    const Tensors gradient = gather(kOutputGradient);
    Tensors dq;
    for (std::uint32_t w = 0; w < workers(); ++w) {
      const TaskId prepare = compute(w, TaskKind::Prepare, kPreparedGradient,
                                     all(kPreparedGradient), {partial[w], gradient[w], {}});
      const TaskId attend = compute(w, TaskKind::AttendBackward, kQueryGradient,
                                    all(kQueryGradient), {q[w], output_of(prepare), kv[w]}, 2);
      dq.push_back(output_of(attend));
      put_out(w, kKeyValueGradient, all_columns(kKeyValueGradient), output_of(attend, 1));
    }
    const ColumnRange heads = all_columns(kQueryGradient);
    const Tensors home = exchange(kQueryGradient, Lane::Return, dq, shares(heads));
    for (std::uint32_t w = 0; w < workers(); ++w) put_out(w, kQueryGradient, heads, home[w]);
  }
};

class Star : ByHand {
 public:
  explicit Star(const Problem& p) : ByHand(p, all_on_worker_0(p), "star_by_hand") {
    attend_to_a_chunk_each();
  }

  Plan write(Pass pass) {
    const Tensors q = spread(kQuery, false), kv = spread(kKeyValue, true);
    Tensors partial;
    if (is_given(kPartial))
      partial = spread(kPartial, false);
    else
      partial = forward(q, kv, pass);
    if (pass != Pass::Forward) backward(q, kv, partial);
    return take();
  }

 private:
  // A chunk for each worker, all on worker 0; the others have one without tokens.
  static Layout all_on_worker_0(const Problem& p) {
    std::vector<TokenRange> chunks = contiguous(p.workers, p.tokens).chunks;
    std::vector<Region> shares = {{{0}, p.workers}};
    for (std::uint32_t w = 1; w < p.workers; ++w) {
      shares.push_back({{static_cast<std::uint32_t>(chunks.size())}, 1});
      chunks.push_back({0, 1, 0});
    }
    return custom_layout(std::move(chunks), std::move(shares));
  }
  Cells all(ValueId v) const { return share(0, all_columns(v)); }
  Cells chunk(ValueId v, std::uint32_t w) const { return {{{w}, 1}, all_columns(v)}; }
  Tensors on_0(TensorId t) const {
    Tensors out(workers());
    out[0] = t;
    return out;
  }
  Tensors spread(ValueId v, bool by_chunk, TensorId of = {}) {
    CellsOfAll wanted;
    for (std::uint32_t w = 0; w < workers(); ++w) wanted.push_back(by_chunk ? chunk(v, w) : all(v));
    return exchange(v, Lane::Fetch, on_0(of.valid() ? of : given(v)[0]), wanted);
  }
  TensorId bring_home(ValueId v, const Tensors& from) {
    CellsOfAll wanted(workers(), Cells{{}, all_columns(v)});
    wanted[0] = all(v);
    return exchange(v, Lane::Return, from, wanted)[0];
  }
  void put_out_all(ValueId v, TensorId t) {
    compute(0, TaskKind::Output, v, all(v), {t, {}, {}}, 0);
  }

  Tensors forward(const Tensors& q, const Tensors& kv, Pass pass) {
    Tensors parts;
    for (std::uint32_t w = 0; w < workers(); ++w)
      parts.push_back(
          output_of(compute(w, TaskKind::Attend, kPartial, all(kPartial), {q[w], kv[w], {}}, 0)));
    set_step(1);
    const TensorId sum = bring_home(kPartial, parts);
    put_out_all(kPartial, sum);
    return pass == Pass::Forward ? Tensors{} : spread(kPartial, false, sum);
  }

  void backward(const Tensors& q, const Tensors& kv, const Tensors& partial) {
    set_step(2);
    const Tensors gradient = spread(kOutputGradient, false);
    Tensors dq, dkv;
    for (std::uint32_t w = 0; w < workers(); ++w) {
      const TaskId prepare = compute(w, TaskKind::Prepare, kPreparedGradient,
                                     all(kPreparedGradient), {partial[w], gradient[w], {}});
      const TaskId attend = compute(w, TaskKind::AttendBackward, kQueryGradient,
                                    all(kQueryGradient), {q[w], output_of(prepare), kv[w]}, 2);
      dq.push_back(output_of(attend));
      dkv.push_back(output_of(attend, 1));
    }
    set_step(3);
    put_out_all(kQueryGradient, bring_home(kQueryGradient, dq));
    put_out_all(kKeyValueGradient, bring_home(kKeyValueGradient, dkv));
  }
};

}  // namespace

Plan star_by_hand(const Problem& problem) { return Star(problem).write(problem.pass); }

Plan gather_queries_by_hand(const Problem& problem) {
  return GatherQueries(problem).write(problem.pass);
}

Plan ulysses_by_hand(const Problem& problem) { return Ulysses(problem).write(problem.pass); }

Plan all_gather_by_hand(const Problem& problem, std::uint32_t stride) {
  return AllGather(problem, stride).write(problem.pass);
}

}  // namespace ringsched
