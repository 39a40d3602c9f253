// Sums over N, H and W per channel: two at once, in two stages and a fixed order.
//
// Blocks write partial sums to scratch, one small kernel adds those. How a tensor is cut depends on
// its shape alone, so the bits do too.
//
//   NCHW: a block takes part of one channel's planes       NHWC: a block takes some rows of a few
//   channels
//     channel c: [n0 ####][n1 ####][n2 ####]                 row 0: [c0 c1 c2 c3 | ...]   threads
//     side by side on
//                  block(c, 0)   block(c, 1)                 row 1: [c0 c1 c2 c3 | ...]   channels,
//                  rows in strides
#pragma once

#include <algorithm>

#include "neap/layers/cuda/channel_map.cuh"
#include "neap/layers/cuda/device_math.cuh"
#include "neap/layers/cuda/kernels.h"

namespace neap::kernels {

inline constexpr int64_t kWantedBlocks = 528;  // four per multiprocessor of a large GPU
inline constexpr int kWarp = 32;

static __device__ inline float2 SumOfBlock(float2 sum) {
  __shared__ float2 warps[kThreads / kWarp];
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    sum.x += __shfl_down_sync(~0U, sum.x, offset);
    sum.y += __shfl_down_sync(~0U, sum.y, offset);
  }
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return sum;
  for (int w = 1; w < kThreads / kWarp; ++w) {
    sum.x += warps[w].x;
    sum.y += warps[w].y;
  }
  return sum;
}

// partial[split * channels + channel], grid (channels, splits). A channel has `vectors` vectors,
// `inner` per image.
template <typename Op, int kVec>
__global__ void __launch_bounds__(kThreads)
    ReducePlanes(Op op, Divider<uint32_t> inner, uint32_t vectors, uint32_t per_split,
                 float2* partial) {
  const uint32_t channels = gridDim.x, c = blockIdx.x;
  const uint32_t begin = blockIdx.y * per_split;
  const uint32_t end = min(begin + per_split, vectors);
  const auto constants = op.template Prepare<false, kVec>(c);
  Two<kVec> sums = {};
  for (uint32_t first = begin + threadIdx.x; first < end; first += kThreads * kUnroll) {
    typename Op::template Registers<kVec> loaded[kUnroll];
#pragma unroll
    for (uint32_t u = 0; u < kUnroll; ++u) {
      const uint32_t v = first + u * kThreads;
      if (v >= end) continue;
      uint32_t within = 0;
      const size_t image = inner.Split(v, within);
      loaded[u] = op.template Load<kVec>((image * channels + c) * inner.divisor + within);
    }
#pragma unroll
    for (uint32_t u = 0; u < kUnroll; ++u) {
      if (first + u * kThreads < end) op.template Accumulate<kVec>(constants, loaded[u], sums);
    }
  }
  float2 sum = {0, 0};
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    sum.x += sums.a.v[k];
    sum.y += sums.b.v[k];
  }
  sum = SumOfBlock(sum);
  if (threadIdx.x == 0) partial[static_cast<size_t>(blockIdx.y) * channels + c] = sum;
}

// partial[split * channels + channel], grid (tiles of channels, splits), block (channel vectors,
// rows).
template <typename Op, int kVec>
__global__ void __launch_bounds__(kThreads)
    ReduceRows(Op op, uint32_t channel_vectors, size_t rows, float2* partial) {
  __shared__ Two<kVec> shared[kThreads];
  const uint32_t cv = blockIdx.x * blockDim.x + threadIdx.x;
  Two<kVec> sums = {};
  if (cv < channel_vectors) {
    const auto constants = op.template Prepare<true, kVec>(static_cast<size_t>(cv) * kVec);
    const size_t step = static_cast<size_t>(gridDim.y) * blockDim.y;
    for (size_t first = static_cast<size_t>(blockIdx.y) * blockDim.y + threadIdx.y; first < rows;
         first += step * kUnroll) {
      typename Op::template Registers<kVec> loaded[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const size_t row = first + static_cast<size_t>(u) * step;
        if (row < rows) loaded[u] = op.template Load<kVec>(row * channel_vectors + cv);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (first + static_cast<size_t>(u) * step < rows)
          op.template Accumulate<kVec>(constants, loaded[u], sums);
      }
    }
  }
  shared[threadIdx.y * blockDim.x + threadIdx.x] = sums;
  __syncthreads();
  if (threadIdx.y != 0 || cv >= channel_vectors) return;
  for (uint32_t y = 1; y < blockDim.y; ++y) {
    const Two<kVec>& other = shared[y * blockDim.x + threadIdx.x];
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      sums.a.v[k] += other.a.v[k];
      sums.b.v[k] += other.b.v[k];
    }
  }
  float2* const out = partial + (static_cast<size_t>(blockIdx.y) * channel_vectors + cv) * kVec;
#pragma unroll
  for (int k = 0; k < kVec; ++k) out[k] = {sums.a.v[k], sums.b.v[k]};
}

// Adds the splits of each channel and hands the two sums to `final`.
inline constexpr int kFinishRows = 32;
template <typename Final>
__global__ void __launch_bounds__(kWarp* kFinishRows)
    Finish(Final final, const float2* partial, uint32_t channels, uint32_t splits) {
  __shared__ double2 shared[kFinishRows][kWarp];
  const uint32_t c = blockIdx.x * kWarp + threadIdx.x;
  double2 sum = {0, 0};
  if (c < channels) {
    for (uint32_t s = threadIdx.y; s < splits; s += kFinishRows) {
      const float2 p = partial[static_cast<size_t>(s) * channels + c];
      sum.x += p.x;
      sum.y += p.y;
    }
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || c >= channels) return;
  for (int y = 1; y < kFinishRows; ++y) {
    sum.x += shared[y][threadIdx.x].x;
    sum.y += shared[y][threadIdx.x].y;
  }
  final(c, sum.x, sum.y);
}

// Stores the sums.
struct SumsFinal {
  float* first;
  float* second;  // may be null
  __device__ void operator()(uint32_t c, double a, double b) const {
    first[c] = static_cast<float>(a);
    if (second != nullptr) second[c] = static_cast<float>(b);
  }
};

// How a reduction is cut.
struct Cut {
  uint32_t splits = 1;
  uint32_t per_split = 0;  // NCHW: vectors
  dim3 block = kThreads;
  uint32_t tiles = 1;  // NHWC: of channels
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
void LaunchReduction(const ChannelShape& s, const Op& op, const Final& final, float2* partial,
                     cudaStream_t stream) {
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
  Finish<<<(channels + kWarp - 1) / kWarp, dim3(kWarp, kFinishRows), 0, stream>>>(
      final, partial, channels, cut.splits);
}

template <typename Op, typename Final>
cudaError_t Reduce(const ChannelShape& s, bool aligned, const Op& op, const Final& final,
                   void* scratch, cudaStream_t stream) {
  if (!Fits32(s.outer * s.inner)) return cudaErrorInvalidValue;
  float2* const partial = static_cast<float2*>(scratch);
  if (aligned && Vectorised(s)) {
    LaunchReduction<Op, Final, 4>(s, op, final, partial, stream);
  } else {
    LaunchReduction<Op, Final, 1>(s, op, final, partial, stream);
  }
  return cudaGetLastError();
}

}  // namespace neap::kernels
