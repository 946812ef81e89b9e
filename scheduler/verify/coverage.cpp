// Coverage. Each cell of a value is a sum, and each of its terms must go in exactly once.
//
// A partial tensor may be used only once: added to another, or sent on. Following that one use from
// each attend leads to the task, or the exchange, that completes the sum; there we compare the
// terms that arrived with the terms that its cells have. A repack of partial tensors may cut them:
// its inputs are a pool, from which each of its results takes the terms of some cells. So each
// complete tensor is right by itself, may be read any number of times, and any number of them may
// hold the same cells.
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "internal.hpp"

namespace ringsched {

namespace {

class ChunkSet {
 public:
  explicit ChunkSet(std::uint32_t chunks) : words_(chunks / 64 + 1) {}
  // False if one of them is there already.
  bool add(Region r) {
    bool all_new = true;
    for_each_word(r, [&](std::uint64_t& word, std::uint64_t bits) {
      all_new = all_new && (word & bits) == 0;
      word |= bits;
    });
    return all_new;
  }
  void remove(Region r) {
    for_each_word(r, [](std::uint64_t& word, std::uint64_t bits) { word &= ~bits; });
  }

 private:
  template <class Visit>
  void for_each_word(Region r, Visit visit) {
    for (std::uint32_t c = r.first.value; c < r.end(); c = (c / 64 + 1) * 64) {
      const std::uint64_t from = ~std::uint64_t{0} << c % 64;
      const std::uint32_t left = r.end() - c / 64 * 64;
      visit(words_[c / 64], left < 64 ? from & ~(~std::uint64_t{0} << left) : from);
    }
  }
  std::vector<std::uint64_t> words_;
};

// Terms: those of some rows of a value with some of the inner axis.
struct Terms {
  Region rows, inner;
};

// A tensor that a task completes, or all tensors that an exchange does.
struct Sum {
  TaskId task;  // of an exchange, the first member
  ValueId value;
  std::uint32_t side = 0;  // of attends: 0 if their first outputs add to it, 1 if their second do
  std::uint32_t first_attend = ~0u;  // that adds to it
  bool in_bands = false;             // some of these lack some columns
  bool is_pool = false;              // the inputs of a repack
  std::uint32_t first_draw = ~0u;    // on a pool
};

// Some rows, and columns of the attends that add to them.
struct SumCells {
  Region rows;
  ColumnRange inner_columns;
};

// Terms of a pool that belong to a sum: those of some cells.
struct Draw {
  std::uint32_t pool = 0;  // its place among the sums
  SumCells cells;
  std::uint32_t next = ~0u;  // of the same sum
};

class CoverageCheck {
 public:
  CoverageCheck(const Plan& plan, Findings& findings)
      : plan_(plan),
        findings_(findings),
        chunks_(static_cast<std::uint32_t>(plan.layout.chunks.size())),
        second_of_(plan.program.size()),
        is_sum_(plan.pieces.size()),
        all_columns_(plan.pieces.size()),
        all_{0, 1, plan.problem.tokens.value},
        met_(chunks_) {
    for (auto& by_region : expected_) by_region.resize(plan.regions.size());
    for (const Statement& s : plan.program.statements)
      if (s.asked && outputs_of(s.op) > 1) second_of_[s.outputs[0].value] = s.outputs[1];
    for (std::size_t p = 0; p < is_sum_.size(); ++p) {
      const Value& v = plan.program[plan.pieces[p].value];
      is_sum_[p] = v.is_sum;
      all_columns_[p] = plan.pieces[p].columns == v.all_columns();
    }
  }

  void run() {
    follow_uses();
    if (!findings_.empty()) return;
    find_sums();
    for (const ValueId value : plan_.program.asked) check_outputs(value);
    std::vector<const Sum*> doubtful;
    for (const Sum& s : sums_)
      if (!s.is_pool && !has_all_once(s)) doubtful.push_back(&s);
    if (gave_up()) {
      findings_.add(Rule::Coverage, {doubtful.front()->task},
                    "{}: verify gave up: repacks cut its terms in too many ways",
                    name_of(plan_, doubtful.front()->task));
      return;
    }
    const auto place = [&](const Sum* s) {
      const Tensor t = made(*s);
      return std::tuple(t.value, region(t.rows).first, t.columns.first, s->task);
    };
    std::ranges::sort(doubtful, {}, place);
    for (const Sum* s : doubtful)
      for (const SumCells& cells : cells_of(*s)) name_faults(*s, cells);
  }

