#include "backends/cpu/cores.hpp"

#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <thread>

#include "ringsched/runtime/cpu_backend.hpp"

namespace ringsched {

#ifdef __linux__

std::vector<int> core_numbers() {
  std::vector<int> out;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return out;  // more than 1024
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) out.push_back(core);
  return out;
}

void pin(pthread_t thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(thread, sizeof set, &set);
}

#else

std::vector<int> core_numbers() { return {}; }
void pin(pthread_t, int) {}

#endif

unsigned usable_cores() {
  const auto known = static_cast<unsigned>(core_numbers().size());
  return std::max(1u, known > 0 ? known : std::thread::hardware_concurrency());
}

}  // namespace ringsched
