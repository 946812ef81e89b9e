#include "ringsched/runtime/modules.hpp"

#include <dlfcn.h>

#include "ringsched/scheduler/error.hpp"

namespace ringsched {

void* cuda_function(const char* name) {
  void* const module = ::dlopen("libringsched_cuda.so", RTLD_NOW);
  if (!module)
    fail("the cuda backend is not available: {}; build with nvcc and cuDNN (docs/gpu.md)",
         ::dlerror());
  void* const function = ::dlsym(module, name);
  if (!function) fail("the cuda backend is not available: {}", ::dlerror());
  return function;
}

}  // namespace ringsched
