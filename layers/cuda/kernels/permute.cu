// Elements in another order. A thread owns elements of the result, so every element is written
// once, and consecutive threads write consecutive elements.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/permute.h"

namespace neap::kernels {
namespace {

// The axes of the result, innermost first. If it is in vectors, so are the innermost axis and the
// strides.
template <typename Index>
struct PermutedAxes {
  struct Axis {
    Divider<Index> extent = Divider<Index>(1);
    Index stride = 0, first = 0;
  };
  Axis axes[Permutation::kMaxAxes];
  int axis_count = 0;
  Index count = 1;  // elements or vectors
};

template <int kVec, typename Index, typename T>
__global__ void __launch_bounds__(kThreads)
    PermuteKernel(PermutedAxes<Index> p, const T* __restrict__ from, T* __restrict__ to) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= p.count) return;
  Index rest = i, source = 0;
#pragma unroll
  for (int k = 0; k < Permutation::kMaxAxes; ++k) {
    if (k >= p.axis_count) break;
    Index at = 0;
    rest = p.axes[k].extent.Split(rest, at);
    at += p.axes[k].first;
    if (at >= p.axes[k].extent.divisor) at -= p.axes[k].extent.divisor;
    source += at * p.axes[k].stride;
  }
  Write<kVec>(to, i, Read<kVec>(from, source));
}

template <typename Index>
PermutedAxes<Index> InVectors(const Permutation& permutation, int64_t vec) {
  PermutedAxes<Index> p;
  p.axis_count = permutation.count;
  for (int k = 0; k < permutation.count; ++k) {
    const auto& [extent, stride, first] =
        permutation.axes[static_cast<size_t>(permutation.count - 1 - k)];
    const int64_t length = k == 0 ? extent / vec : extent;
    p.axes[k] = {Divider<Index>(length), static_cast<Index>(k == 0 ? stride : stride / vec),
                 static_cast<Index>(k == 0 ? first / vec : first)};
    p.count *= static_cast<Index>(length);
  }
  return p;
}

int64_t ElementsOf(const Permutation& permutation) {
  int64_t elements = 1;
  for (int k = 0; k < permutation.count; ++k)
    elements *= permutation.axes[static_cast<size_t>(k)].extent;
  return elements;
}

// Whether the source has runs of vectors, as the result has.
bool HasRuns(const Permutation& permutation, int64_t vec) {
  const auto& [extent, stride, first] = permutation.innermost();
  if (stride != 1 || extent % vec != 0 || first % vec != 0) return false;
  for (int k = 0; k + 1 < permutation.count; ++k) {
    if (permutation.axes[static_cast<size_t>(k)].stride % vec != 0) return false;
  }
  return true;
}

template <int kVec, typename T>
cudaError_t LaunchPermute(const Permutation& permutation, const T* from, T* to,
                          cudaStream_t stream) {
  const int64_t elements = ElementsOf(permutation);
  if (elements == 0) return cudaSuccess;
  const auto launch = [&]<typename Index>() {
    PermuteKernel<kVec><<<BlocksOf(elements / kVec), kThreads, 0, stream>>>(
        InVectors<Index>(permutation, kVec), from, to);
  };
  Fits32(elements) ? launch.template operator()<uint32_t>()
                   : launch.template operator()<uint64_t>();
  return cudaGetLastError();
}

}  // namespace

cudaError_t Permute(const Permutation& permutation, ConstArray from, Array to,
                    cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const bool wide = AllAligned16(from, to) && HasRuns(permutation, kWide<T>);
    const auto launch = wide ? LaunchPermute<kWide<T>, T> : LaunchPermute<1, T>;
    return launch(permutation, As<T>(from), As<T>(to), stream);
  };
  return WithElementSize(run, from, to);
}

}  // namespace neap::kernels