 private:
  static constexpr std::uint32_t kNone = ~0u;

  bool is_sum(const Task& task) const { return is_sum_[task.piece.value] != 0; }
  ValueId value_of(TaskId id, std::uint32_t output) const {
    const ValueId first = plan_.value(plan_.tasks[id.value]);
    return output == 0 ? first : second_of_[first.value];
  }
  std::uint32_t side_of(ValueId v) const {
    return std::find(second_of_.begin(), second_of_.end(), v) == second_of_.end() ? 0 : 1;
  }
  // Calls visit(output) for each output of the task that is a sum.
  template <class Visit>
  void for_each_sum(const Task& task, Visit visit) const {
    const std::uint32_t outputs = outputs_of(task.kind);
    if (outputs == 0 || !is_sum(task)) return;
    visit(0u);
    if (outputs > 1) visit(1u);
  }
  Region region(RegionId r) const { return plan_.regions[r.value]; }

  // By task and output: where it goes, to a combination or a receive; later the sum that it belongs
  // to, or for an attend the next attend of that sum.
  std::uint32_t& goes_to(TensorId t) {
    const auto index = t.value - static_cast<std::uint32_t>(plan_.initial.size());
    return goes_to_[index % 2][index / 2];
  }

  // Is each partial tensor used, and only once?
  void follow_uses() {
    goes_to_[0].assign(plan_.tasks.size(), kNone);
    if (std::any_of(second_of_.begin(), second_of_.end(), [](ValueId v) { return v.valid(); }))
      goes_to_[1].assign(plan_.tasks.size(), kNone);
    std::size_t made = 0, used_up = 0;
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
      const Task& task = plan_.tasks[id];
      for_each_sum(task, [&](std::uint32_t out) { made += task.completes_output(out) ? 0 : 1; });
      if (task.kind == TaskKind::Output) outputs_.push_back({id});
      const bool gives_partial = (is_send(task.kind) || is_member(task.kind)) &&
                                 task.inputs[0].valid() && is_sum(task) &&
                                 !is_complete(task.inputs[0]);
      if (!gives_partial && !is_combine(task.kind)) continue;
      for (const TensorId input : task.inputs)
        if (input.valid()) used_up += use({id}, input) ? 1 : 0;
    }
    if (used_up == made) return;  // all of them, none twice
    for (std::uint32_t id = 0; id < plan_.tasks.size() && !findings_.full(); ++id)
      for_each_sum(plan_.tasks[id], [&](std::uint32_t out) {
        if (plan_.tasks[id].completes_output(out) || goes_to(plan_.output({id}, out)) != kNone)
          return;
        findings_.add(Rule::Coverage, {TaskId{id}}, "{}: its {} is neither merged nor output",
                      name_of(plan_, {id}), result(value_of({id}, out)));
      });
  }

  // Is this the first use of that partial tensor?
  bool use(TaskId id, TensorId input) {
    std::uint32_t& used = goes_to(input);
    const bool first = used == kNone;
    if (!first) {
      const TaskId user =
          is_receive(plan_.tasks[used].kind) ? plan_.tasks[used].peer : TaskId{used};
      const std::string what =
          fmt::format("{} of {}", plan_.name(plan_.value(plan_.tasks[id.value])),
                      name_of(plan_, plan_.producer(input)));
      if (id == user)
        findings_.add(Rule::Coverage, {id}, "{} counts the {} twice", name_of(plan_, id), what);
      else
        findings_.add(Rule::Coverage, {id, user}, "{} and {} both use the {}; it would count twice",
                      name_of(plan_, user), name_of(plan_, id), what);
    }
    const Task& task = plan_.tasks[id.value];
    used = is_send(task.kind)     ? task.peer.value
           : is_member(task.kind) ? plan_.exchange(task).first.value
                                  : id.value;
    return first;
  }

