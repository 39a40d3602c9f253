// A convolution with a folded batch norm: everything but its large matrix products.
#include <cmath>

#include "neap/layers/cuda/kernels/channel_cut.cuh"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/norm/folded_convolution.h"

namespace neap::kernels {
namespace {

constexpr int kSide = 32;                    // of a block's tile of a product
constexpr int kTileRows = kThreads / kSide;  // that a block loads or computes at once
constexpr int kRowWarps = kThreads / kWarp;  // rows of a weight per block, a warp each
constexpr int kDepthPerPart = 64;            // of the terms of M's sums
constexpr int kGradientThreads = 128;        // for a row of the weight's gradient

// Valid in all threads of the warp.
__device__ __forceinline__ float WarpSum(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(~0U, value, offset);
  return value;
}

__global__ void __launch_bounds__(kThreads)
    MomentsKernel(int in, double inverse_pixels, const float* __restrict__ sums,
                  const float* __restrict__ parts, int count, float* __restrict__ mean,
                  float* __restrict__ cov) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= in * in) return;
  const int row = i / in, column = i % in;
  double sum = 0;
#pragma unroll 8
  for (int p = 0; p < count; ++p) sum += parts[static_cast<size_t>(p) * in * in + i];
  const double of_row = static_cast<double>(sums[row]) * inverse_pixels;
  const double of_column = static_cast<double>(sums[column]) * inverse_pixels;
  cov[i] = static_cast<float>(sum * inverse_pixels - of_row * of_column);
  if (column == 0) mean[row] = static_cast<float>(of_row);
}

// A row of W, and column of cov.
template <typename T>
struct WeightTimesCovariance {
  static constexpr bool kDepthFirst = true;  // Left(i, d) and Left(i, d + 1) are neighbours
  const T* weight;
  const float* cov;
  int in;
  __device__ float Left(int i, int d) const {
    return ToFloat(weight[static_cast<size_t>(i) * in + d]);
  }
  __device__ float Right(int d, int j) const { return cov[static_cast<size_t>(d) * in + j]; }
};

// A row of -W^T diag(D), and a column of W.
template <typename T>
struct WeightTimesWeight {
  static constexpr bool kDepthFirst = false;
  const T* weight;
  const float* gamma;
  const float* invstd;
  const float* dgamma;
  float scale;  // of D
  int in;
  __device__ float Left(int i, int d) const {
    const float factor = gamma[d] * invstd[d] * invstd[d] * dgamma[d] * scale;
    return -factor * ToFloat(weight[static_cast<size_t>(d) * in + i]);
  }
  __device__ float Right(int d, int j) const {
    return ToFloat(weight[static_cast<size_t>(d) * in + j]);
  }
};

// out[part] {rows, columns} = the sum of Left(i, d) * Right(d, j) over the depth of the part.
template <typename Factors>
__global__ void __launch_bounds__(kThreads)
    ProductKernel(Factors factors, int rows, int columns, int depth, int depth_per_part,
                  float* __restrict__ out) {
  __shared__ float left[kSide][kSide + 1];
  __shared__ float right[kSide][kSide + 1];
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  const int row0 = static_cast<int>(blockIdx.y) * kSide;
  const int column0 = static_cast<int>(blockIdx.x) * kSide;
  const int begin = static_cast<int>(blockIdx.z) * depth_per_part;
  const int end = min(depth, begin + depth_per_part);
  float sums[kSide / kTileRows] = {};
  for (int at = begin; at < end; at += kSide) {
#pragma unroll
    for (int r = 0; r < kSide; r += kTileRows) {
      // Neighbouring threads read neighbouring elements.
      const int i = Factors::kDepthFirst ? y + r : x, d = Factors::kDepthFirst ? x : y + r;
      const bool has_left = row0 + i < rows && at + d < end;
      left[i][d] = has_left ? factors.Left(row0 + i, at + d) : 0.0F;
      const bool has_right = at + y + r < end && column0 + x < columns;
      right[y + r][x] = has_right ? factors.Right(at + y + r, column0 + x) : 0.0F;
    }
    __syncthreads();
#pragma unroll 8
    for (int d = 0; d < kSide; ++d) {
#pragma unroll
      for (int r = 0; r < kSide / kTileRows; ++r)
        sums[r] = fmaf(left[y + r * kTileRows][d], right[d][x], sums[r]);
    }
    __syncthreads();
  }
  float* const part = out + static_cast<size_t>(blockIdx.z) * rows * columns;
#pragma unroll
  for (int r = 0; r < kSide / kTileRows; ++r) {
    const int row = row0 + y + r * kTileRows, column = column0 + x;
    if (row < rows && column < columns) part[static_cast<size_t>(row) * columns + column] = sums[r];
  }
}

