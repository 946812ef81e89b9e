// Structure and communication: what can be said of each task on its own.
#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

#include "jobs.hpp"

namespace ringsched {

namespace {

// What is asked about a region again and again.
struct Sizes {
  explicit Sizes(const Plan& plan) : rows(plan) {
    for (const Region& r : plan.regions)
      tokens.emplace_back(plan.layout.ranges(r.count <= kSmall ? r : Region{r.first, 1}));
    for (std::uint32_t kind = 0; kind < kTensorKinds; ++kind)
      row_bytes[kind] = tensor_bytes(plan.problem, static_cast<TensorKind>(kind), Tokens{1}).value;
  }
  Bytes bytes(TensorKind kind, Tokens of) const {
    return {of.value * row_bytes[static_cast<std::size_t>(kind)]};
  }

  static constexpr std::uint32_t kSmall = 4;  // chunks
  const RegionRows rows;
  std::vector<TokenSet> tokens;  // by region, if it is small
  std::array<std::int64_t, kTensorKinds> row_bytes;
};

class StructureCheck {
 public:
  StructureCheck(const Plan& plan, const Sizes& sizes, Findings& findings)
      : plan_(plan), sizes_(sizes), findings_(findings) {}

  void run(std::uint32_t first, std::uint32_t end) {
    for (std::uint32_t id = first; id < end && !findings_.full(); ++id) check_task({id});
  }

 private:
  template <class... Args>
  void wrong(TaskId id, fmt::format_string<Args...> text, Args&&... args) {
    findings_.add(Rule::Structure, {id}, "{}: {}", name_of(plan_, id),
                  fmt::format(text, std::forward<Args>(args)...));
  }

  // The tensor a task reads as its `index`-th input, if it may.
  std::optional<Tensor> input(TaskId id, std::size_t index) {
    const Task& task = plan_.tasks[id.value];
    const TensorId t = task.inputs[index];
    if (!t.valid()) {
      wrong(id, "input {} is missing", index);
      return {};
    }
    if (t.value >= plan_.initial.size() + 2 * plan_.tasks.size()) {
      wrong(id, "input {} is no tensor of this plan", index);
      return {};
    }
    if (const TaskId maker = plan_.producer(t); maker.valid()) {
      const Task& made_by = plan_.tasks[maker.value];
      if (maker >= id) {
        findings_.add(Rule::Communication, {id, maker},
                      "{} uses its input {} before it is there: it is made by {}",
                      name_of(plan_, id), index, name_of(plan_, maker));
        return {};
      }
      if ((t.value - plan_.initial.size()) % 2 >= outputs_of(made_by.kind)) {
        wrong(id, "input {} is an output that {} does not have", index, name_of(plan_, maker));
        return {};
      }
    }
    const Tensor tensor = plan_.tensor(t);
    if (tensor.worker != task.worker()) {
      findings_.add(Rule::Communication, {id},
                    "{} reads the {} of {} held by worker {}, which it has not received",
                    name_of(plan_, id), to_text(tensor.kind),
                    name_of(plan_.regions[tensor.region.value]), tensor.worker.value);
      return {};
    }
    return tensor;
  }

  bool is_there(TaskId id, TensorId t) const {
    if (t.value < plan_.initial.size()) return true;
    if (t.value >= plan_.initial.size() + 2 * plan_.tasks.size()) return false;
    const TaskId maker = plan_.producer(t);
    return maker < id &&
           (t.value - plan_.initial.size()) % 2 < outputs_of(plan_.tasks[maker.value].kind);
  }

  bool is_kind(TaskId id, std::size_t index, const Tensor& t, TensorKind wanted) {
    if (t.kind == wanted) return true;
    wrong(id, "input {} is a {}, and should be a {}", index, to_text(t.kind), to_text(wanted));
    return false;
  }

  bool is_within(TaskId id, RegionId part, const Tensor& t) {
    const Region p = plan_.regions[part.value], whole = plan_.regions[t.region.value];
    if (whole.contains(p)) return true;
    wrong(id, "it uses {} of a {} that holds only {}", name_of(p), to_text(t.kind), name_of(whole));
    return false;
  }

  void makes(TaskId id, TensorKind wanted) {
    const Task& task = plan_.tasks[id.value];
    if (task.makes != wanted)
      wrong(id, "it should make a {}, not a {}", to_text(wanted), to_text(task.makes));
  }

