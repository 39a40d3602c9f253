// Softmax and cross-entropy: a block per image, or a thread per pixel if each pixel has a label,
// then one small block for the means. A row is read twice, the second time from cache, and once
// more with label smoothing.
#include "neap/layers/cuda/kernels/loss/softmax.cuh"

namespace neap::kernels {
namespace {

__device__ __forceinline__ float WeightOf(const ClassTargets& targets, int c) {
  return targets.weighted == 0 ? 1.0F : targets.weights[c];
}

// The loss of an image or pixel from the negative logarithm of the probability of its class, the
// sum of the logits less the largest one times their weights, over the classes, and the logarithm
// of the sum of their exponentials.
__device__ __forceinline__ float Smoothed(const ClassTargets& targets, int32_t label,
                                          float of_class, float shifted, float log_sum,
                                          int classes) {
  const float weighted = WeightOf(targets, label) * of_class;
  if (targets.smoothing == 0.0F) return weighted;
  const float of_all = targets.mean_weight * log_sum - shifted / static_cast<float>(classes);
  return (1.0F - targets.smoothing) * weighted + targets.smoothing * of_all;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    SoftmaxRows(int classes, ClassTargets targets, const T* logits, const int32_t* labels, float* y,
                float2* per_image) {
  const T* const row = logits + static_cast<size_t>(blockIdx.x) * static_cast<size_t>(classes);
  float* const out = y + static_cast<size_t>(blockIdx.x) * static_cast<size_t>(classes);
  const int32_t label = labels == nullptr ? kNoLabel : labels[blockIdx.x];
  const bool valid = label >= 0 && label < classes;
  const float own = valid ? ToFloat(row[label]) : nanf("");
  RowSums sums;
  for (int c = static_cast<int>(threadIdx.x); c < classes; c += kThreads) {
    const float logit = ToFloat(row[c]);
    sums.RaiseTo(fmaxf(sums.largest, logit));
    sums.Add(c, logit, label, own);
  }
  sums.Reduce();
  float shifted = 0;
  if (targets.smoothing != 0.0F) {
    for (int c = static_cast<int>(threadIdx.x); c < classes; c += kThreads)
      shifted += WeightOf(targets, c) * (ToFloat(row[c]) - sums.largest);
    shifted = BlockReduce<false>(shifted);
  }
  if (labels != nullptr && threadIdx.x == 0) {
    const float without = label == kNoLabel ? 0.0F : nanf("");
    const float loss =
        valid ? Smoothed(targets, label, sums.Entropy(own), shifted, logf(sums.sum), classes)
              : without;
    per_image[blockIdx.x] = {loss, valid && sums.above == 0.0F ? 1.0F : 0.0F};
  }
  // The output may overwrite the logits: after this barrier, each thread reads only its own.
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < classes; c += kThreads)
    out[c] = expf(ToFloat(row[c]) - sums.largest) / sums.sum;
}

// The targets of the class of an image or pixel, and of all others, before they have weights.
struct TargetPair {
  TargetPair(float smoothing, int64_t classes)
      : of_others(smoothing / static_cast<float>(classes)),
        of_class(1.0F - smoothing + of_others) {}
  float of_others, of_class;
};

// The gradient of the loss of one label by the logit of class c, from its probability.
__device__ __forceinline__ float Gradient(const ClassTargets& targets, const TargetPair& pair,
                                          int classes, int32_t label, int c, float y) {
  const float target = c == label ? pair.of_class : pair.of_others;
  if (targets.weighted == 0) return y - target;
  const bool valid = label >= 0 && label < classes;
  const float own = valid ? (1.0F - targets.smoothing) * targets.weights[label] : 0.0F;
  return (own + targets.smoothing * targets.mean_weight) * y - targets.weights[c] * target;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    SoftmaxBackward(size_t n, Divider<uint32_t> classes, float images, ClassTargets targets,
                    TargetPair pair, float weight, const float* y, const int32_t* labels,
                    const LossScale* loss_scale, T* dx) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  uint32_t c = 0;
  const uint32_t image = classes.Split(static_cast<uint32_t>(i), c);
  const int32_t label = labels[image];
  const float of_label =
      Gradient(targets, pair, static_cast<int>(classes.divisor), label, static_cast<int>(c), y[i]);
  const float gradient = of_label / images * FactorOf(weight, loss_scale);
  dx[i] = RoundTo<T>(label == kNoLabel ? 0.0F : gradient);
}

// The loss, and 1 if the label is the first of the largest. Reads the logits before y, which may
// overwrite them, is written.
template <typename T>
__device__ float2 Score(const Pixels& p, const ClassTargets& targets, const T* column,
                        int32_t label, const ColumnSoftmax& softmax) {
  if (label == kNoLabel) return {0.0F, 0.0F};
  if (label < 0 || label >= p.classes) return {nanf(""), 0.0F};
  float shifted = 0;
  for (int c = 0; targets.smoothing != 0.0F && c < p.classes; ++c)
    shifted += WeightOf(targets, c) * (ToFloat(column[c * p.Apart()]) - softmax.largest);
  const float of_class = softmax.Entropy(ToFloat(column[label * p.Apart()]));
  return {Smoothed(targets, label, of_class, shifted, logf(softmax.sum), p.classes),
          IsLargest(p, column, label) ? 1.0F : 0.0F};
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    SoftmaxPixels(Pixels p, ClassTargets targets, const T* logits, LabelOf labels, float* y,
                  float2* per_block) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  float2 score = {0.0F, 0.0F};
  if (i < p.labels) {
    const T* const column = logits + p.First(i);
    const ColumnSoftmax softmax(p, column);
    if (labels.labels != nullptr) score = Score(p, targets, column, labels(i), softmax);
    softmax.Store(p, column, y + p.First(i));
  }
  if (labels.labels == nullptr) return;
  score.x = BlockReduce<false>(score.x);
  score.y = BlockReduce<false>(score.y);
  if (threadIdx.x == 0) per_block[blockIdx.x] = score;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    SoftmaxPixelsBackward(Pixels p, float count, ClassTargets targets, TargetPair pair,
                          float weight, const float* y, LabelOf labels, const LossScale* loss_scale,
                          T* dx) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= p.labels) return;
  const size_t first = p.First(i), apart = p.Apart();
  const int32_t label = labels(i);
  const float factor = FactorOf(weight, loss_scale);
  for (int c = 0; c < p.classes; ++c) {
    const size_t at = first + c * apart;
    const float gradient = Gradient(targets, pair, p.classes, label, c, y[at]) / count;
    dx[at] = RoundTo<T>(label == kNoLabel ? 0.0F : gradient * factor);
  }
}

}  // namespace