template <typename Factors>
void LaunchProduct(const Factors& factors, int64_t rows, int64_t columns, int64_t depth,
                   int64_t depth_per_part, float* out, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(CeilDiv(columns, kSide)),
                  static_cast<unsigned>(CeilDiv(rows, kSide)),
                  static_cast<unsigned>(CeilDiv(depth, depth_per_part)));
  ProductKernel<<<grid, kThreads, 0, stream>>>(factors, static_cast<int>(rows),
                                               static_cast<int>(columns), static_cast<int>(depth),
                                               static_cast<int>(depth_per_part), out);
}

// What `running` becomes.
__device__ __forceinline__ float Blended(float running, float batch, float momentum) {
  return (1 - momentum) * running + momentum * batch;
}

enum class From { kProduct, kSaved, kRunning };  // where invstd is from

// A warp per row of the weight. With `means`, those are all that it writes beside statistics.
template <From kFrom, typename T>
__global__ void __launch_bounds__(kThreads)
    FoldKernel(int in, int out, float unbiased, const T* __restrict__ weight, FoldedNorm norm,
               FoldedStatistics statistics, T* __restrict__ folded, T* __restrict__ bias,
               float* __restrict__ means) {
  const int k = static_cast<int>(blockIdx.x) * kRowWarps + static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (k >= out) return;
  const T* const w = weight + static_cast<size_t>(k) * in;
  float mean = 0;  // of the convolution's result
  if (kFrom == From::kProduct || means != nullptr) {
    for (int c = lane; c < in; c += kWarp) mean = fmaf(norm.mean[c], ToFloat(w[c]), mean);
    mean = WarpSum(mean);
  }
  float invstd;
  if constexpr (kFrom == From::kProduct) {
    const float* const product = statistics.product + static_cast<size_t>(k) * in;
    float variance = 0;
    for (int c = lane; c < in; c += kWarp) variance = fmaf(product[c], ToFloat(w[c]), variance);
    variance = WarpSum(variance);
    if (variance < 0) variance = 0;  // NaN passes
    invstd = 1.0F / sqrtf(variance + statistics.epsilon);
    if (lane == 0) {
      norm.invstd[k] = invstd;
      float &of_mean = statistics.running_mean[k], &of_var = statistics.running_var[k];
      of_mean = Blended(of_mean, mean, statistics.momentum);
      of_var = Blended(of_var, variance * unbiased, statistics.momentum);
    }
  } else if constexpr (kFrom == From::kSaved) {
    invstd = norm.invstd[k];
  } else {
    invstd = 1.0F / sqrtf(statistics.running_var[k] + statistics.epsilon);
  }
  if (means != nullptr) {
    if (lane == 0) means[k] = mean;
    return;
  }
  const float scale = norm.gamma[k] * invstd;
  T* const row = folded + static_cast<size_t>(k) * in;
  bool is_finite = true;
  mean = 0;  // of what F makes of x
  for (int c = lane; c < in; c += kWarp) {
    row[c] = RoundTo<T>(scale * ToFloat(w[c]));
    is_finite = is_finite && isfinite(ToFloat(row[c]));
    if (kFrom != From::kRunning && bias != nullptr)
      mean = fmaf(norm.mean[c], ToFloat(row[c]), mean);
  }
  if (bias == nullptr) return;
  mean = kFrom == From::kRunning ? scale * statistics.running_mean[k] : WarpSum(mean);
  const T b = RoundTo<T>(norm.beta[k] - mean);
  is_finite = __all_sync(~0U, is_finite && isfinite(ToFloat(b)));
  if (!is_finite && norm.relu) {
    for (int c = lane; c < in; c += kWarp) row[c] = RoundTo<T>(0.0F);
  }
  if (lane == 0) bias[k] = is_finite || !norm.relu ? b : RoundTo<T>(INFINITY);
}

