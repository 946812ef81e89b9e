#include "rendezvous/store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rendezvous/file_limit.hpp"
#include "ringsched/runtime/control.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr auto kGreetingTime = 5s;         // for a connection to introduce itself
constexpr auto kProofTime = 3s;            // and to prove it, if others want to come in
constexpr int kMostAtOnce = 16;            // accepted before those that came are read
constexpr std::size_t kNamed = 8;          // of those that are late
constexpr std::size_t kMostUnread = 4096;  // frames that a peer leaves unread
constexpr std::size_t kAtOnce = 1 << 18;   // bytes

std::string text_of(std::chrono::nanoseconds t) { return duration({1000 * t.count()}); }

}  // namespace

Store::Store(const StoreOptions& options, std::function<void(const std::string&)> log)
    : options_(options),
      refusals_(std::move(log)),
      most_strangers_(
          room_for_strangers(options.size + 1, fmt::format("a run of {} processes", options.size))),
      listening_(listen_at(options.at)),
      address_(local_address(listening_)),
      members_(options.size),
      texts_(options.size),
      began_(Steady::now()),
      words_(options.size) {
  thread_ = std::thread([this] { serve(); });
}

Store::~Store() {
  {
    const std::lock_guard lock(guard_);
    over_ = true;
  }
  bell_.ring();
  thread_.join();
}

std::vector<LastWord> Store::last_words(std::chrono::nanoseconds patience) {
  std::unique_lock lock(guard_);
  news_.wait_for(lock, patience, [&] {
    return std::all_of(words_.begin(), words_.end(),
                       [](const LastWord& w) { return w.state != LastWord::State::Silent; });
  });
  return words_;
}

