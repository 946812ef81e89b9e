#include "support/exchange_surgery.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "support/surgery.hpp"

namespace ringsched {

namespace {

std::vector<std::uint32_t> all_tasks(const Plan& plan) {
  std::vector<std::uint32_t> order(plan.tasks.size());
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

// Numbers and members of exchanges anew, in the order of tasks.
void add_exchange(Plan& plan, std::uint32_t first, std::uint32_t end) {
  const ExchangeId id{static_cast<std::uint32_t>(plan.exchanges.size())};
  plan.exchanges.emplace_back();
  for (std::uint32_t m = first; m < end; ++m) plan.tasks[m].exchange = id;
  find_members(plan);
}

}  // namespace

void move_to_exchange(Plan& plan, TaskId member, ExchangeId to) {
  std::vector<std::uint32_t> order = all_tasks(plan);
  const std::uint32_t end = plan.exchanges[to.value].end();
  plan.tasks[member.value].exchange = to;
  order.erase(order.begin() + member.value);
  order.insert(order.begin() + end - (member.value < end ? 1 : 0), member.value);
  relay(plan, order);
}

void split_exchange(Plan& plan, TaskId member) {
  add_exchange(plan, member.value, plan.exchange(plan.tasks[member.value]).end());
}

void join_exchanges(Plan& plan, ExchangeId first) {
  const Exchange e = plan.exchanges[first.value];
  for (std::uint32_t id = e.end(); id < plan.tasks.size() && is_exchange(plan.tasks[id].kind) &&
                                   plan.tasks[id].exchange.value == first.value + 1;
       ++id)
    plan.tasks[id].exchange = first;
  find_members(plan);
}

void repeat_exchange(Plan& plan, ExchangeId exchange, bool of_its_results) {
  const Exchange e = plan.exchanges[exchange.value];
  std::vector<std::uint32_t> order = all_tasks(plan), members;
  for (std::uint32_t m = e.first.value; m < e.end(); ++m) members.push_back(m);
  order.insert(order.begin() + e.end(), members.begin(), members.end());
  relay(plan, order);
  for (std::uint32_t m = 0; m < e.members; ++m) {
    const TaskId once{e.first.value + m}, again{e.end() + m};
    read_instead(plan, plan.output(once), plan.output(again));
    if (of_its_results && plan.regions[plan.rows(plan.tasks[once.value]).value].count > 0) {
      plan.tasks[again.value].inputs[0] = plan.output(once);
      plan.tasks[once.value].completes = 0;
    }
  }
  add_exchange(plan, e.end(), e.end() + e.members);
}

namespace {

class ExchangeChange {
 public:
  ExchangeChange(Plan& plan, std::mt19937_64& random)
      : plan_(plan),
        random_(random),
        number_{any(plan.exchanges.size())},
        exchange_(plan.exchanges[number_.value]),
        id_(member()),
        t_(plan.tasks[id_.value]) {}

  std::string make() {
    using Change = std::string (ExchangeChange::*)();
    static constexpr Change changes[] = {&ExchangeChange::drop,
                                         &ExchangeChange::repeat,
                                         &ExchangeChange::reorder,
                                         &ExchangeChange::move,
                                         &ExchangeChange::value,
                                         &ExchangeChange::kind,
                                         &ExchangeChange::rows,
                                         &ExchangeChange::columns,
                                         &ExchangeChange::input,
                                         &ExchangeChange::same_kind,
                                         &ExchangeChange::again,
                                         &ExchangeChange::less_for_all,
                                         &ExchangeChange::half_read,
                                         &ExchangeChange::completes,
                                         &ExchangeChange::given_completes,
                                         &ExchangeChange::split,
                                         &ExchangeChange::join,
                                         &ExchangeChange::lane,
                                         &ExchangeChange::lane_of_all,
                                         &ExchangeChange::place,
                                         &ExchangeChange::list,
                                         &ExchangeChange::gives_nothing,
                                         &ExchangeChange::gets_nothing,
                                         &ExchangeChange::swap_given,
                                         &ExchangeChange::without,
                                         &ExchangeChange::no_rounding,
                                         &ExchangeChange::in_a_group};
    return (this->*changes[any(std::size(changes))])();
  }

