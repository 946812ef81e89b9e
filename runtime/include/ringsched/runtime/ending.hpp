// How a run that cannot go on is ended, whatever it hangs in, with a word on what that was.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "ringsched/runtime/control.hpp"
#include "ringsched/runtime/world.hpp"

namespace ringsched {

// While it lives, signals that ask the process to end stop the run instead, which then says what
// was pending.
class Interruptible {
 public:
  explicit Interruptible(Control&);
  ~Interruptible();
};

// How a process of a run ends that cannot go on.
class End {
 public:
  End(const Control&, const Launch&);

  // Says why, and leaves nothing half-done behind.
  void say(std::string why) const;
  // The same, and ends whatever hangs. The launcher ends the others for that.
  [[noreturn]] void now(const std::string& why, int code = 3);
  // What else is to be done when the process ends like this, told why and with which code: once,
  // whoever ends it, and for no longer than some seconds.
  void finally(std::function<void(const std::string&, int code)> last);
  void do_last(const std::string& why, int code);
  // The same as say(), for a thread that ends the process: one that comes second, perhaps because
  // of what the first one told the others, is silent. What the process ends with: the first one's.
  int say_once(const std::string& why, int code);

 private:
  std::mutex doing_;  // what is done last
  std::mutex guard_;
  std::function<void(const std::string&, int)> last_;
  std::mutex saying_;
  bool said_ = false;
  int code_ = 0;  // once it is said
  const Control& control_;
  const bool others_;
  const std::string self_;
};

// The line to print if what is done last takes too long and is cut off; empty: none. Short.
void say_if_cut_off(const std::string& line);

// Ends the process if it waits for others for too long, whatever it hangs in, or if a signal asks
// for an end where nobody else looks for it.
class Watchdog {
 public:
  Watchdog(const Control&, End&, std::chrono::nanoseconds deadline);
  ~Watchdog();
  // What the process does from now on: part of its start, which as a whole, without the waits for
  // others, may take as long as the deadline;
  void starts(const std::string& what);
  // something else of its own, which has an end;
  void works(const std::string& what);
  // something that has one only if the others come to it;
  void waits(const std::string& what);
  // or the execution, which looks at time and signals itself, and knows what is pending.
  void runs();

 private:
  // `grace`: how long those that are told to end may take to do it themselves.
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

// Says on each process what makes a run of them all impossible, which all know. For the caller to
// exit with 2 then.
void refuse_together(World&, End&, const std::string& why);

// Ends this process for the exception that is being handled, and the others. It must not leave as
// from a good run: MPI_Finalize waits for the others, which wait for it.
[[noreturn]] void give_up(World&, const Control&, End&);

}  // namespace ringsched
