// What is computed alike on a CPU and on a GPU is marked with this, so that the tests of a machine
// without a GPU run the very arithmetic of the kernels.
#pragma once

#if defined(__CUDACC__)
#define RINGSCHED_BOTH __host__ __device__
#else
#define RINGSCHED_BOTH
#endif
