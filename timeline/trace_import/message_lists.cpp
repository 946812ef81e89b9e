#include "message_lists.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ringsched/scheduler/exchange.hpp"

namespace ringsched::trace_import {

namespace {

// When the inputs of a task were last attended here, and when its result is first attended.
struct TimesAround {
  std::vector<std::int64_t> made, read;

  TimesAround(const Plan& plan, const TaskTimes& times)
      : made(plan.tasks.size(), std::numeric_limits<std::int64_t>::min()),
        read(plan.tasks.size(), kNever) {
    for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
      const Task& t = plan.tasks[i];
      for (const TensorId input : t.inputs) {
        if (!input.valid() || !plan.producer(input).valid()) continue;
        const std::size_t maker = plan.producer(input).value;
        if (!communicates(plan.tasks[maker].kind)) made[i] = std::max(made[i], made[maker]);
        if (is_attend(t.kind)) read[maker] = std::min(read[maker], times[i].start_ps);
      }
      if (is_attend(t.kind)) made[i] = times[i].end_ps;
    }
  }
};

using WorkerPair = std::pair<std::size_t, std::size_t>;  // sender, receiver

class ListMaker {
 public:
  ListMaker(const Plan& plan, const std::vector<WorkerTasks>& tasks, const TakenCall& call,
            std::span<const std::int64_t> ranks, const TaskTimes& times)
      : plan_(plan), tasks_(tasks), call_(call), ranks_(ranks), around_(plan, times) {
    find_pairs();
  }

  std::vector<MessageList> lists() {
    for (std::size_t w = 0; w < tasks_.size(); ++w) add_one_sided(w);
    for (const auto& [pair, found] : pairs_) add_pairs(pair, found);
    return std::move(out_);
  }

 private:
  std::size_t receiver_of(const Task& send) const {
    return plan_.tasks[send.peer.value].worker_index;
  }

  // The messages of worker w in one direction that may have gone to, or come from, this other one.
  std::vector<const TraceEvent*> ends(std::size_t w, TraceWork kind, std::size_t other,
                                      bool only_peer) const {
    std::vector<const TraceEvent*> out;
    for (const TraceEvent& e : call_.workers[w].messages)
      if (e.work == kind && (e.peer == ranks_[other] || (e.peer < 0 && only_peer)))
        out.push_back(&e);
    return out;
  }

  void find_pairs() {
    std::set<WorkerPair> used;
    std::vector<std::set<std::size_t>> to(tasks_.size()), from(tasks_.size());
    for (const Task& t : plan_.tasks)
      if (is_send(t.kind) && t.peer.valid()) {
        used.insert({t.worker_index, receiver_of(t)});
        to[t.worker_index].insert(receiver_of(t));
        from[receiver_of(t)].insert(t.worker_index);
      }
    for (const WorkerPair& pair : used) {
      const auto [a, b] = pair;
      const auto sent = ends(a, TraceWork::Send, b, to[a].size() == 1);
      const auto got = ends(b, TraceWork::Receive, a, from[b].size() == 1);
      if (sent.empty() || sent.size() != got.size()) continue;
      pairs_[pair] = paired(sent, got);
    }
  }