template <From kFrom>
cudaError_t LaunchFold(const FoldedShape& s, ConstArray weight, const FoldedNorm& norm,
                       const FoldedStatistics& statistics, Array folded, Array bias, float* means,
                       cudaStream_t stream) {
  const double pixels = static_cast<double>(s.pixels);
  const float unbiased = static_cast<float>(pixels / (pixels > 1 ? pixels - 1 : 1));
  const auto run = [&]<typename T>() {
    FoldKernel<kFrom, T><<<static_cast<unsigned>(CeilDiv(s.out, kRowWarps)), kThreads, 0, stream>>>(
        static_cast<int>(s.in), static_cast<int>(s.out), unbiased, As<T>(weight), norm, statistics,
        As<T>(folded), As<T>(bias), means);
    return cudaGetLastError();
  };
  return WithElement(run, weight, folded, bias);
}

// A block per row. The first part becomes H_k - dbeta_k mean, each element by the thread that reads
// it again.
template <typename T>
__global__ void __launch_bounds__(kGradientThreads)
    WeightGradientKernel(int in, int out, const T* __restrict__ weight, FoldedNorm norm,
                         const float* __restrict__ product, const float* __restrict__ dbeta,
                         float* parts, int count, float* __restrict__ dweight,
                         float* __restrict__ dgamma) {
  __shared__ float warps[kGradientThreads / kWarp];
  const int k = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const size_t row = static_cast<size_t>(k) * in, size = static_cast<size_t>(out) * in;
  float sum = 0;
  for (int c = thread; c < in; c += kGradientThreads) {
    float centred = parts[row + c];
#pragma unroll 8
    for (int p = 1; p < count; ++p) centred += parts[p * size + row + c];
    centred = fmaf(-norm.mean[c], dbeta[k], centred);
    parts[row + c] = centred;
    sum = fmaf(ToFloat(weight[row + c]), centred, sum);
  }
  sum = WarpSum(sum);
  if (thread % kWarp == 0) warps[thread / kWarp] = sum;
  __syncthreads();
  sum = 0;
#pragma unroll
  for (int w = 0; w < kGradientThreads / kWarp; ++w) sum += warps[w];
  const float invstd = norm.invstd[k], of_gamma = invstd * sum;
  if (thread == 0) dgamma[k] = of_gamma;
  for (int c = thread; c < in; c += kGradientThreads) {
    const float of_norm = of_gamma * invstd * product[row + c];
    dweight[row + c] = norm.gamma[k] * invstd * (parts[row + c] - of_norm);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    RoundPartsKernel(const float* __restrict__ parts, int count, int n, T* __restrict__ out) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= n) return;
  float sum = 0;
#pragma unroll 8
  for (int p = 0; p < count; ++p) sum += parts[static_cast<size_t>(p) * n + i];
  out[i] = RoundTo<T>(sum);
}

// A block per kSide columns, of which each of its warps adds every kTileRows-th row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    ShiftKernel(int in, int out, float inverse_pixels, float inverse_factor,
                const T* __restrict__ folded, const T* __restrict__ projection,
                const float* __restrict__ mean, const float* __restrict__ dbeta,
                T* __restrict__ shift) {
  __shared__ float rows[kTileRows][kSide];
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  const int column = static_cast<int>(blockIdx.x) * kSide + x;
  float sum = 0;
  if (column < in) {
#pragma unroll 4
    for (int k = y; k < out; k += kTileRows)
      sum = fmaf(-dbeta[k] * inverse_pixels, ToFloat(folded[static_cast<size_t>(k) * in + column]),
                 sum);
#pragma unroll 4
    for (int c = y; c < in; c += kTileRows)
      sum = fmaf(-mean[c] * inverse_factor,
                 ToFloat(projection[static_cast<size_t>(c) * in + column]), sum);
  }
  rows[y][x] = sum;
  __syncthreads();
  if (y != 0 || column >= in) return;
#pragma unroll
  for (int r = 1; r < kTileRows; ++r) sum += rows[r][x];
  shift[column] = RoundTo<T>(sum);
}

int64_t ProjectionParts(const FoldedShape& s) { return CeilDiv(s.out, kDepthPerPart); }

float InversePixels(const FoldedShape& s) {
  return static_cast<float>(1.0 / static_cast<double>(s.pixels));
}

}  // namespace

cudaError_t FoldedMoments(const FoldedShape& s, const float* sums, const float* parts,
                          int64_t count, float* mean, float* cov, cudaStream_t stream) {
  MomentsKernel<<<static_cast<unsigned>(CeilDiv(s.in * s.in, kThreads)), kThreads, 0, stream>>>(
      static_cast<int>(s.in), 1.0 / static_cast<double>(s.pixels), sums, parts,
      static_cast<int>(count), mean, cov);
  return cudaGetLastError();
}

