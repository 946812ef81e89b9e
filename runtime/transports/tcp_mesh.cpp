#include "transports/tcp_mesh.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <cstdio>
#include <list>
#include <vector>

#include "rendezvous/frame.hpp"
#include "rendezvous/sha256.hpp"
#include "ringsched/scheduler/words.hpp"

namespace ringsched {

namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr std::size_t kProof = 32, kGreeting = 8 + kProof;
constexpr std::size_t kMostStrangers = 256;
constexpr auto kGreetingTime = 5s;

// Says who connects to whom. The number of the run is known to its processes alone.
std::string greeting(const std::string& secret, const std::string& run, std::uint32_t from,
                     std::uint32_t to) {
  std::string out;
  put_number(out, from, 4);
  put_number(out, to, 4);
  return out + hmac_sha256(secret, fmt::format("messages{}{}", run, out));
}

struct Stranger {
  Socket socket;
  std::string said;
  Steady::time_point since;
};

class Meeting {
 public:
  Meeting(World& world, const Control& control, const TcpOptions& options)
      : world_(world),
        control_(control),
        options_(options),
        ends_(Steady::now() + options.patience) {}

  std::map<std::uint32_t, Socket> meet(const std::set<std::uint32_t>& peers,
                                       const std::string& host) {
    const Socket listening = listen_at({host, 0});
    run_ = world_.rank() == 0 ? random_bytes(kNonce) : "";
    const std::vector<std::string> all =
        world_.gather(run_ + "\n" + local_address(listening).text());
    run_ = all[0].substr(0, kNonce);
    for (const std::uint32_t r : peers) {
      if (r > world_.rank()) {
        awaited_.insert(r);
        continue;
      }
      const std::size_t before = (r == 0 ? kNonce : 0) + 1;
      call(r, parse_address(all[r].substr(before), "an address"));
    }
    while (!awaited_.empty()) {
      check_time("did not connect");
      await(listening);
    }
    world_.gather("connected");
    return std::move(sockets_);
  }

 private:
  void check_time(const std::string& what) const {
    if (control_.abandoned()) throw RunFailed(control_.abandoned_why());
    if (Steady::now() > ends_)
      throw RunFailed(fmt::format("process {} {} for messages within {}",
                                  awaited_.empty() ? called_ : *awaited_.begin(), what,
                                  duration({1000 * options_.patience.count()})));
  }

  void call(std::uint32_t rank, const Address& at) {
    called_ = rank;
    std::string why;
    while (true) {
      Socket s = connect_to(at, 500ms, why);
      if (s && send_all(s, greeting(options_.secret, run_, world_.rank(), rank), ends_)) {
        sockets_[rank] = std::move(s);
        return;
      }
      check_time(fmt::format("could not be reached at {} ({})", at.text(), why));
      ::poll(nullptr, 0, 50);
    }
  }

  void await(const Socket& listening) {
    std::vector<pollfd> polled{{listening.fd(), POLLIN, 0}};
    for (const Stranger& s : strangers_) polled.push_back({s.socket.fd(), POLLIN, 0});
    ::poll(polled.data(), polled.size(), 100);
    while (Socket s = accept_from(listening))
      if (strangers_.size() < kMostStrangers)
        strangers_.push_back({std::move(s), {}, Steady::now()});
    for (auto s = strangers_.begin(); s != strangers_.end();)
      s = known_or_refused(*s) ? strangers_.erase(s) : std::next(s);
  }

  bool known_or_refused(Stranger& s) {
    char part[kGreeting];
    const std::ptrdiff_t got = receive_some(s.socket, part, kGreeting - s.said.size());
    if (got > 0) s.said.append(part, static_cast<std::size_t>(got));
    if (s.said.size() < kGreeting) {
      if (got >= 0 && Steady::now() - s.since < kGreetingTime) return false;
      return refused(s);
    }
    std::string_view said = s.said;
    const auto from = static_cast<std::uint32_t>(take_number(said, 4));
    if (!awaited_.contains(from) ||
        !same_proof(s.said, greeting(options_.secret, run_, from, world_.rank())))
      return refused(s);
    awaited_.erase(from);
    sockets_[from] = std::move(s.socket);
    return true;
  }

  bool refused(const Stranger& s) const {
    std::fprintf(stderr, "ringsched: process %u: refused %s: it is none of the processes awaited\n",
                 world_.rank(), peer_address(s.socket).text().c_str());
    return true;
  }

  World& world_;
  const Control& control_;
  const TcpOptions& options_;
  const Steady::time_point ends_;
  std::string run_;
  std::uint32_t called_ = 0;
  std::set<std::uint32_t> awaited_;
  std::list<Stranger> strangers_;
  std::map<std::uint32_t, Socket> sockets_;
};

}  // namespace

std::map<std::uint32_t, Socket> connect_peers(World& world, const Control& control,
                                              const std::set<std::uint32_t>& peers,
                                              const std::string& host, const TcpOptions& options) {
  return Meeting(world, control, options).meet(peers, host);
}

}  // namespace ringsched
