// The statistics of batch norm, whatever reads x.
//
// A variance is a small difference of large sums unless the squared values are near zero.
// Therefore a thread sums (x - x0), where x0 is its first element, and means and squared deviations
// are merged by Chan's formula. An outlier can be the x0 of only one thread's few elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"

namespace neap::kernels {

// Mean, sum of squared deviations from it, and number of elements.
struct Moments {
  static constexpr int kSums = 2;
  static constexpr int kResident = 4;
  static constexpr int kRowThreads = 1024;
  static constexpr int kResidentRows = 0;
  static constexpr int64_t kRowBlocks = kWantedBlocks;
  template <typename>
  struct Of {
    using Share = float;
    // The mean is the sum of these two, the second at most half a unit in the last place of the
    // first: a double would take conversions, which GPUs do slowly.
    float mean, rest;
    float squares;
    float count;
    template <typename U>
    __device__ Share ShareOf(const Of<U>& other) const {
      return other.count == 0 ? 0 : other.count / (count + other.count);
    }
    template <typename U>
    __device__ void Merge(const Of<U>& other, Share share) {
      if (other.count == 0) return;
      if (count == 0) {
        *this = {other.mean, other.rest, other.squares, other.count};
        return;
      }
      const float d = (other.mean - mean) + (other.rest - rest);
      squares += other.squares + d * share * count * d;
      SetMean(mean, rest + d * share);
      count += other.count;
    }
    __device__ Of Below(int offset) const {
      return {__shfl_down_sync(~0U, mean, offset), __shfl_down_sync(~0U, rest, offset),
              __shfl_down_sync(~0U, squares, offset), __shfl_down_sync(~0U, count, offset)};
    }
    // To a + b, by Knuth's exact sum.
    __device__ void SetMean(float a, float b) {
      mean = a + b;
      const float of_b = mean - a;
      rest = (a - (mean - of_b)) + (b - of_b);
    }
  };
  // Computes the moments from the sums of x - x0 and of its square.
  template <int kVec>
  static __device__ Of<float> Close(const Vec<kVec>& x0, int k, const LaneSums<2>& sums,
                                    uint32_t count) {
    if (count == 0) return {};
    const float n = static_cast<float>(count);
    const float shift = sums.v[0] / n;
    const float squares = sums.v[1] - sums.v[0] * shift;
    Of<float> of = {0, 0, squares < 0 ? 0 : squares, n};  // keeps NaN
    of.SetMean(x0.v[k], shift);
    return of;
  }
};

// Adds x - x0 and its square.
template <int kVec>
__device__ __forceinline__ void AddDeviations(const Vec<kVec>& x0, const Vec<kVec>& x,
                                              Accumulators<2, kVec>& sums) {
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    const float d = x.v[k] - x0.v[k];
    sums.v[0].v[k] += d;
    sums.v[1].v[k] += d * d;
  }
}

// Sums x - x0 and its square, where x is one tensor.
template <typename T>
struct TensorMomentsOp {
  using Total = Moments;
  const T* x;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <bool kLast, int kVec>
  __device__ Vec<kVec> Prepare(size_t, size_t first) const {
    const Vec<kVec> v = Unpack(Read<kVec>(x, first));
    if constexpr (kLast) {
      return v;
    } else {
      return Broadcast<kVec>(v.v[0]);
    }
  }
  template <int kVec>
  __device__ Packed<T, kVec> Load(size_t i) const {
    return Read<kVec>(x, i);
  }
  template <int kVec>
  __device__ void Accumulate(const Vec<kVec>& x0, const Packed<T, kVec>& in, size_t,
                             Accumulators<2, kVec>& sums) const {
    AddDeviations(x0, Unpack(in), sums);
  }
};

__device__ inline BatchNormRow RowAt(const BatchNormRows& rows, int rank) {
  const int64_t offset = rank * rows.length;
  return {rows.first.count + offset, rows.first.mean + offset, rows.first.squares + offset};
}

// Fills what is before the means.
__device__ inline void WriteCount(const BatchNormRow& row, float count) {
  for (float* p = row.count; p != row.mean; ++p) *p = 0;
  *row.count = count;
}

// Writes a channel of the statistics, or, if there are rows, of the rank's row, and 0 to the other
// rows.
struct StatisticsFinal {
  double count;
  float epsilon = 0, momentum = 0;
  BatchNormState state = {};
  BatchNormRows rows = {};
  int rank = 0;
  __device__ void WriteRows(uint32_t c, const Moments::Of<double>& moments) const {
    for (int r = 0; r < rows.ranks; ++r) {
      const BatchNormRow row = RowAt(rows, r);
      row.mean[c] = r == rank ? moments.mean : 0.0F;
      row.squares[c] = r == rank ? moments.squares : 0.0F;
      if (c == 0) WriteCount(row, r == rank ? static_cast<float>(count) : 0.0F);
    }
  }
  __device__ void operator()(uint32_t c, const Moments::Of<double>& moments) const {
    if (rows.first.count != nullptr) return WriteRows(c, moments);
    const double variance = moments.squares / count;
    state.mean[c] = moments.mean;
    state.invstd[c] = static_cast<float>(1.0 / sqrt(variance + epsilon));
    if (state.running_mean == nullptr) return;
    const double unbiased = count > 1 ? variance * count / (count - 1) : variance;
    state.running_mean[c] = (1.0F - momentum) * state.running_mean[c] + momentum * moments.mean;
    state.running_var[c] =
        (1.0F - momentum) * state.running_var[c] + momentum * static_cast<float>(unbiased);
  }
};

}  // namespace neap::kernels