cudaError_t FoldedProduct(const FoldedShape& s, ConstArray weight, const float* cov, float* product,
                          cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const WeightTimesCovariance<T> factors = {As<T>(weight), cov, static_cast<int>(s.in)};
    LaunchProduct(factors, s.out, s.in, s.in, s.in, product, stream);
    return cudaGetLastError();
  };
  return WithElement(run, weight);
}

cudaError_t Fold(const FoldedShape& s, ConstArray weight, const FoldedNorm& norm,
                 const FoldedStatistics* statistics, Array folded, Array bias,
                 cudaStream_t stream) {
  return statistics != nullptr
             ? LaunchFold<From::kProduct>(s, weight, norm, *statistics, folded, bias, nullptr,
                                          stream)
             : LaunchFold<From::kSaved>(s, weight, norm, {}, folded, bias, nullptr, stream);
}

cudaError_t FoldedMean(const FoldedShape& s, ConstArray weight, const FoldedNorm& norm,
                       const FoldedStatistics* statistics, float* mean, cudaStream_t stream) {
  return statistics != nullptr
             ? LaunchFold<From::kProduct>(s, weight, norm, *statistics, {}, {}, mean, stream)
             : LaunchFold<From::kSaved>(s, weight, norm, {}, {}, {}, mean, stream);
}

cudaError_t FoldRunning(const FoldedShape& s, ConstArray weight, const FoldedNorm& norm,
                        const FoldedStatistics& statistics, Array folded, Array bias,
                        cudaStream_t stream) {
  return LaunchFold<From::kRunning>(s, weight, norm, statistics, folded, bias, nullptr, stream);
}

cudaError_t FoldedWeightGradient(const FoldedShape& s, ConstArray weight, const FoldedNorm& norm,
                                 const float* product, const float* dbeta, float* parts,
                                 int64_t count, float* dweight, float* dgamma,
                                 cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    WeightGradientKernel<T><<<static_cast<unsigned>(s.out), kGradientThreads, 0, stream>>>(
        static_cast<int>(s.in), static_cast<int>(s.out), As<T>(weight), norm, product, dbeta, parts,
        static_cast<int>(count), dweight, dgamma);
    return cudaGetLastError();
  };
  return WithElement(run, weight);
}

// The square root of the number of pixels, because the sums in M grow with it.
float ProjectionFactor(const FoldedShape& s) {
  return std::exp2(std::floor(std::log2(static_cast<float>(s.pixels)) / 2));
}

int64_t ProjectionScratchBytes(const FoldedShape& s) {
  return ProjectionParts(s) * s.in * s.in * static_cast<int64_t>(sizeof(float));
}

cudaError_t FoldedProjection(const FoldedShape& s, ConstArray weight, const FoldedNorm& norm,
                             const float* dgamma, void* scratch, Array projection,
                             cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const WeightTimesWeight<T> factors = {As<T>(weight),
                                          norm.gamma,
                                          norm.invstd,
                                          dgamma,
                                          ProjectionFactor(s) * InversePixels(s),
                                          static_cast<int>(s.in)};
    float* const parts = static_cast<float*>(scratch);
    LaunchProduct(factors, s.in, s.in, s.out, kDepthPerPart, parts, stream);
    const int64_t n = s.in * s.in;
    RoundPartsKernel<T><<<static_cast<unsigned>(CeilDiv(n, kThreads)), kThreads, 0, stream>>>(
        parts, static_cast<int>(ProjectionParts(s)), static_cast<int>(n), As<T>(projection));
    return cudaGetLastError();
  };
  return WithElement(run, weight, projection);
}

cudaError_t FoldedShift(const FoldedShape& s, ConstArray folded, ConstArray projection,
                        const float* mean, const float* dbeta, Array shift, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    ShiftKernel<T><<<static_cast<unsigned>(CeilDiv(s.in, kSide)), kThreads, 0, stream>>>(
        static_cast<int>(s.in), static_cast<int>(s.out), InversePixels(s), 1 / ProjectionFactor(s),
        As<T>(folded), As<T>(projection), mean, dbeta, As<T>(shift));
    return cudaGetLastError();
  };
  return WithElement(run, folded, projection, shift);
}

}  // namespace neap::kernels
