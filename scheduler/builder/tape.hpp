// The calls of a schedule, recorded in order. The builder runs a schedule only once. It then makes
// several passes over this tape: which parts of each move any task reads, then the forward pass,
// then the backward pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "ringsched/scheduler/builder.hpp"

namespace ringsched {

using OriginId = Id<struct OriginTag>;

struct Call {
  enum class What : std::uint8_t {
    Given,          // queries or keys, at home with their owner
    Begin,          // the step begins, even if the schedule does nothing in it
    Narrow,         // the queries that `from` brought, but only some of their heads
    Member,         // of an exchange: it gives what `from` brought, and gets its origin
    ResultMember,   // likewise, of the result of the queries that `from` brought
    PartialMember,  // likewise, of the results that `from` made, which are put together
    Move,           // of the queries or keys that `from` brought, to `worker`
    Attend,         // of the queries that `from` brought to those keys that `keys` did
    MoveResult,     // of the result that `from` made, to `worker`
    Merge,          // of the result that `from` made
    Combine,        // of the results that `from` and `keys` made into one
  };
  What what = What::Begin;
  bool of_keys : 1 = false;     // Given, Member, Move; else queries
  bool used : 1 = false;        // Attend, MoveResult: the result was merged, or moved on
  bool merged : 1 = false;      // Attend: at once
  bool again : 1 = false;       // Member: exchanged anew for the backward pass
  bool always : 1 = false;      // Move: even if nobody reads it, with the whole gradient
  Lane lane : 3 = Lane::Fetch;  // Member, Move
  std::uint16_t worker = 0;     // where the outcome is
  OriginId origin;  // of the queries or keys; of a result: of its queries; none: it gets nothing
  Step step = 0;
  CallId from;              // none: it gives nothing
  CallId keys;              // Attend, Combine; Member: the first member
  RegionId rows, key_rows;  // Attend: what is attended of both; MoveResult, Combine: rows
  WorkId work;              // Attend
};
static_assert(sizeof(Call) == 32);

// What a worker has before it moves anywhere: its own share, or what an exchange brought it.
struct Origin {
  CallId call;
  RegionId rows;
  ColumnRange columns;
};

class Tape {
 public:
  explicit Tape(std::uint32_t workers) : workers_(workers) {}
  // The first calls: initial tensors, queries of all workers and then keys.
  OriginId queries_of(WorkerId w) const { return {w.value}; }
  OriginId keys_of(WorkerId w) const { return {workers_ + w.value}; }

  Call& say(Call::What what, Step step) {
    in_order_ = in_order_ && latest_ <= step;
    latest_ = step;
    most_steps_ = std::max(most_steps_, step + 1);
    if (size_ % kPage == 0) {
      pages_.emplace_back();
      if (size_ > 0) pages_.back().reserve(kPage);
    }
    ++size_;
    Call& c = pages_.back().emplace_back();
    c.what = what;
    c.step = step;
    return c;
  }
  // Of the last call.
  void add_origin(RegionId rows, ColumnRange columns) {
    (*this)[last()].origin = {static_cast<std::uint32_t>(origins_.size())};
    origins_.push_back({last(), rows, columns});
  }
  Step most_steps() const { return most_steps_; }
  CallId last() const { return {size_ - 1}; }
  std::uint32_t size() const { return size_; }
  Call& operator[](CallId id) { return pages_[id.value / kPage][id.value % kPage]; }
  const Call& operator[](CallId id) const { return pages_[id.value / kPage][id.value % kPage]; }
  const std::vector<Origin>& origins() const { return origins_; }
  const Origin& origin(OriginId id) const { return origins_[id.value]; }
  const Origin& origin(const Call& c) const { return origins_[c.origin.value]; }
  WorkerId worker(OriginId id) const { return {(*this)[origin(id).call].worker}; }
  // Of an exchange, from its first member on.
  std::uint32_t members(CallId first) const {
    std::uint32_t n = 1;
    while (first.value + n < size_ && is_member((*this)[{first.value + n}]) &&
           (*this)[{first.value + n}].keys == first)
      ++n;
    return n;
  }
  static bool is_member(const Call& c) { return c.what == Call::What::Member || gives_results(c); }
  static bool gives_results(const Call& c) {
    return c.what == Call::What::ResultMember || c.what == Call::What::PartialMember;
  }

  // From then on for_each() goes step by step, and within a step in the order of the calls.
  void put_in_order() {
    if (in_order_) return;
    order_.resize(size_);
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::stable_sort(order_, {}, [&](std::uint32_t i) { return (*this)[{i}].step; });
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::uint32_t i = 0; i < size_; ++i) {
      const CallId id{order_.empty() ? i : order_[i]};
      visit(id, (*this)[id]);
    }
  }

 private:
  static constexpr std::uint32_t kPage = 1 << 16;  // calls: 2 MiB

  std::uint32_t workers_, size_ = 0;
  std::vector<TaskColumn<Call>> pages_;  // all full but the last; only the first one grows
  Step latest_ = 0, most_steps_ = 0;
  bool in_order_ = true;
  std::vector<std::uint32_t> order_;  // calls; empty: in order as recorded
  std::vector<Origin> origins_;
};

// A table by call.
template <class T>
class CallColumn {
 public:
  explicit CallColumn(std::uint32_t calls = 0) : entries_(calls) {}
  T& operator[](CallId id) { return entries_[id.value]; }
  const T& operator[](CallId id) const { return entries_[id.value]; }

 private:
  TaskColumn<T> entries_;
};

}  // namespace ringsched
