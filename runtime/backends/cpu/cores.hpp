// The cores that this process may use, and threads that stay on one of them.
#pragma once

#include <pthread.h>

#include <vector>

namespace ringsched {

// As the system numbers them. Empty if it does not say.
std::vector<int> core_numbers();
// Takes effect when the thread next runs. Does nothing if the system forbids it.
void pin(pthread_t, int core);

}  // namespace ringsched
