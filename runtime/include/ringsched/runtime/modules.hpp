// The module with everything that needs CUDA.
#pragma once

namespace ringsched {

// A function of it, by name. Throws Error where the module is not there.
void* cuda_function(const char* name);

}  // namespace ringsched
