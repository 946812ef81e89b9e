// Which message of a trace is which of the plan, by their order and by what else a trace says:
// direction, peer and bytes. A send begins when its contents are there, and a receive ends before a
// task reads it. Traces may have several messages for one of the plan (keys and values apart), and
// more than the plan, which leaves out those that no worker needs.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "message_lists.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched::trace_import {

namespace {

constexpr std::int64_t kTolerancePs = 2'000'000;
constexpr std::uint32_t kMostParts = 8;
constexpr std::size_t kMostBatches = 16;
constexpr std::size_t kMissingCosts = 3;  // of what an extra message in the trace costs
constexpr std::size_t kMostLists = 128;
constexpr std::int64_t kAnySize = -1;

struct MatchRule {
  std::uint32_t parts = 1;
  bool timed = true;
  std::int64_t batch = kAnySize;
};

bool carries(const FoundMessage& found, const WantedMessage& m, TraceWork kind) {
  if (kind != TraceWork::Exchange) return true;
  const TraceEvent& e = *found.sent;
  if (e.work == TraceWork::Exchange)  // an all-to-all can carry any
    return e.form == m.form || e.form == ExchangeForm::AllToAll || e.form == ExchangeForm::Other ||
           m.form == ExchangeForm::Other;
  return m.form != ExchangeForm::AllGather && m.form != ExchangeForm::AllReduce &&
         m.form != ExchangeForm::ReduceScatter && m.form != ExchangeForm::Broadcast;
}

bool fits(const FoundMessage& found, const WantedMessage& m, const MatchRule& rule) {
  const auto is_other = [](std::int64_t a, std::int64_t b) { return a >= 0 && b >= 0 && a != b; };
  if (found.sent && is_other(found.sent->peer, m.to_rank)) return false;
  if (found.got && is_other(found.got->peer, m.from_rank)) return false;
  const std::int64_t bytes = found.sent ? found.sent->bytes : found.got->bytes;
  if (rule.batch != kAnySize && bytes >= 0 && m.bytes >= 0 &&
      bytes * rule.parts != m.bytes * rule.batch)
    return false;
  if (!rule.timed) return true;
  return (!found.sent || found.sent->start_ps + kTolerancePs >= m.earliest) &&
         (!found.got || found.got->end_ps - kTolerancePs <= m.latest);
}

using PartsOf = std::vector<std::vector<std::size_t>>;  // of each wanted message, those found

// Messages of one lane keep their order. An attend reads the last message that came before it; of
// the rest, take the first that began after its contents were made.
PartsOf matched(const MessageList& list, const MatchRule& rule) {
  const std::size_t n = list.wanted.size(), m = list.found.size();
  PartsOf out(n);
  std::vector<bool> used(m);
  const auto take = [&](std::size_t w, std::size_t f) {
    const WantedMessage& wanted = list.wanted[w];
    if (used[f] || out[w].size() == rule.parts || !carries(list.found[f], wanted, list.kind) ||
        !fits(list.found[f], wanted, rule))
      return false;
    used[f] = true;
    out[w].push_back(f);
    return true;
  };
  const auto is_read = [&](std::size_t w) { return rule.timed && list.wanted[w].latest != kNever; };
  std::map<Lane, std::size_t> end, begin;
  for (std::size_t w = n; w-- > 0;) {
    if (!is_read(w)) continue;
    std::size_t& before = end.try_emplace(list.wanted[w].lane, m).first->second;
    for (std::size_t f = before; f-- > 0 && out[w].size() < rule.parts;)
      if (take(w, f)) before = f;
  }
  for (std::size_t w = 0; w < n; ++w) {
    if (is_read(w)) continue;
    std::size_t& after = begin[list.wanted[w].lane];
    for (std::size_t f = after; f < m && out[w].size() < rule.parts; ++f)
      if (take(w, f)) after = f + 1;
  }
  return out;
}

struct Shortfall {
  std::size_t missing = 0, extra = 0;
  std::size_t others = 0;  // extra, but perhaps of another pass or call
};
Shortfall shortfall(const MessageList& list, const PartsOf& parts, const MatchRule& rule) {
  Shortfall out;
  std::vector<bool> used(list.found.size());
  for (const auto& p : parts) {
    out.missing += rule.parts - p.size();
    for (const std::size_t f : p) used[f] = true;
  }
  for (std::size_t f = 0; f < used.size(); ++f)
    if (!used[f]) ++(list.found[f].inside ? out.extra : out.others);
  return out;
}

// Sizes in the trace are those of the plan times a batch, in equal parts.
std::set<std::int64_t> batches(const std::vector<MessageList>& lists, std::uint32_t parts) {
  std::set<std::int64_t> out, found, wanted;
  for (const MessageList& list : lists) {
    for (const FoundMessage& f : list.found) {
      const std::int64_t bytes = f.sent ? f.sent->bytes : f.got->bytes;
      if (found.size() < kMostBatches && bytes > 0) found.insert(bytes);
    }
    for (const WantedMessage& m : list.wanted)
      if (wanted.size() < kMostBatches && m.bytes > 0) wanted.insert(m.bytes);
  }
  for (const std::int64_t f : found)
    for (const std::int64_t w : wanted)
      if (f * parts % w == 0 && out.size() < kMostBatches) out.insert(f * parts / w);
  return out;
}

// Messages in the trace for each of the plan, if that is the same everywhere; else 0.
std::uint32_t parts_everywhere(const std::vector<MessageList>& lists, std::size_t calls) {
  for (std::uint32_t parts = 1; parts <= kMostParts; ++parts)
    if (std::ranges::all_of(lists, [&](const MessageList& list) {
          return list.traced == calls * parts * list.wanted.size();
        }))
      return parts;
  return 0;
}

// The rule under which the fewest messages are missing or superfluous, and the strictest of these.
// Some lists are enough to choose it for all.
MatchRule best_rule(const std::vector<MessageList>& all, std::size_t calls) {
  const std::uint32_t known = parts_everywhere(all, calls);
  std::vector<MessageList> lists;
  const std::size_t stride = all.size() / kMostLists + 1;
  for (std::size_t i = 0; i < all.size(); i += stride) lists.push_back(all[i]);
  MatchRule best;
  using Cost = std::tuple<std::size_t, bool, std::size_t>;
  Cost least{std::numeric_limits<std::size_t>::max(), false, 0};
  for (const bool timed : {true, false}) {
    for (std::uint32_t parts = 1; parts <= kMostParts; ++parts) {
      if (known != 0 && parts != known) continue;
      std::vector<std::int64_t> sizes;
      std::ranges::copy(batches(lists, parts), std::back_inserter(sizes));
      sizes.push_back(kAnySize);
      for (const std::int64_t batch : sizes) {
        const MatchRule rule{parts, timed, batch};
        Shortfall sum;
        for (const MessageList& list : lists) {
          const Shortfall s = shortfall(list, matched(list, rule), rule);
          sum.missing += s.missing;
          sum.extra += s.extra;
          sum.others += s.others;
        }
        const Cost cost{sum.extra + kMissingCosts * sum.missing, !timed, sum.others};
        if (cost < least) {
          least = cost;
          best = rule;
        }
      }
    }
    if (std::get<0>(least) == 0) break;
  }
  return best;
}

std::string_view plain_name(TraceWork kind) {
  return kind == TraceWork::Send          ? "send"
         : kind == TraceWork::Receive     ? "receive"
         : kind == TraceWork::SendReceive ? "batch"
                                          : "exchange";
}

std::string mismatch_of(const MessageList& list, const MatchRule& rule, std::size_t missing) {
  const std::size_t wanted = list.wanted.size() * rule.parts;
  const std::string_view name = plain_name(list.kind);
  const auto found = static_cast<std::int64_t>(list.found.size());
  if (list.found.size() < wanted)
    return fmt::format(
        "worker {}: {} in the trace; the plan needs {}{}", list.worker, counted(found, name),
        wanted,
        rule.parts == 1 ? "" : fmt::format(" ({} for each of {})", rule.parts, list.wanted.size()));
  return fmt::format("{} of the plan's {} fit none of the {} in the trace, on worker {}", missing,
                     counted(static_cast<std::int64_t>(wanted), name), found, list.worker);
}

void put_times(const Plan& plan, const MessageList& list, const PartsOf& parts, TaskTimes& times) {
  for (std::size_t w = 0; w < parts.size(); ++w)
    for (const std::size_t f : parts[w])
      for (const TaskId id : list.wanted[w].tasks) {
        const FoundMessage& m = list.found[f];
        const TraceEvent& e =
            is_receive(plan.tasks[id.value].kind) || m.sent == nullptr ? *m.got : *m.sent;
        TaskTime& t = times[id.value];
        t = t.known() ? TaskTime{std::min(t.start_ps, e.start_ps), std::max(t.end_ps, e.end_ps)}
                      : TaskTime{e.start_ps, e.end_ps};
      }
}

// The largest message that was matched, in the traces and in the plan.
struct Largest {
  std::int64_t found = 0, wanted = 0;

