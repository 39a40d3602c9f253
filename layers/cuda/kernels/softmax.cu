// Softmax and cross-entropy: a block per image, or a thread per pixel if each pixel has a label,
// then one small block for the means. Each row is read three times, from cache.
#include <cfloat>
#include <cmath>

#include "neap/layers/cuda/kernels/loss.cuh"

namespace neap::kernels {
namespace {

// The loss of an image or pixel from the negative logarithm of the probability of its class, the
// sum of the logits less the largest one, over the classes, and the logarithm of the sum of their
// exponentials.
__device__ __forceinline__ float Smoothed(float smoothing, float of_class, float shifted,
                                          float log_sum, int classes) {
  if (smoothing == 0.0F) return of_class;
  const float of_all = log_sum - shifted / static_cast<float>(classes);
  return (1.0F - smoothing) * of_class + smoothing * of_all;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    SoftmaxRows(int classes, float smoothing, const T* logits, const int32_t* labels, float* y,
                float2* per_image) {
  const T* const row = logits + static_cast<size_t>(blockIdx.x) * static_cast<size_t>(classes);
  float* const out = y + static_cast<size_t>(blockIdx.x) * static_cast<size_t>(classes);
  float largest = -FLT_MAX;
  for (int c = static_cast<int>(threadIdx.x); c < classes; c += kThreads)
    largest = fmaxf(largest, ToFloat(row[c]));
  largest = BlockReduce<true>(largest);
  float sum = 0;
  for (int c = static_cast<int>(threadIdx.x); c < classes; c += kThreads)
    sum += expf(ToFloat(row[c]) - largest);
  sum = BlockReduce<false>(sum);
  float shifted = 0;
  if (smoothing != 0.0F) {
    for (int c = static_cast<int>(threadIdx.x); c < classes; c += kThreads)
      shifted += ToFloat(row[c]) - largest;
    shifted = BlockReduce<false>(shifted);
  }

  if (labels != nullptr && threadIdx.x == 0) {
    const int32_t label = labels[blockIdx.x];
    const bool valid = label >= 0 && label < classes;
    const float logit = valid ? ToFloat(row[label]) : 0.0F;
    const float without = label == kNoLabel ? 0.0F : nanf("");
    const float of_class = logf(sum) + largest - logit;
    per_image[blockIdx.x].x =
        valid ? Smoothed(smoothing, of_class, shifted, logf(sum), classes) : without;
  }
  // The label is correct if every class before it is smaller and none after it is larger: ties go
  // to the first class, and no class is the largest beside a NaN.
  if (labels != nullptr) {
    const int32_t label = labels[blockIdx.x];
    const float logit = label >= 0 && label < classes ? ToFloat(row[label]) : nanf("");
    float beaten = 0;
    for (int c = static_cast<int>(threadIdx.x); c < classes; c += kThreads) {
      const float other = ToFloat(row[c]);
      const bool below = c < label ? other < logit : other <= logit;
      beaten += below ? 0.0F : 1.0F;
    }
    beaten = BlockReduce<false>(beaten);
    if (threadIdx.x == 0) per_image[blockIdx.x].y = beaten == 0.0F ? 1.0F : 0.0F;
  }
  // The output may overwrite the logits: after this barrier, each thread reads only its own.
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < classes; c += kThreads)
    out[c] = expf(ToFloat(row[c]) - largest) / sum;
}

// The targets of the class of an image or pixel, and of all others.
struct Targets {
  Targets(float smoothing, int64_t classes)
      : of_others(smoothing / static_cast<float>(classes)),
        of_class(1.0F - smoothing + of_others) {}
  float of_others, of_class;
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    SoftmaxBackward(size_t n, Divider<uint32_t> classes, float images, Targets targets,
                    float weight, const float* y, const int32_t* labels,
                    const LossScale* loss_scale, T* dx) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  uint32_t c = 0;
  const uint32_t image = classes.Split(static_cast<uint32_t>(i), c);
  const int32_t label = labels[image];
  const float target = static_cast<uint32_t>(label) == c ? targets.of_class : targets.of_others;
  const float gradient = (y[i] - target) / images * FactorOf(weight, loss_scale);
  dx[i] = RoundTo<T>(label == kNoLabel ? 0.0F : gradient);
}

// The loss, and 1 if the label is the first of the largest. Reads the logits before y, which may
// overwrite them, is written.
template <typename T>
__device__ float2 Score(const Pixels& p, float smoothing, const T* column, int32_t label,
                        float largest, float sum) {
  if (label == kNoLabel) return {0.0F, 0.0F};
  if (label < 0 || label >= p.classes) return {nanf(""), 0.0F};
  const float own = ToFloat(column[label * p.Apart()]);
  bool beaten = false;
  float shifted = 0;
  for (int c = 0; c < p.classes; ++c) {
    const float other = ToFloat(column[c * p.Apart()]);
    if (smoothing != 0.0F) shifted += other - largest;
    beaten |= !(c < label ? other < own : other <= own);
  }
  const float of_class = logf(sum) + largest - own;
  return {Smoothed(smoothing, of_class, shifted, logf(sum), p.classes), beaten ? 0.0F : 1.0F};
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    SoftmaxPixels(Pixels p, float smoothing, const T* logits, const int32_t* labels, float* y,
                  float2* per_block) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  float2 score = {0.0F, 0.0F};
  if (i < p.labels) {
    const size_t first = p.First(i), apart = p.Apart();
    const T* const column = logits + first;
    float largest = -FLT_MAX;
    for (int c = 0; c < p.classes; ++c) largest = fmaxf(largest, ToFloat(column[c * apart]));
    float sum = 0;
    for (int c = 0; c < p.classes; ++c) sum += expf(ToFloat(column[c * apart]) - largest);
    if (labels != nullptr) score = Score(p, smoothing, column, labels[i], largest, sum);
    for (int c = 0; c < p.classes; ++c)
      y[first + c * apart] = expf(ToFloat(column[c * apart]) - largest) / sum;
  }
  if (labels == nullptr) return;
  score.x = BlockReduce<false>(score.x);
  score.y = BlockReduce<false>(score.y);
  if (threadIdx.x == 0) per_block[blockIdx.x] = score;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    SoftmaxPixelsBackward(Pixels p, float count, Targets targets, float weight, const float* y,
                          const int32_t* labels, const LossScale* loss_scale, T* dx) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= p.labels) return;
  const size_t first = p.First(i), apart = p.Apart();
  const int32_t label = labels[i];
  const float factor = FactorOf(weight, loss_scale);
  for (int c = 0; c < p.classes; ++c) {
    const size_t at = first + c * apart;
    const float gradient = (y[at] - (c == label ? targets.of_class : targets.of_others)) / count;
    dx[at] = RoundTo<T>(label == kNoLabel ? 0.0F : gradient * factor);
  }
}

}  // namespace