 private:
  std::uint32_t any(std::size_t n) { return static_cast<std::uint32_t>(random_() % n); }
  TaskId member() { return {exchange_.first.value + any(exchange_.members)}; }
  TaskId any_task() { return {any(plan_.tasks.size())}; }
  std::string of_member(std::string_view what) const {
    return fmt::format("member {} of exchange {} {}", id_.value, number_.value, what);
  }
  // Other tensors that a task could read: of its worker and value, or of any.
  TensorId any_tensor(bool alike) {
    std::vector<TensorId> found;
    for (std::uint32_t i = 0; i < plan_.initial.size() + 2 * id_.value; ++i) {
      const TaskId maker = plan_.producer({i});
      if (maker.valid() &&
          i - plan_.output(maker).value >= outputs_of(plan_.tasks[maker.value].kind))
        continue;
      const Tensor t = plan_.tensor({i});
      if (!alike || (t.worker == t_.worker() && t.value == plan_.value(t_))) found.push_back({i});
    }
    return found.empty() ? TensorId{} : found[any(found.size())];
  }
  // What reads the member's result.
  std::vector<TaskId> readers() const {
    std::vector<TaskId> out;
    for (std::uint32_t r = id_.value + 1; r < plan_.tasks.size(); ++r)
      for (const TensorId input : plan_.tasks[r].inputs)
        if (input == plan_.output(id_)) out.push_back({r});
    return out;
  }

