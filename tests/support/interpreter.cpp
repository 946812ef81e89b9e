#include "support/interpreter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <vector>

namespace ringsched {

namespace {

// A query, a key, and the first of some query heads that no piece of the plan keeps apart.
using Term = std::tuple<std::int64_t, std::int64_t, std::uint32_t>;

struct Content {
  ValueId kind;
  std::set<std::int64_t> tokens;
  std::set<std::uint32_t> heads;  // those that terms name
  std::map<Term, int> terms;      // of results: how often each went in
};

struct Failure {
  std::string what;
};

class Interpreter {
 public:
  Interpreter(const Plan& plan, std::uint64_t seed) : plan_(plan), random_(seed) {
    lanes_.resize(std::size_t{plan.problem.workers} * plan.lane_count());
    for (std::uint32_t id = 0; id < plan.tasks.size(); ++id)
      lanes_.at(lane_of(id)).tasks.push_back(id);
    for (const BufferSlot& s : plan.slots) slot_[s.receive.value] = s.slot;
    for (const ControlEdge& e : plan.controls) controls_[e.after.value].push_back(e.before.value);
    done_.resize(plan.tasks.size());
    posted_.resize(plan.tasks.size());
    moved_.resize(plan.tasks.size());
    find_heads();
    for (std::int64_t t = 0; t < plan.problem.tokens.value; ++t) all_tokens_.insert(t);
    for (std::uint32_t i = 0; i < plan.initial.size(); ++i)
      tensors_[i] = std::make_shared<Content>(Content{plan.piece(plan.initial[i]).value,
                                                      tokens_of(plan.piece(plan.initial[i]).rows),
                                                      heads_of(plan.piece(plan.initial[i])),
                                                      {}});
    for (std::uint32_t i = 0; i < plan.initial.size(); ++i)
      if (plan.piece(plan.initial[i]).value == attention::kPartial)
        tensors_[i]->terms = expected_of(tensors_[i]->tokens, tensors_[i]->heads);
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
    return std::size_t{t.worker_index} * plan_.lane_count() + static_cast<std::size_t>(t.lane);
  }

  std::set<std::int64_t> tokens_of(RegionId region) const {
    std::set<std::int64_t> tokens;
    const Region r = plan_.regions.at(region.value);
    for (std::uint32_t c = r.first.value; c < r.end(); ++c)
      for (std::int64_t i = 0; i < plan_.layout.chunks.at(c).count; ++i)
        tokens.insert(plan_.layout.chunks[c].position(i));
    return tokens;
  }

  // The query heads of a piece: those that read its columns.
  std::pair<std::uint32_t, std::uint32_t> head_range(const Piece& p) const {
    const std::uint32_t group = plan_.program.values.at(p.value.value).columns.group;
    return {p.columns.first * group, p.columns.end() * group};
  }
  void find_heads() {
    heads_ = {0};
    for (const Piece& p : plan_.pieces) {
      heads_.insert(head_range(p).first);
      heads_.insert(head_range(p).second);
    }
    heads_.erase(heads_.lower_bound(plan_.problem.heads), heads_.end());
  }
  std::set<std::uint32_t> heads_of(const Piece& p) const {
    const auto [first, end] = head_range(p);
    return {heads_.lower_bound(first), heads_.lower_bound(end)};
  }

  std::map<Term, int> expected_of(const std::set<std::int64_t>& queries,
                                  const std::set<std::uint32_t>& heads) const {
    std::map<Term, int> terms;
    for (const std::int64_t q : queries)
      for (std::int64_t k = 0; k < plan_.problem.tokens.value; ++k)
        if (plan_.problem.mask.visible(q, k))
          for (const std::uint32_t h : heads) terms[{q, k, h}] = 1;
    return terms;
  }

  // What a value is before it is rounded.
  static ValueId unrounded(ValueId kind) {
    if (kind == attention::kRoundedPartial) return attention::kPartial;
    if (kind == attention::kRoundedQueryGradient) return attention::kQueryGradient;
    if (kind == attention::kRoundedKeyValueGradient) return attention::kKeyValueGradient;
    return kind;
  }
  static std::int64_t row_of(ValueId kind, const Term& t) {
    return unrounded(kind) == attention::kKeyValueGradient ? std::get<1>(t) : std::get<0>(t);
  }
  // Only these rows and heads of it.
  static Content part_of(Content c, const std::set<std::int64_t>& rows,
                         const std::set<std::uint32_t>& heads) {
    const auto is_there = [&](const Term& t) {
      return heads.contains(std::get<2>(t)) && rows.contains(row_of(c.kind, t));
    };
    std::erase_if(c.terms, [&](const auto& t) { return !is_there(t.first); });
    c.tokens = rows;
    c.heads = heads;
    return c;
  }
  bool has_all_terms(const Content& c) const {
    std::map<Term, int> expected = expected_of(all_tokens_, c.heads);
    std::erase_if(expected,
                  [&](const auto& t) { return !c.tokens.contains(row_of(c.kind, t.first)); });
    return c.terms == expected;
  }

