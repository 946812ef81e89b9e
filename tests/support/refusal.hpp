// The library's error about bad input.
#pragma once

#include <functional>
#include <string>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {

// The words of the Error that `what` throws; "" if it throws none.
inline std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace ringsched