  void check_task(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    switch (task.kind) {
      case TaskKind::Attend:
      case TaskKind::AttendBackward:
        check_attend(id);
        break;
      case TaskKind::Prepare:
        check_prepare(id);
        break;
      case TaskKind::Merge:
      case TaskKind::Reduce:
        check_merge(id);
        break;
      case TaskKind::Send:
        check_send(id);
        break;
      case TaskKind::Receive:
        check_receive(id);
        break;
      case TaskKind::Output:
        check_output(id);
        break;
    }
    constexpr std::array<std::size_t, kTaskKinds> inputs = {2, 3, 2, 2, 2, 1, 0, 1};
    for (std::size_t i = inputs[static_cast<std::size_t>(task.kind)]; i < task.inputs.size(); ++i)
      if (task.inputs[i].valid()) wrong(id, "it has an input too many");
    if (!is_transfer(task.kind)) {
      if (task.lane != Lane::Compute) wrong(id, "it computes, but not on the compute lane");
      if (task.with_previous) wrong(id, "only sends and receives are posted in groups");
    }
    check_work(id);
  }

  void check_attend(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    const bool backward = task.kind == TaskKind::AttendBackward;
    makes(id, backward ? TensorKind::QueryGradient : TensorKind::Partial);
    if (const auto q = input(id, 0)) {
      is_kind(id, 0, *q, TensorKind::Query);
      is_within(id, task.region, *q);
    }
    if (backward) {
      if (const auto g = input(id, 1)) {
        is_kind(id, 1, *g, TensorKind::PreparedGradient);
        is_within(id, task.region, *g);
      }
    }
    const std::size_t last = key_value_input(task.kind);
    if (const auto k = input(id, last)) {
      is_kind(id, last, *k, TensorKind::KeyValue);
      is_within(id, task.keys, *k);
    }
    if (backward && plan_.problem.pass == Pass::Forward)
      wrong(id, "the problem has no backward pass");
    if (!backward && plan_.problem.pass == Pass::Backward)
      wrong(id, "the problem has no forward pass");
  }

  void check_prepare(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    makes(id, TensorKind::PreparedGradient);
    if (const auto o = input(id, 0)) is_kind(id, 0, *o, TensorKind::Partial);
    if (const auto g = input(id, 1)) {
      is_kind(id, 1, *g, TensorKind::OutputGradient);
      is_within(id, task.region, *g);
    }
  }

  void check_merge(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    const auto a = input(id, 0), b = input(id, 1);
    if (task.kind == TaskKind::Merge) makes(id, TensorKind::Partial);
    if (task.kind == TaskKind::Reduce && task.makes != TensorKind::QueryGradient &&
        task.makes != TensorKind::KeyValueGradient)
      wrong(id, "it adds gradients, and cannot make a {}", to_text(task.makes));
    if (!a || !b) return;
    if (!is_kind(id, 0, *a, task.makes) || !is_kind(id, 1, *b, task.makes)) return;
    const Region ra = plan_.regions[a->region.value], rb = plan_.regions[b->region.value];
    const std::uint32_t first = std::min(ra.first.value, rb.first.value);
    const Region both{{first}, std::max(ra.end(), rb.end()) - first};
    if (const Region made = plan_.regions[task.region.value]; made != both)
      wrong(id, "{} and {} give {}, not {}", name_of(ra), name_of(rb), name_of(both),
            name_of(made));
  }

  void check_send(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    if (const auto t = input(id, 0)) {
      if (!is_kind(id, 0, *t, task.makes) || !is_within(id, task.region, *t)) return;
      if (is_result(t->kind) && plan_.regions[task.region.value] != plan_.regions[t->region.value])
        wrong(id, "a {} is handed over whole, or the rest of it is lost", to_text(t->kind));
    }
    const TaskId peer = task.peer;
    if (peer.value >= plan_.tasks.size() || plan_.tasks[peer.value].kind != TaskKind::Receive ||
        plan_.tasks[peer.value].peer != id) {
      findings_.add(Rule::Communication, {id}, "{} has no receive", name_of(plan_, id));
      return;
    }
    const Task& receive = plan_.tasks[peer.value];
    if (peer < id)
      findings_.add(Rule::Communication, {id, peer}, "{} stands before {}, its send",
                    name_of(plan_, peer), name_of(plan_, id));
    if (receive.worker_index == task.worker_index) wrong(id, "it sends to its own worker");
    if (receive.makes != task.makes || receive.region != task.region)
      findings_.add(Rule::Communication, {id, peer},
                    "{} carries {} ({} bytes), but {} expects {} {} ({} bytes)", name_of(plan_, id),
                    name_of(plan_.regions[task.region.value]),
                    plan_.bytes(task.makes, task.region).value, name_of(plan_, peer),
                    to_text(receive.makes), name_of(plan_.regions[receive.region.value]),
                    plan_.bytes(receive.makes, receive.region).value);
  }

