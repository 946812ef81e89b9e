#include "transports/tcp_mesh.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <list>
#include <vector>

#include "rendezvous/file_limit.hpp"
#include "rendezvous/frame.hpp"
#include "rendezvous/refusals.hpp"
#include "rendezvous/sha256.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr std::size_t kProof = 32, kGreeting = 8 + kProof;
constexpr int kMostAtOnce = 16;  // accepted before those that came are read
constexpr auto kGreetingTime = 5s;
constexpr auto kCallAgain = 50ms;

// Says which process connects to which. Only processes of the run know its number.
std::string greeting(const std::string& secret, const std::string& run, std::uint32_t from,
                     std::uint32_t to) {
  std::string out;
  put_number(out, from, 4);
  put_number(out, to, 4);
  return out + hmac_sha256(secret, fmt::format("messages{}{}", run, out));
}

// And that it has arrived: a caller without an answer calls again.
std::string answer(const std::string& secret, const std::string& run, std::uint32_t from,
                   std::uint32_t to) {
  return hmac_sha256(secret, "answer" + greeting(secret, run, from, to));
}

// What each process tells all: process 0 the number of the run, then each its address.
Address address_in(std::string_view told, std::uint32_t rank) {
  const std::size_t before = rank == 0 ? kNonce : 0;
  try {
    if (told.size() <= before || told[before] != '\n') fail("no address");
    Address a = parse_address(told.substr(before + 1), "an address");
    if (is_number(a)) return a;
  } catch (const Error&) {
  }
  throw RunFailed(fmt::format("process {} sent an address that cannot be read", rank));
}

struct Stranger {
  Socket socket;
  std::string said;
  Steady::time_point since;
};

struct Call {
  std::uint32_t rank;
  Address at;
  Socket socket;  // none: between two tries
  std::string heard, why = "no answer";
  Steady::time_point next;  // try
};

class Assembly {
 public:
  Assembly(World& world, const Control& control, const TcpOptions& options)
      : world_(world),
        control_(control),
        options_(options),
        ends_(Steady::now() + options.patience),
        refusals_([rank = world.rank()](const std::string& what) {
          std::fprintf(stderr, "ringsched: process %u %s\n", rank, what.c_str());
        }) {}

  std::map<std::uint32_t, Socket> meet(const std::set<std::uint32_t>& peers,
                                       const std::string& host) {
    most_strangers_ = room_for_strangers(
        peers.size() + 1, fmt::format("sending messages to {} processes", peers.size()));
    const Socket listening = listen_at({host, 0});
    run_ = world_.rank() == 0 ? random_bytes(kNonce) : "";
    const std::vector<std::string> all =
        world_.gather(run_ + "\n" + local_address(listening).text());
    run_ = all[0].substr(0, kNonce);
    std::vector<Address> addresses;
    for (std::uint32_t r = 0; r < all.size(); ++r) addresses.push_back(address_in(all[r], r));
    for (const std::uint32_t r : peers) {
      if (r > world_.rank())
        awaited_.insert(r);
      else
        calls_.push_back({r, addresses[r], {}, {}, {}, {}});
    }
    while (!awaited_.empty() || !calls_.empty()) {
      for (Call& c : calls_) {
        check_time();
        if (!c.socket && Steady::now() >= c.next) call(c);
      }
      check_time();
      wait(listening);
      let_in(listening);
      strangers_.remove_if([this](Stranger& s) { return known_or_refused(s); });
      calls_.remove_if([this](Call& c) { return answered(c); });
    }
    world_.gather("connected");
    return std::move(sockets_);
  }

 private:
  void check_time() const {
    if (control_.abandoned()) throw RunFailed(control_.abandoned_why());
    if (Steady::now() <= ends_) return;
    const std::string within = duration({1000 * options_.patience.count()});
    if (!awaited_.empty())
      throw RunFailed(fmt::format("process {} did not connect for messages within {}",
                                  *awaited_.begin(), within));
    const Call& c = calls_.front();
    throw RunFailed(fmt::format("process {} could not be reached for messages at {} within {}: {}",
                                c.rank, c.at.text(), within, c.why));
  }

