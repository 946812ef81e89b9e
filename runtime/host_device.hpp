// Marks functions that CPUs and GPUs compute alike, so that tests on a machine without a GPU run
// the kernels' own arithmetic.
#pragma once

#if defined(__CUDACC__)
#define RINGSCHED_BOTH __host__ __device__
#else
#define RINGSCHED_BOTH
#endif
