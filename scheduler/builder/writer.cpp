#include "writer.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "mistake.hpp"
#include "ringsched/scheduler/stop.hpp"
#include "survey.hpp"

namespace ringsched {

namespace {

class PlanWriter {
 public:
  PlanWriter(PlanParts& parts, const Tape& tape, const Survey& survey, std::uint64_t most_tasks)
      : parts_(parts),
        plan_(parts.plan),
        tape_(tape),
        survey_(survey),
        most_tasks_(most_tasks),
        lanes_(parts.plan),
        made_(tape.size()) {}

  // In a plan of the backward pass alone, what exchanges of the forward pass brought is there from
  // the start.
  void keep_what_came() {
    for (const CallId first : survey_.exchanges)
      for (std::uint32_t i = 0; i < tape_.members(first); ++i) {
        const CallId id{first.value + i};
        const Call& c = tape_[id];
        if (c.again || !c.origin.valid()) continue;
        const Origin& came = tape_.origin(c);
        made_[id] = parts_.keep(operand(c), came.rows, came.columns, worker(c));
      }
  }

  void write(bool backward) {
    begin(backward);
    tape_.for_each([&](CallId id, const Call& c) {
      if (first_step_ + c.step != step_) step(c.step);
      switch (c.what) {
        case Call::What::Given:
          made_[id] = parts_.given(operand(c), worker(c));
          break;
        case Call::What::Begin:
          break;
        case Call::What::Narrow:
          made_[id] = made_[c.from];
          if (backward_ && !prepared_[id].valid()) prepared_[id] = prepared_[c.from];
          break;
        case Call::What::Member:
          if (c.keys == id) exchange_operands(id);
          break;
        case Call::What::ResultMember:
          if (c.keys == id && !backward_) exchange_results(id);
          break;
        case Call::What::PartialMember:
          if (c.keys == id) exchange_partials(id);
          break;
        case Call::What::Move:
          move(id, c);
          break;
        case Call::What::Attend:
          attend(id, c);
          break;
        case Call::What::MoveResult:
          move_result(id, c);
          break;
        case Call::What::Merge:
          merge(c.from);
          break;
        case Call::What::Combine:
          combine(id, c);
          break;
      }
    });
    end();
    write_outputs();
  }

 private:
  struct Posted {  // the last group of a lane; open until something else comes
    Step step = ~Step{0};
    std::uint32_t computed = 0;
    friend bool operator==(const Posted&, const Posted&) = default;
  };
  struct Accumulator {
    TensorId tensor;
    RegionId rows;
  };
  struct Member {  // of an exchange being written
    WorkerId worker;
    TensorId given;  // or none
    RegionId rows;   // none: it gets nothing
    ColumnRange columns;
  };
  struct Delivered {  // a result, or a part of its rows and columns, at home
    ValueId value;
    TensorId tensor;
    WorkerId worker;
    RegionId rows;
    ColumnRange columns;
  };

  void begin(bool backward) {
    backward_ = backward;
    attends_ = 0;
    taken_.clear();
    const std::uint64_t moves = survey_.query_moves * (backward ? 2 : 1) +
                                survey_.key_moves * (backward ? 3 : 1) + survey_.returns;
    const std::uint64_t tasks = survey_.attends * (backward ? 3 : 2) + 2 * moves +
                                3 * plan_.problem.workers + survey_.members * (backward ? 5 : 1) +
                                survey_.result_members * (backward ? 1 : 2);
    if (plan_.tasks.size() + tasks > most_tasks_)
      fail("this plan needs more than {} tasks; use fewer workers", most_tasks_);
    plan_.tasks.reserve(plan_.tasks.size() + tasks);

    first_step_ = plan_.tasks.empty() ? 0 : plan_.tasks.back().step + 1;
    step_ = first_step_;
    final_result_ = std::exchange(result_, std::vector<Accumulator>(tape_.origins().size()));
    posted_.assign(lanes_.all, {});
    computed_.assign(plan_.problem.workers, 0);
    if (!backward) return;
    prepared_ = CallColumn<TensorId>(tape_.size());
    key_gradient_ = CallColumn<Accumulator>(tape_.size());
    open_members_ = survey_.open_members;
    exchange_result_gradients();
    prepare_gradients();
  }

