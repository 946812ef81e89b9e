#include "rendezvous/store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ringsched/runtime/control.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr auto kGreetingTime = 5s;          // to say who one is
constexpr std::size_t kMostStrangers = 64;  // at a time
constexpr std::size_t kMostUnread = 4096;   // frames that somebody leaves unread
constexpr std::size_t kAtOnce = 1 << 18;    // bytes
constexpr unsigned kMostLogged = 20;

std::string text_of(std::chrono::nanoseconds t) { return duration({1000 * t.count()}); }

}  // namespace

Store::Store(const StoreOptions& options, std::function<void(const std::string&)> log)
    : options_(options),
      log_(std::move(log)),
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
      if (over_) return;
    }
    polled = {{bell_.fd(), POLLIN, 0}, {listening_.fd(), POLLIN, 0}};
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
    // Time that this process was stopped for must not count as silence of the others: a tick is
    // one, however long ago the last one was.
    if (const Steady::time_point now = Steady::now(); now - ticked >= kTick) {
      ticked = now;
      tick();
    }
    visitors_.remove_if([](const Visitor& v) { return v.over; });
  }
}

void Store::tick() {
  const auto limit = static_cast<unsigned>(options_.silence / kTick);
  for (Visitor& v : visitors_) {
    if (v.over) continue;
    if (!v.rank) {
      if (Steady::now() - v.since > kGreetingTime) {
        if (!v.closes) log(fmt::format("refused {}: it did not say who it is", v.name));
        v.over = true;
      }
      continue;
    }
    if (++v.silent > limit)
      lose(v, fmt::format("nothing was heard of it for {}", text_of(options_.silence)));
    else if (v.out.empty())
      send(v, frame(FrameKind::Alive));
  }
  if (ended_ || (complete_ && given_ == 0) || Steady::now() - began_ <= options_.patience) return;
  std::vector<std::uint32_t> late;
  for (std::uint32_t r = 0; r < options_.size; ++r)
    if (complete_ ? !texts_[r].has_value() : !members_[r]) late.push_back(r);
  constexpr std::size_t named = 8;
  const std::size_t more = late.size() - std::min(named, late.size());
  const std::uint32_t first = late.front();
  late.resize(late.size() - more);
  end(first, fmt::format("process{} {}{} did not come {} within {}", late.size() > 1 ? "es" : "",
                         fmt::join(late, ", "), more > 0 ? fmt::format(" and {} more", more) : "",
                         complete_ ? "to meet the others" : "to " + address_.text(),
                         text_of(options_.patience)));
}

void Store::let_in() {
  while (Socket s = accept_from(listening_)) {
    const std::string name = peer_address(s).text();
    const auto strangers = static_cast<std::size_t>(std::count_if(
        visitors_.begin(), visitors_.end(), [](const Visitor& v) { return !v.rank; }));
    if (strangers >= kMostStrangers + options_.size - there_) {
      log(fmt::format("refused {}: {} others have not said who they are", name, strangers));
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
    const ParsedFrame p =
        parse_frame(std::string_view(v.in).substr(at), v.rank ? kMostText : kMostGreeting);
    if (p.outcome == ParsedFrame::Outcome::NeedsMore) break;
    if (p.outcome == ParsedFrame::Outcome::Bad) {
      refuse(v, p.why);
      break;
    }
    at += p.taken;
    handle(v, p.frame);
  }
  v.in.erase(0, v.closes ? v.in.size() : at);
  std::size_t pending = held_;
  for (const Visitor& other : visitors_) pending += other.in.size();
  if (pending > kMostGathered && v.rank)
    end(*v.rank, fmt::format("the processes tell each other more than {}",
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
  if (v.out.size() > kMostUnread) lose(v, "it does not read what it is sent");
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
    if (!v.closes) log(fmt::format("refused {}: {}", v.name, how));
    return;
  }
  members_[*v.rank] = nullptr;
  if (v.leaves) return;
  note(*v.rank, {LastWord::State::Gone, how});
  end(*v.rank, fmt::format("process {} ({}) is gone: {}", *v.rank, v.name, how));
}

void Store::refuse(Visitor& v, const std::string& why, bool logged) {
  if (logged) log(fmt::format("refused {}: {}", v.name, why));
  send(v, frame(FrameKind::Refused, 0, std::string_view(why).substr(0, kMostGreeting)));
  v.closes = true;
  if (!v.rank) return;
  members_[*v.rank] = nullptr;
  note(*v.rank, {LastWord::State::Gone, why});
  end(*v.rank, fmt::format("process {} ({}) was refused: {}", *v.rank, v.name, why));
  v.rank.reset();
  v.since = Steady::now();
}

void Store::end(std::uint32_t rank, const std::string& why) {
  if (ended_) return;
  ended_ = true;
  why_ = why;
  send_all(frame(FrameKind::Ended, rank, why));
}

void Store::note(std::uint32_t rank, LastWord word) {
  const std::lock_guard lock(guard_);
  if (words_[rank].state == LastWord::State::Silent) words_[rank] = std::move(word);
  news_.notify_all();
}

void Store::log(const std::string& what) {
  if (++logged_ <= kMostLogged)
    log_(what);
  else if (logged_ == kMostLogged + 1)
    log_("refused more, which is not said any more");
}

}  // namespace ringsched
