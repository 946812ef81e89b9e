// Processes that meet without MPI: by a store in process 0.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "clock_fit.hpp"
#include "rendezvous/member.hpp"
#include "rendezvous/store.hpp"
#include "ringsched/runtime/world.hpp"
#include "ringsched/scheduler/error.hpp"
#include "transports/tcp.hpp"

namespace ringsched {

namespace {

using namespace std::chrono_literals;

// A process that has been silent for this long is gone; or for as long as a run may take, if that
// is shorter.
constexpr std::chrono::nanoseconds kSilence = 15s;
constexpr auto kForLastWords = 1500ms;

class TcpWorld final : public World {
 public:
  TcpWorld(const Launch& launch, const TcpOptions& options, Control& control)
      : rank_(launch.rank), size_(launch.size), options_(options) {
    const auto began = std::chrono::steady_clock::now();
    const auto silence = std::min(kSilence, options.patience);
    Address at = parse_address(launch.master, "the address of process 0 (--master, MASTER_ADDR)");
    if (rank_ == 0) {
      store_ = std::make_unique<Store>(
          StoreOptions{at, size_, options.secret, options.patience, silence},
          [](const std::string& what) {
            std::fprintf(stderr, "ringsched: process 0 %s\n", what.c_str());
          });
      at = store_->address();
    }
    try {
      member_ = std::make_unique<Member>(
          MemberOptions{at, rank_, size_, options.secret, options.patience, silence},
          [&control](const std::string& why, int code) { control.abandon(why, code); });
    } catch (...) {
      // If there is time: a process that comes a moment later gets the reason, and does not look
      // for process 0 until its own time is over.
      const auto left = began + options.patience - std::chrono::steady_clock::now();
      if (store_ && left > 0s)
        store_->last_words(std::min<std::chrono::nanoseconds>(left, kForLastWords));
      throw;
    }
  }

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t size() const override { return size_; }
  std::string name() const override { return "tcp"; }
  std::vector<std::string> gather(const std::string& text) override {
    return member_->gather(text);
  }

  ClockReading read_clock() override {
    const std::vector<std::string> clocks = gather(name_of_clock());
    if (!clocks[0].empty() && clocks[rank_] == clocks[0]) return {steady_now(), 0, 0};
    ClockFit fit;
    for (int i = 0; i < kClockQuestions; ++i) {
      const Member::Time t = member_->ask_time();
      fit.add(t.asked, t.theirs, t.answered);
    }
    return fit.reading();
  }

  void leave() override { member_->leave(); }

  std::vector<std::optional<LastWords>> last_words(const LastWords& own) override {
    std::vector<std::optional<LastWords>> out(size_);
    out[rank_] = own;
    member_->farewell(texts_body({own.why, own.left}), own.code);
    if (!store_) {
      // Until process 0 has read it: the end of the connection may lose what is on its way.
      member_->wait_for_close(kForLastWords + 500ms);
      return out;
    }
    const std::vector<LastWord> words = store_->last_words(kForLastWords);
    for (std::uint32_t r = 0; r < size_; ++r) {
      if (r == rank_ || words[r].state == LastWord::State::Silent) continue;
      if (words[r].state == LastWord::State::Gone) {
        out[r] = LastWords{words[r].text, {}, true};
      } else if (auto texts = parse_texts(words[r].text); texts && texts->size() == 2) {
        out[r] = LastWords{std::move((*texts)[0]), std::move((*texts)[1]), false};
      }
    }
    return out;
  }

  void abort(int) override {}  // the others were told with the last words

  std::unique_ptr<Transport> transport(const Plan& plan, Control& control) override {
    return make_tcp_transport(plan, control, *this, member_->local().host, options_);
  }

 private:
  const std::uint32_t rank_, size_;
  const TcpOptions options_;
  std::unique_ptr<Store> store_;  // of process 0; outlives its own connection
  std::unique_ptr<Member> member_;
};

}  // namespace

std::unique_ptr<World> make_tcp_world(const Launch& launch, const TcpOptions& options,
                                      Control& control) {
  return std::make_unique<TcpWorld>(launch, options, control);
}

}  // namespace ringsched
