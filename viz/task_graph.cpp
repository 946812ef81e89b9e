#include "ringsched/viz/task_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/transitive_reduction.hpp>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "gantt/internal.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/words.hpp"
#include "too_small.hpp"

namespace ringsched {

namespace {

constexpr std::size_t kMostDrawn = 400;  // more, and no one can read it

enum class Reason : std::uint8_t { Message, Data, Control, Lane };  // the note if several hold
using Edge = std::pair<std::uint32_t, std::uint32_t>;               // task ids

// Sizes of words in points, and distances in inches, as Graphviz has them.
struct BoxLook {
  double title, task, beside, below, width;
  const char *margin, *cluster, *around;
};
constexpr BoxLook look_of(GraphWords words) {
  switch (words) {
    case GraphWords::Few:
      return {9, 9, 0.06, 0.25, 0.2, "0.04,0.02", " margin=4", " esep=\"+1\""};
    case GraphWords::Least:
      return {9, 9, 0.04, 0.2, 0.15, "0.02,0.02", " margin=3", " esep=\"+1\""};
    case GraphWords::Full:
      break;
  }
  return {13, 11, 0.15, 0.3, 0.4, "0.08,0.03", "", ""};
}

class Drawing {
 public:
  Drawing(const Plan& plan, const GraphPart& part, const Page& page, GraphWords words)
      : plan_(plan),
        part_(part),
        page_(page),
        words_(words),
        timeline_(timeline_of(plan, TimelineSource::Predicted, "")) {
    if (part.worker && part.worker->value >= plan.problem.workers)
      fail("no worker {}; the plan has workers 0 to {}", part.worker->value,
           plan.problem.workers - 1);
    if (part.first_step > part.last_step)
      fail("--steps {}-{}: the first step is after the last", part.first_step, part.last_step);
    Step last = 0;
    for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
      last = std::max(last, plan.tasks[id].step);
      if (inside(id)) drawn_.push_back(id);
    }
    if (plan.tasks.empty()) fail("the plan has no tasks: nothing to draw");
    if (part.first_step > last)
      fail("no step {}; the plan has steps 0 to {}", part.first_step, last);
    if (drawn_.empty()) fail("no task in this part of the plan: nothing to draw");
    if (drawn_.size() > kMostDrawn)
      fail(
          "a graph of {} tasks is unreadable (limit {}); draw one worker (--worker 0), some "
          "steps (--steps 0-2), or a plan of fewer workers",
          grouped(static_cast<std::int64_t>(drawn_.size())), kMostDrawn);
    gather_edges();
    std::map<Edge, Reason> drawn = edges_;
    reduce();
    find_first_attends();
    find_layers();
    if (words_ != GraphWords::Least) return;
    // What only such arrows as are left out imply stays.
    std::erase_if(drawn, [](const auto& e) { return e.second >= Reason::Control; });
    edges_ = std::move(drawn);
    reduce();
  }

  std::string dot() {
    const BoxLook look = look_of(words_);
    add("digraph plan {{\n");
    add("graph [rankdir=TB newrank=true compound=true fontname=\"Arial\" fontsize={} "
        "labelloc=b nodesep={} ranksep={}{}\n  label=\"{}\"]\n",
        look.title, look.beside, look.below, look.around, caption());
    add("node [fontname=\"Arial\" fontsize={} shape=box style=filled color=\"{}\" "
        "penwidth=0.7 margin=\"{}\" height=0.28 width={}]\n",
        look.task, hex(ink::grey), look.margin, look.width);
    add("edge [color=\"{}\" arrowsize=0.6 penwidth=0.8]\n", hex(ink::grey));
    draw_spine();
    for (std::uint32_t w = 0; w < plan_.problem.workers; ++w) draw_worker(w);
    draw_stubs();
    for (const auto& [edge, reason] : edges_) draw_edge(edge, reason);
    for (const Exchange& e : plan_.exchanges) join_members(e);
    add("}}\n");
    return std::move(out_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), text, std::forward<Args>(args)...);
  }
  const Task& task(std::uint32_t id) const { return plan_.tasks[id]; }
  bool inside(std::uint32_t id) const {
    const Task& t = task(id);
    return (!part_.worker || t.worker() == *part_.worker) && t.step >= part_.first_step &&
           t.step <= part_.last_step;
  }

  void offer(std::uint32_t before, std::uint32_t after, Reason reason) {
    if (before == after || !inside(before) || !inside(after)) return;
    const auto [at, fresh] = edges_.emplace(Edge{before, after}, reason);
    if (!fresh) at->second = std::min(at->second, reason);
  }

