// The plan for people: a row for each worker, a column for each step.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "plan_summary.hpp"
#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/share_label.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kLineWidth = 80;

// Did these queries come to this worker alone? What an exchange distributes belongs to nobody.
bool is_help(const Plan& plan, const Task& attend) {
  return !plan.has_own_queries(attend) &&
         plan.layout.owner(plan.regions[plan.rows(attend).value].first) != attend.worker();
}

bool is_attend_of(const Task& task, bool backward) {
  return is_attend(task.kind) && is_backward(task.kind) == backward;
}

struct Signs {
  bool helped = false, heads = false, apart = false;
};

std::string attends_table(const Plan& plan, bool backward, Step first, Step last, Signs& signs) {
  std::vector<std::vector<std::string>> rows(plan.problem.workers + 1);
  rows[0].push_back("worker");
  for (Step s = first; s <= last; ++s) rows[0].push_back(fmt::format("step {}", s));
  for (std::uint32_t w = 0; w < plan.problem.workers; ++w) {
    rows[w + 1].assign(last - first + 2, "");
    rows[w + 1][0] = fmt::format("{}", w);
  }
  for (const Task& task : plan.tasks) {
    if (!is_attend_of(task, backward)) continue;
    std::string& cell = rows[task.worker_index + 1u][task.step - first + 1];
    const bool help = is_help(plan, task);
    const std::string heads = heads_label(plan, task);
    signs.helped = signs.helped || help;
    signs.heads = signs.heads || !heads.empty();
    const std::string q = share_label(plan, plan.rows(task)), k = share_label(plan, task.keys);
    signs.apart = signs.apart || (q + k).find_first_of("/+") != std::string::npos;
    // In decoding all queries are of the new tokens.
    const std::string queries = plan.problem.decodes() ? "" : "q" + q + " ";
    cell +=
        fmt::format("{}{}k{}{}{}", cell.empty() ? "" : ", ", queries, k, heads, help ? " *" : "");
  }
  for (auto& row : rows)
    for (std::string& cell : row)
      if (cell.empty()) cell = "-";
  return table(rows);
}

std::string wrapped(std::string_view head, const std::vector<std::string>& words) {
  std::string out(head);
  std::size_t column = head.size();
  for (const std::string& word : words) {
    if (column + word.size() + 1 > kLineWidth) {
      out += "\n" + std::string(head.size(), ' ');
      column = head.size();
    }
    out += " " + word;
    column += word.size() + 1;
  }
  return out + "\n";
}

// The meaning of the symbols in this plan's moves, except keys and values.
std::string legend(const Plan& plan) {
  std::vector<bool> moved(plan.program.size());
  for (const Task& task : plan.tasks)
    if (is_receive(task.kind) || is_exchange(task.kind))
      moved[plan.program.unrounded(plan.value(task)).value] = true;
  std::string out;
  for (std::size_t k = 0; k < moved.size(); ++k) {
    const Value& value = plan.program.values[k];
    if (moved[k] && !value.words.empty())
      out += fmt::format("{}{}: {}", out.empty() ? "" : "; ", value.symbol, value.words);
  }
  return out.empty() ? "" : "\n" + on_terminal_lines(out);
}

// "0-3", "0 4 8": the workers of an exchange.
std::string members_label(const Plan& plan, const Exchange& e) {
  std::vector<std::uint32_t> workers;
  for (std::uint32_t id = e.first.value; id < e.end(); ++id)
    workers.push_back(plan.tasks[id].worker_index);
  std::ranges::sort(workers);
  if (workers.size() > 2 && workers.back() - workers.front() + 1 == workers.size())
    return fmt::format("{}-{}", workers.front(), workers.back());
  return fmt::format("{}", fmt::join(workers, " "));
}

