// Sums of the copies of each element of a tensor that was repeated along its axes.
//
//   {2, 3} repeated twice along both axes    kept    {extent 2, stride 6} {extent 3, stride 1}
//   to {4, 6}; strides are in that           copies  {extent 2, stride 12} {extent 2, stride 3}
//
// A thread owns elements of the result and sums their copies, whose order is that in memory. Where
// these are many, a block does, so that few elements are enough for a GPU. Which of the two depends
// on the number of copies alone, so parts of a batch have the same sums.
#include "neap/layers/cuda/kernels/block_reduce.cuh"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/pooling/repeats.h"

namespace neap::kernels {
namespace {

// Some axes of a tensor, innermost first, in elements or in vectors.
template <typename Index>
struct ReadAxes {
  struct Axis {
    Divider<Index> extent = Divider<Index>(1);
    Index stride = 0;
  };
  Axis axes[Permutation::kMaxAxes];
  int axis_count = 0;
  Index count = 1;

  void Append(int64_t extent, int64_t stride) {
    axes[axis_count++] = {Divider<Index>(extent), static_cast<Index>(stride)};
    count *= static_cast<Index>(extent);
  }
  __device__ __forceinline__ Index OffsetOf(Index i) const {
    Index offset = 0;
#pragma unroll
    for (int k = 0; k < Permutation::kMaxAxes; ++k) {
      if (k >= axis_count) break;
      Index at = 0;
      i = axes[k].extent.Split(i, at);
      offset += at * axes[k].stride;
    }
    return offset;
  }
};

template <typename Index>
struct RepeatedAxes {
  ReadAxes<Index> kept, copies;
};

// The sum of every `step`-th copy of the element at `first`.
template <int kVec, typename Index, typename T>
__device__ __forceinline__ Vec<kVec> SumCopies(const ReadAxes<Index>& copies, const T* from,
                                               Index first, Index copy, Index step) {
  Vec<kVec> sum = {};
  for (; copy < copies.count; copy += step) {
    const Vec<kVec> v = Unpack(Read<kVec>(from, first + copies.OffsetOf(copy)));
#pragma unroll
    for (int k = 0; k < kVec; ++k) sum.v[k] += v.v[k];
  }
  return sum;
}

template <int kVec, typename Index, typename T>
__global__ void __launch_bounds__(kThreads)
    SumFewKernel(RepeatedAxes<Index> p, const T* __restrict__ from, T* __restrict__ to) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= p.kept.count) return;
  Write<kVec>(to, i, SumCopies<kVec, Index>(p.copies, from, p.kept.OffsetOf(i), 0, 1));
}

template <int kVec, typename Index, typename T>
__global__ void __launch_bounds__(kThreads)
    SumManyKernel(RepeatedAxes<Index> p, const T* __restrict__ from, T* __restrict__ to) {
  const Index i = blockIdx.x;
  Vec<kVec> sum = SumCopies<kVec, Index>(p.copies, from, p.kept.OffsetOf(i), threadIdx.x, kThreads);
#pragma unroll
  for (int k = 0; k < kVec; ++k) sum.v[k] = BlockReduce<false>(sum.v[k]);
  if (threadIdx.x == 0) Write<kVec>(to, i, sum);
}

// Strides are those of what is repeated, which is dense.
template <typename Index>
RepeatedAxes<Index> InVectors(const Permutation& repeated, int64_t vec) {
  RepeatedAxes<Index> p;
  int64_t apart = 1;
  for (int k = repeated.count - 1; k >= 0; --k) {
    const Permutation::Axis& axis = repeated.axes[static_cast<size_t>(k)];
    const int64_t extent = k == repeated.count - 1 ? axis.extent / vec : axis.extent;
    (axis.stride == 0 ? p.copies : p.kept).Append(extent, apart);
    apart *= extent;
  }
  return p;
}

struct Counts {
  int64_t kept = 1, copies = 1;
};
Counts CountsOf(const Permutation& repeated) {
  Counts counts;
  for (int k = 0; k < repeated.count; ++k) {
    const Permutation::Axis& axis = repeated.axes[static_cast<size_t>(k)];
    (axis.stride == 0 ? counts.copies : counts.kept) *= axis.extent;
  }
  return counts;
}

template <int kVec, typename T>
cudaError_t LaunchSumRepeats(const Permutation& repeated, const T* from, T* to,
                             cudaStream_t stream) {
  const Counts counts = CountsOf(repeated);
  const int64_t results = counts.kept / kVec;
  const auto launch = [&]<typename Index>() {
    const RepeatedAxes<Index> p = InVectors<Index>(repeated, kVec);
    if (counts.copies < kThreads) {
      SumFewKernel<kVec><<<BlocksOf(results), kThreads, 0, stream>>>(p, from, to);
    } else {
      SumManyKernel<kVec><<<static_cast<unsigned>(results), kThreads, 0, stream>>>(p, from, to);
    }
  };
  Fits32(counts.kept * counts.copies) ? launch.template operator()<uint32_t>()
                                      : launch.template operator()<uint64_t>();
  return cudaGetLastError();
}

}  // namespace

cudaError_t SumRepeats(const Permutation& repeated, ConstArray from, Array to,
                       cudaStream_t stream) {
  const Permutation::Axis& innermost = repeated.innermost();
  const auto run = [&]<typename T>() {
    const bool wide =
        AllAligned16(from, to) && innermost.stride == 1 && innermost.extent % kWide<T> == 0;
    const auto launch = wide ? LaunchSumRepeats<kWide<T>, T> : LaunchSumRepeats<1, T>;
    return launch(repeated, As<T>(from), As<T>(to), stream);
  };
  return WithElement(run, from, to);
}

}  // namespace neap::kernels
