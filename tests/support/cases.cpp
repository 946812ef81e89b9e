#include "support/cases.hpp"

#include <algorithm>
#include <ostream>

namespace ringsched {

std::string Case::name() const {
  std::string text(schedule->name);
  for (char& c : text)
    if (c == '-' || c == ':' || c == '=') c = '_';
  return text + "_W" + std::to_string(workers);
}

std::vector<Case> all_schedules(std::uint32_t last) {
  std::vector<Case> cases;
  for (const Schedule& s : schedules())
    for (std::uint32_t w = 1; w <= last; ++w) cases.push_back({&s, w});
  // A schedule with a parameter and a lane of its own.
  static const Schedule nodes_of_two = find_schedule("double-ring:node=2");
  for (const std::uint32_t w : {4u, 6u}) {
    if (w <= last) cases.push_back({&nodes_of_two, w});
  }
  return cases;
}

Problem small_problem(std::uint32_t workers, std::int64_t tokens, Pass pass, Mask mask) {
  Problem p;
  p.workers = workers;
  p.tokens = {tokens};
  p.heads = 4;
  p.kv_heads = 2;
  p.head_dim = 8;
  p.pass = pass;
  p.mask = std::move(mask);
  return p;
}

void PrintTo(const Case& c, std::ostream* out) { *out << c.name(); }

}  // namespace ringsched
