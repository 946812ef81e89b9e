#include "rendezvous/member.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rendezvous/sha256.hpp"
#include "rendezvous/store.hpp"
#include "ringsched/runtime/control.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr std::size_t kAtOnce = 1 << 18;
constexpr std::size_t kMostAnswer = kMostGathered + 4 * (kMostProcesses + 1);
constexpr auto kLonger = 1s;  // than the store waits: the store knows who is late

std::string text_of(std::chrono::nanoseconds t) { return duration({1000 * t.count()}); }

std::string this_process() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return fmt::format("{}, pid {}", host, ::getpid());
}

std::int64_t now() { return Steady::now().time_since_epoch().count(); }

[[noreturn]] void throw_with_code(std::uint32_t code, const std::string& why) {
  if (code == kExitBadInput) throw Error(why);
  throw RunFailed(why);
}

// The next frame, whose body is kept in `bytes`; none if the connection closes or time is up.
std::optional<Frame> next_frame(const Socket& s, std::string& bytes, Steady::time_point until) {
  bytes.resize(kFrameHeader);
  if (!receive_all(s, bytes.data(), 1, until)) return {};
  // Bytes that are not a frame are refused at once, without waiting for more.
  for (std::size_t have = 1; have <= kFrameHeader; ++have) {
    const ParsedFrame p = parse_frame(std::string_view(bytes).substr(0, have), kMostGreeting);
    if (p.outcome == ParsedFrame::Outcome::Bad) {
      const std::ptrdiff_t more = receive_some(s, bytes.data() + have, kFrameHeader - have);
      bytes.resize(have + static_cast<std::size_t>(std::max<std::ptrdiff_t>(more, 0)));
      throw RunFailed(parse_frame(bytes, kMostGreeting).why);
    }
    if (p.outcome == ParsedFrame::Outcome::Good) return p.frame;
    if (have < kFrameHeader && !receive_all(s, bytes.data() + have, 1, until)) return {};
  }
  std::string_view length = std::string_view(bytes).substr(kFrameLength);
  bytes.resize(kFrameHeader + take_number(length, 4));
  if (!receive_all(s, bytes.data() + kFrameHeader, bytes.size() - kFrameHeader, until)) return {};
  const ParsedFrame p = parse_frame(bytes, kMostGreeting);
  if (p.outcome == ParsedFrame::Outcome::Bad) throw RunFailed(p.why);
  return p.frame;
}

}  // namespace

Member::Member(const MemberOptions& options, std::function<void(const std::string&, int)> ended)
    : options_(options), told_(std::move(ended)) {
  join();
  thread_ = std::thread([this] { read(); });
  try {
    std::unique_lock lock(guard_);
    wait_for(
        lock, [&] { return welcome_; }, "all processes to come");
  } catch (...) {
    {
      const std::lock_guard lock(guard_);
      over_ = true;
    }
    bell_.ring();
    thread_.join();
    throw;
  }
}

Member::~Member() {
  {
    const std::lock_guard lock(guard_);
    over_ = true;
  }
  bell_.ring();
  thread_.join();
}

// The store may start later than this process, and its name may resolve later.
void Member::join() {
  const Steady::time_point until = Steady::now() + options_.patience;
  const std::string hello = greeting_text({options_.rank, options_.size, !options_.secret.empty(),
                                           random_bytes(kNonce), this_process()});
  std::string why = "nobody is there";
  while (Steady::now() < until) {
    if (try_to_join(hello, until, why)) return;
    std::this_thread::sleep_for(50ms);
  }
  throw RunFailed(fmt::format("process 0 was not found at {} within {}: {}", options_.store.text(),
                              text_of(options_.patience), why));
}