  void end() {
    add_arrived_gradients();
    if (!finished_.empty() || !finished_exchanges_.empty()) {
      ++step_;
      send_gradients_home();
      add_arrived_gradients();
    }
    if (backward_) exchange_other_gradients();
    // A schedule may count steps beyond its last task.
    const bool none = plan_.tasks.empty() || plan_.tasks.back().step < first_step_;
    step_ = none ? first_step_ : plan_.tasks.back().step;
  }

  void step(Step s) {
    stop_here();
    add_arrived_gradients();
    step_ = first_step_ + s;
    send_gradients_home();
  }

  void move(CallId id, const Call& c) {
    const Survey::Use& use = survey_.uses[id];
    if (!use.any()) return;
    const Origin& origin = tape_.origin(c);
    const Region read{{use.first}, use.end - use.first};
    const RegionId rows =
        plan_.regions[origin.rows.value] == read ? origin.rows : parts_.region(read);
    const WorkerId from = worker(tape_[c.from]), to = worker(c);
    made_[id] = transfer(made_[c.from], operand(c), rows, origin.columns, from, to, c.lane);
    if (!backward_) return;
    if (c.of_keys)
      hand_on_gradient(c.from, id);
    else
      prepared_[id] = transfer(prepared_[c.from], attention::kPreparedGradient, rows,
                               origin.columns, from, to, c.lane);
  }

  void attend(CallId id, const Call& c) {
    const ColumnRange columns = tape_.origin(c).columns;
    Task& task = add(backward_ ? TaskKind::AttendBackward : TaskKind::Attend, result_value(),
                     worker(c), c.rows, columns, c.work);
    task.keys = c.key_rows;
    made_[id] = last_output();
    if (backward_) {
      task.inputs = {made_[c.from], prepared_[c.from], made_[c.keys]};
      add_key_gradient(c.keys, last_output(1), c.key_rows);
    } else {
      task.inputs = {made_[c.from], made_[c.keys], {}};
    }
    ++attends_;
    if (c.merged) merge(id);
  }

  void move_result(CallId id, const Call& c) {
    made_[id] = transfer(made_[c.from], result_value(), c.rows, tape_.origin(c).columns,
                         worker(tape_[c.from]), worker(c), Lane::Return);
  }

  void merge(CallId result) {
    const Call& c = tape_[result];
    if (!taken_.empty() && taken_.contains(c.origin.value))
      mistake_at(step_, "a partial is merged on worker {} into a result that an exchange has taken",
                 worker(c).value);
    accumulate(result_value(), tape_.origin(c).columns, tape_.worker(c.origin),
               result_[c.origin.value], {made_[result], c.rows});
  }

  void combine(CallId id, const Call& c) {
    Accumulator sum{made_[c.from], c.rows};
    accumulate(result_value(), tape_.origin(c).columns, worker(c), sum, {made_[c.keys], c.rows});
    made_[id] = sum.tensor;
  }

  // --- exchanges

  Member member(CallId id, TensorId given) const {
    const Call& c = tape_[id];
    if (!c.origin.valid()) return {worker(c), given, {}, {}};
    return {worker(c), given, tape_.origin(c).rows, tape_.origin(c).columns};
  }
  // The reverse exchange: a member gives what it got, and gets what it gave, of the columns that
  // the exchange moved.
  Member back(CallId id, TensorId given, ColumnRange moved) const {
    const Call& c = tape_[id];
    if (!c.from.valid()) return {worker(c), given, {}, {}};
    const Origin& from = tape_.origin(tape_[c.from]);
    const std::uint32_t first = std::max(from.columns.first, moved.first);
    const std::uint32_t end = std::min(from.columns.end(), moved.end());
    if (first >= end) return {worker(c), given, {}, {}};
    return {worker(c), given, from.rows, {first, end - first}};
  }
  // Everything that the members get together.
  ColumnRange moved_columns(CallId first) const {
    std::uint32_t from = ~0u, end = 0;
    for (std::uint32_t i = 0; i < tape_.members(first); ++i) {
      const Call& c = tape_[{first.value + i}];
      if (!c.origin.valid()) continue;
      from = std::min(from, tape_.origin(c).columns.first);
      end = std::max(end, tape_.origin(c).columns.end());
    }
    return {from, end - std::min(from, end)};
  }