  // In order, of each tag and size: communicators for several lanes may overtake each other.
  static std::vector<FoundMessage> paired(const std::vector<const TraceEvent*>& sent,
                                          const std::vector<const TraceEvent*>& got) {
    std::vector<std::size_t> order(got.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<std::size_t> senders = order;
    const auto kind = [](const std::vector<const TraceEvent*>& ends) {
      return [&ends](std::size_t i) { return std::pair(ends[i]->tag, ends[i]->bytes); };
    };
    std::ranges::stable_sort(senders, {}, kind(sent));
    std::ranges::stable_sort(order, {}, kind(got));
    std::vector<FoundMessage> out(sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i)
      out[senders[i]] = {sent[senders[i]], got[order[i]]};
    return out;
  }

  // In a pass of the call. A worker that attends nothing in it may still pass messages on.
  bool begins_in(const TraceEvent* e, std::size_t worker, std::size_t pass) const {
    const PassEvents& p = call_.workers[worker].passes[pass];
    return e == nullptr || (e->start_ps >= p.from_ps && e->start_ps < p.to_ps);
  }
  bool is_of_call(const FoundMessage& m, std::size_t sender, std::size_t receiver) const {
    for (std::size_t pass = 0; pass < kPasses; ++pass)
      if (call_.attends[pass] && begins_in(m.sent, sender, pass) &&
          begins_in(m.got, receiver, pass))
        return true;
    return false;
  }
  bool is_inside(const TraceEvent* e, std::size_t worker) const {
    return e != nullptr &&
           std::ranges::any_of(call_.workers[worker].passes, [&](const PassEvents& p) {
             return !p.attends.empty() && e->start_ps >= p.attends.front().start_ps &&
                    e->start_ps < p.attends.back().start_ps;
           });
  }

  template <class Visit>
  void each_message(std::size_t worker, Visit visit) const {
    for (const PassTasks& pass : tasks_[worker].passes)
      for (const TaskId id : pass.messages) visit(id, plan_.tasks[id.value]);
  }

  void add_pairs(const WorkerPair& pair, const std::vector<FoundMessage>& found) {
    const auto [a, b] = pair;
    MessageList list{a, TraceWork::Send, {}, {}, found.size()};
    each_message(a, [&, to = b](TaskId id, const Task& t) {
      if (!is_send(t.kind) || !t.peer.valid() || receiver_of(t) != to) return;
      join(list.wanted.emplace_back(), id);
      join(list.wanted.back(), t.peer);
    });
    for (FoundMessage m : found) {
      if (!is_of_call(m, a, b)) continue;
      m.inside = is_inside(m.sent, a) || is_inside(m.got, b);
      list.found.push_back(m);
    }
    out_.push_back(std::move(list));
  }

  bool is_paired(const Task& t) const {
    if (!is_transfer(t.kind) || !t.peer.valid()) return false;
    const std::size_t other = plan_.tasks[t.peer.value].worker_index;
    return pairs_.contains(is_send(t.kind) ? WorkerPair(t.worker_index, other)
                                           : WorkerPair(other, t.worker_index));
  }

  // Messages that are in no list of a pair.
  void add_one_sided(std::size_t w) {
    const std::vector<TraceEvent>& messages = call_.workers[w].messages;
    const auto some = [&](TraceWork kind) {
      return std::ranges::count(messages, kind, &TraceEvent::work) > 0;
    };
    const bool batched = some(TraceWork::SendReceive) && !some(TraceWork::Send);
    std::map<TraceWork, MessageList> by_kind;
    std::map<Lane, std::size_t> open;
    bool transfers = false;
    each_message(w, [&](TaskId id, const Task& t) {
      transfers = transfers || is_transfer(t.kind);
      if (is_paired(t)) return;
      const TraceWork kind = is_exchange(t.kind) ? TraceWork::Exchange
                             : batched           ? TraceWork::SendReceive
                             : is_send(t.kind)   ? TraceWork::Send
                                                 : TraceWork::Receive;
      std::vector<WantedMessage>& wanted = by_kind[kind].wanted;
      const bool joins = batched && t.with_previous && open.contains(t.lane);
      if (!joins) {
        open[t.lane] = wanted.size();
        wanted.emplace_back();
      }
      join(wanted[open[t.lane]], id);
    });
    for (auto& [kind, list] : by_kind) {
      list.worker = w;
      list.kind = kind;
      // All-to-alls of NCCL are sends and receives.
      const bool also = kind == TraceWork::Exchange && !transfers;
      for (const TraceEvent& e : messages) {
        if (e.work != kind && !(also && e.work == TraceWork::SendReceive)) continue;
        ++list.traced;
        FoundMessage m{kind == TraceWork::Receive ? nullptr : &e,
                       kind == TraceWork::Send ? nullptr : &e, is_inside(&e, w)};
        if (is_of_call(m, w, w)) list.found.push_back(m);
      }
      out_.push_back(std::move(list));
    }
  }

  void join(WantedMessage& m, TaskId id) const {
    const Task& t = plan_.tasks[id.value];
    m.tasks.push_back(id);
    m.lane = t.lane;
    m.latest = std::min(m.latest, around_.read[id.value]);
    if (!is_receive(t.kind)) m.earliest = std::max(m.earliest, around_.made[id.value]);
    if (is_exchange(t.kind)) m.form = form_of(plan_, plan_.exchange(t));
    if (!is_transfer(t.kind) || !t.peer.valid()) return;
    (is_send(t.kind) ? m.to_rank : m.from_rank) = ranks_[plan_.tasks[t.peer.value].worker_index];
    if (is_send(t.kind) || m.bytes < 0) m.bytes = plan_.works[t.work.value].bytes.value;
  }

  const Plan& plan_;
  const std::vector<WorkerTasks>& tasks_;
  const TakenCall& call_;
  const std::span<const std::int64_t> ranks_;
  const TimesAround around_;
  std::map<WorkerPair, std::vector<FoundMessage>> pairs_;
  std::vector<MessageList> out_;
};

}  // namespace

std::vector<MessageList> message_lists(const Plan& plan, const std::vector<WorkerTasks>& tasks,
                                       const TakenCall& call, std::span<const std::int64_t> ranks,
                                       const TaskTimes& times) {
  return ListMaker(plan, tasks, call, ranks, times).lists();
}

}  // namespace ringsched::trace_import