  bool is_complete(TensorId t) const {
    const TaskId maker = plan_.producer(t);
    return !maker.valid() ||
           plan_.tasks[maker.value].completes_output(t == plan_.output(maker) ? 0 : 1);
  }
  // For a receive or a member of an exchange, no partial tensor goes there.
  bool is_copy(TaskId id) const {
    const Task& task = plan_.tasks[id.value];
    if (is_receive(task.kind)) return is_complete(plan_.tasks[task.peer.value].inputs[0]);
    if (!is_exchange(task.kind)) return false;
    const Exchange& e = plan_.exchange(task);
    return id != e.first || !adds_up(e);  // the first stands for all
  }
  bool adds_up(const Exchange& e) const {
    for (std::uint32_t m = e.first.value; m < e.end(); ++m)
      if (const TensorId given = plan_.tasks[m].inputs[0]; given.valid())
        return !is_complete(given);
    return false;
  }

  // Back from the last task: whatever uses a tensor comes later, and knows its sum.
  void find_sums() {
    for (auto id = static_cast<std::uint32_t>(plan_.tasks.size()); id-- > 0;) {
      const Task& task = plan_.tasks[id];
      if (is_repack(task.kind)) {
        const Exchange& e = plan_.exchange(task);
        if (id == e.first.value && is_sum(task) && adds_up(e)) add_pool(e);
        continue;
      }
      for_each_sum(task, [&](std::uint32_t out) {
        std::uint32_t& to = goes_to_[out][id];
        if (!task.completes_output(out)) {
          to = goes_to_[0][to];
        } else if (is_copy({id})) {
          return;
        } else {
          to = static_cast<std::uint32_t>(sums_.size());
          const ValueId value = value_of({id}, out);
          sums_.push_back({.task = {id}, .value = value, .side = side_of(value)});
        }
        if (!is_attend(task.kind)) return;
        Sum& sum = sums_[to];
        sum.in_bands = sum.in_bands || all_columns_[task.piece.value] == 0;
        to = std::exchange(sum.first_attend, id);
      });
    }
  }

  // The inputs of a repack, and the sums that its results go to, or are.
  void add_pool(const Exchange& e) {
    const ValueId value = plan_.value(plan_.tasks[e.first.value]);
    const auto pool = static_cast<std::uint32_t>(sums_.size());
    const std::uint32_t side = side_of(value);
    sums_.push_back({.task = e.first, .value = value, .side = side, .is_pool = true});
    for (std::uint32_t m = e.first.value; m < e.end(); ++m) {
      const Task& member = plan_.tasks[m];
      const Piece& piece = plan_.piece(member);
      if (region(piece.rows).count == 0) continue;
      std::uint32_t to = static_cast<std::uint32_t>(sums_.size());
      if (member.completes_output())
        sums_.push_back({.task = {m}, .value = value, .side = side});
      else
        to = goes_to_[0][goes_to_[0][m]];
      draws_.push_back(
          {pool, {region(piece.rows), inner_columns(value, piece.columns)}, sums_[to].first_draw});
      sums_[to].first_draw = static_cast<std::uint32_t>(draws_.size()) - 1;
    }
    goes_to_[0][e.first.value] = pool;
  }