int64_t LossScratchBytes(const ChannelShape& s) {
  return LossParts(s) * static_cast<int64_t>(sizeof(float2));
}

cudaError_t SoftmaxCrossEntropy(const ChannelShape& s, int64_t labels_of_batch,
                                const ClassTargets& targets, ConstArray logits,
                                const Labels& labels, float* y, LossMetrics metrics, void* scratch,
                                cudaStream_t stream) {
  if (!Countable(s)) return cudaErrorInvalidValue;
  float2* const parts = static_cast<float2*>(scratch);
  const unsigned blocks = static_cast<unsigned>(LossParts(s));
  const auto run = [&]<typename T>() {
    if (s.inner == 1) {
      SoftmaxRows<<<blocks, kThreads, 0, stream>>>(static_cast<int>(s.channels), targets,
                                                   As<T>(logits), labels.labels, y, parts);
    } else {
      SoftmaxPixels<<<blocks, kThreads, 0, stream>>>(Pixels(s), targets, As<T>(logits),
                                                     LabelOf(labels), y, parts);
    }
    return cudaGetLastError();
  };
  const cudaError_t error = WithElement(run, logits);
  if (error != cudaSuccess || labels.labels == nullptr) return error;
  Metrics<<<1, kThreads, 0, stream>>>(static_cast<int>(blocks), parts,
                                      static_cast<float>(labels_of_batch), metrics);
  return cudaGetLastError();
}

cudaError_t SoftmaxCrossEntropyBackward(const ChannelShape& s, int64_t labels_of_batch,
                                        const ClassTargets& targets, float weight, const float* y,
                                        const Labels& labels, const LossScale* loss_scale, Array dx,
                                        cudaStream_t stream) {
  if (!Countable(s)) return cudaErrorInvalidValue;
  const int64_t n = s.outer * s.channels;
  const float count = static_cast<float>(labels_of_batch);
  const TargetPair pair(targets.smoothing, s.channels);
  const auto run = [&]<typename T>() {
    if (s.inner == 1) {
      SoftmaxBackward<<<static_cast<unsigned>(CeilDiv(n, kThreads)), kThreads, 0, stream>>>(
          static_cast<size_t>(n), Divider<uint32_t>(s.channels), count, targets, pair, weight, y,
          labels.labels, loss_scale, As<T>(dx));
    } else {
      SoftmaxPixelsBackward<<<static_cast<unsigned>(LossParts(s)), kThreads, 0, stream>>>(
          Pixels(s), count, targets, pair, weight, y, LabelOf(labels), loss_scale, As<T>(dx));
    }
    return cudaGetLastError();
  };
  return WithElement(run, dx);
}

}  // namespace neap::kernels
