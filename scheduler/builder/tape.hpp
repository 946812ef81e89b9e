// What a schedule said, call by call. A schedule is asked once; what follows (what of each copy is
// read, the forward pass, the backward pass) are passes over the tape.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/plan.hpp"

namespace ringsched {

// Where queries or keys are: at home with their owner, or in a copy that a move made.
class Place {
 public:
  static Place home(WorkerId owner) { return Place(kHome | owner.value); }
  static Place copy(std::uint32_t number) { return Place(number); }
  bool at_home() const { return (code_ & kHome) != 0; }
  WorkerId owner() const { return {code_ & ~kHome}; }  // of what is at home
  std::uint32_t copy() const { return code_; }         // of what is not
  std::uint32_t code() const { return code_; }
  static Place of_code(std::uint32_t code) { return Place(code); }

 private:
  static constexpr std::uint32_t kHome = 1u << 31;
  explicit Place(std::uint32_t code) : code_(code) {}
  std::uint32_t code_;
};

// A move of queries or keys. Copies are numbered in the order of their moves.
struct Copy {
  Place from = Place::copy(0);
  std::uint16_t owner = 0, worker = 0;
};

class Tape {
 public:
  // An attend with a visible pair. Results of attends, and of moves of results, are numbered.
  struct Attend {
    WorkId work;
    Place queries, keys;
    RegionId rows, key_rows;  // what is attended of both
    std::uint32_t result;
    bool merged;  // into the result of its owner, at once
  };

  void step(Step s) {
    stretches_.push_back({s, words_.size(), static_cast<std::uint32_t>(copies_.size()), results_});
    say(Word::NextStep, s);
  }
  Step now() const { return stretches_.back().step; }
  // Returns the number of the copy.
  std::uint32_t move(bool keys, const Copy& copy, Lane lane) {
    say(keys ? Word::MoveKeys : Word::MoveQueries, static_cast<std::uint32_t>(lane));
    copies_.push_back(copy);
    return static_cast<std::uint32_t>(copies_.size()) - 1;
  }
  std::uint32_t move_result(std::uint32_t result, WorkerId to) {
    say(Word::MoveResult, to.value);
    words_.push_back(result);
    return results_++;
  }
  std::uint32_t attend(WorkId work, Place queries, Place keys, RegionId rows, RegionId key_rows) {
    last_attend_ = words_.size();
    say(Word::Attend, work.value);
    words_.insert(words_.end(), {queries.code(), keys.code(), rows.value, key_rows.value});
    return results_++;
  }
  void merge(std::uint32_t result) {
    if (result + 1 == results_ && last_attend_ + kAttendWords == words_.size() &&
        words_[last_attend_] >> kBits == static_cast<std::uint32_t>(Word::Attend))
      words_[last_attend_] += 1u << kBits;  // the next word: AttendAndMerge
    else
      say(Word::Merge, result);
  }

  const std::vector<Copy, PageAllocator<Copy>>& copies() const { return copies_; }

  // Calls, in order, step(Step), move(copy number, of keys?, lane), move_result(from, to, worker),
  // attend(Attend) and merge(result).
  template <class Pass>
  void replay(Pass& pass) const {
    replay(pass, Stretch{}, words_.size());
  }

  bool is_in_order() const { return std::ranges::is_sorted(stretches_, {}, &Stretch::step); }
  // The same calls, step by step; within a step as they were said.
  Tape in_order() const;

 private:
  // What was said from one call of step() to the next.
  struct Stretch {
    Step step = 0;
    std::size_t from = 0;
    std::uint32_t copy = 0, result = 0;  // the numbers of the first ones made in it
  };
  class InOrder;

  template <class Pass>
  void replay(Pass& pass, const Stretch& begin, std::size_t end) const {
    std::uint32_t copy = begin.copy, result = begin.result;
    for (std::size_t at = begin.from; at < end; ++at) {
      const std::uint32_t n = words_[at] & kMost;
      switch (const auto word = static_cast<Word>(words_[at] >> kBits)) {
        case Word::NextStep:
          pass.step(n);
          break;
        case Word::MoveQueries:
        case Word::MoveKeys:
          pass.move(copy++, word == Word::MoveKeys, static_cast<Lane>(n));
          break;
        case Word::MoveResult:
          pass.move_result(words_[++at], result++, WorkerId{n});
          break;
        case Word::Attend:
        case Word::AttendAndMerge:
          pass.attend(Attend{{n},
                             Place::of_code(words_[at + 1]),
                             Place::of_code(words_[at + 2]),
                             {words_[at + 3]},
                             {words_[at + 4]},
                             result++,
                             word == Word::AttendAndMerge});
          at += kAttendWords - 1;
          break;
        case Word::Merge:
          pass.merge(n);
          break;
      }
    }
  }

  // The upper bits of a word say what it is.
  enum class Word : std::uint32_t {
    NextStep,
    MoveQueries,
    MoveKeys,
    MoveResult,
    Attend,
    AttendAndMerge,
    Merge
  };
  static constexpr std::uint32_t kBits = 29, kMost = (1u << kBits) - 1;
  static constexpr std::size_t kAttendWords = 5;

  void say(Word word, std::uint32_t n) {
    if (n > kMost) fail("a schedule counts no further than {}, and this one is at {}", kMost, n);
    words_.push_back(static_cast<std::uint32_t>(word) << kBits | n);
  }

  std::vector<std::uint32_t, PageAllocator<std::uint32_t>> words_;
  std::vector<Copy, PageAllocator<Copy>> copies_;
  std::size_t last_attend_ = ~std::size_t{0} / 2;
  std::uint32_t results_ = 0;
  std::vector<Stretch> stretches_ = {{}};
};

}  // namespace ringsched
