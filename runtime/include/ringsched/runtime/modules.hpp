// The module with everything that needs CUDA.
#pragma once

namespace ringsched {

// One of its functions, by name. Throws Error if the module is missing.
void* cuda_function(const char* name);

}  // namespace ringsched
