#include "plan_summary.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

// What goes over wires: a member's own part stays where it is.
Bytes moved_by(const Plan& plan, const Exchange& e, ValueId value) {
  Bytes sum;
  for (const Share& s : shares_of(plan, e))
    if (s.from != s.to)
      sum = capped_sum(sum, plan.program.bytes(value, plan.layout.rows(s.rows), s.columns.count));
  return sum;
}

void add_exchange(const Plan& plan, const Exchange& e, PlanSummary& s) {
  const ValueId value = plan.value(plan.tasks[e.first.value]);
  const ExchangeForm form = form_of(plan, e);
  auto at = std::ranges::find_if(
      s.exchanges, [&](const ExchangeSummary& x) { return x.value == value && x.form == form; });
  if (at == s.exchanges.end()) at = s.exchanges.insert(at, {value, form, 0, {}});
  ++at->count;
  at->moved = capped_sum(at->moved, moved_by(plan, e, value));
  ++s.exchange_count;
}

}  // namespace

PlanSummary summarise(const Plan& plan) {
  PlanSummary s;
  s.messages.resize(plan.program.size());
  s.moved.resize(plan.program.size());
  s.kept.resize(plan.program.size());
  for (const InitialTensor& t : plan.initial) {
    const Piece& p = plan.piece(t);
    if (plan.problem.pass == Pass::Backward &&
        !plan.layout.share(t.worker).contains(plan.regions[p.rows.value]))
      s.kept[p.value.value] = capped_sum(s.kept[p.value.value], plan.bytes(p));
  }
  for (const Task& task : plan.tasks) {
    const Work& work = plan.works[task.work.value];
    ++s.tasks[static_cast<std::size_t>(task.kind)];
    s.steps = std::max<std::int64_t>(s.steps, std::int64_t{task.step} + 1);
    if (is_attend(task.kind)) s.pairs += work.pairs;
    if (is_receive(task.kind)) {
      ++s.messages[plan.value(task).value];
      Bytes& moved = s.moved[plan.value(task).value];
      moved = capped_sum(moved, work.bytes);
    }
  }
  for (const Exchange& e : plan.exchanges) add_exchange(plan, e, s);
  s.repack_count = static_cast<std::int64_t>(plan.repacks.size());
  const auto size_of_all = [](const auto& v) {
    return static_cast<std::int64_t>(v.size() * sizeof(v[0]));
  };
  s.plan_memory = {size_of_all(plan.tasks) + size_of_all(plan.controls) + size_of_all(plan.slots) +
                   size_of_all(plan.works) + size_of_all(plan.regions) + size_of_all(plan.initial) +
                   size_of_all(plan.pieces) + size_of_all(plan.exchanges) +
                   size_of_all(plan.repacks)};
  return s;
}

std::string headline(const Plan& plan) {
  return fmt::format("{}: {}, {}",
                     plan.schedule.empty() ? "plan" : printable(plan.schedule, kMostOfName),
                     counted(plan.problem.workers, "worker"), described(plan.problem)) +
         (plan.dummy_heads > 0 ? fmt::format(", {} of them padding", plan.dummy_heads) : "");
}

std::string tasks_line(const PlanSummary& s) {
  static constexpr std::string_view nouns[kTaskKinds] = {
      "attention task", "backward attention task",
      "prepare",        "merge",
      "reduce",         "send",
      "receive",        "output",
      "rounding",       "member",
      "repack"};
  std::string line;
  for (std::size_t k = 0; k < kTaskKinds; ++k)
    if (s.tasks[k] > 0)
      line += fmt::format(
          "{}{}{}", line.empty() ? "" : ", ",
          is_exchange(static_cast<TaskKind>(k))          ? counted(s.exchange_count, "exchange")
          : static_cast<TaskKind>(k) == TaskKind::Repack ? counted(s.repack_count, nouns[k])
                                                         : counted(s.tasks[k], nouns[k]),
          is_exchange(static_cast<TaskKind>(k))
              ? fmt::format(" ({}, one per member)", counted(s.tasks[k], "task"))
              : "");
  return line;
}

std::string moves_line(const Plan& plan, const PlanSummary& s) {
  std::string line;
  for (std::size_t k = 0; k < s.messages.size(); ++k)
    if (s.messages[k] > 0)
      line += fmt::format("{}{} of {} ({})", line.empty() ? "" : ", ",
                          counted(s.messages[k], "message"),
                          value_words(plan.program.values[k].name), human(s.moved[k]));
  for (const ExchangeSummary& x : s.exchanges)
    line +=
        fmt::format("{}{} of {} ({})", line.empty() ? "" : ", ", counted(x.count, to_text(x.form)),
                    value_words(plan.name(x.value)), human(x.moved));
  return line.empty() ? "nothing" : line;
}

std::string kept_line(const Plan& plan, const PlanSummary& s) {
  std::string line;
  for (std::size_t k = 0; k < s.kept.size(); ++k)
    if (s.kept[k] > Bytes{})
      line += fmt::format("{}{} ({})", line.empty() ? "" : ", ",
                          value_words(plan.program.values[k].name), human(s.kept[k]));
  return line;
}

std::string lowered_line(const std::vector<LoweredForm>& forms, Lowering asked) {
  std::string line;
  for (const LoweredForm& f : forms)
    line +=
        fmt::format("{}{} as {}{}", line.empty() ? "" : ", ", counted(f.count, to_text(f.form)),
                    f.as == Lowering::Ring   ? "rings"
                    : f.as == Lowering::Tree ? "trees"
                                             : "direct messages",
                    f.as == asked ? "" : fmt::format(" (these have no {} form)", to_text(asked)));
  return line;
}

std::vector<Bytes> all_moved(const PlanSummary& s) {
  std::vector<Bytes> out = s.moved;
  for (const ExchangeSummary& x : s.exchanges)
    out[x.value.value] = capped_sum(out[x.value.value], x.moved);
  return out;
}

}  // namespace ringsched
