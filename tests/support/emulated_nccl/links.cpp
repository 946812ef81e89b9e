// Frames between the ranks of a communicator.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "support/emulated_nccl/communicator.hpp"

namespace emulated {

namespace {

struct Header {
  Frame frame;
  Kind kind;
  std::uint64_t bytes;
};

// A name that no file has.
socklen_t address(sockaddr_un& a, const ncclComm& c, int rank) {
  const std::string name = c.id + "." + std::to_string(rank);
  a = {};
  a.sun_family = AF_UNIX;
  std::memcpy(a.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

int new_socket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

void accept_peers(ncclComm& c) {
  for (int fd; (fd = ::accept4(c.listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;) {
    std::int32_t rank = -1;  // comes with the connection
    while (::recv(fd, &rank, sizeof rank, MSG_WAITALL) < 0 && errno == EAGAIN) {
    }
    if (rank > c.rank && rank < c.size)
      c.links[static_cast<std::size_t>(rank)].fd = fd;
    else
      ::close(fd);
  }
}

void connect_to(ncclComm& c, int rank) {
  const int fd = new_socket();
  sockaddr_un a{};
  const socklen_t length = address(a, c, rank);
  const std::int32_t self = c.rank;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&a), length) == 0 &&
      ::send(fd, &self, sizeof self, MSG_NOSIGNAL) == sizeof self)
    c.links[static_cast<std::size_t>(rank)].fd = fd;
  else
    ::close(fd);  // it is not there yet
}

void lose(Link& l) {
  if (l.fd >= 0) ::close(l.fd);
  l.fd = -1;
  l.lost = true;
}

void deliver(Link& l, const Header& h, std::string bytes) {
  if (h.frame == Frame::Hello) l.gpu = std::move(bytes);
  if (h.frame == Frame::Message) l.arrived.push_back({h.kind, std::move(bytes)});
  if (h.frame == Frame::Taken) ++l.taken;
  if (h.frame == Frame::Leaves) l.leaves = true;
}

void take_frames(Link& l) {
  std::size_t at = 0;
  for (Header h{}; l.in.size() - at >= sizeof h; at += sizeof h + h.bytes) {
    std::memcpy(&h, l.in.data() + at, sizeof h);
    if (l.in.size() - at - sizeof h < h.bytes) break;
    deliver(l, h, l.in.substr(at + sizeof h, h.bytes));
  }
  l.in.erase(0, at);
}

void move_bytes(Link& l) {
  while (l.gone < l.out.size()) {
    const ssize_t n = ::send(l.fd, l.out.data() + l.gone, l.out.size() - l.gone, MSG_NOSIGNAL);
    if (n <= 0) break;
    l.gone += static_cast<std::size_t>(n);
  }
  if (l.gone == l.out.size()) {
    l.out.clear();
    l.gone = 0;
  }
  char some[65536];
  while (true) {
    const ssize_t n = ::recv(l.fd, some, sizeof some, 0);
    if (n > 0) {
      l.in.append(some, static_cast<std::size_t>(n));
      continue;
    }
    take_frames(l);
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) lose(l);
    return;
  }
}

}  // namespace

void listen_for_peers(ncclComm& c) {
  c.links.resize(static_cast<std::size_t>(c.size));
  c.listener = new_socket();
  sockaddr_un a{};
  const socklen_t length = address(a, c, c.rank);
  if (::bind(c.listener, reinterpret_cast<const sockaddr*>(&a), length) != 0 ||
      ::listen(c.listener, c.size) != 0)
    finding("rank " + std::to_string(c.rank) + " of a communicator is there twice");
}

bool has_all_peers(ncclComm& c) {
  accept_peers(c);
  bool all = true;
  for (int rank = 0; rank < c.size; ++rank) {
    Link& l = c.links[static_cast<std::size_t>(rank)];
    if (rank < c.rank && l.fd < 0 && !l.lost) connect_to(c, rank);
    all = all && (rank == c.rank || l.fd >= 0 || l.lost);
  }
  return all;
}

void move_frames(ncclComm& c) {
  for (Link& l : c.links)
    if (l.fd >= 0) move_bytes(l);
}

void put_frame(ncclComm& c, int peer, Frame frame, Kind kind, const std::string& bytes) {
  Link& l = c.links[static_cast<std::size_t>(peer)];
  const Header h{frame, kind, bytes.size()};
  if (peer == c.rank) return deliver(l, h, bytes);
  if (l.fd < 0) return;
  l.out.append(reinterpret_cast<const char*>(&h), sizeof h);
  l.out += bytes;
  move_bytes(l);
}

void close_all(ncclComm& c) {
  if (c.listener >= 0) ::close(c.listener);
  c.listener = -1;
  for (Link& l : c.links)
    if (l.fd >= 0) lose(l);
}

}  // namespace emulated