  // Writes an exchange of these tensors; returns what each gets. It is left out if nobody gives
  // anything, or nobody gets anything.
  std::vector<TensorId> exchange(ValueId value, Lane lane, std::vector<Member> members) {
    std::vector<TensorId> got(members.size());
    std::vector<std::size_t> number;
    bool gives = false, gets = false;
    for (std::size_t i = 0; i < members.size(); ++i) {
      gives = gives || members[i].given.valid();
      gets = gets || members[i].rows.valid();
      if (members[i].given.valid() || members[i].rows.valid()) number.push_back(i);
    }
    if (!gives || !gets) return got;
    const ExchangeId id{static_cast<std::uint32_t>(plan_.exchanges.size())};
    plan_.exchanges.push_back({{static_cast<std::uint32_t>(plan_.tasks.size())},
                               static_cast<std::uint32_t>(number.size())});
    for (const std::size_t i : number) {
      const Member& m = members[i];
      const bool any = m.rows.valid();
      const RegionId rows = any ? m.rows : parts_.region({{0}, 0});
      const ColumnRange columns = any ? m.columns : ColumnRange{0, 1};
      Task& task = add(TaskKind::Exchange, value, m.worker, rows, columns,
                       parts_.work(value, rows, columns), lane);
      task.with_previous = false;
      task.exchange = id;
      task.inputs[0] = m.given;
      task.completes = 1;
      if (any) got[i] = last_output();
      posted_[lanes_.of(m.worker, lane)] = {};
    }
    return got;
  }

  void exchange_operands(CallId first) {
    const Call& c = tape_[first];
    if (!backward_ || c.again) exchange_forward(first, operand(c), c.lane, made_);
    // If the forward pass is not in the plan, gradients are prepared at home.
    if (backward_ && !c.of_keys && plan_.problem.pass == Pass::Backward)
      exchange_forward(first, attention::kPreparedGradient, c.lane, prepared_);
  }
  void exchange_forward(CallId first, ValueId value, Lane lane, CallColumn<TensorId>& has) {
    std::vector<Member> members;
    for (std::uint32_t i = 0; i < tape_.members(first); ++i) {
      const CallId id{first.value + i};
      const CallId from = tape_[id].from;
      members.push_back(member(id, from.valid() ? has[from] : TensorId{}));
    }
    const std::vector<TensorId> got = exchange(value, lane, std::move(members));
    for (std::uint32_t i = 0; i < got.size(); ++i) has[{first.value + i}] = got[i];
  }

  void exchange_results(CallId first) {
    std::vector<Member> members;
    for (std::uint32_t i = 0; i < tape_.members(first); ++i) {
      const CallId id{first.value + i};
      members.push_back(member(id, tape_[id].from.valid() ? rounded(tape_[id].from) : TensorId{}));
    }
    const std::vector<TensorId> got =
        exchange(plan_.program.rounded(attention::kPartial), Lane::Return, std::move(members));
    for (std::uint32_t i = 0; i < got.size(); ++i) made_[{first.value + i}] = got[i];
  }

  // Parts of sums, which are added up.
  void exchange_partials(CallId first) {
    std::vector<Member> members;
    for (std::uint32_t i = 0; i < tape_.members(first); ++i) {
      const CallId id{first.value + i};
      members.push_back(member(id, tape_[id].from.valid() ? made_[tape_[id].from] : TensorId{}));
    }
    const std::vector<TensorId> got =
        exchange(attention::kPartial, Lane::Return, std::move(members));
    for (std::uint32_t i = 0; i < got.size(); ++i) made_[{first.value + i}] = got[i];
  }

  bool given_on(CallId of) const { return survey_.given_on.contains(of.value); }

