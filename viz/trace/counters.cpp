// What a worker holds and what passes through it, as steps over time.
#include <algorithm>
#include <limits>

#include "parts.hpp"
#include "ringsched/timeline/accounting.hpp"

namespace ringsched {

namespace {

// Rates of large messages that take a picosecond, and sums of those.
__extension__ using Wide = __int128;

class Changes {
 public:
  void add(std::int64_t at_ps, Wide by) {
    if (by != 0) all_.push_back({at_ps, by});
  }
  std::vector<CounterStep> steps(Wide value) {
    std::stable_sort(all_.begin(), all_.end(),
                     [](const Change& a, const Change& b) { return a.at_ps < b.at_ps; });
    std::vector<CounterStep> out = {{0, shown(value)}};
    for (std::size_t i = 0; i < all_.size();) {
      const std::int64_t at = all_[i].at_ps;
      for (; i < all_.size() && all_[i].at_ps == at; ++i) value += all_[i].by;
      if (out.back().at_ps == at) {
        out.back().value = shown(value);
      } else if (out.back().value != shown(value)) {
        out.push_back({at, shown(value)});
      }
    }
    return out;
  }

 private:
  struct Change {
    std::int64_t at_ps;
    Wide by;
  };
  static std::int64_t shown(Wide value) {
    return static_cast<std::int64_t>(
        std::min<Wide>(value, std::numeric_limits<std::int64_t>::max()));
  }
  std::vector<Change> all_;
};

bool makes_tensors(TaskKind kind) { return !is_send(kind) && !is_output(kind); }

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// What a task makes: one tensor, or a backward attend's gradients of queries and of keys.
struct Made {
  std::int64_t bytes[2] = {};
  std::int64_t until[2] = {-1, -1};  // the end of the last that reads it
};

std::size_t half_of(const TimelineTask& maker, ValueId read) {
  return outputs_of(maker.kind) > 1 && read != maker.makes;
}

class Memory {
 public:
  explicit Memory(const Timeline& t) : t_(t), made_(t.tasks.size()) {
    // Of what a run that was given up did not begin, nothing was made.
    for (std::size_t i = 0; i < t.tasks.size(); ++i)
      if (makes_tensors(t.tasks[i].kind) && (ended(i) || t.tasks[i].end_ps > 0))
        made_[i].bytes[0] = t.details[i].bytes.value;
    if (t.gradients.empty()) split();
    for (const TaskGradients& g : t.gradients)
      if (std::int64_t* bytes = made_[g.task.value].bytes; bytes[0] > 0) {
        bytes[0] -= g.keys.value;
        bytes[1] = g.keys.value;
      }
    for (std::size_t i = 0; i < t.tasks.size(); ++i) {
      const TimelineTask& x = t.tasks[i];
      const std::int64_t until = is_output(x.kind) || !ended(i) ? kNever : x.end_ps;
      each_read(i,
                [&](Made& m, std::size_t half) { m.until[half] = std::max(m.until[half], until); });
    }
    for (std::size_t i = 0; i < t.tasks.size(); ++i) {
      Made& m = made_[i];
      for (std::int64_t& until : m.until)
        if (until < 0) until = kNever;
      if (is_backward(t.tasks[i].kind) && m.bytes[1] == 0)
        m.until[0] = std::max(m.until[0], m.until[1]);
    }
  }

  std::vector<std::vector<CounterStep>> steps() {
    std::vector<Changes> changes(t_.problem.workers);
    for (std::size_t i = 0; i < t_.tasks.size(); ++i) {
      const TimelineTask& x = t_.tasks[i];
      const std::int64_t from = in_place(i) ? x.end_ps : x.start_ps;
      for (std::size_t half = 0; half < 2; ++half) {
        const std::int64_t until = made_[i].until[half];
        if (until <= from) continue;
        changes[x.worker].add(from, made_[i].bytes[half]);
        if (until != kNever) changes[x.worker].add(until, -Wide{made_[i].bytes[half]});
      }
    }
    std::vector<std::vector<CounterStep>> out;
    for (std::uint32_t w = 0; w < t_.problem.workers; ++w)
      out.push_back(changes[w].steps(t_.initial[w].value));
    return out;
  }

