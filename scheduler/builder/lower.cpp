#include "ringsched/scheduler/lower.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "lowered_plan.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/exchange.hpp"
#include "ringsched/scheduler/printable.hpp"

namespace ringsched {

namespace {

constexpr std::string_view kLowerings[] = {"native", "direct", "ring", "tree"};

// Cuts cells into this many parts of about equal size: by columns, or by rows if there are too few
// columns. Some may be empty.
std::vector<CellRange> split(const CellRange& all, std::uint32_t parts) {
  const bool by_columns = all.columns.count >= parts || all.rows.count < all.columns.count;
  const std::uint32_t count = by_columns ? all.columns.count : all.rows.count;
  std::vector<CellRange> out(parts, all);
  for (std::uint32_t i = 0; i < parts; ++i) {
    const auto at = [&](std::uint64_t part) {
      return static_cast<std::uint32_t>(part * count / parts);
    };
    if (by_columns)
      out[i].columns = {all.columns.first + at(i), at(i + 1) - at(i)};
    else
      out[i].rows = {{all.rows.first.value + at(i)}, at(i + 1) - at(i)};
  }
  return out;
}

// One exchange, as messages. Members have numbers from 0.
class ExchangeWriter {
 public:
  ExchangeWriter(const Plan& from, const Exchange& e, LoweredPlan& out)
      : from_(from), exchange_(e), out_(out), count_(e.members), given_(count_) {
    for (std::uint32_t m = 0; m < count_; ++m) given_[m] = out.use(task(m).inputs[0]);
  }

  // True if messages of that kind can express the form.
  bool ring(ExchangeForm form) {
    switch (form) {
      case ExchangeForm::AllGather:
        all_gather_ring();
        return true;
      case ExchangeForm::ReduceScatter:
        reduce_scatter_ring();
        return true;
      case ExchangeForm::AllReduce:
        all_reduce_ring();
        return true;
      default:
        return false;
    }
  }
  bool tree(ExchangeForm form) {
    switch (form) {
      case ExchangeForm::Broadcast:
        broadcast_tree();
        return true;
      case ExchangeForm::Reduce:
        reduce_tree();
        return true;
      case ExchangeForm::AllReduce:
        all_reduce_tree();
        return true;
      default:
        return false;
    }
  }

