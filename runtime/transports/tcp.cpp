#include "transports/tcp.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "rendezvous/frame.hpp"
#include "rendezvous/socket.hpp"
#include "transports/local.hpp"
#include "transports/tcp_mesh.hpp"

namespace ringsched {

namespace {

// Before each piece of a message, and instead of one where the receiver says that it is ready:
// kind, task of the send, bytes that follow; little-endian.
constexpr std::size_t kHeader = 16;
constexpr std::uint64_t kReady = 0x59444552, kPiece = 0x43455049;
constexpr std::int64_t kPieceBytes = 1 << 18;  // what others wait for at most
constexpr int kPiecesAtOnce = 16;              // to one peer, before the next has its turn

std::string header(std::uint64_t kind, TaskId task, std::int64_t bytes) {
  std::string out;
  put_number(out, kind, 4);
  put_number(out, task.value, 4);
  put_number(out, static_cast<std::uint64_t>(bytes), 8);
  return out;
}

struct Group {
  std::vector<MessageEnd> here, elsewhere;
  std::size_t open = 0;  // messages that are not complete; guarded
  std::condition_variable complete;
};

// A message on its way, and how far it is.
struct Transfer {
  Group* group = nullptr;
  const MessageEnd* message = nullptr;
  std::size_t matrix = 0;
  std::int64_t at = 0, left = 0;  // of the matrix; of all

  Transfer(Group& g, const MessageEnd& m) : group(&g), message(&m) {
    for (const std::int64_t b : m.bytes) left += b;
    skip();
  }
  std::byte* place() const { return message->piece[matrix] + at; }
  std::int64_t contiguous() const { return message->bytes[matrix] - at; }
  void advance(std::int64_t bytes) {
    at += bytes;
    left -= bytes;
    skip();
  }

 private:
  void skip() {
    while (left > 0 && at == message->bytes[matrix]) {
      ++matrix;
      at = 0;
    }
  }
};

struct Peer {
  std::uint32_t rank = 0;
  Socket socket;
  std::string in;            // a header that has begun
  Transfer* into = nullptr;  // what is being received, and how much more of this piece
  std::int64_t expected = 0;
  std::string out;   // headers that go before the next piece
  std::string head;  // those that go now
  std::deque<Transfer*> sends;
  std::int64_t piece = 0;  // of the first of them, bytes still to go after the head
};

class TcpTransport final : public Transport {
 public:
  TcpTransport(const Plan& plan, Control& control, World& world, const std::string& host,
               const TcpOptions& options)
      : plan_(plan), control_(control), world_(world), local_(plan, control) {
    std::set<std::uint32_t> ranks;
    for (const Task& t : plan.tasks) {
      if (t.kind != TaskKind::Send) continue;
      const std::uint32_t from = rank_of(t.worker()),
                          to = rank_of(plan.tasks[t.peer.value].worker());
      if (from == to || (from != world.rank() && to != world.rank())) continue;
      ranks.insert(from == world.rank() ? to : from);
    }
    for (auto& [rank, socket] : connect_peers(world, control, ranks, host, options)) {
      Peer& p = peers_[rank];
      p.rank = rank;
      p.socket = std::move(socket);
    }
    try {
      thread_ = std::thread([this] { progress(); });
    } catch (const std::system_error& wrong) {
      throw RunFailed(fmt::format("cannot start a thread for messages: {}", wrong.what()));
    }
  }
  ~TcpTransport() override {
    {
      const std::lock_guard lock(guard_);
      ends_ = true;
    }
    bell_.ring();
    thread_.join();
  }

  void begin_run() override { local_.begin_run(); }