  void add(const MessageList& list, const PartsOf& parts, const MatchRule& rule) {
    for (std::size_t w = 0; w < parts.size(); ++w)
      for (const std::size_t f : parts[w]) {
        const FoundMessage& m = list.found[f];
        found = std::max(found, rule.parts * (m.sent ? m.sent->bytes : m.got->bytes));
        wanted = std::max(wanted, list.wanted[w].bytes);
      }
  }
};

// What sizes reveal about a run that did something else.
std::optional<std::string> note_on_sizes(const Largest& largest, const MatchRule& rule) {
  const auto [found, wanted] = largest;
  if (found <= 0 || wanted <= 0 || found == wanted) return {};
  if (rule.batch == kAnySize)
    return fmt::format(
        "messages hold up to {} in the traces and {} in the plan; does the plan have the tokens, "
        "heads and dtype of the run?",
        human({found}), human({wanted}));
  if (rule.batch > 1)
    return fmt::format(
        "messages are {} times as large as the plan's: a batch of {}, or another problem",
        rule.batch, rule.batch);
  return {};
}

}  // namespace

MessageMatch match_messages(const Plan& plan, const std::vector<WorkerTasks>& tasks,
                            const TakenCall& call, std::span<const std::int64_t> ranks,
                            TaskTimes& times) {
  const std::vector<MessageList> lists = message_lists(plan, tasks, call, ranks, times);
  const MatchRule rule = best_rule(lists, call.held);
  MessageMatch out{.parts = rule.parts, .mismatches = {}, .notes = {}};
  std::map<TraceWork, std::int64_t> extra;
  Largest largest;
  for (const MessageList& list : lists) {
    const PartsOf parts = matched(list, rule);
    const Shortfall s = shortfall(list, parts, rule);
    extra[list.kind] += static_cast<std::int64_t>(s.extra);
    if (s.missing > 0) out.mismatches.push_back(mismatch_of(list, rule, s.missing));
    put_times(plan, list, parts, times);
    largest.add(list, parts, rule);
  }
  for (const auto& [kind, n] : extra)
    if (n > 0)
      out.notes.push_back(fmt::format("{} of the traces {} not in the plan and left out",
                                      counted(n, plain_name(kind)), n == 1 ? "is" : "are"));
  if (auto note = note_on_sizes(largest, rule)) out.notes.push_back(std::move(*note));
  if (!rule.timed && !lists.empty())
    out.notes.emplace_back("some messages do not fit the times of the attends that they serve");
  return out;
}

}  // namespace ringsched::trace_import