  void direct() {
    std::vector<Share> shares = shares_of(from_, exchange_);
    std::vector<TensorId> pieces(shares.size());
    cut_what_is_partial(shares, pieces);
    std::vector<std::uint32_t> order(shares.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    // The nearest first, so that not all send to the same member at once.
    const auto distance = [&](std::uint32_t i) {
      return (shares[i].to + count_ - shares[i].from) % count_;
    };
    std::ranges::stable_sort(order, {}, distance);
    for (const std::uint32_t i : order)
      if (const Share& s = shares[i]; s.from != s.to)
        pieces[i] = out_.transfer(pieces[i], {s.rows, s.columns}, worker(s.to));
    std::vector<std::vector<TensorId>> parts(count_);
    for (std::size_t i = 0; i < shares.size(); ++i) parts[shares[i].to].push_back(pieces[i]);
    for (std::uint32_t m = 0; m < count_; ++m)
      if (!wanted(m).empty()) deliver(m, std::move(parts[m]));
  }

 private:
  const Task& task(std::uint32_t m) const { return from_.tasks[exchange_.first.value + m]; }
  WorkerId worker(std::uint32_t m) const { return task(m).worker(); }
  CellRange wanted(std::uint32_t m) const {
    const Piece& piece = from_.piece(task(m));
    return {from_.regions[piece.rows.value], piece.columns};
  }
  void deliver(std::uint32_t m, std::vector<TensorId> parts) {
    out_.deliver({exchange_.first.value + m}, std::move(parts));
  }
  std::uint32_t after(std::uint32_t m, std::uint32_t hops) const { return (m + hops) % count_; }
  std::uint32_t before(std::uint32_t m, std::uint32_t hops) const {
    return (m + count_ - hops % count_) % count_;
  }

  // The tensor that each share is a part of. Parts of sums are cut, because each can be used only
  // once.
  void cut_what_is_partial(const std::vector<Share>& shares, std::vector<TensorId>& pieces) {
    std::vector<std::vector<std::uint32_t>> of(count_);
    for (std::uint32_t i = 0; i < shares.size(); ++i) of[shares[i].from].push_back(i);
    const bool adds = adds_up(from_, exchange_);
    for (std::uint32_t m = 0; m < count_; ++m) {
      std::vector<CellRange> cells;
      for (const std::uint32_t i : of[m]) cells.push_back({shares[i].rows, shares[i].columns});
      std::vector<TensorId> cut(cells.size(), given_[m]);
      if (adds && !cells.empty()) cut = out_.cut(given_[m], cells);
      for (std::size_t i = 0; i < cut.size(); ++i) pieces[of[m][i]] = cut[i];
    }
  }

  // Parts of sums that are only copied have all their terms.
  void complete_what_is_given() {
    if (!adds_up(from_, exchange_)) return;
    for (const TensorId t : given_)
      if (t.valid()) out_.complete(t);
  }

  // Member m has cells[m] in tensors[m]. At each hop every member hands on what it got last.
  void gather_round(const std::vector<CellRange>& cells, const std::vector<TensorId>& tensors) {
    std::vector<std::vector<TensorId>> has(count_, std::vector<TensorId>(count_));
    for (std::uint32_t m = 0; m < count_; ++m) has[m][m] = tensors[m];
    for (std::uint32_t hop = 1; hop < count_; ++hop) {
      out_.begin_group();
      for (std::uint32_t m = 0; m < count_; ++m) {
        const std::uint32_t owner = before(m, hop - 1), next = after(m, 1);
        if (!cells[owner].empty())
          has[next][owner] = out_.transfer(has[m][owner], cells[owner], worker(next));
      }
    }
    for (std::uint32_t m = 0; m < count_; ++m) {
      std::erase_if(has[m], [](TensorId t) { return !t.valid(); });
      deliver(m, std::move(has[m]));
    }
  }

  // Member m ends with the sum of cells[m]. What it sends at a hop was added up at the previous
  // one.
  std::vector<TensorId> reduce_round(const std::vector<CellRange>& cells) {
    std::vector<std::vector<TensorId>> own(count_);
    for (std::uint32_t m = 0; m < count_; ++m) {
      std::vector<CellRange> there;
      for (const CellRange& c : cells)
        if (!c.empty()) there.push_back(c);
      own[m] = out_.cut(given_[m], there);
      for (std::uint32_t c = 0; c < count_; ++c)
        if (cells[c].empty()) own[m].insert(own[m].begin() + c, TensorId{});
    }
    for (std::uint32_t hop = 1; hop < count_; ++hop) {
      out_.begin_group();
      std::vector<TensorId> came(count_);
      for (std::uint32_t m = 0; m < count_; ++m)
        if (const std::uint32_t c = before(m, hop); !cells[c].empty())
          came[after(m, 1)] = out_.transfer(own[m][c], cells[c], worker(after(m, 1)));
      for (std::uint32_t m = 0; m < count_; ++m)
        if (TensorId& sum = own[m][before(m, hop + 1)]; came[m].valid())
          sum = out_.add_up(came[m], sum);
    }
    std::vector<TensorId> out;
    for (std::uint32_t m = 0; m < count_; ++m) out.push_back(own[m][m]);
    return out;
  }

  void all_gather_ring() {
    std::vector<CellRange> cells(count_);
    for (const Share& s : shares_of(from_, exchange_))
      if (s.to == 0) cells[s.from] = {s.rows, s.columns};
    complete_what_is_given();
    std::vector<TensorId> tensors = given_;
    for (std::uint32_t m = 0; m < count_; ++m)
      if (cells[m].empty()) tensors[m] = {};
    gather_round(cells, tensors);
  }

  void reduce_scatter_ring() {
    std::vector<CellRange> cells;
    for (std::uint32_t m = 0; m < count_; ++m) cells.push_back(wanted(m));
    const std::vector<TensorId> sums = reduce_round(cells);
    for (std::uint32_t m = 0; m < count_; ++m) deliver(m, {sums[m]});
  }

  void all_reduce_ring() {
    const std::vector<CellRange> cells = split(wanted(0), count_);
    std::vector<TensorId> sums = reduce_round(cells);
    for (const TensorId sum : sums)
      if (sum.valid()) out_.complete(sum);
    gather_round(cells, sums);
  }

  // Round k of a binomial tree: members whose number is a multiple of 2^(k + 1), and those 2^k
  // further. Members count from the root.
  template <class Visit>
  void for_each_branch(std::uint32_t distance, std::uint32_t root, Visit visit) {
    out_.begin_group();
    for (std::uint32_t m = 0; m + distance < count_; m += 2 * distance)
      visit(after(root, m), after(root, m + distance));
  }

  void broadcast_from(std::uint32_t root, const CellRange& cells, TensorId tensor) {
    std::vector<TensorId> has(count_);
    has[root] = tensor;
    for (std::uint32_t distance = std::bit_ceil(count_) / 2; distance > 0; distance /= 2)
      for_each_branch(distance, root, [&](std::uint32_t from, std::uint32_t to) {
        has[to] = out_.transfer(has[from], cells, worker(to));
      });
    for (std::uint32_t m = 0; m < count_; ++m) deliver(m, {has[m]});
  }

  TensorId reduce_to(std::uint32_t root) {
    std::vector<TensorId> sum = given_;
    const CellRange cells = wanted(root);
    for (TensorId& t : sum) t = out_.cut(t, {&cells, 1})[0];
    for (std::uint32_t distance = 1; distance < count_; distance *= 2) {
      std::vector<std::pair<std::uint32_t, TensorId>> came;
      for_each_branch(distance, root, [&](std::uint32_t to, std::uint32_t from) {
        came.emplace_back(to, out_.transfer(sum[from], cells, worker(to)));
      });
      for (const auto& [m, tensor] : came) sum[m] = out_.add_up(sum[m], tensor);
    }
    return sum[root];
  }

  void broadcast_tree() {
    std::uint32_t root = 0;
    while (!given_[root].valid()) ++root;
    complete_what_is_given();
    broadcast_from(root, wanted(0), given_[root]);
  }
  void reduce_tree() {
    std::uint32_t root = 0;
    while (wanted(root).empty()) ++root;
    deliver(root, {reduce_to(root)});
  }
  void all_reduce_tree() {
    const TensorId sum = reduce_to(0);
    out_.complete(sum);
    broadcast_from(0, wanted(0), sum);
  }

  const Plan& from_;
  const Exchange& exchange_;
  LoweredPlan& out_;
  const std::uint32_t count_;
  std::vector<TensorId> given_;  // by member, in the new plan; or none
};

Lowering write(const Plan& from, const Exchange& e, ExchangeForm form, Lowering how,
               LoweredPlan& out) {
  out.begin_exchange(e);
  ExchangeWriter writer(from, e, out);
  const bool alone = e.members < 2;
  const bool done = !alone && ((how == Lowering::Ring && writer.ring(form)) ||
                               (how == Lowering::Tree && writer.tree(form)));
  if (!done) writer.direct();
  out.end_exchange();
  return done ? how : Lowering::Direct;
}

}  // namespace

Lowered lower_exchanges(const Plan& plan, Lowering how) {
  std::map<std::pair<ExchangeForm, Lowering>, std::uint32_t> count;
  Lowered out;
  if (how == Lowering::Native || plan.exchanges.empty()) {
    for (const Exchange& e : plan.exchanges) ++count[{form_of(plan, e), Lowering::Native}];
    out.plan = plan;
  } else {
    LoweredPlan lowered(plan);
    for (std::uint32_t id = 0; id < plan.tasks.size(); ++id) {
      if (!is_exchange(plan.tasks[id].kind)) {
        lowered.copy({id});
        continue;
      }
      const Exchange& e = plan.exchange(plan.tasks[id]);
      const ExchangeForm form = form_of(plan, e);
      ++count[{form, write(plan, e, form, how, lowered)}];
      id = e.end() - 1;
    }
    out.plan = std::move(lowered).finish();
  }
  for (const auto& [what, n] : count) out.forms.push_back({what.first, what.second, n});
  return out;
}

std::string_view to_text(Lowering how) { return kLowerings[static_cast<std::size_t>(how)]; }

Lowering parse_lowering(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kLowerings); ++i)
    if (kLowerings[i] == text) return static_cast<Lowering>(i);
  fail("--exchanges is '{}'; use native, direct, ring or tree", printable(text));
}

}  // namespace ringsched
