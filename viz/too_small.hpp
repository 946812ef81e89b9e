#pragma once

#include "ringsched/scheduler/error.hpp"

namespace ringsched {

// Words of a picture would be too small to read.
class TooSmall : public Error {
 public:
  using Error::Error;
};

}  // namespace ringsched
