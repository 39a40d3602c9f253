// Elements in another order. A thread owns elements of the result, so every element is written
// once, and consecutive threads write consecutive elements.
//
// Where neighbours of the source are apart in the result, as in a transpose, a block moves a tile
// of kTile x kTile elements through shared memory, so that consecutive threads read consecutive
// elements, too.
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

constexpr int kTile = 32;
constexpr int kTileRows = kThreads / kTile;  // that a block moves at once
// An axis that is shorter would leave most of a tile empty.
constexpr int64_t kMinTiled = kTile / 2;

// The axes of the result: the innermost one, the one whose neighbours lie together in the source,
// and the others, each with its strides in the source and in the result.
template <typename Index>
struct TiledAxes {
  struct Axis {
    Divider<Index> extent = Divider<Index>(1);
    Index from = 0, to = 0, first = 0;
  };
  Axis others[Permutation::kMaxAxes];
  int other_count = 0;
  Index innermost = 1, innermost_from = 0;  // extent, and stride in the source
  Index together = 1, together_to = 0;      // extent, and stride in the result
  Divider<Index> innermost_tiles = Divider<Index>(1), together_tiles = Divider<Index>(1);
};

template <typename Index, typename T>
__global__ void __launch_bounds__(kThreads)
    TransposeKernel(TiledAxes<Index> p, const T* __restrict__ from, T* __restrict__ to) {
  __shared__ T tile[kTile][kTile + 1];
  Index column = 0, row = 0;  // of the tile
  Index rest = p.innermost_tiles.Split(static_cast<Index>(blockIdx.x), column);
  rest = p.together_tiles.Split(rest, row);
  for (int k = 0; k < p.other_count; ++k) {
    Index at = 0;
    rest = p.others[k].extent.Split(rest, at);
    to += at * p.others[k].to;
    at += p.others[k].first;
    if (at >= p.others[k].extent.divisor) at -= p.others[k].extent.divisor;
    from += at * p.others[k].from;
  }
  const int lane = static_cast<int>(threadIdx.x) % kTile;
  const int first = static_cast<int>(threadIdx.x) / kTile;
  const Index i = column * kTile, j = row * kTile;  // of the innermost axis, and of the other
  for (int r = first; r < kTile; r += kTileRows) {
    if (i + r < p.innermost && j + lane < p.together)
      tile[r][lane] = from[(i + r) * p.innermost_from + j + lane];
  }
  __syncthreads();
  for (int r = first; r < kTile; r += kTileRows) {
    if (i + lane < p.innermost && j + r < p.together)
      to[(j + r) * p.together_to + i + lane] = tile[lane][r];
  }
}

// The axis of the result along which the source's elements lie together, if tiles are worth their
// while; otherwise -1.
int TiledAxis(const Permutation& permutation) {
  const auto& [extent, stride, first] = permutation.innermost();
  if (stride == 1 || first != 0 || extent < kMinTiled) return -1;
  for (int k = 0; k + 1 < permutation.count; ++k) {
    const Permutation::Axis& axis = permutation.axes[static_cast<size_t>(k)];
    if (axis.stride == 1 && axis.first == 0 && axis.extent >= kMinTiled) return k;
  }
  return -1;
}

template <typename Index, typename T>
cudaError_t LaunchTranspose(const Permutation& permutation, int tiled, const T* from, T* to,
                            cudaStream_t stream) {
  TiledAxes<Index> p;
  int64_t blocks = 1, apart = 1;  // of neighbours in the result
  for (int k = permutation.count - 1; k >= 0; --k) {
    const auto& [extent, stride, first] = permutation.axes[static_cast<size_t>(k)];
    const int64_t tiles = CeilDiv(extent, kTile);
    if (k == permutation.count - 1) {
      p.innermost = static_cast<Index>(extent);
      p.innermost_from = static_cast<Index>(stride);
      p.innermost_tiles = Divider<Index>(tiles);
    } else if (k == tiled) {
      p.together = static_cast<Index>(extent);
      p.together_to = static_cast<Index>(apart);
      p.together_tiles = Divider<Index>(tiles);
    } else {
      p.others[p.other_count++] = {Divider<Index>(extent), static_cast<Index>(stride),
                                   static_cast<Index>(apart), static_cast<Index>(first)};
    }
    blocks *= k == permutation.count - 1 || k == tiled ? tiles : extent;
    apart *= extent;
  }
  TransposeKernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(p, from, to);
  return cudaGetLastError();
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
  if (const int tiled = TiledAxis(permutation); tiled >= 0) {
    return Fits32(elements) ? LaunchTranspose<uint32_t>(permutation, tiled, from, to, stream)
                            : LaunchTranspose<uint64_t>(permutation, tiled, from, to, stream);
  }
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
