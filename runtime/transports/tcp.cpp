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
#include <utility>

#include "message_numbers.hpp"
#include "rendezvous/crc32c.hpp"
#include "ringsched/scheduler/task_name.hpp"
#include "transports/local.hpp"
#include "transports/tcp_header.hpp"
#include "transports/tcp_mesh.hpp"
#include "transports/tcp_peer.hpp"

namespace ringsched {

namespace {

constexpr std::int64_t kPieceBytes = 1 << 18;  // what others wait for at most
constexpr int kPiecesAtOnce = 16;              // to one peer, before the next has its turn

class TcpTransport final : public Transport {
 public:
  TcpTransport(const Plan& plan, Control& control, World& world, const std::string& host,
               const TcpOptions& options)
      : plan_(plan), numbers_(plan), control_(control), world_(world), local_(plan, control) {
    for (auto& [rank, socket] : connect_peers(world, control, ranks(), host, options)) {
      TcpPeer& p = peers_[rank];
      p.rank = rank;
      p.socket = std::move(socket);
    }
    try {
      thread_ = std::thread([this] { progress(); });
    } catch (const std::system_error& wrong) {
      throw RunFailed(fmt::format("cannot start a thread for messages: {}", wrong.what()));
    }
  }
  ~TcpTransport() override { end_thread(); }

  void begin_run() override { local_.begin_run(); }
  // The lanes' requests are about to go, with the memory of their messages.
  void give_up() override { end_thread(); }

