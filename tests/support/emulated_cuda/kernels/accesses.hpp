// Checks every load and store of a kernel. Files of kernels are compiled with
// -fsanitize=thread,alignment, but the functions that the compiler then calls are ours
// (accesses.cpp).
#pragma once

#include <cstddef>

namespace emulated {

// What a kernel may use besides memory of the GPU: the stack of the lane that runs, and the
// arguments of its launch. Null: no kernel runs.
void kernel_stack(const std::byte* first, std::size_t bytes);
void kernel_arguments(const void* first, std::size_t bytes);

}  // namespace emulated
