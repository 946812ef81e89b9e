// TCP sockets that close themselves, never block, and report what went wrong and where.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace ringsched {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close() { *this = Socket(); }

 private:
  int fd_ = -1;
};

struct Address {
  std::string host;  // a name, or a number
  std::uint16_t port = 0;

  std::string text() const;  // host:port, [host]:port
};

// "host:port" or "[v6]:port". Throws Error that names `flag`.
Address parse_address(std::string_view, std::string_view flag);

// Whether the host is a number, which needs no name lookup.
bool is_number(const Address&);

// Bound to that address alone; port 0: any free one. Throws RunFailed.
Socket listen_at(const Address&);
Address local_address(const Socket&);
Address peer_address(const Socket&);  // "somebody" if it is gone

// Tries once, for at most this long. Empty if nobody answers, with the reason.
Socket connect_to(const Address&, std::chrono::milliseconds patience, std::string& why);
// Empty if nobody waits, or if errno says that no more files may be open.
Socket accept_from(const Socket& listening);

// As much as goes without waiting; -1: the connection is gone, and errno says how.
std::ptrdiff_t send_some(const Socket&, std::string_view);
// 0: nothing is there; -1: the connection is gone.
std::ptrdiff_t receive_some(const Socket&, char* to, std::size_t most);
// Waits until all is sent or received, or the time has come; returns whether it is.
bool send_all(const Socket&, std::string_view, std::chrono::steady_clock::time_point until);
bool receive_all(const Socket&, char* to, std::size_t count,
                 std::chrono::steady_clock::time_point until);

// Wakes a thread that polls it.
class Bell {
 public:
  Bell();
  void ring() const;
  void quiet() const;
  int fd() const { return event_.fd(); }

 private:
  Socket event_;
};

}  // namespace ringsched