  void exchange(Device& device, WorkerId worker, Lane lane, std::vector<MessageEnd> all) override {
    auto group = std::make_shared<Group>();
    for (MessageEnd& m : all)
      (rank_of(m.peer) == world_.rank() ? group->here : group->elsewhere).push_back(m);
    device.call(lane, [this, worker, group] {
      if (!group->elsewhere.empty()) {
        {
          const std::lock_guard lock(guard_);
          group->open = group->elsewhere.size();
          posted_.push_back(group.get());
        }
        bell_.ring();
      }
      if (!group->here.empty()) local_.exchange_now(worker, group->here);
      if (group->elsewhere.empty()) return;
      std::unique_lock lock(guard_);
      wait_until(control_, group->complete, lock, [&] { return group->open == 0; });
    });
  }

 private:
  std::uint32_t rank_of(WorkerId w) const { return world_.rank_of(w, plan_.problem.workers); }

  void progress() {
    std::vector<pollfd> polled;
    while (true) {
      std::vector<Group*> fresh;
      {
        const std::lock_guard lock(guard_);
        if (ends_) return;
        fresh.swap(posted_);
      }
      for (Group* g : fresh) start(*g);
      polled = {{bell_.fd(), POLLIN, 0}};
      for (const auto& [rank, p] : peers_)
        polled.push_back({p.socket.fd(),  // none: poll passes it over
                          static_cast<short>(p.out.empty() && p.head.empty() && p.sends.empty()
                                                 ? POLLIN
                                                 : POLLIN | POLLOUT),
                          0});
      ::poll(polled.data(), polled.size(), -1);
      if (polled[0].revents != 0) bell_.quiet();
      std::size_t i = 1;
      for (auto& [rank, p] : peers_) {
        if (p.socket && (polled[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) receive(p);
        if (p.socket && (polled[i].revents & POLLOUT) != 0) send(p);
        ++i;
      }
    }
  }

  void start(Group& group) {
    for (const MessageEnd& m : group.elsewhere) {
      Transfer& t = transfers_.try_emplace(key(m.task, m.sends), group, m).first->second;
      if (t.left == 0) {  // both ends know that there is nothing to send
        complete(t);
        continue;
      }
      Peer& peer = peers_.at(rank_of(m.peer));
      if (!peer.socket) lose(peer, "its connection for messages has closed");
      if (!m.sends)
        peer.out += header(kReady, m.task, 0);
      else if (ready_.erase(m.task.value) > 0)
        peer.sends.push_back(&t);
    }
  }

  static std::uint64_t key(TaskId task, bool sends) {
    return std::uint64_t{task.value} << 1 | (sends ? 1 : 0);
  }

  void complete(const Transfer& t) {
    Group& group = *t.group;
    transfers_.erase(key(t.message->task, t.message->sends));
    const std::lock_guard lock(guard_);
    if (--group.open == 0) group.complete.notify_all();
  }

  // Whoever has all its messages may go. Whether that is so for the others, too, they know.
  void end(Peer& p) {
    const bool awaited = errno != 0 || p.into || !p.in.empty() ||
                         std::any_of(transfers_.begin(), transfers_.end(), [&](const auto& one) {
                           return rank_of(one.second.message->peer) == p.rank;
                         });
    if (awaited) return lose(p, how_lost());
    p.socket.close();
    p.out.clear();
    p.head.clear();
  }

  void lose(Peer& p, const std::string& how) {
    p.socket.close();
    p.sends.clear();
    control_.abandon(fmt::format("process {} is gone: {}", p.rank, how));
  }

  std::string how_lost() const {
    return errno == 0 ? "its connection for messages closed"
                      : fmt::format("its connection for messages broke: {}", std::strerror(errno));
  }

  void receive(Peer& p) {
    for (int n = 0; n < kPiecesAtOnce && p.socket; ++n) {
      if (p.into) {
        Transfer& t = *p.into;
        const std::int64_t most = std::min(p.expected, t.contiguous());
        const std::ptrdiff_t got = receive_some(p.socket, reinterpret_cast<char*>(t.place()),
                                                static_cast<std::size_t>(most));
        if (got < 0) return end(p);
        if (got == 0) return;
        t.advance(got);
        if ((p.expected -= got) > 0) continue;
        p.into = nullptr;
        if (t.left == 0) complete(t);
        continue;
      }
      char part[kHeader];
      const std::ptrdiff_t got = receive_some(p.socket, part, kHeader - p.in.size());
      if (got < 0) return end(p);
      if (got == 0) return;
      p.in.append(part, static_cast<std::size_t>(got));
      if (p.in.size() == kHeader && !begin(p)) return lose(p, "it sends what cannot be read");
    }
  }

  // What follows a header. False: nothing that this peer may send.
  bool begin(Peer& p) {
    std::string_view in = p.in;
    const std::uint64_t kind = take_number(in, 4);
    const TaskId task{static_cast<std::uint32_t>(take_number(in, 4))};
    const std::uint64_t bytes = take_number(in, 8);
    p.in.clear();
    if (task.value >= plan_.tasks.size()) return false;
    const Task& send = plan_.tasks[task.value];
    if (send.kind != TaskKind::Send) return false;
    const std::uint32_t from = rank_of(send.worker()),
                        to = rank_of(plan_.tasks[send.peer.value].worker());
    if (kind == kReady) {
      if (from != world_.rank() || to != p.rank || bytes != 0) return false;
      if (const auto t = transfers_.find(key(task, true)); t != transfers_.end())
        p.sends.push_back(&t->second);
      else
        ready_.insert(task.value);
      return true;
    }
    const auto t = transfers_.find(key(task, false));
    if (kind != kPiece || from != p.rank || t == transfers_.end() || bytes == 0 ||
        bytes > static_cast<std::uint64_t>(t->second.left))
      return false;
    p.into = &t->second;
    p.expected = static_cast<std::int64_t>(bytes);
    return true;
  }

  void send(Peer& p) {
    for (int n = 0; n < kPiecesAtOnce; ++n) {
      if (p.piece == 0 && p.head.empty()) {
        p.head = std::exchange(p.out, {});
        if (!p.sends.empty()) {
          p.piece = std::min(kPieceBytes, p.sends.front()->left);
          p.head += header(kPiece, p.sends.front()->message->task, p.piece);
        }
        if (p.head.empty()) return;
      }
      Transfer* const t = p.piece > 0 ? p.sends.front() : nullptr;
      const std::int64_t most = t ? std::min(p.piece, t->contiguous()) : 0;
      iovec parts[2] = {{p.head.data(), p.head.size()},
                        {t ? t->place() : nullptr, static_cast<std::size_t>(most)}};
      msghdr message{};
      message.msg_iov = parts;
      message.msg_iovlen = t ? 2 : 1;
      const std::ptrdiff_t done = ::sendmsg(p.socket.fd(), &message, MSG_NOSIGNAL);
      if (done < 0) {
        if (errno == EAGAIN || errno == EINTR) return;
        return lose(p, how_lost());
      }
      const std::size_t headers = std::min(p.head.size(), static_cast<std::size_t>(done));
      p.head.erase(0, headers);
      const std::int64_t payload = done - static_cast<std::int64_t>(headers);
      if (payload == 0) continue;
      t->advance(payload);
      if ((p.piece -= payload) > 0) continue;
      if (t->left > 0) {
        std::rotate(p.sends.begin(), p.sends.begin() + 1, p.sends.end());  // in turn
        continue;
      }
      p.sends.pop_front();
      complete(*t);
    }
  }

  const Plan& plan_;
  Control& control_;
  const World& world_;
  LocalTransport local_;
  Bell bell_;
  std::map<std::uint32_t, Peer> peers_;                    // of the thread, as is what follows
  std::unordered_map<std::uint64_t, Transfer> transfers_;  // that are posted here
  std::unordered_set<std::uint32_t> ready_;                // sends that are awaited there
  std::thread thread_;

  std::mutex guard_;
  std::vector<Group*> posted_;
  bool ends_ = false;
};

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(const Plan& plan, Control& control, World& world,
                                              const std::string& host, const TcpOptions& options) {
  return std::make_unique<TcpTransport>(plan, control, world, host, options);
}

}  // namespace ringsched
