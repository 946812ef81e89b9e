// Coverage. A result (a partial, a gradient) is a sum of what attends made, so it may be used once
// only: merged, sent on or put out. Following that one use from each attend leads to the output it
// ends in; what remains is to compare the pairs that were computed with those the mask shows.
#include <algorithm>

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

struct Rectangle {
  PieceId made;
  RegionId keys;
};

// The keys of attends, by a row of theirs. No row: the attend is left out.
class KeysByRow {
 public:
  static constexpr std::uint32_t kNoRow = ~0u;

  KeysByRow(std::uint32_t rows, const TaskColumn<Rectangle>& attends,
            const std::vector<std::uint32_t>& row_of_piece)
      : first_(rows + 2) {
    const auto for_each = [&](auto&& visit) {
      for (const Rectangle& a : attends)
        if (const std::uint32_t row = row_of_piece[a.made.value]; row != kNoRow) visit(row, a.keys);
    };
    for_each([&](std::uint32_t row, RegionId) { ++first_[row + 1]; });
    for (std::size_t row = 1; row < first_.size(); ++row) first_[row] += first_[row - 1];
    keys_.resize(first_.back());
    std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
    for_each([&](std::uint32_t row, RegionId keys) { keys_[next[row]++] = keys; });
  }
  std::span<const RegionId> at(std::uint32_t row) const {
    return std::span(keys_).subspan(first_[row], first_[row + 1] - first_[row]);
  }

 private:
  std::vector<std::uint32_t> first_;
  TaskColumn<RegionId> keys_;
};

class CoverageCheck {
 public:
  CoverageCheck(const Plan& plan, Findings& findings)
      : plan_(plan),
        findings_(findings),
        chunks_(static_cast<std::uint32_t>(plan.layout.chunks.size())),
        second_of_(plan.program.size()),
        attended_(plan.pieces.size()),
        pairs_(plan.pieces.size()) {
    for (const Statement& s : plan.program.statements)
      if (s.asked && outputs_of(s.op) > 1) second_of_[s.outputs[0].value] = s.outputs[1];
  }

  void run() {
    follow_uses();
    if (!findings_.empty()) return;
    check_prepared();
    Findings claims = findings_.fresh();
    check_claims(claims);
    use_ = {};  // large plans need the room
    second_use_ = {};
    for (const ValueId value : plan_.program.asked)
      for (const ColumnRange band : bands(value, made_by(outputs_))) check_outputs(value, band);
    for (const Statement& s : plan_.program.statements)
      if (is_attend(s.op) && s.asked)
        for (const ColumnRange band : bands(s.outputs[0], attended_))
          check_terms(s.op, s.outputs[0], band);
    if (findings_.empty()) findings_.append(std::move(claims));
  }

