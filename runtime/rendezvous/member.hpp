// A process's connection to the store. A thread reads it, so that the process learns of the end of
// the run wherever it is, and sends signs of life.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous/frame.hpp"
#include "rendezvous/socket.hpp"

namespace ringsched {

struct MemberOptions {
  Address store;
  std::uint32_t rank = 0, size = 1;
  std::string secret;
  std::chrono::nanoseconds patience{};  // for processes that do not come
  std::chrono::nanoseconds silence{};   // of the store, which is then gone
};

class Member {
 public:
  // Returns once all processes are there. Throws Error if this process was started wrongly,
  // RunFailed if the store cannot be reached, if not all come, or if the run has failed already.
  // Later, if the run must end, the thread tells `ended` why and with which code, and all calls
  // throw RunFailed.
  Member(const MemberOptions&, std::function<void(const std::string&, int code)> ended);
  ~Member();
  Member(const Member&) = delete;

  Address local() const { return local_address(socket_); }
  std::vector<std::string> gather(std::string_view text);

  // By this process's clock, theirs, and this one's again; nanoseconds.
  struct Time {
    std::int64_t asked = 0, theirs = 0, answered = 0;
  };
  Time ask_time();

  // Has what it came for, and waits until all have.
  void leave();
  // Tells the others why this process ends, and what it leaves, as texts_body().
  void farewell(std::string_view texts, int code);
  // Waits until the store has closed the connection, but no longer than that.
  void wait_for_close(std::chrono::nanoseconds patience);

 private:
  void join();
  bool try_to_join(const std::string& hello, std::chrono::steady_clock::time_point until,
                   std::string& why);
  void read();
  bool receive(std::string& in);
  void handle(const Frame&);
  void end(const std::string& why, std::uint32_t code);
  std::string gone(const std::string& how) const;  // process 0
  void send(const std::string&);
  template <class Ready>
  void wait_for(std::unique_lock<std::mutex>&, Ready, const char* what);

  const MemberOptions options_;
  const std::function<void(const std::string&, int code)> told_;
  Socket socket_;
  Bell bell_;
  std::mutex sends_;  // one frame at a time

  std::mutex guard_;
  std::condition_variable news_;
  bool welcome_ = false, left_ = false, leaves_ = false, closed_ = false, over_ = false;
  std::string ended_;
  std::uint32_t ended_code_ = 0;
  std::uint32_t round_ = 0, question_ = 0;
  std::vector<std::string> all_;
  bool answered_ = false;
  std::int64_t theirs_ = 0, answered_at_ = 0;
  std::thread thread_;
};

}  // namespace ringsched
