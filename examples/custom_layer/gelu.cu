// GELU on a GPU. These are plain functions: this file needs no header of neap, its callers no nvcc.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace {

__device__ float Phi(float x) { return 0.5F * erfcf(-0.70710678F * x); }
__device__ float Density(float x) { return 0.39894228F * expf(-0.5F * x * x); }

__global__ void Forward(const float* x, float* y, int64_t elements) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements; i += threads)
    y[i] = x[i] * Phi(x[i]);
}

__global__ void Backward(const float* x, const float* dy, float* dx, int64_t elements) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements; i += threads)
    dx[i] = dy[i] * (Phi(x[i]) + x[i] * Density(x[i]));
}

constexpr int kThreads = 256;

int Blocks(int64_t elements) {
  return static_cast<int>(std::min<int64_t>((elements + kThreads - 1) / kThreads, 4096));
}

}  // namespace

int LaunchGelu(const float* x, float* y, int64_t elements, void* stream) {
  Forward<<<Blocks(elements), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, y, elements);
  return cudaGetLastError();
}

int LaunchGeluBackward(const float* x, const float* dy, float* dx, int64_t elements, void* stream) {
  Backward<<<Blocks(elements), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, dy, dx,
                                                                                 elements);
  return cudaGetLastError();
}