 private:
  // The columns of a value, cut wherever one of these pieces begins or ends: within a band, all
  // columns fare alike.
  std::vector<ColumnRange> bands(ValueId value, const std::vector<bool>& of_pieces) const {
    std::vector<std::uint32_t> cuts = {0, plan_.program[value].columns.count};
    for (std::uint32_t p = 0; p < plan_.pieces.size(); ++p) {
      const Piece& piece = plan_.pieces[p];
      if (!of_pieces[p] || piece.value != value) continue;
      if (piece.columns == plan_.program[value].all_columns()) continue;
      cuts.push_back(piece.columns.first);
      cuts.push_back(piece.columns.end());
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    std::vector<ColumnRange> out;
    for (std::size_t i = 1; i < cuts.size(); ++i)
      out.push_back({cuts[i - 1], cuts[i] - cuts[i - 1]});
    return out;
  }

  std::vector<bool> made_by(const TaskColumn<TaskId>& tasks) const {
    std::vector<bool> out(plan_.pieces.size());
    for (const TaskId id : tasks) out[plan_.tasks[id.value].piece.value] = true;
    return out;
  }

  // " of heads 2-3", where the band is not all there is.
  std::string of_band(ValueId value, ColumnRange band) const {
    if (band == plan_.program[value].all_columns()) return {};
    return " of " + name_of(plan_.program[value].columns, band);
  }

  void add_attend(const Task& task) {
    attends_.push_back({task.piece, task.keys});
    attended_[task.piece.value] = true;
    pairs_[task.piece.value] +=
        static_cast<std::uint64_t>(plan_.works[task.work.value].pairs.value);
  }

  void check_terms(TaskKind kind, ValueId value, ColumnRange band) {
    std::vector<std::uint32_t> first(plan_.pieces.size(), KeysByRow::kNoRow), end = first;
    std::uint64_t pairs = 0;
    for (std::uint32_t p = 0; p < plan_.pieces.size(); ++p) {
      const Piece& piece = plan_.pieces[p];
      if (!attended_[p] || piece.value != value || !piece.columns.contains(band)) continue;
      first[p] = plan_.regions[piece.rows.value].first.value;
      end[p] = plan_.regions[piece.rows.value].end();
      pairs += pairs_[p];
    }
    if (!meets_all_once(first, end, pairs)) check_rows(kind, value, band);
  }

  // use_[output slot of a task]: the task that merges, sends or puts it out.
  TaskId& use(TensorId t) {
    const auto index = t.value - static_cast<std::uint32_t>(plan_.initial.size());
    return index % 2 == 0 ? use_[index / 2] : second_use_[index / 2];
  }

  void follow_uses() {
    use_.assign(plan_.tasks.size(), {});
    if (has_second_outputs()) second_use_.assign(plan_.tasks.size(), {});
    std::size_t made = 0, used_up = 0;
    for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
      const Task& task = plan_.tasks[id];
      for (std::uint32_t out = 0; out < outputs_of(task.kind); ++out)
        if (is_sum(value_of({id}, out))) ++made;
      if (is_attend(task.kind)) add_attend(task);
      if (task.kind == TaskKind::Prepare) prepares_.push_back({id});
      if (task.kind == TaskKind::Output) outputs_.push_back({id});
      if (task.completes != 0 && is_sum(plan_.value(task))) claims_.push_back({id});
      if (operation(task.kind).does == Operation::Does::Compute || !is_sum(plan_.value(task)))
        continue;
      for (const TensorId input : task.inputs)
        if (input.valid()) used_up += follow({id}, input) ? 1 : 0;
    }
    if (used_up == made) return;  // all of them, none twice
    for (std::uint32_t id = 0; id < plan_.tasks.size() && !findings_.full(); ++id)
      for (std::uint32_t out = 0; out < outputs_of(plan_.tasks[id].kind); ++out) {
        const ValueId value = value_of({id}, out);
        if (is_sum(value) && !use(plan_.output({id}, out)).valid())
          findings_.add(Rule::Coverage, {TaskId{id}}, "{}: its {} is never merged",
                        name_of(plan_, {id}), plan_.name(value));
      }
  }

  bool has_second_outputs() const {
    return std::any_of(second_of_.begin(), second_of_.end(), [](ValueId v) { return v.valid(); });
  }
  bool is_sum(ValueId v) const { return plan_.program[v].is_sum; }
  ValueId value_of(TaskId id, std::uint32_t output) const {
    const ValueId first = plan_.value(plan_.tasks[id.value]);
    return output == 0 ? first : second_of_[first.value];
  }

  // Is this the first use of that result?
  bool follow(TaskId id, TensorId input) {
    const Task& task = plan_.tasks[id.value];
    if (!plan_.producer(input).valid()) {
      findings_.add(Rule::Coverage, {id},
                    "{} reads a forward result that was given: only prepare may",
                    name_of(plan_, id));
      return false;
    }
    TaskId& used = use(input);
    const bool first = !used.valid();
    if (!first)
      findings_.add(Rule::Coverage, {id, used},
                    "{} uses the {} of {} again, which {} has used: it would count twice",
                    name_of(plan_, id), plan_.name(plan_.value(task)),
                    name_of(plan_, plan_.producer(input)), name_of(plan_, used));
    used = id;
    return first;
  }