// By step: "all-to-all of q among 0-3 | 4-7".
std::map<Step, std::vector<std::string>> exchanges_list(const Plan& plan) {
  std::map<Step, std::vector<std::pair<std::string, std::string>>> found;  // what, and among whom
  for (const Exchange& e : plan.exchanges) {
    const Task& task = plan.tasks[e.first.value];
    const std::string what =
        fmt::format("{} of {}", to_text(form_of(plan, e)), plan.program[plan.value(task)].symbol);
    auto& list = found[task.step];
    const auto at = std::ranges::find(list, what, [](const auto& x) { return x.first; });
    if (at == list.end())
      list.emplace_back(what, members_label(plan, e));
    else
      at->second += " | " + members_label(plan, e);
  }
  std::map<Step, std::vector<std::string>> out;
  for (const auto& [step, list] : found)
    for (const auto& [what, workers] : list)
      out[step].push_back(fmt::format("{} among {}", what, workers));
  return out;
}

std::string moves_list(const Plan& plan, Step first, Step last) {
  std::string out;
  std::map<Step, std::map<ValueId, std::vector<std::string>>> moves;
  for (const Task& task : plan.tasks)
    if (is_receive(task.kind) && task.step >= first && task.step <= last)
      moves[task.step][plan.value(task)].push_back(fmt::format(
          "{}{}:{}>{}", plan.program[plan.value(task)].symbol, share_label(plan, plan.rows(task)),
          plan.tasks[task.peer.value].worker_index, task.worker_index));
  std::map<Step, std::vector<std::vector<std::string>>> lines;  // of words
  for (const auto& [step, kinds] : moves) {
    std::vector<std::string>& words = lines[step].emplace_back();
    for (const auto& [kind, list] : kinds) words.insert(words.end(), list.begin(), list.end());
  }
  for (const auto& [step, list] : exchanges_list(plan))
    if (step >= first && step <= last)
      for (const std::string& exchange : list) lines[step].push_back({exchange});
  for (const auto& [step, of_step] : lines) {
    std::string head = fmt::format("{:>6} ", fmt::format("step {}", step));
    for (const std::vector<std::string>& words : of_step) {
      out += wrapped(head, words);
      head.assign(head.size(), ' ');
    }
  }
  return out;
}

// The first and the last step of a pass. The backward pass begins after the step that outputs the
// results of the forward pass.
std::pair<Step, Step> steps_of_pass(const Plan& plan, bool backward) {
  if (plan.problem.pass != Pass::Both) return {0, ~0u};
  Step last = 0;
  for (const Task& task : plan.tasks)
    if (is_output(task.kind) && plan.program.unrounded(plan.value(task)) == attention::kPartial)
      last = std::max(last, task.step);
  return backward ? std::pair{last + 1, ~0u} : std::pair{0u, last};
}

}  // namespace

std::string step_table(const Plan& plan) {
  std::string out;
  Signs signs;
  bool any_moves = false;
  for (const bool backward : {false, true}) {
    Step first = ~0u, last = 0;
    for (const Task& task : plan.tasks)
      if (is_attend_of(task, backward)) {
        first = std::min(first, task.step);
        last = std::max(last, task.step);
      }
    if (first > last) continue;
    out += backward ? "backward attends\n" : "attends\n";
    out += attends_table(plan, backward, first, last, signs);
    // A schedule may move before its first attend (a gather) and after its last (to return
    // results).
    const auto [begin, end] = steps_of_pass(plan, backward);
    const std::string moves = moves_list(plan, begin, end);
    if (!moves.empty()) out += "\nmoves, before each step\n" + moves;
    any_moves = any_moves || !moves.empty();
    out += "\n";
  }
  out += plan.problem.decodes()
             ? "k1       the queries of the new tokens attend to worker 1's keys (1a: part of them)"
             : "q3 k1    worker 3's queries attend to worker 1's keys (q3a, q3b: parts of q3)";
  if (signs.heads) out += "\nh0-7     with query heads 0 to 7";
  if (signs.apart) out += "\nq0-6/2   queries of workers 0, 2, 4 and 6; q0+4: of workers 0 and 4";
  if (signs.helped) out += "\n*        the worker helps: the queries are another worker's";
  const bool messages =
      std::ranges::any_of(plan.tasks, [](const Task& t) { return is_receive(t.kind); });
  if (messages) out += "\nkv1:2>3  worker 1's keys and values move from worker 2 to worker 3";
  if (!plan.exchanges.empty())
    out += "\n0-3 | 4-7  one exchange among workers 0 to 3, one among 4 to 7";
  if (any_moves) out += legend(plan);
  return out + "\n";
}

}  // namespace ringsched