  void gather_edges() {
    for (const std::uint32_t id : drawn_) {
      const Task& t = task(id);
      for (const TensorId input : t.inputs)
        if (input.valid() && plan_.producer(input).valid())
          offer(plan_.producer(input).value, id, Reason::Data);
      if (is_receive(t.kind) && t.peer.valid()) offer(t.peer.value, id, Reason::Message);
    }
    for (const ControlEdge& e : plan_.controls)
      offer(e.before.value, e.after.value, Reason::Control);
    gather_lanes();
  }

  // A lane runs its groups one after the other.
  void gather_lanes() {
    struct Lanes {
      std::vector<std::uint32_t> before, now;
    };
    std::map<std::pair<std::uint32_t, Lane>, Lanes> lanes;
    for (const std::uint32_t id : drawn_) {
      const Task& t = task(id);
      Lanes& lane = lanes[{t.worker_index, t.lane}];
      if (!t.with_previous || lane.now.empty()) {
        if (!lane.now.empty()) lane.before = std::move(lane.now);
        lane.now.clear();
      }
      for (const std::uint32_t b : lane.before) offer(b, id, Reason::Lane);
      lane.now.push_back(id);
    }
  }

  // Leaves out what other edges imply.
  void reduce() {
    using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;
    std::map<std::uint32_t, std::size_t> index;
    for (const std::uint32_t id : drawn_) index.emplace(id, index.size());
    Graph all(drawn_.size()), fewer;
    for (const auto& [edge, reason] : edges_)
      boost::add_edge(index[edge.first], index[edge.second], all);
    std::vector<Graph::vertex_descriptor> same(drawn_.size());
    try {
      boost::transitive_reduction(
          all, fewer,
          boost::make_iterator_property_map(same.begin(), boost::get(boost::vertex_index, all)),
          boost::get(boost::vertex_index, all));
    } catch (const boost::not_a_dag&) {
      fail("the tasks of this plan wait for each other in a cycle; see ringsched verify");
    }
    std::erase_if(edges_, [&](const auto& e) {
      return !boost::edge(same[index[e.first.first]], same[index[e.first.second]], fewer).second;
    });
  }

  std::string title() const {
    if (!page_.title.empty()) return printable(page_.title, 400);
    if (!page_.heading) return {};
    std::string text = fmt::format(
        "{}, {}, {}", plan_.schedule.empty() ? "plan" : printable(plan_.schedule, kMostOfName),
        counted(plan_.problem.workers, "worker"), described(plan_.problem));
    if (part_.worker) text += fmt::format("; worker {}", part_.worker->value);
    return text;
  }

  std::string caption() const {
    std::string text;
    // About as wide as the page when its words are as small as they may be.
    const double room = page_.fixed() ? 0.9 * page_.width * 9 / page_.least_text : 1e9;
    for (const std::string& line : wrapped(title(), look_of(words_).title, room))
      text += (text.empty() ? "" : "\\n") + line;
    if (!page_.legend) return dot_text(text);
    text += plan_.problem.decodes() ? "\\nk1: the new tokens attend keys of worker 1"
                                    : "\\nq3 k1: queries of worker 3 attend keys of worker 1";
    if (std::ranges::any_of(drawn_,
                            [&](std::uint32_t id) { return timeline_.part(id) != nullptr; }))
      text += " (3a, 3b: parts of its share)";
    const bool helping = std::any_of(drawn_.begin(), drawn_.end(), [&](std::uint32_t id) {
      return is_attend(task(id).kind) && timeline_.tasks[id].queries != task(id).worker_index;
    });
    if (helping) text += "\\ndouble border: for another worker";
    const bool messages = std::any_of(edges_.begin(), edges_.end(),
                                      [](const auto& e) { return e.second == Reason::Message; });
    if (messages) text += "\\nthick: a message, in the colour of what it carries";
    if (std::ranges::any_of(drawn_, [&](std::uint32_t id) { return is_exchange(task(id).kind); }))
      text += "\\ndouble line: one exchange, which is over for all its workers at once";
    const bool controls = std::any_of(edges_.begin(), edges_.end(),
                                      [](const auto& e) { return e.second == Reason::Control; });
    if (controls) text += "\\ndotted: a limit on how far communication runs ahead";
    const bool lanes = std::any_of(edges_.begin(), edges_.end(),
                                   [](const auto& e) { return e.second == Reason::Lane; });
    if (lanes) text += "\\ndashed: one after the other in a lane";
    return dot_text(text);
  }

