// The end of a residual branch (layers/fusion/residual_tail.h): a map over the vectors of each
// image, and backward with scales of channels a reduction that also writes dx. A thread finds once
// whether its image is dropped; the branch of such an image is not read.
#include <algorithm>

#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/dependent_launch.cuh"
#include "neap/layers/cuda/kernels/dropped_units.cuh"
#include "neap/layers/cuda/kernels/residual_tail.h"

namespace neap::kernels {
namespace {

constexpr int kTailVectors = 4;  // of a thread
constexpr int64_t kTailRound = int64_t{kThreads} * kTailVectors;
constexpr int64_t kTableAlignment = 256;

// The vectors of a launch: `vectors` of each image, which has `of_image`, from its vector number
// `begin`. A block has one of `parts` parts of them. The channel of a vector follows from a
// division by `divisor`.
struct TailShape {
  uint32_t vectors;
  Divider<uint32_t> parts;
  Divider<uint32_t> divisor;
  uint32_t first_channel;  // of vector `begin` (NCHW)
  size_t of_image, begin;
};

template <typename T>
struct TailArrays {
  const T* branch;  // or dy
  const T* bypass;  // null backward
  T* y;             // or dx
};

// A block has kTailRound vectors of one image.
template <typename T, int kVec, bool kLast, bool kForward>
__global__ void __launch_bounds__(kThreads)
    TailMap(TailArrays<T> arrays, TailShape shape, ScaleShiftNumbers numbers, UnitFactors factors) {
  AwaitKernelBefore();
  uint32_t part = 0;
  const uint32_t image = shape.parts.Split(blockIdx.x, part);
  const size_t before = image * shape.of_image + shape.begin;
  const uint32_t first = part * static_cast<uint32_t>(kTailRound) + threadIdx.x;
  Packed<T, kVec> bypass[kTailVectors], branch[kTailVectors] = {};
  if constexpr (kForward) {
#pragma unroll
    for (int u = 0; u < kTailVectors; ++u) {
      const uint32_t v = first + static_cast<uint32_t>(u * kThreads);
      if (v < shape.vectors) bypass[u] = Read<kVec>(arrays.bypass, before + v);
    }
  }
  const float factor = factors.scalars != nullptr ? factors.Of<1>(image).v[0] : 1.0F;
#pragma unroll
  for (int u = 0; u < kTailVectors; ++u) {
    const uint32_t v = first + static_cast<uint32_t>(u * kThreads);
    if (v < shape.vectors && factor != 0.0F) branch[u] = Read<kVec>(arrays.branch, before + v);
  }
#pragma unroll
  for (int u = 0; u < kTailVectors; ++u) {
    const uint32_t v = first + static_cast<uint32_t>(u * kThreads);
    if (v >= shape.vectors) return;
    uint32_t within = 0;
    const uint32_t quotient = shape.divisor.Split(v, within);
    const size_t c = kLast ? size_t{within} * kVec : shape.first_channel + quotient;
    const Vec<kVec> scale = NumbersOf<kLast, kVec>(numbers.scales, numbers.scale, c);
    Vec<kVec> values = Unpack(branch[u]);
    if constexpr (kForward) {
      const Vec<kVec> addend = Unpack(bypass[u]);
#pragma unroll
      for (int k = 0; k < kVec; ++k) {
        const float scaled = Rounded<T>(values.v[k] * scale.v[k] + numbers.shift);
        values.v[k] = __fadd_rn(Rounded<T>(Dropped(scaled, factor)), addend.v[k]);
      }
    } else {
#pragma unroll
      for (int k = 0; k < kVec; ++k) {
        const float gradient = Rounded<T>(Dropped(values.v[k], factor));
        values.v[k] = gradient * scale.v[k] + numbers.shift;
      }
    }
    Write<kVec>(arrays.y, before + v, values);
  }
}

template <typename T, int kVec, bool kLast, bool kForward>
cudaError_t LaunchTailMap(const ChannelShape& s, const TailArrays<T>& arrays,
                          const ScaleShiftNumbers& numbers, const DropoutMask& mask,
                          cudaStream_t stream) {
  // Launches begin where a channel (NCHW) or a pixel (NHWC) does, if those have numbers.
  const int64_t row = numbers.scales != nullptr ? (kLast ? s.channels : s.inner) / kVec : 1;
  if (!Fits32(row)) return cudaErrorInvalidValue;
  const int64_t of_image = s.channels * s.inner / kVec;
  const int64_t most = std::max<int64_t>(kMaxLaunchVectors / row, 1) * row;
  for (int64_t begin = 0; begin < of_image; begin += most) {
    const int64_t vectors = std::min(most, of_image - begin), parts = CeilDiv(vectors, kTailRound);
    if (!Fits32(s.outer * parts)) return cudaErrorInvalidValue;
    const TailShape shape = {.vectors = static_cast<uint32_t>(vectors),
                             .parts = Divider<uint32_t>(parts),
                             .divisor = Divider<uint32_t>(row),
                             .first_channel = static_cast<uint32_t>(begin / row),
                             .of_image = static_cast<size_t>(of_image),
                             .begin = static_cast<size_t>(begin)};
    const cudaError_t error = LaunchDependent(s.outer * of_image, TailMap<T, kVec, kLast, kForward>,
                                              static_cast<unsigned>(s.outer * parts), kThreads,
                                              stream, arrays, shape, numbers, UnitFactors(mask));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

template <bool kForward, typename T>
cudaError_t TailMapOf(const ChannelShape& s, const TailArrays<T>& arrays,
                      const ScaleShiftNumbers& numbers, const DropoutMask& mask,
                      cudaStream_t stream) {
  constexpr int kVec = kWide<T>;
  const bool aligned = AllAligned16(arrays.branch, arrays.bypass, arrays.y, numbers.scales);
  if (aligned && Vectorised(s, kVec)) {
    return s.channels_last
               ? LaunchTailMap<T, kVec, true, kForward>(s, arrays, numbers, mask, stream)
               : LaunchTailMap<T, kVec, false, kForward>(s, arrays, numbers, mask, stream);
  }
  return s.channels_last ? LaunchTailMap<T, 1, true, kForward>(s, arrays, numbers, mask, stream)
                         : LaunchTailMap<T, 1, false, kForward>(s, arrays, numbers, mask, stream);
}

__global__ void __launch_bounds__(kThreads)
    ImageFactors(UnitFactors factors, uint32_t images, float* table) {
  const uint32_t image = blockIdx.x * kThreads + threadIdx.x;
  if (image < images) table[image] = factors.Of<1>(image).v[0];
}

// Computes dx, and sums the products of the branch.
template <typename T>
struct TailGradientOp {
  using Total = Sums<1>;
  const T* branch;
  const T* dy;
  T* dx;
  const float* scales;
  const float* images;  // the factors; null if all are 1
  Divider<uint32_t> rows_of_image;
  template <int kVec>
  struct Registers {
    Packed<T, kVec> branch, dy;
    float factor;
  };
  template <bool kLast, int kVec>
  __device__ Vec<kVec> Prepare(size_t c, const RowPosition&) const {
    return PerChannel<kLast, kVec>(scales, c);
  }
  template <int kVec>
  __device__ Registers<kVec> Load(const Vec<kVec>&, const RowPosition& at) const {
    const float factor = images != nullptr ? images[rows_of_image.Quotient(at.row)] : 1.0F;
    if (factor == 0.0F) return {};
    return {Read<kVec>(branch, at.i), Read<kVec>(dy, at.i), factor};
  }
  template <int kVec>
  __device__ void Accumulate(const Vec<kVec>& scale, const Registers<kVec>& in, size_t i,
                             Accumulators<1, kVec>& sums) const {
    const Vec<kVec> values = Unpack(in.branch);
    Vec<kVec> v = Unpack(in.dy);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      v.v[k] = Rounded<T>(Dropped(v.v[k], in.factor));
      sums.v[0].v[k] += values.v[k] * v.v[k];
      v.v[k] *= scale.v[k];
    }
    Write<kVec>(dx, i, v);
  }
};

int64_t TableBytes(const ChannelShape& s) {
  const int64_t bytes = s.outer * static_cast<int64_t>(sizeof(float));
  return CeilDiv(bytes, kTableAlignment) * kTableAlignment;
}

}  // namespace

cudaError_t ResidualTail(const ChannelShape& s, const ScaleShiftNumbers& numbers,
                         const DropoutMask& mask, ConstArray branch, ConstArray bypass, Array y,
                         cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const TailArrays<T> arrays = {As<T>(branch), As<T>(bypass), As<T>(y)};
    return TailMapOf<true>(s, arrays, numbers, mask, stream);
  };
  return WithElement(run, branch, bypass, y);
}

cudaError_t ResidualTailGradient(const ChannelShape& s, const ScaleShiftNumbers& numbers,
                                 const DropoutMask& mask, ConstArray dy, Array dx,
                                 cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const TailArrays<T> arrays = {As<T>(dy), nullptr, As<T>(dx)};
    return TailMapOf<false>(s, arrays, numbers, mask, stream);
  };
  return WithElement(run, dy, dx);
}

