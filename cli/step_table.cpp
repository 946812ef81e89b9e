// The plan as a person wants to see it: a row for each worker, a column for each step.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "plan_summary.hpp"
#include "text.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kLineWidth = 80;

// "3": the share of worker 3; "3a", "3b": its first and second chunk; "2-5": more than one share.
std::string label(const Plan& plan, RegionId id) {
  const Region r = plan.regions[id.value];
  const WorkerId owner = plan.layout.owner(r.first);
  const Region share = plan.layout.share(owner);
  if (r == share) return fmt::format("{}", owner.value);
  if (!share.contains(r))
    return fmt::format("{}-{}", owner.value, plan.layout.owner({r.end() - 1}).value);
  std::string parts;
  for (std::uint32_t c = r.first.value; c < r.end(); ++c)
    parts += static_cast<char>('a' + std::min(c - share.first.value, 25u));
  return fmt::format("{}{}", owner.value, parts);
}

bool is_help(const Plan& plan, const Task& attend) {
  return plan.layout.owner(plan.regions[plan.rows(attend).value].first) != attend.worker();
}

bool is_attend_of(const Task& task, bool backward) {
  return is_attend(task.kind) && is_backward(task.kind) == backward;
}

std::string attends_table(const Plan& plan, bool backward, Step first, Step last, bool& helped) {
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
    helped = helped || help;
    cell += fmt::format("{}q{} k{}{}", cell.empty() ? "" : ", ", label(plan, plan.rows(task)),
                        label(plan, task.keys), help ? " *" : "");
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
    if (is_receive(task.kind)) moved[plan.value(task).value] = true;
  std::string out;
  for (std::size_t k = 0; k < moved.size(); ++k) {
    const Value& value = plan.program.values[k];
    if (moved[k] && !value.words.empty())
      out += fmt::format("{}{}: {}", out.empty() ? "\n" : "; ", value.symbol, value.words);
  }
  return out;
}

std::string moves_list(const Plan& plan, Step first, Step last) {
  std::string out;
  std::map<Step, std::map<ValueId, std::vector<std::string>>> moves;
  for (const Task& task : plan.tasks)
    if (is_receive(task.kind) && task.step >= first && task.step <= last)
      moves[task.step][plan.value(task)].push_back(fmt::format(
          "{}{}:{}>{}", plan.program[plan.value(task)].symbol, label(plan, plan.rows(task)),
          plan.tasks[task.peer.value].worker_index, task.worker_index));
  for (const auto& [step, kinds] : moves) {
    std::vector<std::string> words;
    for (const auto& [kind, list] : kinds) words.insert(words.end(), list.begin(), list.end());
    out += wrapped(fmt::format("{:>6} ", fmt::format("step {}", step)), words);
  }
  return out;
}

// The first and the last step of a pass. The backward pass begins after the step that outputs the
// results of the forward pass.
std::pair<Step, Step> steps_of_pass(const Plan& plan, bool backward) {
  if (plan.problem.pass != Pass::Both) return {0, ~0u};
  Step last = 0;
  for (const Task& task : plan.tasks)
    if (is_output(task.kind) && plan.value(task) == attention::kPartial)
      last = std::max(last, task.step);
  return backward ? std::pair{last + 1, ~0u} : std::pair{0u, last};
}

}  // namespace

std::string step_table(const Plan& plan) {
  std::string out;
  bool helped = false, any_moves = false;
  for (const bool backward : {false, true}) {
    Step first = ~0u, last = 0;
    for (const Task& task : plan.tasks)
      if (is_attend_of(task, backward)) {
        first = std::min(first, task.step);
        last = std::max(last, task.step);
      }
    if (first > last) continue;
    out += backward ? "backward attends\n" : "attends\n";
    out += attends_table(plan, backward, first, last, helped);
    // A schedule may move before its first attend (a gather) and after its last (to return
    // results).
    const auto [begin, end] = steps_of_pass(plan, backward);
    const std::string moves = moves_list(plan, begin, end);
    if (!moves.empty()) out += "\nmoves, before each step\n" + moves;
    any_moves = any_moves || !moves.empty();
    out += "\n";
  }
  out += "q3 k1    worker 3's queries attend worker 1's keys (3a, 3b: parts of a share)";
  if (helped) out += "\n*        the worker helps: the queries are another worker's";
  if (any_moves)
    out += "\nkv1:2>3  worker 1's keys and values move from worker 2 to worker 3" + legend(plan);
  return out + "\n";
}

}  // namespace ringsched