 private:
  bool ended(std::size_t i) const {
    return !std::ranges::binary_search(t_.unfinished, TaskId{static_cast<std::uint32_t>(i)});
  }

  // For each tensor that a task of this worker made and task i reads.
  template <class Do>
  void each_read(std::size_t i, Do&& use) {
    if (is_receive(t_.tasks[i].kind)) return;  // what it needs is a send
    for (const TaskId id : t_.details[i].needs)
      if (id.valid()) use(made_[id.value], half_of(t_.tasks[id.value], t_.tasks[i].makes));
  }

  // Files of older versions do not say how much of a backward attend's result is gradients of keys;
  // the tasks that send or sum them do. If those do not either, both are held as long as one of
  // them.
  void split() {
    std::vector<Made> evidence(t_.problem.pass == Pass::Forward ? 0 : t_.tasks.size());
    for (std::size_t i = 0; i < evidence.size(); ++i)
      each_read(i, [&](Made& m, std::size_t half) {
        std::int64_t& least = evidence[static_cast<std::size_t>(&m - made_.data())].bytes[half];
        const std::int64_t bytes = t_.details[i].bytes.value;
        if (!is_output(t_.tasks[i].kind)) least = least == 0 ? bytes : std::min(least, bytes);
      });
    for (std::size_t i = 0; i < evidence.size(); ++i) {
      if (!is_backward(t_.tasks[i].kind)) continue;
      const std::int64_t both = made_[i].bytes[0];
      std::int64_t queries = evidence[i].bytes[0], keys = evidence[i].bytes[1];
      if (queries == 0 && keys < both) queries = both - keys;
      if (keys == 0 && queries < both) keys = both - queries;
      if (Wide{queries} + keys == both && queries > 0) {
        made_[i].bytes[0] = queries;
        made_[i].bytes[1] = keys;
      }
    }
  }

  // What overwrites an input of its size counts from the input's end.
  bool in_place(std::size_t i) const {
    const TimelineTask& x = t_.tasks[i];
    const TaskDetail& d = t_.details[i];
    const std::uint8_t into = operation(x.kind).overwrites;
    if (into == Operation::kNone || !d.needs[1].valid()) return false;
    const std::size_t first = d.needs[into].value;
    return made_[first].bytes[half_of(t_.tasks[first], x.makes)] == d.bytes.value;
  }

  const Timeline& t_;
  std::vector<Made> made_;
};

}  // namespace

std::vector<std::vector<CounterStep>> memory_counters(const Timeline& t) {
  if (t.details.empty() || t.initial.empty()) return {};
  return Memory(t).steps();
}

RateCounters rate_counters(const Timeline& t) {
  if (t.details.empty()) return {};
  std::vector<Changes> in(t.problem.workers), out(t.problem.workers);
  const std::vector<std::int64_t> from = moving_from(t);
  for (std::size_t i = 0; i < t.tasks.size(); ++i) {
    const TimelineTask& x = t.tasks[i];
    if (!is_transfer(x.kind) || x.end_ps <= from[i]) continue;
    const Wide rate = Wide{t.details[i].bytes.value} * 1'000'000'000'000 / (x.end_ps - from[i]);
    Changes& changes = is_receive(x.kind) ? in[x.worker] : out[x.worker];
    changes.add(from[i], rate);
    changes.add(x.end_ps, -rate);
  }
  RateCounters rates;
  for (std::uint32_t w = 0; w < t.problem.workers; ++w) {
    rates.in.push_back(in[w].steps(0));
    rates.out.push_back(out[w].steps(0));
  }
  return rates;
}

}  // namespace ringsched
