#include "ringsched/runtime/ending.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>

#include "ringsched/scheduler/error.hpp"
#include "ringsched/scheduler/file.hpp"

namespace ringsched {

namespace {

using namespace std::chrono_literals;

constexpr int kBadInput = 2, kFailed = 3;  // exit codes, as in main.cpp

// How much longer than the deadline a process waits for others, so that they can report where they
// hang.
constexpr auto kWaitsOn = 1s;
// The same for an execution that is to give up.
constexpr auto kGivesUp = 4500ms;
// Seconds for the very last steps, and for the launcher to end this process and the others.
constexpr unsigned kLast = 4, kLauncherAnswers = 2;
// How long a process that was told to end leaves the others to report. mpirun kills them all a
// second after it has told them, and sooner if one has ended by then.
constexpr auto kOthersSpeak = 400ms;

std::atomic<Control*> running{nullptr};

// What a signal handler prints and exits with, if the last steps take too long.
std::array<char, 2048> cut_off_line;
std::atomic<std::size_t> cut_off_size{0};
std::atomic<int> cut_off_code{kFailed};

void cut_off(int) {
  const std::size_t size = cut_off_size.load();
  [[maybe_unused]] const auto said = ::write(STDERR_FILENO, cut_off_line.data(), size);
  remove_unfinished_files();
  std::_Exit(cut_off_code.load());
}

// Ends the process after this many seconds, wherever it hangs. A thread might not start if memory
// is short.
void end_after(unsigned seconds, int code) {
  cut_off_code = code;
  std::signal(SIGALRM, cut_off);
  ::alarm(seconds);
}

void interrupt(int signal) {
  if (Control* control = running.load()) {
    control->interrupt(signal);
    return;
  }
  remove_unfinished_files();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

Interruptible::Interruptible(Control& control) {
  running = &control;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};  // what was to be ignored (nohup) still is
    if (::sigaction(number, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
      std::signal(number, interrupt);
  }
}

Interruptible::~Interruptible() { running = nullptr; }

End::End(const Control& control, const Launch& launch)
    : control_(control),
      others_(launch.size > 1),
      self_(others_ ? fmt::format("ringsched: process {}", launch.rank) : "ringsched") {}

void End::say(std::string why) const {
  std::replace(why.begin(), why.end(), '\n', ' ');
  const char* const over_progress = isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "";
  std::fprintf(stderr, "%s%s: %s\n", over_progress, self_.c_str(), why.c_str());
  remove_unfinished_files();
}

void End::finally(std::function<void(const std::string&, int)> last) {
  const std::lock_guard lock(guard_);
  last_ = std::move(last);
}

void End::do_last(const std::string& why, int code) {
  const std::lock_guard until_done(doing_);  // a second thread would cut off the first
  std::function<void(const std::string&, int)> last;
  {
    const std::lock_guard lock(guard_);
    last.swap(last_);
  }
  if (!last) return;
  end_after(kLast, code);
  last(why, code);
}

void say_if_cut_off(const std::string& line) {
  cut_off_size = 0;
  const std::string_view most = std::string_view(line).substr(0, cut_off_line.size() - 1);
  std::copy(most.begin(), most.end(), cut_off_line.begin());
  cut_off_line[most.size()] = '\n';
  cut_off_size = most.empty() ? 0 : most.size() + 1;
}

int End::say_once(const std::string& why, int code) {
  const std::lock_guard lock(saying_);
  if (!said_) {
    say(why);
    code_ = code;
  }
  said_ = true;
  return code_;
}

void End::now(const std::string& why, int code) {
  code = say_once(why, code);
  do_last(why, code);
  if (others_ && control_.interrupted() != 0) std::this_thread::sleep_for(kOthersSpeak);
  std::_Exit(code);
}

Watchdog::Watchdog(const Control& control, End& end, std::chrono::nanoseconds deadline)
    : control_(control), end_(end), deadline_(deadline) {
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(guard_);
    over_ = true;
  }
  news_.notify_all();
  thread_.join();
}

void Watchdog::starts(const std::string& what) {
  works(what);
  const std::lock_guard lock(guard_);
  starting_since_ = Clock::now();
  ends_ = starting_since_ + deadline_ - starting_;
}
void Watchdog::works(const std::string& what) { enter(what, Clock::time_point::max(), 0s, 0s); }
void Watchdog::waits(const std::string& what) {
  enter(what, Clock::now() + deadline_ + kWaitsOn, 0s, 1s);
}
void Watchdog::runs() { enter("running", Clock::now() + deadline_ + kGivesUp, 1s, 5s); }

void Watchdog::enter(const std::string& what, Clock::time_point ends,
                     std::chrono::seconds signalled, std::chrono::seconds abandoned) {
  const std::lock_guard lock(guard_);
  if (starting_since_ != Clock::time_point::max()) starting_ += Clock::now() - starting_since_;
  starting_since_ = Clock::time_point::max();
  what_ = what;
  ends_ = ends;
  signalled_ = signalled;
  abandoned_ = abandoned;
  told_at_ = {};
}

void Watchdog::watch() {
  constexpr auto look = 20ms;  // a signal handler cannot wake anybody
  std::unique_lock lock(guard_);
  while (!news_.wait_for(lock, look, [&] { return over_; })) {
    const Clock::time_point now = Clock::now();
    if (now > ends_)
      end_.now(fmt::format("stopped after {} s (--deadline) while {}",
                           std::chrono::ceil<std::chrono::seconds>(deadline_).count(), what_));
    const bool signalled = control_.interrupted() != 0;
    if (!signalled && !control_.abandoned()) continue;
    if (told_at_ == Clock::time_point{}) told_at_ = now;
    if (now - told_at_ < (signalled ? signalled_ : abandoned_)) continue;
    end_.now(signalled ? fmt::format("stopped by signal {} while {}", control_.interrupted(), what_)
                       : fmt::format("{}, still {}", control_.abandoned_why(), what_),
             signalled ? kFailed : control_.abandoned_code());
  }
}

void refuse_together(World& world, End& end, const std::string& why) {
  end.say_once(why, kBadInput);
  world.gather("");  // mpirun ends the rest when the first one ends
  world.leave();
}

void give_up(World& world, const Control& control, End& end) {
  int code = kFailed;
  std::string why;
  try {
    throw;
  } catch (const Error& wrong) {
    code = kBadInput;
    why = wrong.what();
  } catch (const std::bad_alloc&) {
    why = "out of memory";
  } catch (const std::exception& failed) {
    why = failed.what();
  }
  if (control.interrupted() != 0) end.now(why, code);  // whoever does that sees to the others
  code = end.say_once(why, code);
  end.do_last(why, code);
  end_after(kLauncherAnswers, code);
  world.abort(code);
  std::_Exit(code);
}

}  // namespace ringsched
