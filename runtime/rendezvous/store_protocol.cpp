// How the store handles messages: which process it admits, and what it distributes.
#include <fmt/format.h>

#include "rendezvous/sha256.hpp"
#include "rendezvous/store.hpp"
#include "ringsched/scheduler/printable.hpp"

namespace ringsched {

using Steady = std::chrono::steady_clock;

std::string store_proof(const std::string& secret, std::string_view hello, std::string_view nonce) {
  return hmac_sha256(secret, fmt::format("store{}{}", nonce, hello));
}
std::string process_proof(const std::string& secret, std::string_view hello,
                          std::string_view nonce) {
  return hmac_sha256(secret, fmt::format("process{}{}", nonce, hello));
}

void Store::handle(Visitor& v, const Frame& f) {
  if (!v.rank) {
    greet(v, f);
    return;
  }
  switch (f.kind) {
    case FrameKind::Alive:
      return;
    case FrameKind::Put:
      put(v, f);
      return;
    case FrameKind::AskTime: {
      std::string time;
      put_number(time, static_cast<std::uint64_t>(Steady::now().time_since_epoch().count()), 8);
      send(v, frame(FrameKind::Time, f.number, time));
      return;
    }
    case FrameKind::Farewell: {
      v.leaves = true;
      const auto texts = parse_texts(f.body);
      if (!texts || texts->empty()) {
        refuse(v, "a farewell that cannot be read", kExitFailed);
        return;
      }
      note(*v.rank, {LastWord::State::Said, std::string(f.body)});
      // Its own words say what was pending.
      const std::string& why = texts->front();
      end(fmt::format("process {} gave up: {}", *v.rank,
                      printable(why.substr(0, why.find("; pending")), 200)),
          f.number == kExitBadInput ? kExitBadInput : kExitFailed);
      return;
    }
    case FrameKind::Leave:
      leave(v);
      return;
    default:
      refuse(v, fmt::format("message {} out of turn", static_cast<int>(f.kind)), kExitFailed);
  }
}

void Store::greet(Visitor& v, const Frame& f) {
  if (v.hello.empty()) {
    const auto g = f.kind == FrameKind::Hello ? parse_greeting(f.body) : std::nullopt;
    if (!g) {
      refuse(v, "it does not identify itself", kExitFailed);
    } else if (g->secret && options_.secret.empty()) {
      misfit(v, *g, "has a secret (RINGSCHED_SECRET), and process 0 has none");
    } else if (!g->secret && !options_.secret.empty()) {
      turn_away(v, *g, "it has no secret, and process 0 has (RINGSCHED_SECRET)");
    } else {
      v.hello = f.body;
      v.nonce = random_bytes(kNonce);
      send(v, frame(FrameKind::Challenge, 0,
                    v.nonce + store_proof(options_.secret, v.hello, v.nonce)));
    }
    return;
  }
  const Greeting g = *parse_greeting(v.hello);
  if (f.kind != FrameKind::Proof ||
      !same_proof(f.body, process_proof(options_.secret, v.hello, v.nonce))) {
    turn_away(v, g, "it does not know the secret (RINGSCHED_SECRET) of process 0");
    return;
  }
  admit(v, g, f.version);
}

// An unauthenticated peer must never end the run, whatever it sends. If it belongs to the run after
// all, this text helps to report the processes that did not come.
void Store::turn_away(Visitor& v, const Greeting& g, const std::string& why) {
  constexpr std::size_t most = 8;
  if (turned_away_.size() < most)
    turned_away_.try_emplace(g.rank, fmt::format("{}, {}: {}", g.host, v.name, why));
  refuse(v, why, kExitBadInput);
}

// Once all are there, a latecomer is wrong; if the run has ended by then, it ends like the others.
bool Store::too_late(Visitor& v) {
  if (ended_)
    refuse(v, why_, code_, false);
  else if (complete_)
    refuse(v,
           fmt::format("all {} processes are there; does another run use {}?", options_.size,
                       address_.text()),
           kExitBadInput);
  return ended_ || complete_;
}

// A process that may take part (it knows the secret, or there is none), but does not fit the
// others. Nobody can tell which side was started wrongly, so all end with that code.
void Store::misfit(Visitor& v, const Greeting& g, const std::string& why) {
  if (too_late(v)) return;
  end(fmt::format("process {} ({}, {}) {}", g.rank, g.host, v.name, why), kExitBadInput);
  refuse(v, why_, code_, false);
}

void Store::admit(Visitor& v, const Greeting& g, unsigned version) {
  const std::string name = fmt::format("{}, {}", g.host, v.name);
  if (too_late(v)) return;
  if (version != kFrameVersion) {
    misfit(v, g,
           fmt::format("speaks version {} of the protocol, and process 0 "
                       "version {}",
                       version, kFrameVersion));
  } else if (g.size != options_.size) {
    misfit(v, g, fmt::format("is one of {}, and process 0 one of {}", g.size, options_.size));
  } else if (members_[g.rank]) {
    end(fmt::format("two processes say that they are process {}: {} and {}", g.rank,
                    members_[g.rank]->name, name),
        kExitBadInput);
    refuse(v, why_, code_, false);
  } else {
    v.rank = g.rank;
    v.name = name;
    members_[g.rank] = &v;
    send(v, frame(FrameKind::Alive));  // it calls again if it does not hear that it is admitted
    if (++there_ < options_.size) return;
    complete_ = true;
    send_all(frame(FrameKind::Welcome, options_.size));
  }
}

void Store::put(Visitor& v, const Frame& f) {
  std::optional<std::string>& text = texts_[*v.rank];
  if (ended_) return;
  if (!complete_ || f.number != round_ || text) {
    refuse(v, fmt::format("it is at exchange {}, and the others are at {}", f.number, round_),
           kExitFailed);
    return;
  }
  if (left_ > 0) {
    end(fmt::format("process {} goes on, and others have left", *v.rank));
    return;
  }
  if (given_ == 0) began_ = Steady::now();
  text = f.body;
  held_ += f.body.size();
  if (++given_ < options_.size) return;
  std::vector<std::string_view> all;
  for (const auto& t : texts_) all.emplace_back(*t);
  send_all(frame(FrameKind::All, round_, texts_body(all)));
  for (auto& t : texts_) t.reset();
  held_ = 0;
  given_ = 0;
  ++round_;
}

void Store::leave(Visitor& v) {
  v.leaves = true;
  note(*v.rank, {LastWord::State::Said, {}});
  if (++left_ == options_.size && !ended_) send_all(frame(FrameKind::Left));
}

}  // namespace ringsched