  // Does it have what it should, if its task says that it is complete?
  bool keeps_promise(std::uint32_t id, std::uint32_t output, const Content& c) const {
    if (!plan_.program.values.at(c.kind.value).is_sum) return true;
    return !plan_.tasks[id].completes_output(output) || has_all_terms(c);
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
      for (std::size_t i = lane.at; i < end; ++i) {
        move_if_matched(lane.tasks[i]);
        exchange_if_all_are_there(lane.tasks[i]);
      }
      return true;
    }
    for (std::size_t i = lane.at; i < end; ++i)
      if (communicates(plan_.tasks[lane.tasks[i]].kind) && !moved_[lane.tasks[i]]) return false;
    for (std::size_t i = lane.at; i < end; ++i) {
      const TaskKind kind = plan_.tasks[lane.tasks[i]].kind;
      const bool is_first = i == lane.at || !is_repack(plan_.tasks[lane.tasks[i - 1]].kind);
      if (is_repack(kind) && is_first) repack(lane, end);
      if (!communicates(kind)) compute(lane.tasks[i]);
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
    const std::set<std::int64_t> rows = tokens_of(plan_.rows(s));
    const std::set<std::uint32_t> heads = heads_of(plan_.piece(s));
    if (plan_.value(r) != plan_.value(s) || tokens_of(plan_.rows(r)) != rows ||
        heads_of(plan_.piece(r)) != heads)
      throw Failure{"sizes differ"};
    put(receive, 0, part_of(read(send, 0, plan_.value(s), rows, heads), rows, heads));
    moved_[send] = moved_[receive] = true;
  }

  std::vector<std::uint32_t> members_with(std::uint32_t id) const {
    const ExchangeId exchange = plan_.tasks[id].exchange;
    const TaskKind kind = plan_.tasks[id].kind;
    const std::vector<Exchange>& all = is_repack(kind) ? plan_.repacks : plan_.exchanges;
    if (exchange.value >= all.size()) throw Failure{fmt::format("task {} is of no exchange", id)};
    const Exchange& e = all[exchange.value];
    std::vector<std::uint32_t> members;
    for (std::uint32_t m = e.first.value; m < e.end(); ++m) {
      if (m >= plan_.tasks.size() || plan_.tasks[m].kind != kind ||
          plan_.tasks[m].exchange != exchange ||
          plan_.value(plan_.tasks[m]) != plan_.value(plan_.tasks[id]))
        throw Failure{fmt::format("task {} is not a member of its exchange", m)};
      members.push_back(m);
    }
    if (std::find(members.begin(), members.end(), id) == members.end())
      throw Failure{fmt::format("the exchange of task {} does not have it", id)};
    return members;
  }

  // What is complete is copied from the one that has it; parts are added up.
  void exchange_if_all_are_there(std::uint32_t id) {
    if (!is_exchange(plan_.tasks[id].kind)) return;
    const std::vector<std::uint32_t> members = members_with(id);
    if (!std::all_of(members.begin(), members.end(), [&](std::uint32_t m) { return posted_[m]; }))
      return;
    put_together(id, members);
  }

  // Once for all members: they start and end together, so all that they read is there before.
  void repack(const LaneState& lane, std::size_t end) {
    const std::uint32_t id = lane.tasks[lane.at];
    const std::vector<std::uint32_t> members = members_with(id);
    const std::vector<std::uint32_t> group(
        lane.tasks.begin() + static_cast<std::ptrdiff_t>(lane.at),
        lane.tasks.begin() + static_cast<std::ptrdiff_t>(end));
    if (group != members) throw Failure{fmt::format("the repack of task {} is no group", id)};
    put_together(id, members);
  }

