// Ends a run that cannot go on, wherever it hangs, and reports where that was.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "ringsched/runtime/control.hpp"
#include "ringsched/runtime/world.hpp"

namespace ringsched {

// While it lives, signals to end the process stop the run instead, which then reports what was
// pending.
class Interruptible {
 public:
  explicit Interruptible(Control&);
  ~Interruptible();
};

// How a process of a run ends if it cannot go on.
class End {
 public:
  End(const Control&, const Launch&);

  // Reports why, and removes half-finished work.
  void say(std::string why) const;
  // The same, then ends the process, whatever hangs. The launcher ends the others.
  [[noreturn]] void now(const std::string& why, int code = 3);
  // What else to do when the process ends like this, given the reason and the exit code: once,
  // whichever thread ends it, and for a few seconds at most.
  void finally(std::function<void(const std::string&, int code)> last);
  void do_last(const std::string& why, int code);
  // The same as say(), for a thread that ends the process. Only the first caller prints; a second
  // one may only be a consequence of the first. The process exits with the first caller's code.
  int say_once(const std::string& why, int code);

 private:
  std::mutex doing_;  // what to do last
  std::mutex guard_;
  std::function<void(const std::string&, int)> last_;
  std::mutex saying_;
  bool said_ = false;
  int code_ = 0;  // once it has reported
  const Control& control_;
  const bool others_;
  const std::string self_;
};

// The line to print if the last step takes too long and is cut off; empty: none. Short.
void say_if_cut_off(const std::string& line);

// Ends the process if it waits for others for too long, wherever it hangs, or after a signal that
// no other code handles.
class Watchdog {
 public:
  Watchdog(const Control&, End&, std::chrono::nanoseconds deadline);
  ~Watchdog();
  // What the process does from now on: part of its start, which as a whole, without the waits for
  // others, may take as long as the deadline;
  void starts(const std::string& what);
  // other work of its own, which ends by itself;
  void works(const std::string& what);
  // work that ends only if the others join it;
  void waits(const std::string& what);
  // or the execution, which watches time and signals itself, and knows what is pending.
  void runs();

 private:
  // `grace`: how long a process that was told to end may take to do so itself.
  void enter(const std::string& what, Clock::time_point ends, std::chrono::seconds signalled,
             std::chrono::seconds abandoned);
  void watch();

  const Control& control_;
  End& end_;
  const std::chrono::nanoseconds deadline_;
  std::mutex guard_;
  std::condition_variable news_;
  std::string what_ = "starting";
  Clock::time_point ends_ = Clock::time_point::max(), told_at_;
  Clock::time_point starting_since_ = Clock::time_point::max();  // max: it does not start now
  Clock::duration starting_{};                                   // for how long before that
  std::chrono::seconds signalled_{}, abandoned_{};
  bool over_ = false;
  std::thread thread_;
};

// Reports on each process why the common run is impossible, which all of them know. The caller then
// exits with 2.
void refuse_together(World&, End&, const std::string& why);

// Ends this process, and the others, because of the exception being handled. It must not leave as
// after a good run: MPI_Finalize would wait for the others, which wait for it.
[[noreturn]] void give_up(World&, const Control&, End&);

}  // namespace ringsched