  // The result of queries, or what an exchange brought of one.
  TensorId rounded(CallId of) {
    const Call& c = tape_[of];
    if (c.what == Call::What::ResultMember) return made_[of];
    if (c.what == Call::What::PartialMember)
      return round(attention::kPartial, tape_.origin(c), worker(c),
                   {made_[of], tape_.origin(c).rows});
    taken_.insert(c.origin.value);
    return round(attention::kPartial, tape_.origin(c), worker(c), result_[c.origin.value]);
  }
  TensorId round(ValueId value, const Origin& origin, WorkerId worker, const Accumulator& sum) {
    if (!sum.tensor.valid()) return {};
    mark_complete(plan_, sum.tensor);
    Task& task = add(TaskKind::Round, plan_.program.rounded(value), worker, sum.rows,
                     origin.columns, parts_.work(value, sum.rows, origin.columns));
    task.inputs[0] = sum.tensor;
    task.completes = 1;
    return last_output();
  }

  // --- the backward pass, derived from the calls of the forward pass. Query gradients take the way
  // of the partials. A gradient of keys is collected where the keys were brought. It travels on
  // with them (the ring's way) or, if they go no further, straight home to their owner. For each
  // exchange, another one returns the gradients of what it brought.

  // Gradients go back the way that results came.
  void exchange_result_gradients() {
    if (plan_.problem.pass != Pass::Both || survey_.result_exchanges.empty()) return;
    given_gradient_ = CallColumn<TensorId>(tape_.size());
    for (const CallId first : reversed(survey_.result_exchanges)) {
      std::vector<Member> members;
      const ColumnRange moved = moved_columns(first);
      for (std::uint32_t i = 0; i < tape_.members(first); ++i) {
        const CallId id{first.value + i};
        TensorId given;
        if (tape_[id].origin.valid())
          given = given_on(id) ? given_gradient_[id]
                               : parts_.given(attention::kOutputGradient, worker(tape_[id]));
        members.push_back(back(id, given, moved));
      }
      const std::vector<TensorId> got =
          exchange(attention::kOutputGradient, Lane::Fetch, std::move(members));
      for (std::uint32_t i = 0; i < got.size(); ++i)
        if (const CallId from = tape_[{first.value + i}].from; from.valid())
          given_gradient_[from] = got[i];
    }
  }

  void prepare_gradients() {
    const bool both = !final_result_.empty();
    for (std::uint32_t o = 0; o < tape_.origins().size(); ++o) {
      const Origin& origin = tape_.origin({o});
      const Call& c = tape_[origin.call];
      const bool at_home = c.what == Call::What::Given && !c.of_keys;
      if (c.of_keys || c.what == Call::What::ResultMember || (!both && !at_home)) continue;
      const TensorId result =
          both ? final_result_[o].tensor : parts_.given(attention::kPartial, worker(c));
      if (!result.valid()) continue;  // none of these queries sees any key
      const TensorId gradient = given_on(origin.call)
                                    ? given_gradient_[origin.call]
                                    : parts_.given(attention::kOutputGradient, worker(c));
      if (!gradient.valid()) continue;
      mark_complete(plan_, result);
      Task& task =
          add(TaskKind::Prepare, attention::kPreparedGradient, worker(c), origin.rows,
              origin.columns, parts_.work(attention::kOutputGradient, origin.rows, origin.columns));
      task.inputs = {result, gradient, {}};
      task.completes = 1;
      prepared_[origin.call] = last_output();
    }
  }

  void add_key_gradient(CallId keys, TensorId gradient, RegionId rows) {
    const Call& c = tape_[keys];
    accumulate(attention::kKeyValueGradient, tape_.origin(c).columns, worker(c),
               key_gradient_[keys], {gradient, rows});
    const Survey::Path& path = survey_.paths[keys];
    if (c.what != Call::What::Move) {
      if (c.what == Call::What::Member && path.last_attend == attends_)
        if (const auto open = open_members_.find(c.keys.value);
            open != open_members_.end() && --open->second == 0)
          finished_exchanges_.push_back(c.keys);
      return;
    }
    if (path.onward.valid() && attends_ >= survey_.paths[path.onward].attends_when_moved)
      mistake_at(
          step_ - first_step_,
          "worker {} attends the keys of worker {} after it moved them on, when their gradient "
          "has left with them; attend first, then move (or plan --pass forward)",
          c.worker, tape_.worker(c.origin).value);
    if (!path.onward.valid() && path.last_attend == attends_) finished_.push_back(keys);
  }

