// Long work, without the interpreter's lock: other threads of Python run meanwhile, and Ctrl-C
// stops the work.
#pragma once

#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

namespace ringsched::python {

// Throws what the work throws, or Python's KeyboardInterrupt.
void run_aside(const std::function<void()>& work);

template <class F>
auto aside(F work) {
  using Result = std::invoke_result_t<F>;
  if constexpr (std::is_void_v<Result>) {
    run_aside(work);
  } else {
    std::optional<Result> result;
    run_aside([&] { result.emplace(work()); });
    return std::move(*result);
  }
}

}  // namespace ringsched::python
