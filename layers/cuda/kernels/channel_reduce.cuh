// Sums over N, H and W per channel, or moments derived from them, in two stages and a fixed order.
//
// Blocks write partial results to scratch memory, and one small kernel merges them. The split
// depends only on the tensor's shape, so the bits are reproducible.
//
//   NCHW: a block reduces part of one channel's planes
//     channel c: [n0 ####][n1 ####][n2 ####]
//                | block(c, 0) | block(c, 1) |
//
//   NHWC: a block reduces some rows of a few channels; threads are contiguous along the channels,
//   and stride over the rows
//     row 0: [c0 c1 c2 c3 | ...]
//     row 1: [c0 c1 c2 c3 | ...]
#pragma once

#include <algorithm>

#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

inline constexpr int64_t kWantedBlocks = 528;  // four per multiprocessor of a large GPU
inline constexpr int kWarp = 32;
inline constexpr int64_t kPartBytes = 16;  // the most that a block writes per channel

// A Total is the result of an operation's two sums over some elements of a channel. Of<float> is a
// thread's or a block's part, Of<double> merges the blocks' parts.
struct Sums {
  template <typename T>
  struct Of {
    T a, b;
    template <typename U>
    __device__ void Merge(const Of<U>& other) {
      a += other.a;
      b += other.b;
    }
    __device__ Of Below(int offset) const {
      return {__shfl_down_sync(~0U, a, offset), __shfl_down_sync(~0U, b, offset)};
    }
  };
  template <typename Constants>
  static __device__ Of<float> Close(const Constants&, int, float2 sums, uint32_t) {
    return {sums.x, sums.y};
  }
};

// The merged result is valid in thread 0 only.
template <typename Part>
static __device__ Part MergeBlock(Part part) {
  __shared__ Part warps[kThreads / kWarp];
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) part.Merge(part.Below(offset));
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = part;
  __syncthreads();
  if (threadIdx.x != 0) return part;
  for (int w = 1; w < kThreads / kWarp; ++w) part.Merge(warps[w]);
  return part;
}

// partial[split * channels + channel], grid (channels, splits). A channel has `vectors` vectors,
// `inner` per image.
template <typename Op, int kVec>
__global__ void __launch_bounds__(kThreads)
    ReducePlanes(Op op, Divider<uint32_t> inner, uint32_t vectors, uint32_t per_split,
                 typename Op::Total::template Of<float>* partial) {
  const uint32_t channels = gridDim.x, c = blockIdx.x;
  const uint32_t begin = blockIdx.y * per_split;
  const uint32_t end = min(begin + per_split, vectors);
  const uint32_t mine = begin + threadIdx.x;
  const auto at = [&](uint32_t v) {
    uint32_t within = 0;
    const size_t image = inner.Split(v, within);
    return (image * channels + c) * inner.divisor + within;
  };
  const auto constants = op.template Prepare<false, kVec>(c, at(min(mine, end - 1)));
  Two<Vec<kVec>> sums = {};
  for (uint32_t first = mine; first < end; first += kThreads * kUnroll) {
    typename Op::template Registers<kVec> loaded[kUnroll];
#pragma unroll
    for (uint32_t u = 0; u < kUnroll; ++u) {
      const uint32_t v = first + u * kThreads;
      if (v < end) loaded[u] = op.template Load<kVec>(at(v));
    }
#pragma unroll
    for (uint32_t u = 0; u < kUnroll; ++u) {
      const uint32_t v = first + u * kThreads;
      if (v < end) op.template Accumulate<kVec>(constants, loaded[u], at(v), sums);
    }
  }
  float2 sum = {0, 0};
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    sum.x += sums.a.v[k];
    sum.y += sums.b.v[k];
  }
  const uint32_t count = mine < end ? (end - mine + kThreads - 1) / kThreads * kVec : 0;
  const auto part = MergeBlock(Op::Total::Close(constants, 0, sum, count));
  if (threadIdx.x == 0) partial[static_cast<size_t>(blockIdx.y) * channels + c] = part;
}

// partial[split * channels + channel], grid (tiles of channels, splits), block (channel vectors,
// rows).
template <typename Op, int kVec>
__global__ void __launch_bounds__(kThreads)
    ReduceRows(Op op, uint32_t channel_vectors, size_t rows,
               typename Op::Total::template Of<float>* partial) {
  using Part = typename Op::Total::template Of<float>;
  __shared__ Part shared[kThreads * kVec];
  Part* const own = shared + (threadIdx.y * blockDim.x + threadIdx.x) * kVec;
  const uint32_t cv = blockIdx.x * blockDim.x + threadIdx.x;
  if (cv < channel_vectors) {
    const size_t step = static_cast<size_t>(gridDim.y) * blockDim.y;
    const size_t mine = static_cast<size_t>(blockIdx.y) * blockDim.y + threadIdx.y;
    const size_t row = mine < rows ? mine : rows - 1;
    const auto constants =
        op.template Prepare<true, kVec>(static_cast<size_t>(cv) * kVec, row * channel_vectors + cv);
    Two<Vec<kVec>> sums = {};
    for (size_t first = mine; first < rows; first += step * kUnroll) {
      typename Op::template Registers<kVec> loaded[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const size_t row = first + static_cast<size_t>(u) * step;
        if (row < rows) loaded[u] = op.template Load<kVec>(row * channel_vectors + cv);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const size_t row = first + static_cast<size_t>(u) * step;
        if (row < rows)
          op.template Accumulate<kVec>(constants, loaded[u], row * channel_vectors + cv, sums);
      }
    }
    const uint32_t count = mine < rows ? static_cast<uint32_t>((rows - mine + step - 1) / step) : 0;
#pragma unroll
    for (int k = 0; k < kVec; ++k)
      own[k] = Op::Total::Close(constants, k, float2{sums.a.v[k], sums.b.v[k]}, count);
  }
  __syncthreads();
  if (threadIdx.y != 0 || cv >= channel_vectors) return;
  Part* const out = partial + (static_cast<size_t>(blockIdx.y) * channel_vectors + cv) * kVec;
  for (int k = 0; k < kVec; ++k) {
    Part part = own[k];
    for (uint32_t y = 1; y < blockDim.y; ++y) part.Merge(own[y * blockDim.x * kVec + k]);
    out[k] = part;
  }
}

