// Processes of a run that are threads of a test, and communicate without a store.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ringsched/runtime/world.hpp"

namespace ringsched {

// Where they meet.
class Round {
 public:
  explicit Round(std::uint32_t size) : texts_(size) {}

  std::vector<std::string> gather(std::uint32_t rank, const std::string& text) {
    std::unique_lock lock(guard_);
    texts_[rank] = text;
    const std::uint32_t round = round_;
    if (++given_ == texts_.size()) {
      all_ = texts_;
      given_ = 0;
      ++round_;
      news_.notify_all();
    }
    news_.wait(lock, [&] { return round_ > round || ended_; });
    if (round_ == round) throw RunFailed("others have ended");
    return all_;  // the next round needs this one, too, to end
  }
  // Nobody waits any more.
  void end() {
    const std::lock_guard lock(guard_);
    ended_ = true;
    news_.notify_all();
  }

 private:
  std::mutex guard_;
  std::condition_variable news_;
  std::vector<std::string> texts_, all_;
  std::size_t given_ = 0;
  std::uint32_t round_ = 0;
  bool ended_ = false;
};

class WorldOfThreads final : public World {
 public:
  WorldOfThreads(Round& round, std::uint32_t rank, std::uint32_t size)
      : round_(round), rank_(rank), size_(size) {}

  // Called with what all have told, before this process learns of it.
  std::function<void(std::vector<std::string>&)> before_it_knows;

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t size() const override { return size_; }
  std::string name() const override { return "threads"; }
  std::vector<std::string> gather(const std::string& text) override {
    std::vector<std::string> all = round_.gather(rank_, text);
    if (before_it_knows) before_it_knows(all);
    return all;
  }
  ClockReading read_clock() override { return {}; }
  std::vector<std::optional<LastWords>> last_words(const LastWords&) override { return {}; }
  void abort(int) override {}
  std::unique_ptr<Transport> transport(const Plan&, Control&) override { return nullptr; }

 private:
  Round& round_;
  const std::uint32_t rank_, size_;
};

}  // namespace ringsched