  // A sum marked complete must be a result, and no task may add to it; each result must be marked.
  // Every result has all its terms, so the marks are right.
  void check_claims(Findings& findings) {
    for (const TaskId id : outputs_)
      if (!plan_.tensor(plan_.tasks[id.value].inputs[0]).complete)
        findings.add(Rule::Coverage, {id}, "{}: its input is not marked complete",
                     name_of(plan_, id));
    for (const TaskId id : claims_)
      for (std::uint32_t out = 0; out < outputs_of(plan_.tasks[id.value].kind); ++out) {
        if (!plan_.tasks[id.value].completes_output(out) || !is_sum(value_of(id, out))) continue;
        const TaskId user = use(plan_.output(id, out));
        if (plan_.tasks[user.value].kind == TaskKind::Output) continue;
        findings.add(Rule::Coverage, {id, user},
                     "{} marks its {} complete, but {} still adds to it", name_of(plan_, id),
                     plan_.name(value_of(id, out)), name_of(plan_, user));
      }
  }

  void check_prepared() {
    for (const TaskId id : prepares_) {
      const Task& task = plan_.tasks[id.value];
      if (const TaskId maker = plan_.producer(task.inputs[0]);
          maker.valid() && !plan_.tensor(task.inputs[0]).complete)
        findings_.add(Rule::Coverage, {id, maker},
                      "{} reads the partial of {}, which is not the final one: {} still adds to it",
                      name_of(plan_, id), name_of(plan_, maker),
                      name_of(plan_, use(task.inputs[0])));
      const Region needed = plan_.regions[plan_.rows(task).value];
      const Region given = plan_.regions[plan_.tensor(task.inputs[0]).rows.value];
      for (std::uint32_t c = needed.first.value; c < needed.end(); ++c)
        if (!given.contains({{c}, 1}) && plan_.layout.chunks[c].count > 0)
          findings_.add(Rule::Coverage, {id}, "{} has no forward result of chunk {}",
                        name_of(plan_, id), c);
    }
  }

  void check_outputs(ValueId value, ColumnRange band) {
    std::vector<TaskId> outputs(chunks_);
    for (const TaskId id : outputs_) {
      const Task& task = plan_.tasks[id.value];
      if (plan_.value(task) != value || !plan_.piece(task).columns.contains(band)) continue;
      const Region r = plan_.regions[plan_.rows(task).value];
      for (std::uint32_t c = r.first.value; c < r.end(); ++c) {
        if (outputs[c].valid())
          findings_.add(Rule::Coverage, {id, outputs[c]},
                        "{} and {} both put out the {} of chunk {}{}: they should have been merged",
                        name_of(plan_, outputs[c]), name_of(plan_, id), plan_.name(value), c,
                        of_band(value, band));
        outputs[c] = id;
      }
    }
  }

  std::int64_t visible_pairs(std::uint32_t q, std::uint32_t k) const {
    return plan_.problem.mask.tile(plan_.layout.ranges({{q}, 1}), plan_.layout.ranges({{k}, 1}))
        .pairs.value;
  }

  // Of a query chunk against the whole sequence, in one go.
  std::int64_t visible_pairs(std::uint32_t q) const {
    const TokenRange all{0, 1, plan_.problem.tokens.value};
    return plan_.problem.mask.tile(plan_.layout.ranges({{q}, 1}), TokenSet({&all, 1})).pairs.value;
  }

  // An attend is a rectangle in the table of query chunks and key chunks. If no two of them
  // overlap, and they have as many pairs as the mask shows, then they have each of them once. Goes
  // through the rows and keeps the set of key chunks that the attends of the row meet.
  bool meets_all_once(const std::vector<std::uint32_t>& first_row,
                      const std::vector<std::uint32_t>& end_row, std::uint64_t pairs) const {
    const TokenRange all{0, 1, plan_.problem.tokens.value};
    const Tile whole = plan_.problem.mask.tile(TokenSet({&all, 1}), TokenSet({&all, 1}));
    if (pairs != static_cast<std::uint64_t>(whole.pairs.value)) return false;

    const auto region = [&](RegionId r) { return plan_.regions[r.value]; };
    const KeysByRow begins(chunks_, attends_, first_row), ends(chunks_, attends_, end_row);
    ChunkSet met(chunks_);
    for (std::uint32_t q = 0; q < chunks_; ++q) {
      for (const RegionId keys : ends.at(q)) met.remove(region(keys));
      for (const RegionId keys : begins.at(q))
        if (!met.add(region(keys))) return false;
    }
    return true;
  }

