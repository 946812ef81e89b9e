// What `ringsched doctor` looks at. The parts that need the runtime are absent in the Python
// package.
#pragma once

#include <string>
#include <vector>

namespace ringsched {

struct DoctorPart {
  std::string name;
  std::string found;    // empty: nothing
  std::string missing;  // what is missing, and what that costs; empty: nothing
};

std::vector<DoctorPart> runtime_parts();

// The first line that a shell command prints; empty: it fails.
std::string answer_of(const char* command);

}  // namespace ringsched