  void hand_on_gradient(CallId from, CallId to) {
    const Call& there = tape_[from];
    const bool goes = there.what == Call::What::Move || tape_[to].always;
    if (!goes || survey_.paths[from].onward != to || !key_gradient_[from].tensor.valid()) return;
    const Accumulator sum = std::exchange(key_gradient_[from], {});
    key_gradient_[to] = {
        transfer(sum.tensor, attention::kKeyValueGradient, sum.rows, tape_.origin(there).columns,
                 worker(there), worker(tape_[to]), Lane::Return),
        sum.rows};
    // Where it only passes, no attend will say that it can go home.
    const Survey::Path& path = survey_.paths[to];
    if (path.last_attend == ~0u && !path.onward.valid()) finished_.push_back(to);
  }

  void send_gradients_home() {
    for (const CallId keys : finished_) {
      const Call& c = tape_[keys];
      const Accumulator& sum = key_gradient_[keys];
      const TensorId there =
          transfer(sum.tensor, attention::kKeyValueGradient, sum.rows, tape_.origin(c).columns,
                   worker(c), tape_.worker(c.origin), Lane::Return);
      arrived_.push_back({tape_.origin(c).call, {there, sum.rows}});
    }
    finished_.clear();
    for (const CallId first : std::exchange(finished_exchanges_, {})) exchange_gradients(first);
  }

  void add_arrived_gradients() {
    for (const auto& [keys, gradient] : arrived_)
      accumulate(attention::kKeyValueGradient, tape_.origin(tape_[keys]).columns,
                 worker(tape_[keys]), key_gradient_[keys], gradient);
    arrived_.clear();
  }

  // Those that had to wait until everything else was done.
  void exchange_other_gradients() {
    bool any = false;
    for (const CallId first : reversed(survey_.exchanges)) {
      if (exchanged_[first.value]) continue;
      if (!std::exchange(any, true)) ++step_;
      exchange_gradients(first);
    }
  }

  // Of what an exchange brought: complete gradients are rounded and go back. If several members got
  // the same, each has a part of the terms, and the parts are added up on the way.
  void exchange_gradients(CallId first) {
    exchanged_[first.value] = true;
    const bool keys = tape_[first].of_keys;
    const ValueId value = keys ? attention::kKeyValueGradient : attention::kQueryGradient;
    const bool adds_up = has_copies(first);
    const ColumnRange moved = moved_columns(first);
    std::vector<Member> members;
    for (std::uint32_t i = 0; i < tape_.members(first); ++i) {
      const CallId id{first.value + i};
      const Call& c = tape_[id];
      TensorId given;
      if (c.origin.valid()) {
        const Accumulator& sum = keys ? key_gradient_[id] : result_[c.origin.value];
        given = adds_up                 ? sum.tensor
                : gathered_[id].valid() ? gathered_[id]
                                        : round(value, tape_.origin(c), worker(c), sum);
      }
      members.push_back(back(id, given, moved));
    }
    const ValueId moves = adds_up ? value : plan_.program.rounded(value);
    const std::vector<TensorId> got = exchange(moves, Lane::Return, members);
    for (std::uint32_t i = 0; i < got.size(); ++i) {
      if (!got[i].valid()) continue;
      const CallId from = tape_[{first.value + i}].from;
      if (tape_[from].what == Call::What::Member && moves != value)
        gathered_[from] = got[i];
      else if (tape_[from].what == Call::What::Member)
        mistake_at(step_ - first_step_,
                   "worker {} gives an exchange what another exchange brought; that works with "
                   "--pass forward only",
                   worker(tape_[from]).value);
      else
        delivered_.push_back(
            {moves, got[i], members[i].worker, members[i].rows, members[i].columns});
    }
  }