  void put_together(std::uint32_t id, const std::vector<std::uint32_t>& members) {
    const ValueId value = plan_.value(plan_.tasks[id]);
    std::vector<Content> complete, parts;
    for (const std::uint32_t m : members)
      if (const TensorId given = plan_.tasks[m].inputs[0]; given.valid()) {
        Content c = read(m, 0, value, {}, {});
        (plan_.tensor(given).complete ? complete : parts).push_back(std::move(c));
      }
    if (complete.empty() == parts.empty())
      throw Failure{fmt::format("the exchange of task {} has parts and complete ones", id)};
    for (const std::uint32_t m : members) {
      moved_[m] = true;
      const Piece& wanted = plan_.piece(plan_.tasks[m]);
      if (plan_.regions.at(wanted.rows.value).count == 0) continue;
      Content got{value, tokens_of(wanted.rows), heads_of(wanted), {}};
      if (parts.empty()) require_one_source(m, got, complete);
      for (const auto* const given : {&complete, &parts})
        for (const Content& c : *given)
          for (const auto& [term, times] : part_of(c, got.tokens, got.heads).terms)
            got.terms[term] += times;
      put(m, 0, std::move(got));
    }
  }

  static void require_one_source(std::uint32_t id, const Content& wanted,
                                 const std::vector<Content>& given) {
    for (const std::int64_t token : wanted.tokens)
      for (const std::uint32_t head : wanted.heads)
        if (std::count_if(given.begin(), given.end(), [&](const Content& c) {
              return c.tokens.contains(token) && c.heads.contains(head);
            }) != 1)
          throw Failure{fmt::format("token {}, head {} of member {} is given by none or by several",
                                    token, head, id)};
  }

  // What a task finds in its input, which must be on its worker and hold these tokens.
  Content read(std::uint32_t id, std::size_t index, ValueId kind,
               const std::set<std::int64_t>& tokens, const std::set<std::uint32_t>& heads) {
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
    if (!std::includes(c.heads.begin(), c.heads.end(), heads.begin(), heads.end()))
      throw Failure{fmt::format("task {} reads heads that are not there", id)};
    return c;
  }