  // Calls visit(attend, the cells of it that belong to the sum; null: all).
  template <class Visit>
  void for_each_part(const Sum& s, Visit visit) const {
    for_each_attend(s, [&](TaskId a) { visit(a, nullptr); });
    if (s.first_draw != kNone) for_each_drawn(s, {{{0}, ~0u}, {0, ~0u}}, visit);
  }
  template <class Visit>
  void for_each_drawn(const Sum& s, const SumCells& within, const Visit& visit) const {
    for (std::uint32_t d = s.first_draw; d != kNone && !gave_up(); d = draws_[d].next) {
      const SumCells cells = {common(within.rows, draws_[d].cells.rows),
                              common(within.inner_columns, draws_[d].cells.inner_columns)};
      ++drawn_;
      if (cells.rows.count == 0 || cells.inner_columns.count == 0) continue;
      const Sum& pool = sums_[draws_[d].pool];
      for_each_attend(pool, [&](TaskId a) {
        ++drawn_;
        visit(a, &cells);
      });
      for_each_drawn(pool, cells, visit);
    }
  }
  // Repacks that copy parts of sums again and again have exponentially many paths through them.
  bool gave_up() const { return drawn_ > 200'000'000 + 20 * plan_.tasks.size(); }

  static Region common(Region a, Region b) {
    const std::uint32_t first = std::max(a.first.value, b.first.value);
    const std::uint32_t end = std::min(a.end(), b.end());
    return {{first}, end > first ? end - first : 0};
  }
  static ColumnRange common(ColumnRange a, ColumnRange b) {
    const std::uint32_t first = std::max(a.first, b.first), end = std::min(a.end(), b.end());
    return {first, end > first ? end - first : 0};
  }

  // In the order of the plan.
  template <class Visit>
  void for_each_attend(const Sum& s, Visit visit) const {
    for (std::uint32_t id = s.first_attend, next = id; id != kNone; id = next) {
      next = goes_to_[s.side][id];
      if (next != kNone) __builtin_prefetch(&plan_.tasks[next]);  // they lie far apart
      visit(TaskId{id});
    }
  }
  std::uint64_t pairs_of(TaskId attend) const {
    const Task& task = plan_.tasks[attend.value];
    return static_cast<std::uint64_t>(plan_.works[task.work.value].pairs.value);
  }
  ColumnRange columns(TaskId attend, const SumCells* part = nullptr) const {
    const ColumnRange all = plan_.piece(plan_.tasks[attend.value]).columns;
    return part ? common(all, part->inner_columns) : all;
  }
  // Rows of a second output are keys, and its inner axis is queries.
  Terms terms(std::uint32_t side, TaskId attend) const {
    const Task& task = plan_.tasks[attend.value];
    const Region queries = region(plan_.rows(task)), keys = region(task.keys);
    return side == 0 ? Terms{queries, keys} : Terms{keys, queries};
  }
  Tensor made(const Sum& s) const {
    const bool by_attend = is_attend(plan_.tasks[s.task.value].kind);
    return plan_.tensor(plan_.output(s.task, by_attend ? s.side : 0));
  }
  // The columns of attends that add to these columns of a value.
  ColumnRange inner_columns(ValueId value, ColumnRange columns) const {
    const std::uint32_t group = plan_.program[value].columns.group;
    return {columns.first * group, columns.count * group};
  }

