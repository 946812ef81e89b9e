#include "work.hpp"

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <future>

#include "ringsched/scheduler/stop.hpp"

namespace ringsched::python {

namespace nb = nanobind;

void run_aside(const std::function<void()>& work) {
  std::atomic<bool> stop = false;
  const nb::gil_scoped_release released;
  std::future<void> done = std::async(std::launch::async, [&] {
    const StopWhen asked(&stop);
    work();
  });
  while (done.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
    const nb::gil_scoped_acquire held;
    if (PyErr_CheckSignals() == 0) continue;
    stop = true;
    const nb::python_error interrupted;  // takes the error, so that waiting cannot lose it
    {
      const nb::gil_scoped_release again;
      done.wait();
    }
    throw interrupted;
  }
  done.get();
}

}  // namespace ringsched::python
