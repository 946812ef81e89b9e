#include "rendezvous/socket.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "rendezvous/file_limit.hpp"
#include "ringsched/runtime/control.hpp"
#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/printable.hpp"

namespace ringsched {

namespace {

using namespace std::chrono_literals;
using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Addresses look_up(const Address& a, int flags, std::string& why) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  const int status = ::getaddrinfo(a.host.c_str(), std::to_string(a.port).c_str(), &hints, &found);
  if (status != 0) {
    const int error = errno;  // of EAI_SYSTEM alone
    found = nullptr;
    why = fmt::format("{}: {}", a.host,
                      status == EAI_SYSTEM ? why_no_file(error) : ::gai_strerror(status));
  }
  return {found, [](addrinfo* x) {
            if (x) ::freeaddrinfo(x);
          }};
}

// Without a socket: why there is none.
Socket new_socket(const addrinfo& a, std::string& why) {
  Socket s(::socket(a.ai_family, a.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!s) why = why_no_file(errno);
  return s;
}

Address address_of(const sockaddr_storage& s, socklen_t length) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&s), length, host, sizeof host, port,
                    sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {"somebody", 0};
  return {host, static_cast<std::uint16_t>(std::atoi(port))};
}

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

bool wait_for(const Socket& s, short events, std::chrono::steady_clock::time_point until) {
  pollfd p{s.fd(), events, 0};
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left <= 0ms) return false;
    const int ready =
        ::poll(&p, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 1'000'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool gone(std::ptrdiff_t done) { return done < 0 && errno != EAGAIN && errno != EINTR; }

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

std::string Address::text() const {
  return host.find(':') == host.npos ? fmt::format("{}:{}", host, port)
                                     : fmt::format("[{}]:{}", host, port);
}

Address parse_address(std::string_view text, std::string_view flag) {
  const std::size_t colon = text.rfind(':');
  Address a;
  unsigned port = 0;
  if (colon != text.npos) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (error != std::errc() || end != digits.data() + digits.size() || port > 65535) port = 0;
    a.host = text.substr(0, colon);
    if (a.host.starts_with('[') && a.host.ends_with(']')) a.host = a.host.substr(1, colon - 2);
  }
  if (a.host.empty() || port == 0)
    fail("{} is '{}'; use HOST:PORT, with a port of 1 to 65535", flag, printable(text, 80));
  a.port = static_cast<std::uint16_t>(port);
  return a;
}

bool is_number(const Address& a) {
  std::string why;
  return look_up(a, AI_NUMERICHOST, why) != nullptr;
}

Socket listen_at(const Address& a) {
  std::string why, first;
  const Addresses found = look_up(a, AI_PASSIVE, first);
  for (const addrinfo* x = found.get(); x; x = x->ai_next) {
    Socket s = new_socket(*x, why);
    if (s) {
      set(s.fd(), SOL_SOCKET, SO_REUSEADDR, 1);
      if (::bind(s.fd(), x->ai_addr, x->ai_addrlen) == 0 && ::listen(s.fd(), 1024) == 0) return s;
      why = std::strerror(errno);
    }
    if (first.empty()) first = why;
  }
  throw RunFailed(fmt::format("cannot listen at {}: {}", a.text(), first));
}

Address local_address(const Socket& s) {
  sockaddr_storage at{};
  socklen_t length = sizeof at;
  ::getsockname(s.fd(), reinterpret_cast<sockaddr*>(&at), &length);
  return address_of(at, length);
}

Address peer_address(const Socket& s) {
  sockaddr_storage at{};
  socklen_t length = sizeof at;
  if (::getpeername(s.fd(), reinterpret_cast<sockaddr*>(&at), &length) != 0) return {"somebody", 0};
  return address_of(at, length);
}

Socket connect_to(const Address& a, std::chrono::milliseconds patience, std::string& why) {
  const auto until = std::chrono::steady_clock::now() + patience;
  const Addresses found = look_up(a, 0, why);
  for (const addrinfo* x = found.get(); x; x = x->ai_next) {
    Socket s = new_socket(*x, why);
    if (!s) continue;
    int error = 0;
    socklen_t length = sizeof error;
    if (::connect(s.fd(), x->ai_addr, x->ai_addrlen) != 0) {
      error = errno;
      if (error == EINPROGRESS) {
        error = ETIMEDOUT;
        if (wait_for(s, POLLOUT, until))
          ::getsockopt(s.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
      }
    }
    // The system may pick, for this very socket, a local port that nobody listens at.
    if (error == 0 && local_address(s).text() == peer_address(s).text()) error = ECONNREFUSED;
    if (error == 0) {
      set(s.fd(), IPPROTO_TCP, TCP_NODELAY, 1);
      return s;
    }
    why = std::strerror(error);
  }
  return {};
}

Socket accept_from(const Socket& listening) {
  Socket s(::accept4(listening.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (s) set(s.fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  return s;
}

std::ptrdiff_t send_some(const Socket& s, std::string_view text) {
  const std::ptrdiff_t done = ::send(s.fd(), text.data(), text.size(), MSG_NOSIGNAL);
  return gone(done) ? -1 : std::max<std::ptrdiff_t>(done, 0);
}

std::ptrdiff_t receive_some(const Socket& s, char* to, std::size_t most) {
  const std::ptrdiff_t done = ::recv(s.fd(), to, most, 0);
  if (done == 0) errno = 0;
  return done == 0 || gone(done) ? -1 : std::max<std::ptrdiff_t>(done, 0);
}

bool send_all(const Socket& s, std::string_view text, std::chrono::steady_clock::time_point until) {
  while (!text.empty()) {
    const std::ptrdiff_t done = send_some(s, text);
    if (done < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(done));
    if (done == 0 && !wait_for(s, POLLOUT, until)) return false;
  }
  return true;
}

bool receive_all(const Socket& s, char* to, std::size_t count,
                 std::chrono::steady_clock::time_point until) {
  while (count > 0) {
    const std::ptrdiff_t done = receive_some(s, to, count);
    if (done < 0) return false;
    to += done;
    count -= static_cast<std::size_t>(done);
    if (done == 0 && !wait_for(s, POLLIN, until)) return false;
  }
  return true;
}

Bell::Bell() : event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!event_) throw RunFailed("no event of the system: " + why_no_file(errno));
}

void Bell::ring() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto done = ::write(event_.fd(), &one, sizeof one);
}

void Bell::quiet() const {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto done = ::read(event_.fd(), &count, sizeof count);
}

}  // namespace ringsched