  // `all`, cut wherever one of these begins or ends: within a band, all columns have the same
  // terms.
  static std::vector<ColumnRange> bands(ColumnRange all, std::vector<std::uint32_t> cuts) {
    cuts.insert(cuts.end(), {all.first, all.end()});
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<ColumnRange> out;
    for (std::size_t i = 1; i < cuts.size(); ++i)
      if (const ColumnRange c{cuts[i - 1], cuts[i] - cuts[i - 1]}; all.contains(c))
        out.push_back(c);
    return out;
  }
  // Where the columns of attends begin and end that lack some of these.
  std::vector<std::uint32_t> cuts(const Sum& s, ColumnRange all) const {
    std::vector<std::uint32_t> out;
    if (!s.in_bands && s.first_draw == kNone) return out;
    for_each_part(s, [&](TaskId a, const SumCells* part) {
      const ColumnRange c = columns(a, part);
      if (c != all && c.count > 0) out.insert(out.end(), {c.first, c.end()});
    });
    return out;
  }
  // SumCells whose cells all have the same terms.
  std::vector<SumCells> cells_of(const Sum& s) const {
    if (is_exchange(plan_.tasks[s.task.value].kind)) return cells_of_exchange(s);
    const Tensor t = made(s);
    const ColumnRange all = inner_columns(t.value, t.columns);
    std::vector<SumCells> out;
    for (const ColumnRange band : bands(all, cuts(s, all))) out.push_back({region(t.rows), band});
    return out;
  }
  // What its members get, together: in each band, the rows that any of them gets.
  std::vector<SumCells> cells_of_exchange(const Sum& s) const {
    struct Got {
      Region rows;
      ColumnRange columns;
    };
    const Exchange& e = plan_.exchange(plan_.tasks[s.task.value]);
    std::vector<Got> got;
    std::vector<std::uint32_t> ends = cuts(s, {});
    ColumnRange all;
    for (std::uint32_t m = e.first.value; m < e.end(); ++m) {
      const Piece& piece = plan_.piece(plan_.tasks[m]);
      if (region(piece.rows).count == 0) continue;
      got.push_back({region(piece.rows), inner_columns(s.value, piece.columns)});
      const ColumnRange c = got.back().columns;
      ends.insert(ends.end(), {c.first, c.end()});
      const std::uint32_t first = all.count == 0 ? c.first : std::min(all.first, c.first);
      all = {first, std::max(all.end(), c.end()) - first};
    }
    std::ranges::sort(got, {}, [](const Got& g) { return g.rows.first; });
    std::vector<SumCells> out;
    for (const ColumnRange band : bands(all, std::move(ends))) {
      const std::size_t before = out.size();
      for (const Got& g : got) {
        if (!g.columns.contains(band)) continue;
        if (out.size() > before && g.rows.first.value <= out.back().rows.end()) {
          Region& run = out.back().rows;
          run.count = std::max(run.end(), g.rows.end()) - run.first.value;
        } else {
          out.push_back({g.rows, band});
        }
      }
    }
    return out;
  }
  // The terms of an attend for some rows, and how many pairs these are.
  std::pair<Terms, std::uint64_t> terms_within(const Sum& s, TaskId attend, Region rows,
                                               const SumCells* part) const {
    Terms t = terms(s.side, attend);
    if (part) rows = common(rows, part->rows);
    if (rows.contains(t.rows)) return {t, pairs_of(attend)};
    t.rows = common(t.rows, rows);
    return {t, t.rows.count > 0 ? visible(s.side, tokens(t.rows), tokens(t.inner)) : 0};
  }

  TokenSet tokens(const Region& r) const { return plan_.layout.ranges(r); }
  TokenSet all_tokens() const { return std::span(&all_, 1); }
  std::uint64_t visible(std::uint32_t side, const TokenSet& rows, const TokenSet& inner) const {
    const Mask& mask = plan_.problem.mask;
    const Tile tile = side == 0 ? mask.tile(rows, inner) : mask.tile(inner, rows);
    return static_cast<std::uint64_t>(tile.pairs.value);
  }

  // Attends are rectangles in the table of rows and inner chunks. If no two of them overlap, and
  // they have as many pairs as the mask shows, they have each pair once.
  bool has_all_once(const Sum& s) {
    const std::vector<SumCells> all = cells_of(s);
    return std::ranges::all_of(all, [&](const SumCells& cells) {
      in_band_.clear();
      std::uint64_t pairs = 0;  // too many for this only if attends overlap
      for_each_part(s, [&](TaskId a, const SumCells* part) {
        if ((all.size() > 1 || part) && !columns(a, part).contains(cells.inner_columns)) return;
        const auto [terms, count] = terms_within(s, a, cells.rows, part);
        if (terms.rows.count == 0) return;
        in_band_.push_back(terms);
        pairs += count;
      });
      return !gave_up() && pairs == expected(s, cells.rows) && are_disjoint(in_band_);
    });
  }
  // Pairs that the mask shows of these rows.
  std::uint64_t expected(const Sum& s, Region rows) {
    std::optional<std::uint64_t>& known = expected_[s.side][made(s).rows.value];
    if (region(made(s).rows) == rows) {
      if (!known) known = visible(s.side, tokens(rows), all_tokens());
      return *known;
    }
    // Rows that members of an exchange have together: the same in most of its bands.
    const std::uint64_t key = std::uint64_t{rows.first.value} << 32 | rows.count;
    const auto [together, is_new] = expected_together_[s.side].try_emplace(key);
    if (is_new) together->second = visible(s.side, tokens(rows), all_tokens());
    return together->second;
  }