bool Member::try_to_join(const std::string& hello, Steady::time_point until, std::string& why) {
  const std::string at = options_.store.text();
  const auto foreign = [&](const std::string& said) {
    return RunFailed(fmt::format("{} answers, but it is not a ringsched process 0: {}", at, said));
  };
  socket_ = connect_to(options_.store, 500ms, why);
  if (!socket_ || !send_all(socket_, frame(FrameKind::Hello, 0, hello), until)) return false;
  std::string bytes;
  std::optional<Frame> answer;
  const auto answers = [&] {
    try {
      answer = next_frame(socket_, bytes, until);
    } catch (const RunFailed& wrong) {
      throw foreign(wrong.what());
    }
    if (answer && answer->kind == FrameKind::Refused)
      throw_with_code(answer->number, fmt::format("process 0 at {} refused this process: {}", at,
                                                  printable(answer->body, 300)));
    return answer.has_value();
  };
  why = "it does not answer";
  if (!answers()) return false;
  const std::string_view body = answer->body;
  if (answer->kind != FrameKind::Challenge || body.size() < kNonce)
    throw foreign("it answers out of turn");
  const std::string_view nonce = body.substr(0, kNonce);
  if (!same_proof(body.substr(kNonce), store_proof(options_.secret, hello, nonce)))
    fail("process 0 at {} has another secret (RINGSCHED_SECRET) than this process", at);
  const std::string proof = process_proof(options_.secret, hello, nonce);
  why = "it closes the connection before it lets this process in";
  if (!send_all(socket_, frame(FrameKind::Proof, 0, proof), until) || !answers()) return false;
  if (answer->kind != FrameKind::Alive) throw foreign("it answers out of turn");
  return true;
}

void Member::read() {
  std::string in;
  Steady::time_point ticked = Steady::now();
  const auto limit = static_cast<unsigned>(options_.silence / kTick);
  unsigned silent = 0;
  pollfd polled[2] = {{bell_.fd(), POLLIN, 0}, {socket_.fd(), POLLIN, 0}};
  while (true) {
    {
      const std::lock_guard lock(guard_);
      if (over_) return;
    }
    ::poll(polled, 2, static_cast<int>(kTick.count()));
    if (polled[1].revents != 0) {
      silent = 0;
      if (!receive(in)) return;
    }
    // As in the store: if this process was stopped, the others were not silent.
    if (const Steady::time_point t = Steady::now(); t - ticked >= kTick) {
      ticked = t;
      if (++silent > limit) {
        end(gone(fmt::format("no message came from it for {}", text_of(options_.silence))),
            kExitFailed);
        return;
      }
      // A peer that is sending counts as heard.
      if (const std::unique_lock lock(sends_, std::try_to_lock); lock.owns_lock())
        send_all(socket_, frame(FrameKind::Alive), t + options_.silence);
    }
  }
}

bool Member::receive(std::string& in) {
  const std::size_t before = in.size();
  in.resize(before + kAtOnce);
  const std::ptrdiff_t got = receive_some(socket_, in.data() + before, kAtOnce);
  in.resize(before + static_cast<std::size_t>(std::max<std::ptrdiff_t>(got, 0)));
  if (got < 0) {
    const std::string how = errno == 0
                                ? "its connection closed"
                                : fmt::format("its connection broke: {}", std::strerror(errno));
    bool well = false;
    {
      const std::lock_guard lock(guard_);
      closed_ = true;
      well = leaves_;  // process 0 may end as soon as it knows that all have left
      news_.notify_all();
    }
    if (!well) end(gone(how), kExitFailed);
    return false;
  }
  std::size_t at = 0;
  while (true) {
    const ParsedFrame p = parse_frame(std::string_view(in).substr(at), kMostAnswer, true);
    if (p.outcome == ParsedFrame::Outcome::NeedsMore) break;
    if (p.outcome == ParsedFrame::Outcome::Bad) {
      end("process 0 sent unreadable data: " + p.why, kExitFailed);
      return false;
    }
    at += p.taken;
    handle(p.frame);
  }
  in.erase(0, at);
  return true;
}

