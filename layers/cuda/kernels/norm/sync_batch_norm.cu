// Batch norm over ranks: kernels for the statistics of all ranks, and for the gradients of one rank
// and of all. batch_norm.cu has the statistics of one rank, and the normalisation that follows.
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"
#include "neap/layers/cuda/kernels/norm/batch_norm_gradient.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_moments.cuh"

namespace neap::kernels {
namespace {

// A thread merges the rows of a channel in the order of the ranks.
__global__ void __launch_bounds__(kThreads)
    CombineRows(BatchNormRows rows, int64_t channels, float epsilon, float momentum,
                BatchNormState state) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= channels) return;
  double count = 0, mean = 0, squares = 0;
  for (int rank = 0; rank < rows.ranks; ++rank) {
    const BatchNormRow row = RowAt(rows, rank);
    const double own = *row.count, d = row.mean[c] - mean;
    squares += row.squares[c] + d * d * count * own / (count + own);
    mean += d * own / (count + own);
    count += own;
  }
  StatisticsFinal{count, epsilon, momentum, state}(
      static_cast<uint32_t>(c), {static_cast<float>(mean), 0, static_cast<float>(squares), 0});
}

// Sums dy and dy * xhat, and writes gamma * invstd * dy.
template <typename T>
struct DirectGradientOp {
  using Total = Sums<2>;
  BatchNormOperands in;
  const T* dy;
  T* dx;
  template <int kVec>
  struct Registers {
    Packed<T, kVec> x, dy;
  };
  template <bool kLast, int kVec>
  __device__ SumConstants<kVec> Prepare(size_t c, size_t) const {
    return SumConstantsOf<kLast, kVec>(in, /*relu=*/false, c);
  }
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    return {Read<kVec>(As<T>(in.x), i), Read<kVec>(dy, i)};
  }
  template <int kVec>
  __device__ void Accumulate(const SumConstants<kVec>& of, const Registers<kVec>& loaded, size_t i,
                             Accumulators<2, kVec>& sums) const {
    AddGradient<T>(/*relu=*/false, loaded.dy, Unpack(loaded.x), of, sums);
    Vec<kVec> d = Unpack(loaded.dy);
#pragma unroll
    for (int k = 0; k < kVec; ++k) d.v[k] *= of.scale.v[k];
    Write<kVec>(dx, i, d);
  }
};

// Writes a channel of dgamma, dbeta, and what they contribute to the gradients of all rows.
struct RowGradientsFinal {
  BatchNormOperands in;
  BatchNormSums sums;
  BatchNormRows rows, gradients;
  __device__ void operator()(uint32_t c, const Sums<2>::Of<double>& total) const {
    GradientFinal{sums}(c, total);
    double count = 0;
    for (int rank = 0; rank < rows.ranks; ++rank) count += *RowAt(rows, rank).count;
    const double invstd = in.invstd[c], scale = invstd * in.gamma[c];
    const double by_mean = -scale * total.v[0] / count;
    const double by_squares = -scale * invstd * total.v[1] / (2 * count);
    for (int rank = 0; rank < rows.ranks; ++rank) {
      const BatchNormRow row = RowAt(rows, rank), gradient = RowAt(gradients, rank);
      const double distance = static_cast<double>(row.mean[c]) - in.mean[c];
      gradient.mean[c] = static_cast<float>(*row.count * (by_mean + 2 * by_squares * distance));
      gradient.squares[c] = static_cast<float>(by_squares);
      if (c == 0) WriteCount(gradient, 0);
    }
  }
};

// dx = (or, if `adds`, +=) the gradient by the statistics.
template <typename T>
struct StatisticsGradientOp {
  const T* x;
  const float *mean, *by_mean, *by_squares;
  float inverse_count;
  T* dx;
  bool adds;
  template <int kVec>
  struct Registers {
    Packed<T, kVec> x, dx;
  };
  template <int kVec>
  struct Constants {
    Vec<kVec> mean, by_mean, by_squares;
  };
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    Registers<kVec> loaded = {Read<kVec>(x, i), {}};
    if (adds) loaded.dx = Read<kVec>(dx, i);
    return loaded;
  }
  template <bool kLast, int kVec>
  __device__ Constants<kVec> Prepare(size_t c) const {
    return {PerChannel<kLast, kVec>(mean, c), PerChannel<kLast, kVec>(by_mean, c),
            PerChannel<kLast, kVec>(by_squares, c)};
  }
  template <int kVec>
  __device__ void Store(size_t i, const Constants<kVec>& of, const Registers<kVec>& loaded) const {
    Vec<kVec> d = Unpack(loaded.x);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const float deviation = d.v[k] - of.mean.v[k];
      d.v[k] = fmaf(2 * of.by_squares.v[k], deviation, of.by_mean.v[k] * inverse_count);
    }
    if (adds) {
      const Vec<kVec> sum = Unpack(loaded.dx);
#pragma unroll
      for (int k = 0; k < kVec; ++k) d.v[k] = __fadd_rn(Rounded<T>(d.v[k]), sum.v[k]);
    }
    Write<kVec>(dx, i, d);
  }
};

}  // namespace

cudaError_t BatchNormCombine(const BatchNormRows& rows, int64_t channels, float epsilon,
                             float momentum, const BatchNormState& state, cudaStream_t stream) {
  CombineRows<<<static_cast<unsigned>(CeilDiv(channels, kThreads)), kThreads, 0, stream>>>(
      rows, channels, epsilon, momentum, state);
  return cudaGetLastError();
}

cudaError_t BatchNormDirectBackward(const ChannelShape& s, const BatchNormOperands& in,
                                    ConstArray dy, const BatchNormRows& rows,
                                    const BatchNormRows& gradients, const BatchNormSums& sums,
                                    Array dx, const ReductionMemory& memory, cudaStream_t stream) {
  const bool aligned = AllAligned16(in) && AllAligned16(dy, dx);
  const auto run = [&]<typename T>() {
    return Reduce<T>(s, aligned, DirectGradientOp<T>{in, As<T>(dy), As<T>(dx)},
                     RowGradientsFinal{in, sums, rows, gradients}, memory, stream);
  };
  return WithElement(run, in.x, dy, dx);
}

cudaError_t BatchNormStatisticsBackward(const ChannelShape& s, ConstArray x,
                                        const BatchNormRow& row, const BatchNormRow& gradient,
                                        Array dx, bool adds, cudaStream_t stream) {
  const bool aligned = AllAligned16(x, dx, row.mean, gradient.mean, gradient.squares);
  const auto run = [&]<typename T>() {
    const StatisticsGradientOp<T> op = {As<T>(x),        row.mean,  gradient.mean, gradient.squares,
                                        InverseCount(s), As<T>(dx), adds};
    return MapChannels<T>(s, aligned, op, stream);
  };
  return WithElement(run, x, dx);
}

}  // namespace neap::kernels