  // Do several members of an exchange get the same cells?
  bool has_copies(CallId first) const {
    struct Got {
      Region rows;
      ColumnRange columns;
    };
    std::vector<Got> got;
    for (std::uint32_t i = 0; i < tape_.members(first); ++i)
      if (const Call& c = tape_[{first.value + i}]; c.origin.valid())
        got.push_back({plan_.regions[tape_.origin(c).rows.value], tape_.origin(c).columns});
    // Sorted by columns: usually only neighbours share some.
    std::ranges::sort(got, {}, [](const Got& g) { return g.columns.first; });
    for (std::size_t a = 0; a < got.size(); ++a)
      for (std::size_t b = a + 1; b < got.size() && got[b].columns.first < got[a].columns.end();
           ++b)
        if (got[b].rows.first.value < got[a].rows.end() &&
            got[a].rows.first.value < got[b].rows.end())
          return true;
    return false;
  }

  // --- tasks

  // Fills the task in place: building it elsewhere and copying it costs a third of the whole time.
  Task& add(TaskKind kind, ValueId value, WorkerId worker, RegionId rows, ColumnRange columns,
            WorkId work, Lane lane = Lane::Compute) {
    const PieceId piece = parts_.piece(value, rows, columns);
    bool with_previous = false;
    std::uint32_t& computed = computed_[worker.value];
    if (lane == Lane::Compute) {
      ++computed;
    } else {
      Posted& open = posted_[lanes_.of(worker, lane)];
      with_previous = open == Posted{step_, computed};
      open = {step_, computed};
    }
    Task& task = plan_.tasks.emplace_back();
    task.kind = kind;
    task.lane = lane;
    task.with_previous = with_previous;
    task.worker_index = static_cast<std::uint16_t>(worker.value);
    task.step = step_;
    task.work = work;
    task.piece = piece;
    return task;
  }

  TensorId transfer(TensorId tensor, ValueId value, RegionId rows, ColumnRange columns,
                    WorkerId from, WorkerId to, Lane lane) {
    const WorkId work = parts_.work(value, rows, columns);
    const TaskId send{static_cast<std::uint32_t>(plan_.tasks.size())}, receive{send.value + 1};
    Task& sending = add(TaskKind::Send, value, from, rows, columns, work, lane);
    sending.inputs[0] = tensor;
    sending.peer = receive;
    Task& receiving = add(TaskKind::Receive, value, to, rows, columns, work, lane);
    receiving.peer = send;
    receiving.completes = lane != Lane::Return;  // operands are complete; what returns is a part
    return plan_.output(receive);
  }

  void accumulate(ValueId value, ColumnRange columns, WorkerId worker, Accumulator& sum,
                  Accumulator added) {
    if (!sum.tensor.valid()) {
      sum = added;
      return;
    }
    RegionId into = sum.rows;
    if (sum.rows != added.rows) {
      const Region a = plan_.regions[sum.rows.value], b = plan_.regions[added.rows.value];
      const std::uint32_t first = std::min(a.first.value, b.first.value);
      into = parts_.region({{first}, std::max(a.end(), b.end()) - first});
      // Add the smaller to the larger, which can then be done in place.
      if (into == added.rows) std::swap(sum, added);
    }
    const TaskKind kind = value == attention::kPartial ? TaskKind::Merge : TaskKind::Reduce;
    Task& task = add(kind, value, worker, into, columns, parts_.work(value, added.rows, columns));
    task.inputs[0] = sum.tensor;
    task.inputs[1] = added.tensor;
    sum = {last_output(), into};
  }

