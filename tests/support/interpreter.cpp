#include "support/interpreter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace ringsched {

namespace {

using Pair = std::pair<std::int64_t, std::int64_t>;

struct Content {
  TensorKind kind;
  std::set<std::int64_t> tokens;
  std::map<Pair, int> pairs;  // of results: how often each pair went in
};

struct Failure {
  std::string what;
};

class Interpreter {
 public:
  Interpreter(const Plan& plan, std::uint64_t seed) : plan_(plan), random_(seed) {
    lanes_.resize(std::size_t{plan.problem.workers} * kLanes);
    for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
      lanes_.at(lane_of(id)).tasks.push_back(id);
    for (const BufferSlot& s : plan.slots) slot_[s.receive.value] = s.slot;
    for (const ControlEdge& e : plan.controls) controls_[e.after.value].push_back(e.before.value);
    done_.resize(plan.tasks.size());
    posted_.resize(plan.tasks.size());
    moved_.resize(plan.tasks.size());
    for (std::uint32_t i = 0; i < plan.initial.size(); ++i)
      tensors_[i] = std::make_shared<Content>(
          Content{plan.initial[i].kind, tokens_of(plan.initial[i].region), {}});
    for (std::uint32_t i = 0; i < plan.initial.size(); ++i)
      if (plan.initial[i].kind == TensorKind::Partial)
        tensors_[i]->pairs = expected_of(tensors_[i]->tokens);
  }

  std::string run() {
    try {
      while (advance_some_lane()) {
      }
      for (std::size_t l = 0; l < lanes_.size(); ++l)
        if (lanes_[l].at < lanes_[l].tasks.size())
          return fmt::format("stuck at task {}", lanes_[l].tasks[lanes_[l].at]);
      return compare();
    } catch (const Failure& f) {
      return f.what;
    }
  }

 private:
  struct LaneState {
    std::vector<std::uint32_t> tasks;
    std::size_t at = 0;
    bool posted = false;
  };

  std::size_t lane_of(std::uint32_t id) const {
    const Task& t = plan_.tasks[id];
    return std::size_t{t.worker_index} * kLanes + static_cast<std::size_t>(t.lane);
  }

  std::set<std::int64_t> tokens_of(RegionId region) const {
    std::set<std::int64_t> tokens;
    const Region r = plan_.regions.at(region.value);
    for (std::uint32_t c = r.first.value; c < r.end(); ++c)
      for (std::int64_t i = 0; i < plan_.layout.chunks.at(c).count; ++i)
        tokens.insert(plan_.layout.chunks[c].position(i));
    return tokens;
  }

  std::map<Pair, int> expected_of(const std::set<std::int64_t>& queries) const {
    std::map<Pair, int> pairs;
    for (const std::int64_t q : queries)
      for (std::int64_t k = 0; k < plan_.problem.tokens.value; ++k)
        if (plan_.problem.mask.visible(q, k)) pairs[{q, k}] = 1;
    return pairs;
  }

  std::size_t group_end(const LaneState& lane) const {
    std::size_t end = lane.at + 1;
    while (end < lane.tasks.size() && plan_.tasks[lane.tasks[end]].with_previous) ++end;
    return end;
  }

  bool inputs_ready(std::uint32_t id) const {
    for (const TensorId input : plan_.tasks[id].inputs) {
      if (!input.valid()) continue;
      const TaskId maker = plan_.producer(input);
      if (maker.valid() && (maker.value >= done_.size() || !done_[maker.value])) return false;
    }
    const auto found = controls_.find(id);
    return found == controls_.end() ||
           std::all_of(found->second.begin(), found->second.end(), [&](std::uint32_t before) {
             return before < done_.size() && done_[before];
           });
  }

  bool advance_some_lane() {
    std::vector<std::size_t> order(lanes_.size());
    for (std::size_t l = 0; l < order.size(); ++l) order[l] = l;
    std::shuffle(order.begin(), order.end(), random_);
    return std::any_of(order.begin(), order.end(),
                       [&](std::size_t l) { return advance(lanes_[l]); });
  }