  // Backslashes of ours stand before an n.
  static std::string dot_text(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool ours = text[i] == '\\' && i + 1 < text.size() && text[i + 1] == 'n';
      if (text[i] == '"' || (text[i] == '\\' && !ours)) out += '\\';
      out += text[i];
    }
    return out;
  }

  void find_first_attends() {
    for (const std::uint32_t id : drawn_)
      if (is_attend(task(id).kind))
        first_attends_[task(id).step].emplace(task(id).worker_index, id);
  }

  // How far down each task stands: below all that it waits for, in one line with the other first
  // attends of its step and with the members of its exchange.
  void find_layers() {
    std::vector<std::vector<std::uint32_t>> lines;
    for (const auto& [step, of_workers] : first_attends_) {
      lines.emplace_back();
      for (const auto& [worker, id] : of_workers) lines.back().push_back(id);
    }
    for (const Exchange& e : plan_.exchanges) {
      lines.emplace_back();
      for (std::uint32_t id = e.first.value; id < e.end(); ++id)
        if (inside(id)) lines.back().push_back(id);
    }
    // Where such lines contradict each other, nothing settles, and each task stands for itself.
    if (!settle(lines)) settle({});
  }

  bool settle(const std::vector<std::vector<std::uint32_t>>& lines) {
    layer_.clear();
    for (const std::uint32_t id : drawn_) layer_[id] = 0;
    for (std::size_t round = 0; round < drawn_.size() + 2; ++round) {
      bool settled = true;
      const auto lower = [&](std::uint32_t id, std::size_t least) {
        if (layer_[id] >= least) return;
        layer_[id] = least;
        settled = false;
      };
      for (const auto& [edge, reason] : edges_) lower(edge.second, layer_[edge.first] + 1);
      for (const auto& line : lines) {
        std::size_t lowest = 0;
        for (const std::uint32_t id : line) lowest = std::max(lowest, layer_[id]);
        for (const std::uint32_t id : line) lower(id, lowest);
      }
      if (settled) return true;
    }
    return false;
  }

  // The layers from top to bottom, and at the left the steps, beside their first attends.
  void draw_spine() {
    std::map<std::size_t, std::string> names;  // of what stands in each layer
    for (const auto& [id, layer] : layer_) names[layer] += fmt::format(" t{}", id);
    std::optional<Step> last;
    for (const auto& [step, of_workers] : first_attends_) {
      add("step{} [label=\"{}{}\" shape=plaintext style=\"\" fontcolor=\"{}\"]\n", step,
          last && words_ == GraphWords::Least ? "" : "step ", step, hex(ink::grey));
      if (last)
        add("step{} -> step{} [arrowhead=none color=\"{}\"]\n", *last, step, hex(ink::rule));
      last = step;
      std::size_t highest = layer_[of_workers.begin()->second];
      for (const auto& [worker, id] : of_workers) highest = std::min(highest, layer_[id]);
      names[highest] += fmt::format(" step{}", step);
    }
    std::string chain;
    for (const auto& [layer, in_it] : names) {
      add("l{} [style=invis label=\"\" shape=point width=0]\n", layer);
      add("{{ rank=same l{}{} }}\n", layer, in_it);
      chain += fmt::format("{}l{}", chain.empty() ? "" : " -> ", layer);
    }
    add("{} [style=invis]\n", chain);
  }

  void draw_worker(std::uint32_t w) {
    const auto own = [&](std::uint32_t id) { return task(id).worker_index == w; };
    if (std::none_of(drawn_.begin(), drawn_.end(), own)) return;
    add("subgraph cluster_{} {{\nlabel=\"worker {}\" labelloc=t style=rounded color=\"{}\" "
        "penwidth=2{}\n",
        w, w, hex(worker_colour(w, plan_.problem.workers)), look_of(words_).cluster);
    for (const std::uint32_t id : drawn_)
      if (own(id)) draw_task(id);
    add("}}\n");
  }

  void draw_task(std::uint32_t id) {
    const TimelineTask& t = timeline_.tasks[id];
    std::string name = name_of_task(id);
    if (is_attend(t.kind)) {
      const Colour fill = worker_colour(t.queries, plan_.problem.workers);
      add("t{} [label=\"{}\" fillcolor=\"{}\" fontcolor=\"{}\" height=0.4{}]\n", id, name,
          hex(fill), hex(text_on(fill)), t.queries != t.worker ? " peripheries=2" : "");
    } else if (communicates(t.kind)) {
      const Colour fill = cargo_colour(timeline_.value(t));
      const TimelineExchange* const e = timeline_.exchange(id);
      if (e && words_ != GraphWords::Least && !is_whole(*e))
        name += fmt::format(" of {}", counted(e->members, "worker"));
      add("t{} [label=\"{}\" fillcolor=\"{}\" fontcolor=\"{}\" style=\"filled,rounded\" "
          "fontsize=9 height=0.2]\n",
          id, name, hex(fill), hex(text_on(fill)));
    } else if (is_output(t.kind)) {
      add("t{} [label=\"{}\" fillcolor=white shape=ellipse]\n", id, name);
    } else {
      add("t{} [label=\"{}\" fillcolor=\"{}\" fontcolor=white]\n", id, name, hex(ink::overhead));
    }
  }

  // "receive kv3 from 2", "get kv3" or "kv3".
  std::string name_of_task(std::uint32_t id) const {
    std::string full = short_name(timeline_, id);
    const TaskKind kind = task(id).kind;
    if (words_ == GraphWords::Full || is_attend(kind)) return full;
    if (is_exchange(kind))
      return words_ == GraphWords::Few ? full : full.substr(full.rfind(' ') + 1);
    const std::size_t first = full.find(' '), second = full.find(' ', first + 1);
    std::string what = full.substr(first + 1, second - first - 1);
    const bool least = words_ == GraphWords::Least;
    if (is_transfer(kind)) return least ? what : (is_send(kind) ? "send " : "get ") + what;
    if (is_output(kind)) return what;
    return !least ? full.substr(0, first) : kind == TaskKind::Merge ? "+" : what;
  }

  bool is_whole(const TimelineExchange& e) const {
    for (std::uint32_t id = e.first.value; id < e.end(); ++id)
      if (!inside(id)) return false;
    return true;
  }

  // Drawn members are side by side, joined from worker to worker.
  void join_members(const Exchange& e) {
    std::vector<std::uint32_t> members;
    for (std::uint32_t id = e.first.value; id < e.end(); ++id)
      if (inside(id)) members.push_back(id);
    if (members.size() < 2) return;
    std::ranges::sort(members, {}, [&](std::uint32_t id) { return task(id).worker_index; });
    const std::string colour =
        hex(mixed(cargo_colour(plan_.program[plan_.value(task(members[0]))]), ink::black, 0.15));
    for (std::size_t i = 1; i < members.size(); ++i)
      add("t{} -> t{} [dir=none constraint=false penwidth=2 color=\"{}:white:{}\"]\n",
          members[i - 1], members[i], colour, colour);
  }

  // The other ends of messages that leave this part.
  void draw_stubs() {
    for (const std::uint32_t id : drawn_) {
      const Task& t = task(id);
      if (!is_transfer(t.kind) || !t.peer.valid() || inside(t.peer.value)) continue;
      add("s{} [label=\"worker {}\" shape=plaintext style=\"\" fontsize=9 fontcolor=\"{}\"]\n", id,
          task(t.peer.value).worker_index, hex(ink::grey));
      if (is_send(t.kind)) {
        add("t{} -> s{} [color=\"{}\"]\n", id, id, hex(ink::rule));
      } else {
        add("s{} -> t{} [color=\"{}\"]\n", id, id, hex(ink::rule));
      }
    }
  }

  void draw_edge(const Edge& e, Reason reason) {
    switch (reason) {
      case Reason::Message:
        add("t{} -> t{} [penwidth=2 color=\"{}\"]\n", e.first, e.second,
            hex(mixed(cargo_colour(plan_.program[plan_.value(task(e.second))]), ink::black, 0.15)));
        break;
      case Reason::Data:
        add("t{} -> t{} [color=\"{}\"]\n", e.first, e.second, hex(ink::black));
        break;
      case Reason::Control:
        add("t{} -> t{} [style=dotted]\n", e.first, e.second);
        break;
      case Reason::Lane:
        add("t{} -> t{} [style=dashed color=\"{}\"]\n", e.first, e.second,
            hex(mixed(ink::grey, ink::white, 0.4)));
        break;
    }
  }

  const Plan& plan_;
  const GraphPart part_;
  const Page& page_;
  const GraphWords words_;
  const Timeline timeline_;  // who and what each task is about
  std::vector<std::uint32_t> drawn_;
  std::map<Edge, Reason> edges_;
  std::map<Step, std::map<std::uint32_t, std::uint32_t>> first_attends_;  // by step and worker
  std::map<std::uint32_t, std::size_t> layer_;                            // by task
  std::string out_;
};

}  // namespace

std::string task_graph_dot(const Plan& plan, const GraphPart& part, const Page& page,
                           GraphWords words) {
  return Drawing(plan, part, page, words).dot();
}

std::string task_graph(const Plan& plan, const GraphPart& part, GraphFormat format,
                       const Page& page) {
  for (const GraphWords words : {GraphWords::Full, GraphWords::Few}) try {
      return laid_out(task_graph_dot(plan, part, page, words), format, page);
    } catch (const TooSmall&) {  // then with fewer words
    }
  return laid_out(task_graph_dot(plan, part, page, GraphWords::Least), format, page);
}

}  // namespace ringsched