  // Goes through the rows and keeps the set of inner chunks that the row's rectangles have.
  bool are_disjoint(std::vector<Terms>& by_first) {
    std::vector<Terms> by_end;
    std::uint32_t first = ~0u, end = 0;  // of all inner chunks
    bool alike = true;
    for (const Terms& t : by_first) {
      first = std::min(first, t.inner.first.value);
      end = std::max(end, t.inner.end());
      alike = alike && t.rows == by_first[0].rows;
    }
    if (!alike) {
      by_end = by_first;
      std::ranges::sort(by_first, {}, [](const Terms& t) { return t.rows.first; });
      std::ranges::sort(by_end, {}, [](const Terms& t) { return t.rows.end(); });
    }
    bool disjoint = true;
    auto ended = by_end.begin();
    for (const Terms& t : by_first) {
      for (; !alike && ended->rows.end() <= t.rows.first.value; ++ended) met_.remove(ended->inner);
      disjoint = met_.add(t.inner) && disjoint;
    }
    if (first < end) met_.remove({{first}, end - first});
    return disjoint;
  }

  // The value that attends add to is called "partial" until all its terms are there.
  std::string result(ValueId value) const {
    std::string name(plan_.name(value));
    return name == "partial" ? "result" : name;
  }
  // "partial of chunk 3, heads 0-1"
  std::string cells(ValueId value, std::uint32_t chunk, ColumnRange columns) const {
    return fmt::format("{} of chunk {}{}", plan_.name(value), chunk, of_columns(value, columns));
  }
  std::string of_columns(ValueId value, ColumnRange columns) const {
    const Value& v = plan_.program[value];
    return columns == v.all_columns() ? "" : ", " + name_of(v.columns, columns);
  }

  // Each result is output once, wherever it has terms. In decoding, several workers may output it,
  // each of them once.
  void check_outputs(ValueId value) {
    std::vector<std::uint32_t> cuts;
    std::vector<TaskId> of_value;
    for (const TaskId id : outputs_) {
      const Piece& piece = plan_.piece(plan_.tasks[id.value]);
      if (plan_.program.unrounded(piece.value) != value) continue;
      of_value.push_back(id);
      cuts.insert(cuts.end(), {piece.columns.first, piece.columns.end()});
    }
    const auto worker = [&](TaskId id) { return plan_.tasks[id.value].worker(); };
    const bool decodes = plan_.problem.decodes();
    if (decodes) std::ranges::stable_sort(of_value, {}, worker);
    const std::uint32_t side = side_of(value);
    for (const ColumnRange band : bands(plan_.program[value].all_columns(), std::move(cuts))) {
      std::vector<TaskId> output(chunks_);
      for (const TaskId id : of_value) {
        const Piece& piece = plan_.piece(plan_.tasks[id.value]);
        if (!piece.columns.contains(band)) continue;
        const Region r = region(piece.rows);
        for (std::uint32_t c = r.first.value; c < r.end(); ++c) {
          if (output[c].valid() && (!decodes || worker(output[c]) == worker(id)))
            findings_.add(Rule::Coverage, {id, output[c]}, "{} and {} both output the {}",
                          name_of(plan_, output[c]), name_of(plan_, id), cells(value, c, band));
          output[c] = id;
        }
      }
      for (std::uint32_t c = 0; c < chunks_ && !findings_.full(); ++c)
        if (!output[c].valid() && has_query(plan_.problem, plan_.layout.chunks[c].start) &&
            visible(side, tokens({{c}, 1}), all_tokens()) > 0)
          findings_.add_missing(Rule::Coverage, plan_.layout.owner({c}),
                                "worker {} does not output the {}", plan_.layout.owner({c}).value,
                                cells(value, c, band));
    }
  }

