#include "remains.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "answers.hpp"
#include "ringsched/runtime/ending.hpp"
#include "ringsched/timeline/timeline.hpp"

namespace ringsched {

namespace {

std::string list(const std::vector<std::uint32_t>& ranks) {
  constexpr std::size_t most = 8;
  std::string out;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == most) return out + fmt::format(" and {} more", ranks.size() - i);
    out += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  }
  return out;
}

// "4 processes: 2 is gone (its connection closed); 0, 1, 3 have stopped"
std::string what_became(const std::vector<std::optional<World::LastWords>>& words) {
  std::map<std::string, std::vector<std::uint32_t>> gone;
  std::vector<std::uint32_t> ended, silent;
  for (std::uint32_t r = 0; r < words.size(); ++r) {
    if (!words[r])
      silent.push_back(r);
    else if (words[r]->gone)
      gone[words[r]->why].push_back(r);
    else
      ended.push_back(r);
  }
  if (ended.size() == words.size())
    return fmt::format("all {} processes have stopped", words.size());
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  for (const auto& [how, ranks] : gone)
    add(fmt::format("{} {} gone ({})", list(ranks), ranks.size() == 1 ? "is" : "are", how));
  if (!ended.empty()) add(list(ended) + (ended.size() == 1 ? " has stopped" : " have stopped"));
  if (!silent.empty()) add(fmt::format("nothing was heard of {}", list(silent)));
  return fmt::format("{} processes: {}", words.size(), out);
}

}  // namespace

Remains::Remains(World& world, Timeline untimed, const Plan& plan, const std::string& file)
    : world_(world), untimed_(std::move(untimed)), plan_(plan), file_(file) {}

void Remains::run_of(const Execution& execution, Clock::time_point zero) {
  const std::lock_guard lock(guard_);
  execution_ = &execution;
  zero_ = zero;
}

void Remains::all_ended() {
  const std::lock_guard lock(guard_);
  execution_ = nullptr;
}

std::string Remains::times(const std::vector<TaskTime>& all) const {
  std::string out(all.size() * sizeof(TaskTime), '\0');
  if (!all.empty()) std::memcpy(out.data(), all.data(), out.size());
  return out;
}

Timeline Remains::timeline_so_far(const std::vector<std::optional<World::LastWords>>& words,
                                  const std::string& why) const {
  Timeline t = untimed_;
  t.incomplete = why;
  std::vector<std::uint32_t> tasks(words.size(), 0);  // of each process so far
  std::int64_t last =
      std::max<std::int64_t>(0, std::chrono::nanoseconds(Clock::now() - zero_).count());
  const std::int64_t most = last + kClockSlack.count();
  for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
    const std::uint32_t rank = world_.rank_of(plan_.tasks[id].worker(), plan_.problem.workers);
    TaskTime time;
    const std::size_t at = tasks[rank]++ * sizeof time;
    if (words[rank] && at + sizeof time <= words[rank]->left.size())
      std::memcpy(&time, words[rank]->left.data() + at, sizeof time);
    if (time.start > most || time.end > most) time = {};  // it cannot be: it is not known
    TimelineTask& task = t.tasks[id];
    if (time.end < time.start || time.start < 0) t.unfinished.push_back({id});
    if (time.start < 0) continue;
    task.start_ps = 1000 * time.start;
    task.end_ps = time.end < time.start ? -1 : 1000 * time.end;
    last = std::max({last, time.start, time.end});
  }
  for (TimelineTask& task : t.tasks)
    if (task.end_ps < 0) task.end_ps = 1000 * last;
  return t;
}

void Remains::leave(const std::string& why, int code) {
  const std::lock_guard lock(guard_);
  const std::vector<std::optional<World::LastWords>> words =
      world_.last_words({why, execution_ ? times(execution_->times()) : "", false, code});
  if (world_.rank() != 0) return;
  std::string summary;
  if (world_.size() > 1 &&
      std::any_of(words.begin() + 1, words.end(), [](const auto& w) { return w.has_value(); }))
    summary = what_became(words);
  if (execution_ && !file_.empty()) {
    const Timeline t = timeline_so_far(words, why);
    const std::string before = summary.empty() ? "" : summary + "; ";
    std::string wrote = fmt::format("{} is incomplete: {} of {} tasks had ended", file_,
                                    t.tasks.size() - t.unfinished.size(), t.tasks.size());
    say_if_cut_off(
        fmt::format("ringsched: {}{} is missing: writing it took too long", before, file_));
    try {
      write_timeline_file(t, file_);
    } catch (const std::exception& wrong) {
      wrote = wrong.what();
    }
    say_if_cut_off("");
    summary = before + wrote;
  }
  if (!summary.empty()) std::fprintf(stderr, "ringsched: %s\n", summary.c_str());
}

}  // namespace ringsched