  std::string drop() {
    erase_task(plan_, id_);
    return of_member("is dropped");
  }
  std::string repeat() {
    repeat_task(plan_, id_);
    return of_member("is there twice");
  }
  std::string reorder() {
    swap_tasks(plan_, id_, any(2) == 0 ? member() : any_task());
    return of_member("trades places");
  }
  std::string move() {
    const ExchangeId to{any(plan_.exchanges.size())};
    move_to_exchange(plan_, id_, to);
    return of_member(fmt::format("goes to exchange {}", to.value));
  }
  std::string value() {
    const ValueId v{any(plan_.program.size())};
    const bool all = any(2) == 0;
    for (std::uint32_t m = exchange_.first.value; m < exchange_.end(); ++m)
      if (all || m == id_.value) {
        set_value(plan_, plan_.tasks[m], v);
        restate_work(plan_, {m});
      }
    return of_member(fmt::format("or all of them exchange a {}", plan_.name(v)));
  }
  std::string kind() {
    t_.kind = static_cast<TaskKind>(any(kTaskKinds));
    if (is_transfer(t_.kind)) t_.peer = any_task();
    if (is_attend(t_.kind)) t_.keys = {any(plan_.regions.size())};
    if (any(2) == 0) t_.lane = Lane::Compute;
    find_members(plan_);
    restate_work(plan_, id_);
    return of_member(fmt::format("becomes a {}", to_text(t_.kind)));
  }
  std::string rows() {
    set_rows(plan_, t_, {any(plan_.regions.size())});
    if (any(4) > 0) restate_work(plan_, id_);
    return of_member("gets other rows");
  }
  std::string columns() {
    set_columns(plan_, t_, any_columns());
    if (any(4) > 0) restate_work(plan_, id_);
    return of_member("gets other columns");
  }
  ColumnRange any_columns() {
    const std::uint32_t all = plan_.program[plan_.value(t_)].columns.count, first = any(all);
    return {first, 1 + any(all - first)};
  }
  std::string input() {
    t_.inputs[0] = any_tensor(false);
    return of_member("gives any tensor");
  }
  std::string same_kind() {
    t_.inputs[0] = any_tensor(true);
    return of_member("gives another tensor of its value");
  }
  std::string again() {
    const bool results = any(2) == 0;
    repeat_exchange(plan_, number_, results);
    return fmt::format("exchange {} is done twice{}", number_.value,
                       results ? ", the second time with its results" : "");
  }
  // Operands that have not come whole: the members get a part of the rows or columns each.
  std::string less_for_all() {
    const bool of_rows = any(2) == 0;
    for (std::uint32_t m = exchange_.first.value; m < exchange_.end(); ++m) {
      Task& t = plan_.tasks[m];
      const Piece& p = plan_.piece(t);
      if (of_rows)
        set_rows(plan_, t, smaller_region(plan_.regions[p.rows.value]));
      else
        set_columns(plan_, t, {p.columns.first, (p.columns.count + 1) / 2});
      restate_work(plan_, {m});
    }
    return fmt::format("all members of exchange {} get less", number_.value);
  }
  RegionId smaller_region(Region r) const {
    for (std::uint32_t i = 0; i < plan_.regions.size(); ++i)
      if (plan_.regions[i].count > 0 && plan_.regions[i].count < r.count &&
          r.contains(plan_.regions[i]))
        return {i};
    return {0};
  }
  // A reader takes what was there before the exchange, or is in another tensor.
  std::string half_read() {
    const TensorId instead = any(2) == 0 && t_.inputs[0].valid() ? t_.inputs[0] : any_tensor(true);
    const std::vector<TaskId> all = readers();
    if (!all.empty())
      for (TensorId& input : plan_.tasks[all[any(all.size())].value].inputs)
        if (input == plan_.output(id_)) input = instead;
    return of_member("is passed over by a reader of its result");
  }
  std::string completes() {
    t_.completes = t_.completes ^ 1u;
    return of_member("is called complete, or not");
  }
  std::string given_completes() {
    const bool all = any(2) == 0;
    for (std::uint32_t m = exchange_.first.value; m < exchange_.end(); ++m)
      if (all || m == id_.value)
        if (const TensorId given = plan_.tasks[m].inputs[0]; given.valid())
          if (const TaskId maker = plan_.producer(given); maker.valid()) {
            Task& made = plan_.tasks[maker.value];
            made.completes = (made.completes ^ (given == plan_.output(maker) ? 1u : 2u)) & 3u;
          }
    return of_member("or all of them give what is called complete, or not");
  }
  std::string split() {
    split_exchange(plan_, id_);
    return fmt::format("exchange {} is split at task {}", number_.value, id_.value);
  }
  std::string join() {
    join_exchanges(plan_, number_);
    return fmt::format("exchange {} is joined with the next", number_.value);
  }
  std::string lane() {
    t_.lane = static_cast<Lane>(any(plan_.lane_count()));
    return of_member("goes to another lane");
  }
  std::string lane_of_all() {
    const auto lane = static_cast<Lane>(any(plan_.lane_count()));
    for (std::uint32_t m = exchange_.first.value; m < exchange_.end(); ++m)
      plan_.tasks[m].lane = lane;
    return fmt::format("exchange {} goes to another lane", number_.value);
  }
  std::string place() {
    if (any(2) == 0)
      t_.worker_index = static_cast<std::uint16_t>(any(plan_.problem.workers));
    else
      std::swap(t_.worker_index, plan_.tasks[member().value].worker_index);
    return of_member("goes to another worker");
  }
  std::string list() {
    Exchange& e = plan_.exchanges[number_.value];
    if (any(2) == 0)
      e.first.value += 1 - 2 * any(2);
    else
      e.members += 1 - 2 * any(2);
    return fmt::format("exchange {} is listed with other members", number_.value);
  }
  std::string gives_nothing() {
    t_.inputs[0] = {};
    return of_member("gives nothing");
  }
  std::string gets_nothing() {
    for (std::uint32_t i = 0; i < plan_.regions.size(); ++i)
      if (plan_.regions[i].count == 0) set_rows(plan_, t_, {i});
    if (plan_.regions[plan_.rows(t_).value].count > 0) {
      plan_.regions.push_back({{0}, 0});
      set_rows(plan_, t_, {static_cast<std::uint32_t>(plan_.regions.size()) - 1});
    }
    restate_work(plan_, id_);
    return of_member("gets nothing");
  }
  std::string swap_given() {
    std::swap(t_.inputs[0], plan_.tasks[member().value].inputs[0]);
    return of_member("gives what another has");
  }
  // Leaves the exchange out where a member already has all that it gets, or seems to.
  std::string without() {
    for (std::uint32_t m = exchange_.first.value; m < exchange_.end(); ++m)
      if (const TensorId given = plan_.tasks[m].inputs[0]; given.valid())
        read_instead(plan_, plan_.output({m}), given);
    for (std::uint32_t m = exchange_.end(); m-- > exchange_.first.value;) erase_task(plan_, {m});
    return fmt::format("exchange {} is left out", number_.value);
  }
  // What reads a rounding reads what was rounded.
  std::string no_rounding() {
    std::vector<TaskId> rounds;
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id)
      if (plan_.tasks[id].kind == TaskKind::Round) rounds.push_back({id});
    if (rounds.empty()) return "nothing is rounded";
    const TaskId round = rounds[any(rounds.size())];
    const TensorId of = plan_.tasks[round.value].inputs[0];
    for (std::uint32_t id = round.value + 1; id < plan_.tasks.size(); ++id)
      for (TensorId& input : plan_.tasks[id].inputs)
        if (input == plan_.output(round)) {
          input = of;
          if (!of.valid() || any(2) == 0) continue;
          set_value(plan_, plan_.tasks[id], plan_.tensor(of).value);
          restate_work(plan_, {id});
        }
    return fmt::format("task {} does not round", round.value);
  }
  std::string in_a_group() {
    t_.with_previous = true;
    return of_member("is posted with the task before it");
  }

  Plan& plan_;
  std::mt19937_64& random_;
  const ExchangeId number_;
  const Exchange exchange_;
  const TaskId id_;
  Task& t_;
};

}  // namespace

std::string mutate_exchange(Plan& plan, std::mt19937_64& random) {
  const std::string what = ExchangeChange(plan, random).make();
  // A change that also agrees about what is complete gets further.
  if (random() % 2 == 0) return what;
  restate_completion(plan);
  return what + ", and all say what is complete";
}

}  // namespace ringsched