  void call(Call& c) {
    c.next = Steady::now() + kCallAgain;
    c.heard.clear();
    c.socket = connect_to(c.at, 500ms, c.why);
    if (!c.socket) return;
    c.why = "no answer";
    if (!send_all(c.socket, greeting(options_.secret, run_, world_.rank(), c.rank), ends_))
      c.socket.close();
  }

  bool answered(Call& c) {
    if (!c.socket) return false;
    char part[kProof];
    const std::ptrdiff_t got = receive_some(c.socket, part, kProof - c.heard.size());
    if (got < 0) {
      c.why = errno == 0 ? "the connection closed" : std::strerror(errno);
      c.socket.close();
      return false;
    }
    c.heard.append(part, static_cast<std::size_t>(got));
    if (c.heard.size() < kProof) return false;
    if (!same_proof(c.heard, answer(options_.secret, run_, world_.rank(), c.rank)))
      throw RunFailed(
          fmt::format("{} answers, but not as process {} of this run (or the answer "
                      "was changed on the way)",
                      c.at.text(), c.rank));
    sockets_[c.rank] = std::move(c.socket);
    return true;
  }

  void wait(const Socket& listening) const {
    std::vector<pollfd> polled{{listening.fd(), POLLIN, 0}};
    for (const Stranger& s : strangers_) polled.push_back({s.socket.fd(), POLLIN, 0});
    bool again = false;
    for (const Call& c : calls_) {
      polled.push_back({c.socket.fd(), POLLIN, 0});
      again = again || !c.socket;
    }
    ::poll(polled.data(), polled.size(), again ? 50 : 100);
  }

  // If there are too many unauthenticated connections, the oldest goes. If it belongs here, it
  // calls again.
  void let_in(const Socket& listening) {
    for (int i = 0; i < kMostAtOnce; ++i) {
      Socket s = accept_from(listening);
      if (!s) {
        if (!is_file_limit(errno)) return;
        if (strangers_.empty())
          throw RunFailed("cannot accept connections for messages: " + why_no_file(errno));
      } else {
        strangers_.push_back({std::move(s), {}, Steady::now()});
        if (strangers_.size() <= awaited_.size() + most_strangers_) continue;
      }
      refuse(strangers_.front(), "it did not identify itself, and others connected");
      strangers_.pop_front();
    }
  }

  bool known_or_refused(Stranger& s) {
    char part[kGreeting];
    const std::ptrdiff_t got = receive_some(s.socket, part, kGreeting - s.said.size());
    if (got > 0) s.said.append(part, static_cast<std::size_t>(got));
    if (s.said.size() < kGreeting) {
      if (got >= 0 && Steady::now() - s.since < kGreetingTime) return false;
      return refuse(s, "it did not identify itself");
    }
    std::string_view said = s.said;
    const auto from = static_cast<std::uint32_t>(take_number(said, 4));
    if (!awaited_.contains(from) ||
        !same_proof(s.said, greeting(options_.secret, run_, from, world_.rank())))
      return refuse(s, "it is not one of the awaited processes");
    // The peer may be gone by now; whoever awaits something from it then says so.
    send_all(s.socket, answer(options_.secret, run_, from, world_.rank()), ends_);
    awaited_.erase(from);
    sockets_[from] = std::move(s.socket);
    return true;
  }

  bool refuse(const Stranger& s, const char* why) {
    refusals_.add(peer_address(s.socket).text(), why);
    return true;
  }

  World& world_;
  const Control& control_;
  const TcpOptions& options_;
  const Steady::time_point ends_;
  Refusals refusals_;
  std::size_t most_strangers_ = 0;  // beside those awaited
  std::string run_;
  std::set<std::uint32_t> awaited_;
  std::list<Call> calls_;
  std::list<Stranger> strangers_;  // the oldest first
  std::map<std::uint32_t, Socket> sockets_;
};

}  // namespace

std::map<std::uint32_t, Socket> connect_peers(World& world, const Control& control,
                                              const std::set<std::uint32_t>& peers,
                                              const std::string& host, const TcpOptions& options) {
  return Assembly(world, control, options).meet(peers, host);
}

}  // namespace ringsched