// Merges the splits of each channel and hands the result to `final`.
inline constexpr int kFinishRows = 32;
template <typename Total, typename Final>
__global__ void __launch_bounds__(kWarp* kFinishRows)
    Finish(Final final, const typename Total::template Of<float>* partial, uint32_t channels,
           uint32_t splits) {
  using Gathered = typename Total::template Of<double>;
  __shared__ Gathered shared[kFinishRows][kWarp];
  const uint32_t c = blockIdx.x * kWarp + threadIdx.x;
  Gathered total = {};
  if (c < channels) {
    for (uint32_t s = threadIdx.y; s < splits; s += kFinishRows)
      total.Merge(partial[static_cast<size_t>(s) * channels + c]);
  }
  shared[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || c >= channels) return;
  for (int y = 1; y < kFinishRows; ++y) total.Merge(shared[y][threadIdx.x]);
  final(c, total);
}

// Stores the sums.
struct SumsFinal {
  float* first;
  float* second;
  __device__ void operator()(uint32_t c, const Sums::Of<double>& sums) const {
    first[c] = static_cast<float>(sums.a);
    second[c] = static_cast<float>(sums.b);
  }
};

// How a reduction is split into blocks.
struct Cut {
  uint32_t splits = 1;
  uint32_t per_split = 0;  // NCHW: vectors
  dim3 block = kThreads;
  uint32_t tiles = 1;  // NHWC: tiles of channels
};

inline Cut CutPlanes(const ChannelShape& s, int vec) {
  const int64_t vectors = s.outer * s.inner / vec;
  const int64_t wanted = CeilDiv(kWantedBlocks * 2, s.channels);
  const int64_t splits =
      std::max<int64_t>(1, std::min(wanted, CeilDiv(vectors, kThreads * kUnroll)));
  const int64_t per_split = CeilDiv(vectors, splits);
  return {.splits = static_cast<uint32_t>(CeilDiv(vectors, per_split)),
          .per_split = static_cast<uint32_t>(per_split)};
}

inline Cut CutRows(const ChannelShape& s, int vec) {
  const int64_t channel_vectors = s.channels / vec;
  int64_t width = 1;
  while (width < channel_vectors && width < kWarp) width *= 2;
  const int64_t height = kThreads / width;
  const int64_t tiles = CeilDiv(channel_vectors, width);
  const int64_t rows = s.outer * s.inner;
  const int64_t splits = std::max<int64_t>(
      1, std::min(CeilDiv(kWantedBlocks, tiles), CeilDiv(rows, height * kUnroll)));
  return {.splits = static_cast<uint32_t>(splits),
          .block = dim3(static_cast<unsigned>(width), static_cast<unsigned>(height)),
          .tiles = static_cast<uint32_t>(tiles)};
}

template <typename Op, typename Final, int kVec>
void LaunchReduction(const ChannelShape& s, const Op& op, const Final& final, void* scratch,
                     cudaStream_t stream) {
  using Part = typename Op::Total::template Of<float>;
  static_assert(sizeof(Part) <= kPartBytes);
  Part* const partial = static_cast<Part*>(scratch);
  const Cut cut = s.channels_last ? CutRows(s, kVec) : CutPlanes(s, kVec);
  const unsigned channels = static_cast<unsigned>(s.channels);
  if (s.channels_last) {
    ReduceRows<Op, kVec><<<dim3(cut.tiles, cut.splits), cut.block, 0, stream>>>(
        op, channels / kVec, static_cast<size_t>(s.outer * s.inner), partial);
  } else {
    const uint32_t vectors = static_cast<uint32_t>(s.outer * s.inner / kVec);
    ReducePlanes<Op, kVec><<<dim3(channels, cut.splits), kThreads, 0, stream>>>(
        op, Divider<uint32_t>(s.inner / kVec), vectors, cut.per_split, partial);
  }
  Finish<typename Op::Total>
      <<<(channels + kWarp - 1) / kWarp, dim3(kWarp, kFinishRows), 0, stream>>>(
          final, partial, channels, cut.splits);
}

// Reduces a tensor of elements of type T.
template <typename T, typename Op, typename Final>
cudaError_t Reduce(const ChannelShape& s, bool aligned, const Op& op, const Final& final,
                   void* scratch, cudaStream_t stream) {
  constexpr int kVec = kWide<T>;
  if (!Fits32(s.outer * s.inner)) return cudaErrorInvalidValue;
  if (aligned && Vectorised(s, kVec)) {
    LaunchReduction<Op, Final, kVec>(s, op, final, scratch, stream);
  } else {
    LaunchReduction<Op, Final, 1>(s, op, final, scratch, stream);
  }
  return cudaGetLastError();
}

}  // namespace neap::kernels
