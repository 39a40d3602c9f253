// Losses against targets: a block per image, or a thread per pixel if images have several, then one
// small block for the means.
#include <cmath>

#include "neap/layers/cuda/kernels/loss/loss.cuh"

namespace neap::kernels {
namespace {

struct SquaredError {
  static __device__ __forceinline__ float Output(float x) { return x; }
  static __device__ __forceinline__ float Loss(float x, float target) {
    return (x - target) * (x - target);
  }
  static __device__ __forceinline__ float Gradient(float y, float target) {
    return 2.0F * (y - target);
  }
};

__device__ __forceinline__ float SigmoidOf(float x) {
  const float e = expf(-fabsf(x));
  return x >= 0.0F ? 1.0F / (1.0F + e) : e / (1.0F + e);
}
// log(1 + exp(-|x|)), where exp cannot overflow.
__device__ __forceinline__ float LogOfTail(float x) { return log1pf(expf(-fabsf(x))); }
// log(1 + exp(x)) - target * x
__device__ __forceinline__ float CrossEntropyOf(float x, float target) {
  return fmaxf(x, 0.0F) - x * target + LogOfTail(x);
}

struct SigmoidCrossEntropy {
  static __device__ __forceinline__ float Output(float x) { return SigmoidOf(x); }
  __device__ __forceinline__ float Loss(float x, float target) const {
    const float loss = CrossEntropyOf(x, target);
    if (more == 0.0F) return loss;
    return loss + more * target * (fmaxf(-x, 0.0F) + LogOfTail(x));
  }
  __device__ __forceinline__ float Gradient(float y, float target) const {
    return y - target + more * target * (y - 1.0F);
  }
  float more;  // the weight of positive targets less 1
};

struct SigmoidFocal {
  static __device__ __forceinline__ float Output(float x) { return SigmoidOf(x); }
  __device__ __forceinline__ float Share(float target) const {
    return alpha * target + (1.0F - alpha) * (1.0F - target);
  }
  __device__ __forceinline__ float Loss(float x, float target) const {
    const float wrong = SigmoidOf(x) * (1.0F - target) + SigmoidOf(-x) * target;
    return Share(target) * powf(wrong, gamma) * CrossEntropyOf(x, target);
  }
  __device__ __forceinline__ float Gradient(float y, float target) const {
    const float rest = 1.0F - y, wrong = y * (1.0F - target) + rest * target;
    // y (1 - y) times the cross-entropy, over what is wrong: a mean of the two below, which is
    // finite where a power of what is wrong is not.
    const float of_all = target * rest * XLogX(y) + (1.0F - target) * y * RestLogRest(y);
    const float entropy = wrong == 0.0F ? 0.0F : -of_all / wrong;
    const float power = powf(wrong, gamma);
    return Share(target) * power * (y - target + gamma * (1.0F - 2.0F * target) * entropy);
  }
  // p log(p) and (1 - p) log(1 - p), which are 0 where p is 0 or 1.
  static __device__ __forceinline__ float XLogX(float p) { return p == 0.0F ? 0.0F : p * logf(p); }
  static __device__ __forceinline__ float RestLogRest(float p) {
    return p == 1.0F ? 0.0F : (1.0F - p) * log1pf(-p);
  }
  float alpha, gamma;
};

template <typename Kind>
__device__ __forceinline__ float LossOf(const Kind& kind, float x, float target) {
  return isnan(target) ? 0.0F : kind.Loss(x, target);
}

template <typename Kind, typename T>
__global__ void __launch_bounds__(kThreads)
    TargetRows(Kind kind, int channels, const T* predictions, const float* all_targets, float* y,
               float2* per_image) {
  const size_t first = static_cast<size_t>(blockIdx.x) * static_cast<size_t>(channels);
  const T* const x = predictions + first;
  const int thread = static_cast<int>(threadIdx.x);
  if (all_targets != nullptr) {
    const float* const targets = all_targets + first;
    float loss = 0, largest = -INFINITY;
    for (int c = thread; c < channels; c += kThreads) {
      loss += LossOf(kind, ToFloat(x[c]), targets[c]);
      largest = fmaxf(largest, targets[c]);
    }
    loss = BlockReduce<false>(loss);
    largest = BlockReduce<true>(largest);
    // The first channel with the largest target, counted down from the last one; 0: none.
    float place = 0;
    for (int c = thread; c < channels; c += kThreads) {
      if (targets[c] == largest) place = fmaxf(place, static_cast<float>(channels - c));
    }
    const int wanted = channels - static_cast<int>(BlockReduce<true>(place));
    const bool counts = wanted < channels && channels > 1;
    const float own = counts ? ToFloat(x[wanted]) : nanf("");
    float beaten = 0;
    for (int c = thread; c < channels; c += kThreads) {
      const float other = ToFloat(x[c]);
      const bool below = c < wanted ? other < own : other <= own;
      beaten += below ? 0.0F : 1.0F;
    }
    beaten = BlockReduce<false>(beaten);
    if (thread == 0) per_image[blockIdx.x] = {loss, beaten == 0.0F ? 1.0F : 0.0F};
  }
  // The output may overwrite the predictions: after this barrier, each thread reads only its own.
  __syncthreads();
  for (int c = thread; c < channels; c += kThreads) y[first + c] = kind.Output(ToFloat(x[c]));
}

// The loss of a pixel, and 1 if its largest prediction is where its largest target is.
template <typename Kind, typename T>
__device__ float2 TargetScore(const Kind& kind, const Pixels& p, const T* x, const float* targets) {
  const size_t apart = p.Apart();
  float loss = 0, largest = nanf("");
  int wanted = 0;
  for (int c = 0; c < p.classes; ++c) {
    const float target = targets[c * apart];
    loss += LossOf(kind, ToFloat(x[c * apart]), target);
    if (target > largest || (isnan(largest) && !isnan(target))) {
      largest = target;
      wanted = c;
    }
  }
  if (p.classes == 1 || isnan(largest)) return {loss, 0.0F};
  const float own = ToFloat(x[wanted * apart]);
  bool beaten = false;
  for (int c = 0; c < p.classes; ++c) {
    const float other = ToFloat(x[c * apart]);
    beaten |= !(c < wanted ? other < own : other <= own);
  }
  return {loss, beaten ? 0.0F : 1.0F};
}

template <typename Kind, typename T>
__global__ void __launch_bounds__(kThreads)
    TargetPixels(Kind kind, Pixels p, const T* x, const float* targets, float* y,
                 float2* per_block) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  float2 score = {0.0F, 0.0F};
  if (i < p.labels) {
    const size_t first = p.First(i), apart = p.Apart();
    if (targets != nullptr) score = TargetScore(kind, p, x + first, targets + first);
    for (int c = 0; c < p.classes; ++c) {
      const size_t at = first + c * apart;
      y[at] = kind.Output(ToFloat(x[at]));
    }
  }
  if (targets == nullptr) return;
  score.x = BlockReduce<false>(score.x);
  score.y = BlockReduce<false>(score.y);
  if (threadIdx.x == 0) per_block[blockIdx.x] = score;
}

template <typename Kind, typename T>
__global__ void __launch_bounds__(kThreads)
    TargetBackward(Kind kind, size_t n, float elements, float weight, const float* y,
                   const float* targets, const LossScale* loss_scale, T* dx) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const float target = targets[i];
  const float factor = FactorOf(weight, loss_scale);
  const float gradient = kind.Gradient(y[i], target) / elements * factor;
  dx[i] = RoundTo<T>(isnan(target) ? 0.0F : gradient);
}