  bool advance(LaneState& lane) {
    if (lane.at == lane.tasks.size()) return false;
    const std::size_t end = group_end(lane);
    if (!lane.posted) {
      for (std::size_t i = lane.at; i < end; ++i)
        if (!inputs_ready(lane.tasks[i])) return false;
      for (std::size_t i = lane.at; i < end; ++i) posted_[lane.tasks[i]] = true;
      lane.posted = true;
      for (std::size_t i = lane.at; i < end; ++i) move_if_matched(lane.tasks[i]);
      return true;
    }
    for (std::size_t i = lane.at; i < end; ++i)
      if (is_transfer(plan_.tasks[lane.tasks[i]].kind) && !moved_[lane.tasks[i]]) return false;
    for (std::size_t i = lane.at; i < end; ++i) {
      if (!is_transfer(plan_.tasks[lane.tasks[i]].kind)) compute(lane.tasks[i]);
      done_[lane.tasks[i]] = true;
    }
    lane.at = end;
    lane.posted = false;
    return true;
  }

  void move_if_matched(std::uint32_t id) {
    const Task& task = plan_.tasks[id];
    if (!is_transfer(task.kind)) return;
    const std::uint32_t other = task.peer.value;
    if (other >= plan_.tasks.size() || !posted_[other]) return;
    const std::uint32_t send = task.kind == TaskKind::Send ? id : other;
    const std::uint32_t receive = send == id ? other : id;
    const Task& s = plan_.tasks[send];
    const Task& r = plan_.tasks[receive];
    if (s.kind != TaskKind::Send || r.kind != TaskKind::Receive || s.peer.value != receive ||
        r.peer.value != send)
      return;
    const std::set<std::int64_t> rows = tokens_of(s.region);
    if (r.makes != s.makes || tokens_of(r.region) != rows) throw Failure{"sizes differ"};
    Content carried = read(send, 0, s.makes, rows);
    std::erase_if(carried.tokens, [&](std::int64_t t) { return !rows.contains(t); });
    put(receive, 0, std::move(carried));
    moved_[send] = moved_[receive] = true;
  }

  // What a task finds in its input, which must be on its worker and hold these tokens.
  Content read(std::uint32_t id, std::size_t index, TensorKind kind,
               const std::set<std::int64_t>& tokens) {
    const TensorId input = plan_.tasks[id].inputs[index];
    const auto found = tensors_.find(input.value);
    if (!input.valid() || found == tensors_.end() || !found->second)
      throw Failure{fmt::format("task {} reads nothing", id)};
    if (plan_.tensor(input).worker != plan_.tasks[id].worker())
      throw Failure{fmt::format("task {} reads another worker's memory", id)};
    const Content& c = *found->second;
    if (c.kind != kind) throw Failure{fmt::format("task {} reads the wrong kind", id)};
    if (!std::includes(c.tokens.begin(), c.tokens.end(), tokens.begin(), tokens.end()))
      throw Failure{fmt::format("task {} reads tokens that are not there", id)};
    return c;
  }

  void put(std::uint32_t id, std::uint32_t index, Content content) {
    auto stored = std::make_shared<Content>(std::move(content));
    if (const auto slot = slot_.find(id); slot != slot_.end()) {
      const Task& t = plan_.tasks[id];
      auto& buffer = buffers_[{t.worker_index, static_cast<int>(t.makes), slot->second}];
      if (buffer) {  // whoever still means to read the old tensor finds the new one
        *buffer = *stored;
        stored = buffer;
      } else {
        buffer = stored;
      }
    }
    tensors_[plan_.output({id}, index).value] = stored;
  }

