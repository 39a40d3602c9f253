// Softmax and cross-entropy: a block per image, then one small block for the means. Each row is
// read three times, from cache.
#include <cfloat>
#include <cmath>

#include "neap/layers/cuda/device_math.cuh"
#include "neap/layers/cuda/kernels.h"

namespace neap::kernels {
namespace {

constexpr int kWarps = kThreads / 32;

// All threads get the result. kMax: largest, else sum. In a fixed order.
template <bool kMax>
__device__ float BlockReduce(float value) {
  __shared__ float warps[kWarps];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const float other = __shfl_xor_sync(~0U, value, offset);
    value = kMax ? fmaxf(value, other) : value + other;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = warps[0];
  for (int w = 1; w < kWarps; ++w) value = kMax ? fmaxf(value, warps[w]) : value + warps[w];
  return value;
}

__global__ void __launch_bounds__(kThreads)
    SoftmaxRows(int classes, const float* logits, const int32_t* labels, float* y,
                float2* per_image) {
  const float* const row = logits + static_cast<size_t>(blockIdx.x) * static_cast<size_t>(classes);
  float* const out = y + static_cast<size_t>(blockIdx.x) * static_cast<size_t>(classes);
  float largest = -FLT_MAX;
  for (int c = static_cast<int>(threadIdx.x); c < classes; c += kThreads)
    largest = fmaxf(largest, row[c]);
  largest = BlockReduce<true>(largest);
  float sum = 0;
  for (int c = static_cast<int>(threadIdx.x); c < classes; c += kThreads)
    sum += expf(row[c] - largest);
  sum = BlockReduce<false>(sum);

  if (labels != nullptr && threadIdx.x == 0) {
    const int32_t label = labels[blockIdx.x];
    const bool valid = label >= 0 && label < classes;
    const float logit = valid ? row[label] : 0.0F;
    per_image[blockIdx.x].x = valid ? logf(sum) + largest - logit : nanf("");
  }
  // Right when every class before the label is smaller and none after is larger: the first of
  // equals wins, and what is beside a NaN does not.
  if (labels != nullptr) {
    const int32_t label = labels[blockIdx.x];
    const float logit = label >= 0 && label < classes ? row[label] : nanf("");
    float beaten = 0;
    for (int c = static_cast<int>(threadIdx.x); c < classes; c += kThreads) {
      const bool below = c < label ? row[c] < logit : row[c] <= logit;
      beaten += below ? 0.0F : 1.0F;
    }
    beaten = BlockReduce<false>(beaten);
    if (threadIdx.x == 0) per_image[blockIdx.x].y = beaten == 0.0F ? 1.0F : 0.0F;
  }
  // The output may lie over the logits: all of them have been read by everyone who needs more than
  // its own.
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < classes; c += kThreads)
    out[c] = expf(row[c] - largest) / sum;
}

__global__ void __launch_bounds__(kThreads)
    Metrics(int images, const float2* per_image, float* metrics) {
  float loss = 0, correct = 0;
  for (int i = static_cast<int>(threadIdx.x); i < images; i += kThreads) {
    loss += per_image[i].x;
    correct += per_image[i].y;
  }
  loss = BlockReduce<false>(loss);
  correct = BlockReduce<false>(correct);
  if (threadIdx.x != 0) return;
  metrics[0] = loss / static_cast<float>(images);
  metrics[1] = correct;
}

__global__ void __launch_bounds__(kThreads)
    SoftmaxBackward(size_t n, Divider<uint32_t> classes, float images, const float* y,
                    const int32_t* labels, float* dx) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  uint32_t c = 0;
  const uint32_t image = classes.Split(static_cast<uint32_t>(i), c);
  const float target = static_cast<uint32_t>(labels[image]) == c ? 1.0F : 0.0F;
  dx[i] = (y[i] - target) / images;
}

}  // namespace

cudaError_t SoftmaxCrossEntropy(int64_t images, int64_t classes, const float* logits,
                                const int32_t* labels, float* y, float* metrics, void* scratch,
                                cudaStream_t stream) {
  if (!Fits32(images * classes)) return cudaErrorInvalidValue;
  float2* const per_image = static_cast<float2*>(scratch);
  SoftmaxRows<<<static_cast<unsigned>(images), kThreads, 0, stream>>>(static_cast<int>(classes),
                                                                      logits, labels, y, per_image);
  if (labels != nullptr)
    Metrics<<<1, kThreads, 0, stream>>>(static_cast<int>(images), per_image, metrics);
  return cudaGetLastError();
}

cudaError_t SoftmaxCrossEntropyBackward(int64_t images, int64_t classes, const float* y,
                                        const int32_t* labels, float* dx, cudaStream_t stream) {
  const int64_t n = images * classes;
  if (!Fits32(n)) return cudaErrorInvalidValue;
  SoftmaxBackward<<<static_cast<unsigned>(CeilDiv(n, kThreads)), kThreads, 0, stream>>>(
      static_cast<size_t>(n), Divider<uint32_t>(classes), static_cast<float>(images), y, labels,
      dx);
  return cudaGetLastError();
}

}  // namespace neap::kernels