template <typename Kind>
cudaError_t LossForward(const Kind& kind, const ChannelShape& s, int64_t elements_of_batch,
                        ConstArray x, const float* targets, float* y, LossMetrics metrics,
                        void* scratch, cudaStream_t stream) {
  float2* const parts = static_cast<float2*>(scratch);
  const unsigned blocks = static_cast<unsigned>(LossParts(s));
  const auto run = [&]<typename T>() {
    if (s.inner == 1) {
      TargetRows<<<blocks, kThreads, 0, stream>>>(kind, static_cast<int>(s.channels), As<T>(x),
                                                  targets, y, parts);
    } else {
      TargetPixels<<<blocks, kThreads, 0, stream>>>(kind, Pixels(s), As<T>(x), targets, y, parts);
    }
    return cudaGetLastError();
  };
  const cudaError_t error = WithElement(run, x);
  if (error != cudaSuccess || targets == nullptr) return error;
  Metrics<<<1, kThreads, 0, stream>>>(static_cast<int>(blocks), parts,
                                      static_cast<float>(elements_of_batch), metrics);
  return cudaGetLastError();
}

template <typename Kind>
cudaError_t LossBackward(const Kind& kind, const ChannelShape& s, int64_t elements_of_batch,
                         float weight, const float* y, const float* targets,
                         const LossScale* loss_scale, Array dx, cudaStream_t stream) {
  const int64_t n = s.outer * s.channels * s.inner;
  const auto run = [&]<typename T>() {
    TargetBackward<<<static_cast<unsigned>(CeilDiv(n, kThreads)), kThreads, 0, stream>>>(
        kind, static_cast<size_t>(n), static_cast<float>(elements_of_batch), weight, y, targets,
        loss_scale, As<T>(dx));
    return cudaGetLastError();
  };
  return WithElement(run, dx);
}

// Calls run(kind) with the kernels' kind.
template <typename Run>
cudaError_t WithKind(const TargetLossKind& kind, const Run& run) {
  switch (kind.function) {
    case TargetLossKind::Function::kSquaredError:
      return run(SquaredError{});
    case TargetLossKind::Function::kSigmoidCrossEntropy:
      return run(SigmoidCrossEntropy{kind.positive_weight - 1.0F});
    case TargetLossKind::Function::kFocal:
      return run(SigmoidFocal{kind.alpha, kind.gamma});
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t TargetLoss(const TargetLossKind& kind, const ChannelShape& s, int64_t elements_of_batch,
                       ConstArray x, const float* targets, float* y, LossMetrics metrics,
                       void* scratch, cudaStream_t stream) {
  if (!Countable(s)) return cudaErrorInvalidValue;
  return WithKind(kind, [&](const auto& of) {
    return LossForward(of, s, elements_of_batch, x, targets, y, metrics, scratch, stream);
  });
}

cudaError_t TargetLossBackward(const TargetLossKind& kind, const ChannelShape& s,
                               int64_t elements_of_batch, float weight, const float* y,
                               const float* targets, const LossScale* loss_scale, Array dx,
                               cudaStream_t stream) {
  if (!Countable(s)) return cudaErrorInvalidValue;
  return WithKind(kind, [&](const auto& of) {
    return LossBackward(of, s, elements_of_batch, weight, y, targets, loss_scale, dx, stream);
  });
}

}  // namespace neap::kernels