  void check_receive(TaskId id) {
    const TaskId peer = plan_.tasks[id.value].peer;
    if (peer.value >= plan_.tasks.size() || plan_.tasks[peer.value].kind != TaskKind::Send ||
        plan_.tasks[peer.value].peer != id)
      findings_.add(Rule::Communication, {id}, "{} has no send", name_of(plan_, id));
  }

  void check_output(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    if (!is_result(task.makes)) wrong(id, "a {} is not a result", to_text(task.makes));
    if (const auto t = input(id, 0)) {
      if (!is_kind(id, 0, *t, task.makes)) return;
      if (plan_.regions[t->region.value] != plan_.regions[task.region.value])
        wrong(id, "its input holds {}", name_of(plan_.regions[t->region.value]));
    }
    if (!plan_.layout.share(task.worker()).contains(plan_.regions[task.region.value]))
      wrong(id, "these chunks live on worker {}",
            plan_.layout.owner(plan_.regions[task.region.value].first).value);
  }

  // Tiles of many chunks are remembered: a short file can ask for the same one very often.
  Tile tile_of(RegionId queries, RegionId keys) {
    const Region q = plan_.regions[queries.value], k = plan_.regions[keys.value];
    const Mask& mask = plan_.problem.mask;
    if (q.count <= Sizes::kSmall && k.count <= Sizes::kSmall)
      return mask.tile(sizes_.tokens[queries.value], sizes_.tokens[keys.value]);
    const std::uint64_t key = (std::uint64_t{queries.value} << 32) | keys.value;
    const auto [known, is_new] = large_tiles_.try_emplace(key);
    if (is_new) known->second = mask.tile(plan_.layout.ranges(q), plan_.layout.ranges(k));
    return known->second;
  }

  // The work a task states is what its regions amount to.
  void check_work(TaskId id) {
    const Task& task = plan_.tasks[id.value];
    const Work& stated = plan_.works[task.work.value];
    if (is_attend(task.kind)) {
      const Tile tile = tile_of(task.region, task.keys);
      if (stated.rows != tile.rows || stated.keys != tile.keys || stated.pairs != tile.pairs ||
          stated.form != tile.form)
        wrong(id, "it states {} pairs of {} x {}, and has {} of {} x {}", stated.pairs.value,
              stated.rows, stated.keys, tile.pairs.value, tile.rows, tile.keys);
      return;
    }
    TensorKind kind = task.makes;
    RegionId region = task.region;
    if (task.kind == TaskKind::Merge || task.kind == TaskKind::Reduce) {
      if (!is_there(id, task.inputs[1])) return;  // said already
      region = plan_.tensor(task.inputs[1]).region;
    } else if (task.kind == TaskKind::Prepare) {
      kind = TensorKind::OutputGradient;
    }
    const Tokens rows = sizes_.rows[region];
    const Bytes bytes = sizes_.bytes(kind, rows);
    if (stated.rows != rows.value || stated.bytes != bytes)
      findings_.add(Rule::Communication, {id},
                    "{}: it states {} rows and {} bytes, and has {} and {}", name_of(plan_, id),
                    stated.rows, stated.bytes.value, rows.value, bytes.value);
  }

  static bool is_result(TensorKind kind) {
    return kind == TensorKind::Partial || kind == TensorKind::QueryGradient ||
           kind == TensorKind::KeyValueGradient;
  }

  const Plan& plan_;
  const Sizes& sizes_;
  Findings& findings_;
  std::unordered_map<std::uint64_t, Tile> large_tiles_;
};

}  // namespace

void verify_structure(const Plan& plan, std::uint32_t threads, Findings& findings) {
  verify_tables(plan, threads, findings);
  if (!findings.empty()) return;  // tasks look things up in them
  const Sizes sizes(plan);
  const auto check = [&](std::uint32_t first, std::uint32_t end, Findings& found) {
    StructureCheck(plan, sizes, found).run(first, end);
  };
  Findings of_edges = findings.fresh();
  std::vector<Job> jobs = jobs_over_tasks(plan, threads, check);
  jobs.emplace_back([&](Findings&) { verify_edges(plan, of_edges); });
  run_jobs(threads, jobs, findings);
  if (findings.empty()) findings.append(std::move(of_edges));
}

}  // namespace ringsched