int64_t LossScratchBytes(const ChannelShape& s) {
  return LossParts(s) * static_cast<int64_t>(sizeof(float2));
}

cudaError_t SoftmaxCrossEntropy(const ChannelShape& s, int64_t labels_of_batch, float smoothing,
                                ConstArray logits, const int32_t* labels, float* y,
                                LossMetrics metrics, void* scratch, cudaStream_t stream) {
  if (!Countable(s)) return cudaErrorInvalidValue;
  float2* const parts = static_cast<float2*>(scratch);
  const unsigned blocks = static_cast<unsigned>(LossParts(s));
  const auto run = [&]<typename T>() {
    if (s.inner == 1) {
      SoftmaxRows<<<blocks, kThreads, 0, stream>>>(static_cast<int>(s.channels), smoothing,
                                                   As<T>(logits), labels, y, parts);
    } else {
      SoftmaxPixels<<<blocks, kThreads, 0, stream>>>(Pixels(s), smoothing, As<T>(logits), labels, y,
                                                     parts);
    }
    return cudaGetLastError();
  };
  const cudaError_t error = WithElement(run, logits);
  if (error != cudaSuccess || labels == nullptr) return error;
  Metrics<<<1, kThreads, 0, stream>>>(static_cast<int>(blocks), parts,
                                      static_cast<float>(labels_of_batch), metrics);
  return cudaGetLastError();
}

cudaError_t SoftmaxCrossEntropyBackward(const ChannelShape& s, int64_t labels_of_batch,
                                        float smoothing, float weight, const float* y,
                                        const int32_t* labels, const LossScale* loss_scale,
                                        Array dx, cudaStream_t stream) {
  if (!Countable(s)) return cudaErrorInvalidValue;
  const int64_t n = s.outer * s.channels;
  const float count = static_cast<float>(labels_of_batch);
  const Targets targets(smoothing, s.channels);
  const auto run = [&]<typename T>() {
    if (s.inner == 1) {
      SoftmaxBackward<<<static_cast<unsigned>(CeilDiv(n, kThreads)), kThreads, 0, stream>>>(
          static_cast<size_t>(n), Divider<uint32_t>(s.channels), count, targets, weight, y, labels,
          loss_scale, As<T>(dx));
    } else {
      SoftmaxPixelsBackward<<<static_cast<unsigned>(LossParts(s)), kThreads, 0, stream>>>(
          Pixels(s), count, targets, weight, y, labels, loss_scale, As<T>(dx));
    }
    return cudaGetLastError();
  };
  return WithElement(run, dx);
}

}  // namespace neap::kernels