  void put(std::uint32_t id, std::uint32_t index, Content content) {
    if (!keeps_promise(id, index, content))
      throw Failure{fmt::format("task {} says that it is complete, and it is not", id)};
    auto stored = std::make_shared<Content>(std::move(content));
    if (const auto slot = slot_.find(id); slot != slot_.end()) {
      const Task& t = plan_.tasks[id];
      auto& buffer = buffers_[{t.worker_index, plan_.value(t), slot->second}];
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
    const std::set<std::int64_t> rows = tokens_of(plan_.rows(t));
    const std::set<std::uint32_t> heads = heads_of(plan_.piece(t));
    switch (t.kind) {
      case TaskKind::Attend:
      case TaskKind::AttendBackward:
        return attend(id, rows, heads);
      case TaskKind::Prepare: {
        const Content o = read(id, 0, attention::kPartial, rows, heads);
        const Content g = read(id, 1, attention::kOutputGradient, rows, heads);
        if (!has_all_terms(part_of(o, rows, heads)))
          throw Failure{fmt::format("task {} prepares from an unfinished result", id)};
        return put(id, 0, {attention::kPreparedGradient, rows, heads, {}});
      }
      case TaskKind::Round: {
        if (unrounded(plan_.value(t)) == plan_.value(t))
          throw Failure{fmt::format("task {} rounds to what is not rounded", id)};
        Content c = part_of(read(id, 0, unrounded(plan_.value(t)), rows, heads), rows, heads);
        if (!has_all_terms(c))
          throw Failure{fmt::format("task {} rounds an unfinished result", id)};
        c.kind = plan_.value(t);
        return put(id, 0, std::move(c));
      }
      case TaskKind::Merge:
      case TaskKind::Reduce: {
        Content sum = read(id, 0, plan_.value(t), {}, {});
        const Content more = read(id, 1, plan_.value(t), {}, {});
        sum.tokens.insert(more.tokens.begin(), more.tokens.end());
        sum.heads.insert(more.heads.begin(), more.heads.end());
        for (const auto& [term, times] : more.terms) sum.terms[term] += times;
        return put(id, 0, std::move(sum));
      }
      case TaskKind::Output: {
        const Content c = read(id, 0, plan_.value(t), rows, heads);
        auto& out = outputs_[unrounded(plan_.value(t))];
        for (const std::int64_t token : c.tokens)
          for (const std::uint32_t head : c.heads)
            if (++out.put_out[{token, head, decodes() ? t.worker_index : 0}] > 1 ||
                (!decodes() && owner(token) != t.worker_index))
              throw Failure{fmt::format("token {} is put out twice or far from home", token)};
        // Several workers may put out the same results, each of them all terms.
        if (decodes() && !has_all_terms(c))
          throw Failure{fmt::format("task {} puts out an unfinished result", id)};
        for (const auto& [term, times] : c.terms)
          out.terms[term] = decodes() ? times : out.terms[term] + times;
        return;
      }
      default:
        return;
    }
  }

  void attend(std::uint32_t id, const std::set<std::int64_t>& rows,
              const std::set<std::uint32_t>& heads) {
    const Task& t = plan_.tasks[id];
    const bool backward = t.kind == TaskKind::AttendBackward;
    const std::set<std::int64_t> keys = tokens_of(t.keys);
    read(id, 0, attention::kQuery, rows, heads);
    if (backward) read(id, 1, attention::kPreparedGradient, rows, heads);
    read(id, backward ? 2 : 1, attention::kKeyValue, keys, heads);
    std::map<Term, int> terms;
    for (const std::int64_t q : rows)
      for (const std::int64_t k : keys)
        if (plan_.problem.mask.visible(q, k))
          for (const std::uint32_t h : heads) terms[{q, k, h}] = 1;
    put(id, 0, {backward ? attention::kQueryGradient : attention::kPartial, rows, heads, terms});
    if (!backward) return;
    // A key gradient has room for all heads that read its columns.
    const Tensor made = plan_.tensor(plan_.output({id}, 1));
    put(id, 1,
        {attention::kKeyValueGradient, keys, heads_of({made.value, made.rows, made.columns}),
         terms});
  }

  std::uint32_t owner(std::int64_t token) const {
    for (std::uint32_t w = 0; w < plan_.problem.workers; ++w)
      for (const TokenRange& r : plan_.layout.ranges(plan_.layout.share({w})))
        for (std::int64_t i = 0; i < r.count; ++i)
          if (r.position(i) == token) return w;
    return ~0u;
  }

  bool decodes() const { return plan_.problem.new_tokens.value > 0; }

  // In decoding, the last ones of each document.
  std::set<std::int64_t> query_tokens() const {
    if (!decodes()) return all_tokens_;
    std::set<std::int64_t> out;
    std::vector<std::int64_t> ends(plan_.problem.mask.document_bounds().begin(),
                                   plan_.problem.mask.document_bounds().end());
    if (ends.empty()) ends = {0, plan_.problem.tokens.value};
    for (std::size_t d = 1; d < ends.size(); ++d)
      for (std::int64_t back = 1; back <= plan_.problem.new_tokens.value; ++back)
        out.insert(ends[d] - back);
    return out;
  }

  std::string compare() {
    std::vector<ValueId> wanted;
    if (plan_.problem.pass != Pass::Backward) wanted.push_back(attention::kPartial);
    if (plan_.problem.pass != Pass::Forward)
      wanted.insert(wanted.end(), {attention::kQueryGradient, attention::kKeyValueGradient});
    const std::map<Term, int> expected = expected_of(query_tokens(), heads_);
    for (const ValueId kind : wanted)
      if (outputs_[kind].terms != expected) return fmt::format("the {} is wrong", plan_.name(kind));
    return "";
  }

  struct Outputs {
    // By token and head; in decoding by worker, too.
    std::map<std::tuple<std::int64_t, std::uint32_t, std::uint32_t>, int> put_out;
    std::map<Term, int> terms;
  };

  const Plan& plan_;
  std::mt19937_64 random_;
  std::set<std::uint32_t> heads_;
  std::set<std::int64_t> all_tokens_;
  std::vector<LaneState> lanes_;
  std::map<std::uint32_t, std::uint32_t> slot_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> controls_;
  std::vector<bool> done_, posted_, moved_;
  std::map<std::uint32_t, std::shared_ptr<Content>> tensors_;
  std::map<std::tuple<std::uint32_t, ValueId, std::uint32_t>, std::shared_ptr<Content>> buffers_;
  std::map<ValueId, Outputs> outputs_;
};

}  // namespace

std::string interpret(const Plan& plan, std::uint64_t seed) {
  try {
    return Interpreter(plan, seed).run();
  } catch (const std::out_of_range&) {
    return "a task names what the plan does not have";
  }
}

std::string any_wrong_run(const Plan& plan, int runs) {
  for (int seed = 0; seed < runs; ++seed)
    if (std::string wrong = interpret(plan, static_cast<std::uint64_t>(seed)); !wrong.empty())
      return wrong;
  return "";
}

}  // namespace ringsched
