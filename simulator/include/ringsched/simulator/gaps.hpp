// What a prediction has to guess, because the machine's profile does not say it.
#pragma once

#include <string>
#include <vector>

#include "ringsched/machine/machine.hpp"

namespace ringsched {

struct Gap {
  std::string about;  // "kernels", "links", ...
  std::string text;   // what is missing, and what replaces it
};
std::vector<Gap> gaps(const Machine&);
std::vector<Gap> gaps(const SoftwareFigures&);  // of a library's file

}  // namespace ringsched
