// Kernels that follow the rules, and some that break them, for rules_test.cpp.
#include <cuda_runtime.h>

__global__ void add_one(float* x, int count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < static_cast<unsigned>(count)) x[i] += 1;
}

__global__ void add_one_to_all(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1; }

__global__ void reverse(float* x, bool waits) {
  __shared__ float all[64];
  all[threadIdx.x] = x[threadIdx.x];
  if (waits) __syncthreads();
  x[threadIdx.x] = all[63 - threadIdx.x];
}

// Only the first eight lanes take part.
__global__ void swap_neighbours(float* x, unsigned mask) {
  if (threadIdx.x < 8) x[threadIdx.x] = __shfl_xor_sync(mask, x[threadIdx.x], 1, 8);
}

__global__ void some_wait(float* x) {
  if (threadIdx.x < 32) __syncthreads();
  x[threadIdx.x] = 0;
}

__global__ void as_words(uint4* x) { x[0] = uint4{1, 2, 3, 4}; }

void launch_add_one(float* x, int count, cudaStream_t stream) {
  add_one<<<static_cast<unsigned>(count + 63) / 64, 64, 0, stream>>>(x, count);
}
void launch_add_one_to_all(float* x, unsigned blocks, cudaStream_t stream) {
  add_one_to_all<<<blocks, 64, 0, stream>>>(x);
}
void launch_reverse(float* x, bool waits) { reverse<<<1, 64>>>(x, waits); }
void launch_swap(float* x, unsigned mask) { swap_neighbours<<<1, 32>>>(x, mask); }
void launch_some_wait(float* x) { some_wait<<<1, 64>>>(x); }
void launch_as_words(void* x) { as_words<<<1, 1>>>(static_cast<uint4*>(x)); }