void Store::serve() {
  Steady::time_point ticked = Steady::now();
  std::vector<pollfd> polled;
  while (true) {
    {
      const std::lock_guard lock(guard_);
      if (over_) break;
    }
    polled = {{bell_.fd(), POLLIN, 0}, {deaf_ ? -1 : listening_.fd(), POLLIN, 0}};
    for (const Visitor& v : visitors_)
      polled.push_back(
          {v.socket.fd(), static_cast<short>(v.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    ::poll(polled.data(), polled.size(), static_cast<int>(kTick.count()));
    std::size_t i = 2;
    for (Visitor& v : visitors_) {
      if (!v.over && (polled[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) receive(v);
      if (!v.over && !v.out.empty()) flush(v);
      ++i;
    }
    if (polled[1].revents != 0) let_in();
    // Time in which this process was stopped must not count as silence of the others: a tick is
    // one, however long ago the last one was.
    if (const Steady::time_point now = Steady::now(); now - ticked >= kTick) {
      ticked = now;
      tick();
    }
    visitors_.remove_if([](const Visitor& v) { return v.over; });
  }
  for (Visitor& v : visitors_)  // why it ended, to those that have not heard yet
    if (!v.over && !v.out.empty()) flush(v);
}

void Store::tick() {
  deaf_ = false;
  const auto limit = static_cast<unsigned>(options_.silence / kTick);
  for (Visitor& v : visitors_) {
    if (v.over) continue;
    if (!v.rank) {
      if (Steady::now() - v.since > kGreetingTime) {
        if (!v.closes) refusals_.add(v.name, "it did not identify itself");
        v.over = true;
      }
      continue;
    }
    if (++v.silent > limit)
      lose(v, fmt::format("no message came from it for {}", text_of(options_.silence)));
    else if (v.out.empty())
      send(v, frame(FrameKind::Alive));
  }
  if (ended_ || (complete_ && given_ == 0) || Steady::now() - began_ <= options_.patience) return;
  std::vector<std::uint32_t> missing;
  for (std::uint32_t r = 0; r < options_.size; ++r)
    if (complete_ ? !texts_[r].has_value() : !members_[r]) missing.push_back(r);
  end(late(missing));
}

// What to report about them. A refused connection may have been one of them; without the secret
// nobody knows, so that alone ends no run.
std::string Store::late(std::vector<std::uint32_t> all) const {
  const std::size_t more = all.size() - std::min(kNamed, all.size());
  all.resize(all.size() - more);
  std::string out = fmt::format(
      "process{} {}{} did not {} within {}", all.size() > 1 ? "es" : "", fmt::join(all, ", "),
      more > 0 ? fmt::format(" and {} more", more) : "",
      complete_ ? "join the others" : "connect to " + address_.text(), text_of(options_.patience));
  if (!complete_)
    for (const std::uint32_t r : all)
      if (const auto found = turned_away_.find(r); found != turned_away_.end())
        out += fmt::format("; a process that claims to be process {} was refused: {}", r,
                           found->second);
  return out;
}

// If there are too many unauthenticated connections, close the oldest one past its time limit. A
// process of the run introduces itself at once, and connects again if it was closed.
bool Store::make_room() {
  const auto strangers = static_cast<std::size_t>(std::count_if(
      visitors_.begin(), visitors_.end(), [](auto& v) { return !v.rank && !v.over; }));
  return strangers < most_strangers_ + options_.size - there_ || drop_a_stranger();
}

bool Store::drop_a_stranger() {
  const Steady::time_point now = Steady::now();
  const auto oldest = std::find_if(visitors_.begin(), visitors_.end(), [&](const Visitor& v) {
    return !v.rank && !v.over && (v.hello.empty() || now - v.since > kProofTime);
  });
  if (oldest == visitors_.end()) return false;
  lose(*oldest, "it did not identify itself, and others connected");
  oldest->socket.close();  // now: its place may be needed at once
  return true;
}

void Store::let_in() {
  for (int i = 0; i < kMostAtOnce; ++i) {
    Socket s = accept_from(listening_);
    if (!s && !is_file_limit(errno)) return;
    if (!s) {
      const std::string why = why_no_file(errno);
      if (drop_a_stranger()) continue;
      deaf_ = true;
      if (!complete_) end("process 0 cannot accept connections: " + why);
      return;
    }
    const std::string name = peer_address(s).text();
    if (!make_room()) {
      refusals_.add(name, "too many other connections are not authenticated yet");
      continue;
    }
    Visitor& v = visitors_.emplace_back();
    v.socket = std::move(s);
    v.name = name;
    v.since = Steady::now();
  }
}

void Store::receive(Visitor& v) {
  char part[kAtOnce];
  const std::ptrdiff_t got = receive_some(v.socket, part, sizeof part);
  if (got < 0) {
    lose(v, errno == 0 ? "its connection closed"
                       : fmt::format("its connection broke: {}", std::strerror(errno)));
    return;
  }
  v.silent = 0;
  v.in.append(part, static_cast<std::size_t>(got));
  std::size_t at = 0;
  while (!v.over && !v.closes) {
    const ParsedFrame p = parse_frame(std::string_view(v.in).substr(at),
                                      v.rank ? kMostText : kMostGreeting, v.rank.has_value());
    if (p.outcome == ParsedFrame::Outcome::NeedsMore) break;
    if (p.outcome == ParsedFrame::Outcome::Bad) {
      refuse(v, p.why, kExitFailed);
      break;
    }
    at += p.taken;
    handle(v, p.frame);
  }
  v.in.erase(0, v.closes ? v.in.size() : at);
  std::size_t pending = held_;
  for (const Visitor& other : visitors_) pending += other.in.size();
  if (pending > kMostGathered && v.rank)
    end(fmt::format("the processes send each other more than {}",
                    human({static_cast<std::int64_t>(kMostGathered)})));
}

void Store::flush(Visitor& v) {
  while (!v.out.empty()) {
    const std::ptrdiff_t done =
        send_some(v.socket, std::string_view(*v.out.front()).substr(v.sent));
    if (done < 0) {
      lose(v, fmt::format("its connection broke: {}", std::strerror(errno)));
      return;
    }
    v.sent += static_cast<std::size_t>(done);
    if (v.sent < v.out.front()->size()) return;
    v.out.pop_front();
    v.sent = 0;
  }
  if (v.closes) v.over = true;
}

void Store::send(Visitor& v, std::string text) {
  v.out.push_back(std::make_shared<const std::string>(std::move(text)));
  if (v.out.size() > kMostUnread) lose(v, "it does not read its messages");
}

void Store::send_all(const std::string& text) {
  const auto shared = std::make_shared<const std::string>(text);
  for (Visitor* v : members_)
    if (v && !v->over) v->out.push_back(shared);
}

void Store::lose(Visitor& v, const std::string& how) {
  if (v.over) return;
  v.over = true;
  if (!v.rank) {
    if (v.closes) return;
    // A process with another secret leaves when it finds that process 0 does not know that secret.
    if (!v.hello.empty() && !options_.secret.empty())
      turn_away(v, *parse_greeting(v.hello),
                how + " before it proved that it knows the secret (RINGSCHED_SECRET) of process 0");
    else
      refusals_.add(v.name, how);
    return;
  }
  members_[*v.rank] = nullptr;
  if (v.leaves) return;
  note(*v.rank, {LastWord::State::Gone, how});
  end(fmt::format("process {} ({}) is gone: {}", *v.rank, v.name, how));
}

void Store::refuse(Visitor& v, const std::string& why, std::uint32_t code, bool logged) {
  if (logged) refusals_.add(v.name, why);
  send(v, frame(FrameKind::Refused, code, std::string_view(why).substr(0, kMostGreeting)));
  v.closes = true;
  if (!v.rank) return;
  members_[*v.rank] = nullptr;
  note(*v.rank, {LastWord::State::Gone, why});
  end(fmt::format("process {} ({}) was refused: {}", *v.rank, v.name, why));
  v.rank.reset();
  v.since = Steady::now();
}

void Store::end(const std::string& why, std::uint32_t code) {
  if (ended_) return;
  ended_ = true;
  why_ = why;
  code_ = code;
  send_all(frame(FrameKind::Ended, code, why));
}

void Store::note(std::uint32_t rank, LastWord word) {
  const std::lock_guard lock(guard_);
  if (words_[rank].state == LastWord::State::Silent) words_[rank] = std::move(word);
  news_.notify_all();
}

}  // namespace ringsched