  // Compares one row, a query chunk against all keys, at a time. As many pairs as there should be,
  // none of them twice, are all of them; only where some are missing is it asked which.
  void check_rows(TaskKind kind, ValueId value, ColumnRange band) {
    std::vector<std::uint32_t> first(chunks_ + 1);
    const auto for_each_row = [&](auto&& visit) {
      for (std::uint32_t id = 0; id < plan_.tasks.size(); ++id) {
        const Task& task = plan_.tasks[id];
        if (task.kind != kind || !plan_.piece(task).columns.contains(band)) continue;
        const Region r = plan_.regions[plan_.rows(task).value];
        for (std::uint32_t q = r.first.value; q < r.end(); ++q) visit(q, TaskId{id});
      }
    };
    for_each_row([&](std::uint32_t q, TaskId) { ++first[q + 1]; });
    for (std::uint32_t q = 0; q < chunks_; ++q) first[q + 1] += first[q];
    std::vector<TaskId> attends(first.back());
    std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
    for_each_row([&](std::uint32_t q, TaskId id) { attends[next[q]++] = id; });

    std::vector<TaskId> met(chunks_);
    for (std::uint32_t q = 0; q < chunks_ && !findings_.full(); ++q) {
      std::int64_t found = 0;
      for (std::uint32_t i = first[q]; i < first[q + 1] && !findings_.full(); ++i)
        found += meet(q, attends[i], met, band);
      if (found != visible_pairs(q)) name_missing(q, met, kind, value, band);
      for (std::uint32_t i = first[q]; i < first[q + 1]; ++i)
        for (std::uint32_t k = keys_of(attends[i]).first.value; k < keys_of(attends[i]).end(); ++k)
          met[k] = {};
    }
  }

  Region keys_of(TaskId attend) const {
    return plan_.regions[plan_.tasks[attend.value].keys.value];
  }

  // Returns how many pairs are met for the first time.
  std::int64_t meet(std::uint32_t q, TaskId id, std::vector<TaskId>& met, ColumnRange band) {
    std::int64_t found = 0;
    for (std::uint32_t k = keys_of(id).first.value; k < keys_of(id).end(); ++k) {
      const std::int64_t pairs = visible_pairs(q, k);
      if (!met[k].valid()) {
        found += pairs;
      } else if (pairs > 0) {
        findings_.add(Rule::Coverage, {id, met[k]},
                      "query chunk {}{} meets key chunk {} twice: in {} and in {}", q,
                      of_band(plan_.value(plan_.tasks[id.value]), band), k, name_of(plan_, met[k]),
                      name_of(plan_, id));
      }
      met[k] = id;
    }
    return found;
  }

  void name_missing(std::uint32_t q, const std::vector<TaskId>& met, TaskKind kind, ValueId value,
                    ColumnRange band) {
    for (std::uint32_t k = 0; k < chunks_ && !findings_.full(); ++k)
      if (!met[k].valid() && visible_pairs(q, k) > 0)
        findings_.add_missing(
            Rule::Coverage, plan_.layout.owner({q}),
            "query chunk {}{} (worker {}) never meets key chunk {} (worker {}) in the {} pass", q,
            of_band(value, band), plan_.layout.owner({q}).value, k, plan_.layout.owner({k}).value,
            kind == TaskKind::Attend ? "forward" : "backward");
  }

  const Plan& plan_;
  Findings& findings_;
  std::uint32_t chunks_;
  std::vector<ValueId> second_of_;  // by value of the first output
  TaskColumn<TaskId> use_, second_use_;
  std::vector<TaskId> prepares_;
  TaskColumn<TaskId> outputs_, claims_;
  TaskColumn<Rectangle> attends_;
  std::vector<bool> attended_;        // by piece: made by an attend
  std::vector<std::uint64_t> pairs_;  // of those, by piece; overflow needs attends that overlap
};

}  // namespace

void verify_coverage(const Plan& plan, Findings& findings) { CoverageCheck(plan, findings).run(); }

}  // namespace ringsched
