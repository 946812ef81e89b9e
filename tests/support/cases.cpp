#include "support/cases.hpp"

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <string_view>

namespace ringsched {

int cases_to_run(int whole, int sample) {
  const char* const asked = std::getenv("RINGSCHED_WHOLE");
  return asked && std::string_view(asked) == "1" ? whole : sample;
}

std::string Case::name() const {
  std::string text(schedule->name);
  for (char& c : text)
    if (c == '-' || c == ':' || c == '=') c = '_';
  return text + "_W" + std::to_string(workers);
}

bool fits(const Schedule& s, std::uint32_t workers, std::uint32_t heads) {
  return workers <= heads || s.name != "ulysses";
}

std::vector<Case> schedules_of_messages(std::uint32_t last) {
  std::vector<Case> cases = all_schedules(last);
  std::erase_if(cases, [](const Case& c) {
    const std::string_view name = c.schedule->name;
    return name.starts_with("ulysses") || name.starts_with("usp") || name.starts_with("all-gather");
  });
  return cases;
}

std::vector<Schedule> schedules_for(std::uint32_t workers, std::uint32_t heads) {
  std::vector<Schedule> out;
  for (const Schedule& s : schedules())
    if (fits(s, workers, heads)) out.push_back(s);
  return out;
}

std::vector<Case> all_schedules(std::uint32_t last) {
  std::vector<Case> cases;
  for (const Schedule& s : schedules())
    for (std::uint32_t w = 1; w <= last; ++w)
      if (fits(s, w, 4)) cases.push_back({&s, w});
  // A schedule with a parameter and a lane of its own.
  static const Schedule nodes_of_two = find_schedule("double-ring:node=2");
  // Exchanges beside rings, and of some heads at a time.
  static const std::vector<Schedule> with_exchanges = {
      find_schedule("usp:ulysses=2:ring=zigzag"),
      find_schedule("usp:ulysses=2:ring=striped"),
      find_schedule("usp:ulysses=2:ring=balanced"),
      find_schedule("usp:ulysses=2:ring=zigzag:consecutive=ring"),
      find_schedule("all-gather:stride=1"),
      find_schedule("zigzag:shares=documents"),
      find_schedule("all-gather:shares=documents"),
      find_schedule("all-gather:stride=1:shares=zigzag")};
  static const Schedule padded = find_schedule("ulysses:pad=1");
  for (const std::uint32_t w : {4u, 6u}) {
    if (w > last) continue;
    cases.push_back({&nodes_of_two, w});
    if (w == 6) cases.push_back({&padded, w});  // 4 heads become 6
    if (w == 4 && !kSanitized)
      for (const Schedule& s : with_exchanges) cases.push_back({&s, w});
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
