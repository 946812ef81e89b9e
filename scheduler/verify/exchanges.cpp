#include "exchanges.hpp"

#include <algorithm>

namespace ringsched {

void ExchangeCheck::run() {
  const bool repack = is_repack(plan_.tasks[exchange_.first.value].kind);
  if (!(repack ? is_on_one_worker() : has_each_worker_once()) || !gives_alike()) return;
  if (held_.empty() || !is_held_once()) return;
  check_wanted();
  if (repack) check_completion();
}

bool ExchangeCheck::has_each_worker_once() {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> workers;
  for (std::uint32_t id = exchange_.first.value; id < exchange_.end(); ++id)
    workers.emplace_back(plan_.tasks[id].worker_index, id);
  std::ranges::sort(workers);
  const auto twice = std::ranges::adjacent_find(workers, {}, [](auto& w) { return w.first; });
  if (twice == workers.end()) return true;
  const TaskId a{twice->second}, b{(twice + 1)->second};
  findings_.add(Rule::Structure, {b, a}, "{} and {} are members of one exchange on the same worker",
                name_of(plan_, a), name_of(plan_, b));
  return false;
}

bool ExchangeCheck::is_on_one_worker() {
  for (std::uint32_t id = exchange_.first.value; id < exchange_.end(); ++id) {
    if (plan_.tasks[id].worker_index == plan_.tasks[exchange_.first.value].worker_index) continue;
    findings_.add(Rule::Structure, {TaskId{id}, exchange_.first},
                  "{} and {} are members of one repack on different workers", name_of(plan_, {id}),
                  name_of(plan_, exchange_.first));
    return false;
  }
  return true;
}

// A piece cut from complete tensors is complete.
void ExchangeCheck::check_completion() {
  for (std::uint32_t id = exchange_.first.value; id < exchange_.end(); ++id)
    if (!plan_.tasks[id].completes_output())
      findings_.add(Rule::Structure, {TaskId{id}},
                    "{}: what it gets of complete tensors is complete", name_of(plan_, {id}));
}

// Finds the complete tensors that are given. False if nothing is given, or both parts and complete
// ones.
bool ExchangeCheck::gives_alike() {
  TaskId of_part;
  for (std::uint32_t id = exchange_.first.value; id < exchange_.end(); ++id) {
    const Task& task = plan_.tasks[id];
    const TensorId given = task.inputs[0];
    if (!given.valid()) continue;
    // Each member's own check says whether there is such a tensor.
    if (given.value >= plan_.initial.size() + 2 * plan_.tasks.size()) return false;
    if (const TaskId maker = plan_.producer(given); maker.valid())
      if (maker.value >= id ||
          given.value - plan_.output(maker).value >= outputs_of(plan_.tasks[maker.value].kind))
        return false;
    const Tensor t = plan_.tensor(given);
    if (plan_.regions[t.rows.value].count == 0) return false;
    if (t.complete)
      held_.push_back({plan_.regions[t.rows.value], t.columns, {id}});
    else
      of_part = {id};
  }
  if (held_.empty() && !of_part.valid()) {
    findings_.add(Rule::Structure, {exchange_.first}, "no member of the {} of {} gives anything",
                  kind(), name_of(plan_, exchange_.first));
    return false;
  }
  if (!held_.empty() && of_part.valid()) {
    const TaskId whole = held_[0].member;
    findings_.add(Rule::Structure, {of_part, whole},
                  "{} gives a part of a sum to a{} {}, and {} a complete tensor",
                  name_of(plan_, of_part), kind() == "repack" ? "" : "n", kind(),
                  name_of(plan_, whole));
    return false;
  }
  return true;
}

// Cuts the columns wherever a tensor begins or ends, and finds the rows that are held in each band.
bool ExchangeCheck::is_held_once() {
  std::vector<std::uint32_t> cuts;
  for (const Held& h : held_) cuts.insert(cuts.end(), {h.columns.first, h.columns.end()});
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<std::vector<const Held*>> of_band(cuts.size());
  for (const Held& h : held_)
    for (auto c = std::ranges::lower_bound(cuts, h.columns.first); *c < h.columns.end(); ++c)
      of_band[static_cast<std::size_t>(c - cuts.begin())].push_back(&h);
  for (std::size_t b = 0; b + 1 < cuts.size(); ++b) {
    std::vector<const Held*>& held = of_band[b];
    std::ranges::sort(held, {}, [](const Held* h) { return h->rows.first; });
    Band band{{cuts[b], cuts[b + 1] - cuts[b]}, {}};
    for (std::size_t i = 0; i < held.size(); ++i) {
      const Region r = held[i]->rows;
      if (i > 0 && r.first.value < held[i - 1]->rows.end()) {
        findings_.add(Rule::Structure, {held[i]->member, held[i - 1]->member},
                      "{} and {} give the same cells to their {}",
                      name_of(plan_, held[i - 1]->member), name_of(plan_, held[i]->member), kind());
        return false;
      }
      if (!band.runs.empty() && band.runs.back().end() == r.first.value)
        band.runs.back().count += r.count;
      else
        band.runs.push_back(r);
    }
    // Equal bands become one: few are left, and each member searches them.
    if (!bands_.empty() && bands_.back().columns.end() == band.columns.first &&
        bands_.back().runs == band.runs)
      bands_.back().columns.count += band.columns.count;
    else
      bands_.push_back(std::move(band));
  }
  return true;
}

void ExchangeCheck::check_wanted() {
  for (std::uint32_t id = exchange_.first.value; id < exchange_.end(); ++id) {
    const Piece& wanted = plan_.piece(plan_.tasks[id]);
    const Region rows = plan_.regions[wanted.rows.value];
    if (rows.count == 0) continue;
    const auto is_held = [&](const Band& b) {
      auto run = std::ranges::upper_bound(b.runs, rows.first, {}, &Region::first);
      return run != b.runs.begin() && (--run)->contains(rows);
    };
    std::uint32_t at = wanted.columns.first;  // up to here all is held
    auto band =
        std::ranges::lower_bound(bands_, at, {}, [](const Band& b) { return b.columns.end() - 1; });
    for (; band != bands_.end() && at < wanted.columns.end(); ++band) {
      if (band->columns.first > at || !is_held(*band)) break;
      at = band->columns.end();
    }
    if (at < wanted.columns.end())
      findings_.add(Rule::Communication, {TaskId{id}},
                    "{} gets cells that no member of its {} gives: {}", name_of(plan_, {id}),
                    kind(), name_of(plan_.program[wanted.value].columns, {at, 1}));
  }
}

}  // namespace ringsched
