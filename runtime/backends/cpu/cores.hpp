// The cores that this process may use, and threads that stay on one of them.
#pragma once

#include <pthread.h>

#include <vector>

namespace ringsched {

// As the system numbers them. Empty where it does not say.
std::vector<int> core_numbers();
// From when it next runs; nothing happens where the system does not let it.
void pin(pthread_t, int core);

}  // namespace ringsched
