// Softmax and cross-entropy of rows of logits: a block for each row, which reads it twice, once for
// the largest logit and the sum of exponentials together, and once for the gradient.
#include "neap/layers/cuda/kernels/loss/softmax.cuh"
#include "neap/layers/cuda/kernels/tokens/tokens.h"

namespace neap::kernels {
namespace {

// A row of logits in vectors, of which the last may be shorter.
template <typename T>
struct LogitRow {
  static constexpr int kVec = kWide<T>;
  __device__ int Vectors() const { return (classes + kVec - 1) / kVec; }
  __device__ int InVector(int i) const { return min(classes - i * kVec, kVec); }
  __device__ float At(int c) const { return ToFloat(values[c]) + (bias ? bias[c] : 0.0F); }
  __device__ Vec<kVec> InMemory(int i) const {
    return Unpack(Read<kVec>(values, static_cast<size_t>(i)));
  }
  // Calls visit(c, k, logit) for the classes of the i-th vector, of which k is the place in it.
  template <typename Visit>
  __device__ void ForEach(int i, const Vec<kVec>& v, const Visit& visit) const {
    const int count = InVector(i);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const int c = i * kVec + k;
      if (k < count) visit(c, k, v.v[k] + (bias ? bias[c] : 0.0F));
    }
  }
  T* values;
  const float* bias;
  int classes;
};

template <typename T>
__device__ RowSums SumRow(const LogitRow<T>& row, int32_t label, float own) {
  RowSums sums;
  for (int i = static_cast<int>(threadIdx.x); i < row.Vectors(); i += kThreads) {
    const Vec<LogitRow<T>::kVec> v = row.InMemory(i);
    float next = sums.largest;
    row.ForEach(i, v, [&](int, int, float logit) { next = fmaxf(next, logit); });
    sums.RaiseTo(next);
    row.ForEach(i, v, [&](int c, int, float logit) { sums.Add(c, logit, label, own); });
  }
  sums.Reduce();
  return sums;
}

template <typename T, bool kGradient>
__global__ void __launch_bounds__(kThreads)
    TokenLossKernel(LogitRows shape, GradientScale scale, T* logits, const int32_t* labels,
                    float2* scores, float* losses) {
  const LogitRow<T> row = {
      logits + static_cast<size_t>(blockIdx.x) * static_cast<size_t>(shape.apart), shape.bias,
      static_cast<int>(shape.classes)};
  const int32_t label = labels[blockIdx.x];
  const bool valid = label >= 0 && label < row.classes;
  const float own = valid ? row.At(label) : nanf("");
  const RowSums sums = SumRow(row, label, own);
  if (threadIdx.x == 0) {
    const float without = label == kNoLabel ? 0.0F : nanf("");
    const float loss = valid ? sums.Entropy(own) : without;
    scores[blockIdx.x] = {loss, valid && sums.above == 0.0F ? 1.0F : 0.0F};
    if (losses != nullptr) losses[blockIdx.x] = loss;
  }
  if constexpr (kGradient) {
    const float count = static_cast<float>(scale.labels_of_batch);
    const float factor = FactorOf(scale.weight, scale.loss_scale);
    for (int i = static_cast<int>(threadIdx.x); i < row.Vectors(); i += kThreads) {
      Vec<LogitRow<T>::kVec> gradients = {};
      row.ForEach(i, row.InMemory(i), [&](int c, int k, float logit) {
        const float probability = expf(logit - sums.largest) / sums.sum;
        const float gradient = (probability - (c == label ? 1.0F : 0.0F)) / count * factor;
        gradients.v[k] = label == kNoLabel ? 0.0F : gradient;
      });
      Write<LogitRow<T>::kVec>(row.values, static_cast<size_t>(i), gradients);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    SumRowsKernel(LogitRows shape, const T* rows, float* sums, bool add) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= shape.classes) return;
  float sum = add ? sums[c] : 0.0F;
  for (int64_t row = 0; row < shape.rows; ++row) sum += ToFloat(rows[row * shape.apart + c]);
  sums[c] = sum;
}

}  // namespace

cudaError_t TokenLosses(const LogitRows& shape, ConstArray logits, const int32_t* labels,
                        float* scores, float* losses, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    TokenLossKernel<T, false><<<static_cast<unsigned>(shape.rows), kThreads, 0, stream>>>(
        shape, GradientScale(), const_cast<T*>(As<T>(logits)), labels,
        reinterpret_cast<float2*>(scores), losses);
    return cudaGetLastError();
  };
  return WithElement(run, logits);
}

cudaError_t TokenGradients(const LogitRows& shape, const GradientScale& scale, Array logits,
                           const int32_t* labels, float* scores, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    TokenLossKernel<T, true><<<static_cast<unsigned>(shape.rows), kThreads, 0, stream>>>(
        shape, scale, As<T>(logits), labels, reinterpret_cast<float2*>(scores), nullptr);
    return cudaGetLastError();
  };
  return WithElement(run, logits);
}

cudaError_t TokenMetrics(int64_t positions, const float* scores, int64_t labels_of_batch,
                         LossMetrics metrics, cudaStream_t stream) {
  Metrics<<<1, kThreads, 0, stream>>>(static_cast<int>(positions),
                                      reinterpret_cast<const float2*>(scores),
                                      static_cast<float>(labels_of_batch), metrics);
  return cudaGetLastError();
}

cudaError_t SumRows(const LogitRows& shape, ConstArray rows, float* sums, bool add,
                    cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    SumRowsKernel<<<BlocksOf(shape.classes), kThreads, 0, stream>>>(shape, As<T>(rows), sums, add);
    return cudaGetLastError();
  };
  return WithElement(run, rows);
}

}  // namespace neap::kernels
