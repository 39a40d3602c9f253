// The layer of gelu.h on a GPU. These are plain functions: this file needs no header of neap, its
// callers no nvcc.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace {

__device__ float Gate(float x) { return 1.0F / (1.0F + expf(-1.702F * x)); }

__global__ void Forward(const float* x, float* y, int64_t elements) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements; i += threads)
    y[i] = x[i] * Gate(x[i]);
}

__global__ void Backward(const float* x, const float* dy, float* dx, int64_t elements) {
  const int64_t threads = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements; i += threads) {
    const float gate = Gate(x[i]);
    dx[i] = dy[i] * gate * (1.0F + 1.702F * x[i] * (1.0F - gate));
  }
}

constexpr int kThreads = 256;

int Blocks(int64_t elements) {
  return static_cast<int>(std::min<int64_t>((elements + kThreads - 1) / kThreads, 4096));
}

}  // namespace

int LaunchQuickGelu(const float* x, float* y, int64_t elements, void* stream) {
  Forward<<<Blocks(elements), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, y, elements);
  return cudaGetLastError();
}

int LaunchQuickGeluBackward(const float* x, const float* dy, float* dx, int64_t elements,
                            void* stream) {
  Backward<<<Blocks(elements), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(x, dy, dx,
                                                                                 elements);
  return cudaGetLastError();
}