  void exchange(Device& device, WorkerId worker, Lane lane, std::vector<MessageEnd> all) override {
    auto group = std::make_shared<TcpGroup>();
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
  void end_thread() {
    {
      const std::lock_guard lock(guard_);
      ends_ = true;
    }
    bell_.ring();
    if (thread_.joinable()) thread_.join();
  }

  // The processes that this one exchanges messages with.
  std::set<std::uint32_t> ranks() const {
    std::set<std::uint32_t> out;
    numbers_.for_each([&](const MessageNumbers::Message& m) {
      const std::uint32_t from = rank_of(m.from), to = rank_of(m.to);
      if (from != to && from == world_.rank()) out.insert(to);
      if (from != to && to == world_.rank()) out.insert(from);
    });
    return out;
  }
  std::uint32_t rank_of(WorkerId w) const { return world_.rank_of(w, plan_.problem.workers); }

  void progress() {
    std::vector<pollfd> polled;
    while (true) {
      std::vector<TcpGroup*> fresh;
      {
        const std::lock_guard lock(guard_);
        if (ends_) return;
        fresh.swap(posted_);
      }
      for (TcpGroup* g : fresh) start(*g);
      polled = {{bell_.fd(), POLLIN, 0}};
      for (const auto& [rank, p] : peers_)
        polled.push_back({p.socket.fd(),  // none: poll passes it over
                          static_cast<short>(p.has_something_to_send() ? POLLIN | POLLOUT : POLLIN),
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

  void start(TcpGroup& group) {
    for (const MessageEnd& m : group.elsewhere) {
      TcpTransfer& t = transfers_.try_emplace(key(m.number, m.sends), group, m).first->second;
      if (t.left == 0) {  // both ends know that there is nothing to send
        complete(t);
        continue;
      }
      TcpPeer& peer = peers_.at(rank_of(m.peer));
      if (!peer.socket) lose(peer, "its connection for messages has closed");
      if (!m.sends)
        peer.out += TcpHeader{TcpHeader::Kind::Ready, m.number}.text();
      else if (ready_.erase(m.number) > 0)
        queue(peer, t);
    }
  }

  // False: it is under way already.
  static bool queue(TcpPeer& peer, TcpTransfer& t) {
    if (std::exchange(t.awaited, true)) return false;
    peer.sends.push_back(&t);
    return true;
  }

  static std::uint64_t key(std::uint32_t message, bool sends) {
    return std::uint64_t{message} << 1 | (sends ? 1 : 0);
  }

  void complete(const TcpTransfer& t) {
    TcpGroup& group = *t.group;
    t.message->complete();
    transfers_.erase(key(t.message->number, t.message->sends));
    const std::lock_guard lock(guard_);
    if (--group.open == 0) group.complete.notify_all();
  }

  // Another process may leave as soon as it has all its messages. The others know themselves
  // whether they have theirs.
  void end(TcpPeer& p) {
    const std::string how = how_lost();
    if (errno != 0 || p.into || !p.in.empty() || any_open(p)) return lose(p, how);
    p.socket.close();
    p.out.clear();
    p.head.clear();
  }

  const TcpTransfer* any_open(const TcpPeer& p) const {
    const auto found = std::find_if(transfers_.begin(), transfers_.end(), [&](const auto& one) {
      return rank_of(one.second.message->peer) == p.rank;
    });
    return found == transfers_.end() ? nullptr : &found->second;
  }

  void lose(TcpPeer& p, const std::string& how) {
    drop(p, fmt::format("process {} is gone: {}", p.rank, how));
  }

  void drop(TcpPeer& p, const std::string& why) {
    p.socket.close();
    p.sends.clear();
    control_.abandon(why);
  }

  // The received bytes differ from those sent. A bad header says nothing, so the error names what
  // is awaited.
  void lose_header(TcpPeer& p) {
    const TcpTransfer* open = any_open(p);
    drop(p,
         fmt::format("the header of a message from process {} to process {} was changed on the "
                     "way: its checksum is wrong{}",
                     p.rank, world_.rank(),
                     open ? "; next between them is " + name_of(plan_, open->message->task) : ""));
  }
  void lose_piece(TcpPeer& p, const TcpTransfer& t) {
    drop(p, fmt::format("the message of {} from process {} to process {} was changed on the way: "
                        "its checksum is {:08x} in place of {:08x}",
                        name_of(plan_, t.message->task), p.rank, world_.rank(), p.checksum,
                        p.announced));
  }

  std::string how_lost() const {
    return errno == 0 ? "its connection for messages closed"
                      : fmt::format("its connection for messages broke: {}", std::strerror(errno));
  }

  void receive(TcpPeer& p) {
    for (int n = 0; n < kPiecesAtOnce && p.socket; ++n)
      if (p.into ? !receive_piece(p) : !receive_header(p)) return;
  }

  // Both return false if nothing more is there for now.
  bool receive_piece(TcpPeer& p) {
    TcpTransfer& t = *p.into;
    const std::int64_t most = std::min(p.expected, t.contiguous());
    const std::ptrdiff_t got =
        receive_some(p.socket, reinterpret_cast<char*>(t.place()), static_cast<std::size_t>(most));
    if (got < 0) end(p);
    if (got <= 0) return false;
    p.checksum = crc32c(t.place(), static_cast<std::size_t>(got), p.checksum);
    t.advance(got);
    if ((p.expected -= got) > 0) return true;
    p.into = nullptr;
    if (p.checksum != p.announced)
      lose_piece(p, t);
    else if (t.left == 0)
      complete(t);
    return true;
  }

  bool receive_header(TcpPeer& p) {
    char part[TcpHeader::kBytes];
    const std::ptrdiff_t got = receive_some(p.socket, part, TcpHeader::kBytes - p.in.size());
    if (got < 0) end(p);
    if (got <= 0) return false;
    p.in.append(part, static_cast<std::size_t>(got));
    if (p.in.size() < TcpHeader::kBytes) return true;
    const std::optional<TcpHeader> header = TcpHeader::parse(p.in);
    p.in.clear();
    if (!header)
      lose_header(p);
    else if (!begin(p, *header))
      lose(p, "it sent unreadable data");
    return true;
  }

  // Handles what follows a header. False: this peer may not send that.
  bool begin(TcpPeer& p, const TcpHeader& header) {
    const std::optional<MessageNumbers::Message> message = numbers_.message(header.message);
    if (!message) return false;
    const std::uint32_t from = rank_of(message->from), to = rank_of(message->to);
    if (header.kind == TcpHeader::Kind::Ready) {
      if (from != world_.rank() || to != p.rank || header.bytes != 0) return false;
      const auto t = transfers_.find(key(header.message, true));
      return t != transfers_.end() ? queue(p, t->second) : ready_.insert(header.message).second;
    }
    const auto t = transfers_.find(key(header.message, false));
    if (header.kind != TcpHeader::Kind::Piece || from != p.rank || t == transfers_.end() ||
        header.bytes == 0 || header.bytes > static_cast<std::uint64_t>(t->second.left))
      return false;
    p.into = &t->second;
    p.expected = static_cast<std::int64_t>(header.bytes);
    p.checksum = 0;
    p.announced = header.checksum;
    return true;
  }

  // Headers that wait, and that of the next piece. False: nothing to send.
  bool begin_sending(TcpPeer& p) {
    p.head = std::exchange(p.out, {});
    if (!p.sends.empty()) {
      const TcpTransfer& t = *p.sends.front();
      p.piece = std::min(kPieceBytes, t.left);
      p.head += TcpHeader{TcpHeader::Kind::Piece, t.message->number,
                          static_cast<std::uint64_t>(p.piece), t.checksum(p.piece)}
                    .text();
    }
    return !p.head.empty();
  }

  void send(TcpPeer& p) {
    for (int n = 0; n < kPiecesAtOnce; ++n) {
      if (p.piece == 0 && p.head.empty() && !begin_sending(p)) return;
      TcpTransfer* const t = p.piece > 0 ? p.sends.front() : nullptr;
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
  const MessageNumbers numbers_;
  Control& control_;
  const World& world_;
  LocalTransport local_;
  Bell bell_;
  std::map<std::uint32_t, TcpPeer> peers_;                    // of the thread, as is what follows
  std::unordered_map<std::uint64_t, TcpTransfer> transfers_;  // that are posted here
  std::unordered_set<std::uint32_t> ready_;                   // messages that are awaited there
  std::thread thread_;

  std::mutex guard_;
  std::vector<TcpGroup*> posted_;
  bool ends_ = false;
};

}  // namespace

std::uint32_t TcpTransfer::checksum(std::int64_t bytes) const {
  std::uint32_t out = 0;
  for (TcpTransfer t = *this; bytes > 0;) {
    const std::int64_t some = std::min(bytes, t.contiguous());
    out = crc32c(t.place(), static_cast<std::size_t>(some), out);
    t.advance(some);
    bytes -= some;
  }
  return out;
}

std::unique_ptr<Transport> make_tcp_transport(const Plan& plan, Control& control, World& world,
                                              const std::string& host, const TcpOptions& options) {
  return std::make_unique<TcpTransport>(plan, control, world, host, options);
}

}  // namespace ringsched