  void compute(std::uint32_t id) {
    const Task& t = plan_.tasks[id];
    const std::set<std::int64_t> rows = tokens_of(t.region);
    switch (t.kind) {
      case TaskKind::Attend:
      case TaskKind::AttendBackward:
        return attend(id, rows);
      case TaskKind::Prepare: {
        const Content o = read(id, 0, TensorKind::Partial, rows);
        const Content g = read(id, 1, TensorKind::OutputGradient, rows);
        for (const auto& [pair, times] : expected_of(rows))
          if (!o.pairs.contains(pair) || o.pairs.at(pair) != times)
            throw Failure{fmt::format("task {} prepares from an unfinished result", id)};
        return put(id, 0, {TensorKind::PreparedGradient, rows, {}});
      }
      case TaskKind::Merge:
      case TaskKind::Reduce: {
        Content sum = read(id, 0, t.makes, {});
        const Content more = read(id, 1, t.makes, {});
        sum.tokens.insert(more.tokens.begin(), more.tokens.end());
        for (const auto& [pair, times] : more.pairs) sum.pairs[pair] += times;
        return put(id, 0, std::move(sum));
      }
      case TaskKind::Output: {
        const Content c = read(id, 0, t.makes, rows);
        auto& out = outputs_[static_cast<int>(t.makes)];
        for (const std::int64_t token : c.tokens)
          if (++out.put_out[token] > 1 || owner(token) != t.worker_index)
            throw Failure{fmt::format("token {} is put out twice or far from home", token)};
        for (const auto& [pair, times] : c.pairs) out.pairs[pair] += times;
        return;
      }
      default:
        return;
    }
  }

  void attend(std::uint32_t id, const std::set<std::int64_t>& rows) {
    const Task& t = plan_.tasks[id];
    const bool backward = t.kind == TaskKind::AttendBackward;
    const std::set<std::int64_t> keys = tokens_of(t.keys);
    read(id, 0, TensorKind::Query, rows);
    if (backward) read(id, 1, TensorKind::PreparedGradient, rows);
    read(id, backward ? 2 : 1, TensorKind::KeyValue, keys);
    std::map<Pair, int> pairs;
    for (const std::int64_t q : rows)
      for (const std::int64_t k : keys)
        if (plan_.problem.mask.visible(q, k)) pairs[{q, k}] = 1;
    put(id, 0, {backward ? TensorKind::QueryGradient : TensorKind::Partial, rows, pairs});
    if (backward) put(id, 1, {TensorKind::KeyValueGradient, keys, pairs});
  }

  std::uint32_t owner(std::int64_t token) const {
    for (std::uint32_t w = 0; w < plan_.problem.workers; ++w)
      for (const TokenRange& r : plan_.layout.ranges(plan_.layout.share({w})))
        for (std::int64_t i = 0; i < r.count; ++i)
          if (r.position(i) == token) return w;
    return ~0u;
  }

  std::string compare() {
    std::vector<TensorKind> wanted;
    if (plan_.problem.pass != Pass::Backward) wanted.push_back(TensorKind::Partial);
    if (plan_.problem.pass != Pass::Forward)
      wanted.insert(wanted.end(), {TensorKind::QueryGradient, TensorKind::KeyValueGradient});
    std::set<std::int64_t> all;
    for (std::int64_t t = 0; t < plan_.problem.tokens.value; ++t) all.insert(t);
    const std::map<Pair, int> expected = expected_of(all);
    for (const TensorKind kind : wanted)
      if (outputs_[static_cast<int>(kind)].pairs != expected)
        return fmt::format("the {} is wrong", to_text(kind));
    return "";
  }

  struct Outputs {
    std::map<std::int64_t, int> put_out;
    std::map<Pair, int> pairs;
  };

  const Plan& plan_;
  std::mt19937_64 random_;
  std::vector<LaneState> lanes_;
  std::map<std::uint32_t, std::uint32_t> slot_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> controls_;
  std::vector<bool> done_, posted_, moved_;
  std::map<std::uint32_t, std::shared_ptr<Content>> tensors_;
  std::map<std::tuple<std::uint32_t, int, std::uint32_t>, std::shared_ptr<Content>> buffers_;
  std::map<int, Outputs> outputs_;
};

}  // namespace

std::string interpret(const Plan& plan, std::uint64_t seed) {
  return Interpreter(plan, seed).run();
}

}  // namespace ringsched