  // Goes through the terms one by one.
  void name_faults(const Sum& s, const SumCells& cells) {
    const Region rows = cells.rows;
    std::vector<std::vector<TaskId>> of_row(rows.count);
    for_each_part(s, [&](TaskId a, const SumCells* part) {
      if (!columns(a, part).contains(cells.inner_columns)) return;
      const Region r = terms_within(s, a, rows, part).first.rows;
      for (std::uint32_t c = r.first.value; c < r.end(); ++c)
        of_row[c - rows.first.value].push_back(a);
    });
    for (std::uint32_t row = 0; row < rows.count && !findings_.full(); ++row)
      name_faults(s, cells.inner_columns, rows.first.value + row, of_row[row]);
  }

  // Of one row. Called only if pairs are missing, to find out which.
  void name_faults(const Sum& s, ColumnRange band, std::uint32_t row,
                   const std::vector<TaskId>& attends) {
    const auto pairs = [&](std::uint32_t chunk) {
      return visible(s.side, tokens({{row}, 1}), tokens({{chunk}, 1}));
    };
    std::vector<TaskId> met(attends.empty() ? 0 : chunks_);
    std::uint64_t found = 0;
    for (const TaskId id : attends) {
      const Region inner = terms(s.side, id).inner;
      for (std::uint32_t c = inner.first.value; c < inner.end() && !findings_.full(); ++c) {
        const std::uint64_t n = pairs(c);
        if (!met[c].valid())
          found += n;
        else if (n > 0)
          findings_.add(Rule::Coverage, {id, met[c]}, "{} twice: by {} and by {}",
                        term(s, "counts", band, row, c), name_of(plan_, met[c]),
                        name_of(plan_, id));
        met[c] = id;
      }
    }
    if (found == visible(s.side, tokens({{row}, 1}), all_tokens())) return;
    for (std::uint32_t c = 0; c < chunks_ && !findings_.full(); ++c)
      if ((attends.empty() || !met[c].valid()) && pairs(c) > 0)
        findings_.add(Rule::Coverage, {s.task}, "{}; see {}", term(s, "lacks", band, row, c),
                      name_of(plan_, s.task));
  }

  // "the key_value_gradient of key chunk 3, kv_heads 2-3, lacks query chunk 5, heads 4"
  std::string term(const Sum& s, const char* verb, ColumnRange band, std::uint32_t row,
                   std::uint32_t inner) const {
    Tensor cell = made(s);
    cell.columns = band.grouped(plan_.program[cell.value].columns.group);
    std::string some;
    if (s.first_attend != kNone && band != inner_columns(cell.value, cell.columns)) {
      const Task& attend = plan_.tasks[s.first_attend];
      some = of_columns(plan_.value(attend), band);
    }
    const std::string columns = of_columns(cell.value, cell.columns);
    return fmt::format("the {} of {} chunk {}{} {} {} chunk {}{}", result(cell.value),
                       s.side == 0 ? "query" : "key", row, columns.empty() ? "" : columns + ",",
                       verb, s.side == 0 ? "key" : "query", inner, some);
  }

  const Plan& plan_;
  Findings& findings_;
  std::uint32_t chunks_;
  std::vector<ValueId> second_of_;                  // by value of the first output
  std::vector<std::uint8_t> is_sum_, all_columns_;  // by piece
  const TokenRange all_;
  TaskColumn<std::uint32_t> goes_to_[2];
  TaskColumn<TaskId> outputs_;
  std::vector<Sum> sums_;
  std::vector<Draw> draws_;
  mutable std::uint64_t drawn_ = 0;  // what following draws has cost
  ChunkSet met_;
  std::vector<Terms> in_band_;
  std::vector<std::optional<std::uint64_t>> expected_[2];  // pairs, by side and region
  std::unordered_map<std::uint64_t, std::uint64_t> expected_together_[2];  // by side, other rows
};

}  // namespace

void verify_coverage(const Plan& plan, Findings& findings) { CoverageCheck(plan, findings).run(); }

}  // namespace ringsched