int64_t TailScratchBytes(const ChannelShape& s, Element type) {
  return TableBytes(s) + ChannelScratchBytes(s, type);
}

cudaError_t ResidualTailBackward(const ChannelShape& s, const float* scales,
                                 const DropoutMask& mask, ConstArray branch, ConstArray dy,
                                 Array dx, const TailScaleGradient& gradient,
                                 const ReductionMemory& memory, cudaStream_t stream) {
  float* const table = mask.scalars != nullptr ? static_cast<float*>(memory.scratch) : nullptr;
  if (table != nullptr) {
    ImageFactors<<<BlocksOf(s.outer), kThreads, 0, stream>>>(UnitFactors(mask),
                                                             static_cast<uint32_t>(s.outer), table);
    if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  }
  const ReductionMemory sums = {static_cast<char*>(memory.scratch) + TableBytes(s), memory.tickets};
  const Divider<uint32_t> rows_of_image(s.channels_last ? s.inner : 1);
  const StoreSum store = {gradient.dscale, gradient.adds};
  const auto run = [&]<typename T>() {
    const TailGradientOp<T> op = {As<T>(branch), As<T>(dy), As<T>(dx),
                                  scales,        table,     rows_of_image};
    return Reduce<T>(s, AllAligned16(branch, dy, dx, scales), op, store, sums, stream);
  };
  return WithElement(run, dy, branch, dx);
}

}  // namespace neap::kernels
