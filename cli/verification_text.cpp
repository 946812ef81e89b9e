#include "verification_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan_summary.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

// "every send matches a receive", "each worker gets what it needs from 3 exchanges"
std::string arrivals(const PlanSummary& s) {
  const std::int64_t n = s.tasks[static_cast<std::size_t>(TaskKind::Receive)];
  std::string text;
  if (n > 0 || s.exchange_count == 0)
    text = n == 0 ? "there are no messages" : "every send matches a receive";
  if (s.exchange_count > 0)
    text += fmt::format("{}each worker gets what it needs from {}", text.empty() ? "" : ", ",
                        counted(s.exchange_count, "exchange"));
  return text;
}

}  // namespace

std::string verification_text(const Plan& plan, const Verification& v, std::int64_t most) {
  std::string out = on_terminal_lines(headline(plan), 2) + "\n";
  if (v.holds()) {
    const PlanSummary s = summarise(plan);
    out += on_terminal_lines(fmt::format("proved correct: {}", tasks_line(s)), 2) + "\n";
    out += on_terminal_lines(
               fmt::format("  communication  {}: {}", arrivals(s), moves_line(plan, s)), 17) +
           "\n";
    if (const std::string kept = kept_line(plan, s); !kept.empty())
      out +=
          on_terminal_lines(
              fmt::format("  kept           {}: assumed, the forward pass left them there", kept),
              17) +
          "\n";
    out += fmt::format(
        "  coverage       each unmasked query-key pair is computed once, and its "
        "result reaches the "
        "query's worker\n");
    out += fmt::format("  deadlock       none, even if each send waits for its receive{}\n",
                       s.exchange_count > 0 ? " and each exchange waits for all its workers" : "");
    if (!v.stuck_in_one_queue.empty())
      out += fmt::format(
          "  one queue      deadlock: the lanes of a worker must progress independently, as {}\n",
          v.stuck_in_one_queue);
    else
      out += fmt::format(
          "  one queue      no deadlock even if each worker runs all its lanes from a single "
          "queue\n");
    out += fmt::format("  memory         at most {} per worker\n",
                       human(*std::max_element(v.peak.begin(), v.peak.end())));
    if (v.unread > 0)
      out += fmt::format("  (waste: {} of queries, keys or output gradients that no task reads)\n",
                         counted(static_cast<std::int64_t>(v.unread), "message"));
    if (v.hidden > 0)
      out += fmt::format("  (waste: {} whose pairs are all masked)\n",
                         counted(static_cast<std::int64_t>(v.hidden), "attend"));
    return out;
  }
  for (const Violation& x : v.violations)
    out += on_terminal_lines(fmt::format("{}: {}", to_text(x.rule), x.text), 2) + "\n";
  out += fmt::format("incorrect: {}{}\n",
                     counted(static_cast<std::int64_t>(v.violations.size()), "violation"),
                     v.more ? fmt::format(", and there may be more; try --max {}", 5 * most) : "");
  return out;
}

}  // namespace ringsched