  // Tensors at home. Results of queries that an exchange brought have gone there by another
  // exchange.
  void write_outputs() {
    for (std::uint32_t o = 0; o < tape_.origins().size(); ++o) {
      const Origin& origin = tape_.origin({o});
      const Call& c = tape_[origin.call];
      const bool gone = backward_ ? c.what == Call::What::Member : given_on(origin.call);
      if (!c.of_keys && !gone) put_out(result_value(), result_[o], worker(c), origin.columns);
    }
    if (!backward_) {
      for (const CallId first : survey_.result_exchanges)
        for (std::uint32_t i = 0; i < tape_.members(first); ++i)
          if (const CallId id{first.value + i}; made_[id].valid() && !given_on(id)) {
            const Origin& origin = tape_.origin(tape_[id]);
            const bool whole = tape_[id].what == Call::What::PartialMember;
            put_out(whole ? attention::kPartial : plan_.program.rounded(attention::kPartial),
                    {made_[id], origin.rows}, worker(tape_[id]), origin.columns);
          }
      return;
    }
    for (std::uint32_t w = 0; w < plan_.problem.workers; ++w) {
      const Origin& origin = tape_.origin(tape_.keys_of({w}));
      put_out(attention::kKeyValueGradient, key_gradient_[origin.call], WorkerId{w},
              origin.columns);
    }
    for (const Delivered& d : delivered_) put_out(d.value, {d.tensor, d.rows}, d.worker, d.columns);
  }

  void put_out(ValueId value, const Accumulator& result, WorkerId worker, ColumnRange columns) {
    if (!result.tensor.valid()) return;
    mark_complete(plan_, result.tensor);
    add(TaskKind::Output, value, worker, result.rows, columns,
        parts_.work(value, result.rows, columns))
        .inputs[0] = result.tensor;
  }

  TensorId last_output(std::uint32_t index = 0) const {
    return plan_.output({static_cast<std::uint32_t>(plan_.tasks.size()) - 1}, index);
  }
  ValueId result_value() const {
    return backward_ ? attention::kQueryGradient : attention::kPartial;
  }
  static ValueId operand(const Call& c) {
    return c.of_keys ? attention::kKeyValue : attention::kQuery;
  }
  static WorkerId worker(const Call& c) { return {c.worker}; }
  static std::vector<CallId> reversed(std::vector<CallId> calls) {
    std::ranges::reverse(calls);
    return calls;
  }

  PlanParts& parts_;
  Plan& plan_;
  const Tape& tape_;
  const Survey& survey_;
  const std::uint64_t most_tasks_;
  bool backward_ = false;
  Step step_ = 0;
  Step first_step_ = 0;        // of the pass being written
  std::uint32_t attends_ = 0;  // so far
  const LaneNumbers lanes_;
  std::vector<Posted> posted_;           // per worker and lane
  std::vector<std::uint32_t> computed_;  // per worker: the tasks that were not transfers

  CallColumn<TensorId> made_;              // what each call gives, brings or makes
  CallColumn<TensorId> prepared_;          // the prepared gradient, beside queries
  CallColumn<TensorId> given_gradient_;    // of the results that an exchange took: dO
  CallColumn<Accumulator> key_gradient_;   // of the keys that a call gives or brings
  std::vector<Accumulator> result_;        // by origin, of queries: O, or dQ
  std::vector<Accumulator> final_result_;  // by origin: the forward pass's O, for prepare
  std::vector<CallId> finished_;           // keys that send their gradients home next step
  // Key gradients that came home to these keys, to be added once this step's attends are done.
  std::vector<std::pair<CallId, Accumulator>> arrived_;
  std::map<std::uint32_t, std::uint32_t> open_members_;
  std::vector<CallId> finished_exchanges_;  // whose gradients go back next step
  std::map<std::uint32_t, bool> exchanged_;
  std::set<std::uint32_t> taken_;        // origins of results that an exchange has taken
  std::map<CallId, TensorId> gathered_;  // gradients that have come back to what exchanges brought
  std::vector<Delivered> delivered_;
};

}  // namespace

void write_tasks(PlanParts& parts, const Tape& tape, std::uint64_t most_tasks) {
  const Pass pass = parts.plan.problem.pass;
  const Survey survey(tape, parts.plan, pass != Pass::Forward);
  PlanWriter writer(parts, tape, survey, most_tasks);
  if (pass == Pass::Backward) writer.keep_what_came();
  if (pass != Pass::Backward) writer.write(false);
  if (pass != Pass::Forward) writer.write(true);
}

}  // namespace ringsched