void Member::handle(const Frame& f) {
  const std::int64_t at = now();
  if (f.kind == FrameKind::Ended) return end(printable(f.body, 2000), f.number);
  if (f.kind == FrameKind::Refused)
    return end("process 0 refused this process: " + printable(f.body, 300), f.number);
  bool readable = true;
  {
    const std::lock_guard lock(guard_);
    std::string_view body = f.body;
    if (f.kind == FrameKind::Welcome) welcome_ = true;
    if (f.kind == FrameKind::Left) left_ = true;
    if (f.kind == FrameKind::All) {
      auto texts = parse_texts(body);
      readable = texts && texts->size() == options_.size && f.number == round_;
      if (readable) all_ = std::move(*texts);
    }
    if (f.kind == FrameKind::Time) {
      readable = f.number == question_ && body.size() == 8;
      answered_ = readable;
      answered_at_ = at;
      if (readable) theirs_ = static_cast<std::int64_t>(take_number(body, 8));
    }
    news_.notify_all();
  }
  if (!readable)
    end(fmt::format("process 0 sent unreadable data: message {}", static_cast<int>(f.kind)),
        kExitFailed);
}

void Member::end(const std::string& why, std::uint32_t code) {
  {
    const std::lock_guard lock(guard_);
    news_.notify_all();
    if (!ended_.empty() || left_) return;
    ended_ = why;
    ended_code_ = code;
    if (!welcome_) return;  // the constructor waits for it, and throws
  }
  told_(why, static_cast<int>(code));
}

std::string Member::gone(const std::string& how) const {
  return fmt::format("process 0 (which keeps the store at {}) is gone: {}", options_.store.text(),
                     how);
}

void Member::send(const std::string& text) {
  const std::lock_guard lock(sends_);
  send_all(socket_, text, Steady::now() + options_.patience);  // the reader notices if it is gone
}

template <class Ready>
void Member::wait_for(std::unique_lock<std::mutex>& lock, Ready ready, const char* what) {
  const bool done =
      news_.wait_for(lock, options_.patience + kLonger, [&] { return !ended_.empty() || ready(); });
  if (ready()) return;
  if (!ended_.empty()) throw_with_code(ended_code_, ended_);
  if (!done)
    throw RunFailed(fmt::format("waited {} for {}", text_of(options_.patience + kLonger), what));
}

std::vector<std::string> Member::gather(std::string_view text) {
  if (text.size() > kMostText)
    throw RunFailed(fmt::format("{} for the other processes, where {} are allowed",
                                human({static_cast<std::int64_t>(text.size())}),
                                human({static_cast<std::int64_t>(kMostText)})));
  send(frame(FrameKind::Put, round_, text));
  std::unique_lock lock(guard_);
  wait_for(
      lock, [&] { return !all_.empty(); }, "the other processes");
  ++round_;
  return std::exchange(all_, {});
}

Member::Time Member::ask_time() {
  std::unique_lock lock(guard_);
  answered_ = false;
  const std::uint32_t question = ++question_;
  lock.unlock();
  Time t;
  t.asked = now();
  send(frame(FrameKind::AskTime, question));
  lock.lock();
  wait_for(
      lock, [&] { return answered_; }, "the time of process 0");
  t.theirs = theirs_;
  t.answered = answered_at_;
  return t;
}

void Member::leave() {
  {
    const std::lock_guard lock(guard_);
    if (!ended_.empty()) throw_with_code(ended_code_, ended_);
    leaves_ = true;
  }
  send(frame(FrameKind::Leave));
  std::unique_lock lock(guard_);
  wait_for(
      lock, [&] { return left_ || closed_; }, "the other processes to end");
}

void Member::farewell(std::string_view texts, int code) {
  send(frame(FrameKind::Farewell, static_cast<std::uint32_t>(code), texts));
}

void Member::wait_for_close(std::chrono::nanoseconds patience) {
  std::unique_lock lock(guard_);
  news_.wait_for(lock, patience, [&] { return closed_; });
}

}  // namespace ringsched
