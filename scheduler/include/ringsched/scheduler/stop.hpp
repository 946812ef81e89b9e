// Lets a caller stop long work. The work calls stop_here() now and then; by default, that does
// nothing.
#pragma once

#include <atomic>
#include <stdexcept>

namespace ringsched {

// Thrown by stopped work; its results so far are lost.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("stopped") {}
};

// While it lives, work on this thread stops once the flag is set. Work that continues in other
// threads gives them StopWhen(stop_flag()).
class StopWhen {
 public:
  explicit StopWhen(const std::atomic<bool>*);
  ~StopWhen();
  StopWhen(const StopWhen&) = delete;
  StopWhen& operator=(const StopWhen&) = delete;

 private:
  const std::atomic<bool>* before_;
};

const std::atomic<bool>* stop_flag();  // of this thread; null: nobody can stop it
void stop_here();                      // throws Interrupted if that was asked for

}  // namespace ringsched
