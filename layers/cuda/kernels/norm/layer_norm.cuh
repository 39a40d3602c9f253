// Passes over the channels at each position: an operation sums over them, and stores what follows
// from the sums.
//
//   NHWC: some threads of a warp, or a block, have the channels of one position
//   NCHW: threads {positions, channels} have vectors of positions, and channels that are as far
//         apart as there are rows of threads. Images of few positions have narrow rows, so that
//         there are more blocks, and no idle threads. That depends on an image's shape alone, so
//         its bits are the same in every batch.
//
// An Op has a Total (channel_reduce.cuh) and
//   Begin<kLast>(row, loaded)     what sums depend on, for a vector of positions or, with kLast,
//                                 of channels of one; `loaded` is the thread's first vector
//   Accumulate<kLast>(of, c, loaded, sums)
//   HasGiven(), Given(row)        whether two values per position are known without sums; these
//   End(row, total)               these values from the sums
//   Store<kLast>(of, a, b, c, i, loaded)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/channel_cut.cuh"
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/dependent_launch.cuh"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

// The value of a position, or of kVec of them, for each lane of a vector.
template <bool kLast, int kVec>
__device__ __forceinline__ Vec<kVec> PerPosition(const float* p, size_t row) {
  if constexpr (kLast) {
    return Broadcast<kVec>(p[row]);
  } else {
    return ReadFloats<kVec>(p, row);
  }
}

inline constexpr int kHeldVectors =
    4;  // of a row, by a thread, in registers; it reads others again

// The total of `width` threads of a warp or, if there are as many, of a block. The first of them
// has it.
template <typename Part>
__device__ __forceinline__ Part MergeRow(Part part, uint32_t width) {
  if (width == kThreads) return MergeBlock(part);
  for (uint32_t offset = width / 2; offset > 0; offset /= 2) {
    const Part below = part.Below(static_cast<int>(offset));
    part.Merge(below, part.ShareOf(below));
  }
  return part;
}

// A row of `vectors` vectors is reduced by `width` threads, a power of two, at most a warp or a
// block.
template <typename Op, int kVec>
__global__ void __launch_bounds__(kThreads)
    NormRows(Op op, size_t rows, uint32_t vectors, uint32_t width) {
  AwaitKernelBefore();
  constexpr int kSums = Op::Total::kSums;
  __shared__ float2 shared[kThreads];
  const uint32_t in_block = threadIdx.x / width, lane = threadIdx.x % width;
  const size_t row = static_cast<size_t>(blockIdx.x) * (kThreads / width) + in_block;
  const uint32_t end = row < rows ? vectors : 0;
  const auto at = [&](uint32_t v) { return row * vectors + v; };
  typename Op::template Registers<kVec> held[kHeldVectors] = {};
#pragma unroll
  for (uint32_t u = 0; u < kHeldVectors; ++u) {
    const uint32_t v = lane + u * width;
    if (v < end) held[u] = op.template Load<kVec>(at(v));
  }
  // Calls visit(v, loaded) for this thread's vectors.
  const auto for_each = [&](const auto& visit) {
#pragma unroll
    for (uint32_t u = 0; u < kHeldVectors; ++u) {
      const uint32_t v = lane + u * width;
      if (v < end) visit(v, held[u]);
    }
    for (uint32_t v = lane + kHeldVectors * width; v < end; v += width)
      visit(v, op.template Load<kVec>(at(v)));
  };
  const auto of = op.template Begin<true, kVec>(row < rows ? row : rows - 1, held[0]);
  if (!op.HasGiven()) {
    Accumulators<kSums, kVec> sums = {};
    for_each([&](uint32_t v, const auto& loaded) {
      op.template Accumulate<true, kVec>(of, static_cast<size_t>(v) * kVec, loaded, sums);
    });
    LaneSums<kSums> sum = {};
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
#pragma unroll
      for (int n = 0; n < kSums; ++n) sum.v[n] += sums.v[n].v[k];
    }
    const uint32_t count = lane < end ? (end - lane + width - 1) / width * kVec : 0;
    const auto total = MergeRow(Op::Total::Close(of, 0, sum, count), width);
    if (lane == 0 && row < rows) shared[in_block] = op.End(row, total);
  } else if (lane == 0 && row < rows) {
    shared[in_block] = op.Given(row);
  }
  __syncthreads();
  const Vec<kVec> a = Broadcast<kVec>(shared[in_block].x), b = Broadcast<kVec>(shared[in_block].y);
  for_each([&](uint32_t v, const auto& loaded) {
    op.template Store<true, kVec>(of, a, b, static_cast<size_t>(v) * kVec, at(v), loaded);
  });
}

// The most and the fewest vectors of positions that a block has, unless an image has fewer: these
// are as wide as what memory delivers at once. kColumnBlocks are wanted for an image.
inline constexpr int64_t kColumnWidth = 32, kMinColumnWidth = 8, kColumnBlocks = 8;

inline int64_t ColumnWidth(int64_t columns) {
  return std::max(TileWidth(columns, kMinColumnWidth),
                  TileWidth(CeilDiv(columns, kColumnBlocks), kColumnWidth));
}

// A block has blockDim.x vectors of positions of an image, a power of two up to kColumnWidth, of
// which there are `columns` per image and channel. Grid: `blocks` for each image.
template <typename Op, int kVec>
__global__ void __launch_bounds__(kThreads)
    NormColumns(Op op, uint32_t columns, uint32_t channels, Divider<uint32_t> blocks) {
  AwaitKernelBefore();
  using Part = typename Op::Total::template Of<float>;
  constexpr int kSums = Op::Total::kSums;
  __shared__ Part parts[kThreads * kVec];  // rows of the block's positions
  __shared__ float2 shared[kColumnWidth * kVec];
  uint32_t block = 0;
  const size_t image = blocks.Split(blockIdx.x, block);
  const uint32_t width = blockDim.x, rows = blockDim.y;
  const uint32_t column = block * width + threadIdx.x, own = threadIdx.x * kVec;
  const uint32_t mine = threadIdx.y * width * kVec + own;  // of `parts`
  const size_t row = image * columns + column;             // of the statistics, in vectors
  const uint32_t end = column < columns ? channels : 0;
  const auto at = [&](uint32_t c) { return (image * channels + c) * columns + column; };
  // Calls visit(c, loaded) for this thread's channels.
  const auto for_each = [&](const auto& visit) {
    for (uint32_t first = threadIdx.y; first < end; first += rows * kUnroll) {
      typename Op::template Registers<kVec> loaded[kUnroll];
#pragma unroll
      for (uint32_t u = 0; u < kUnroll; ++u) {
        const uint32_t c = first + u * rows;
        if (c < end) loaded[u] = op.template Load<kVec>(at(c));
      }
#pragma unroll
      for (uint32_t u = 0; u < kUnroll; ++u) {
        const uint32_t c = first + u * rows;
        if (c < end) visit(c, loaded[u]);
      }
    }
  };
  typename Op::template Registers<kVec> begin = {};
  if (threadIdx.y < end) begin = op.template Load<kVec>(at(threadIdx.y));
  const auto of = op.template Begin<false, kVec>(column < columns ? row : 0, begin);
  if (!op.HasGiven()) {
    Accumulators<kSums, kVec> sums = {};
    for_each([&](uint32_t c, const auto& loaded) {
      op.template Accumulate<false, kVec>(of, c, loaded, sums);
    });
    const uint32_t count = threadIdx.y < end ? (end - threadIdx.y + rows - 1) / rows : 0;
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      LaneSums<kSums> sum;
#pragma unroll
      for (int n = 0; n < kSums; ++n) sum.v[n] = sums.v[n].v[k];
      parts[mine + k] = Op::Total::Close(of, k, sum, count);
    }
    __syncthreads();
    for (uint32_t half = rows / 2; half > 0; half /= 2) {
      for (int k = 0; threadIdx.y < half && k < kVec; ++k) {
        Part& part = parts[mine + k];
        const Part other = parts[mine + half * width * kVec + k];
        part.Merge(other, part.ShareOf(other));
      }
      __syncthreads();
    }
  }
  for (int k = 0; threadIdx.y == 0 && column < columns && k < kVec; ++k) {
    const size_t position = row * kVec + k;
    shared[own + k] = op.HasGiven() ? op.Given(position) : op.End(position, parts[own + k]);
  }
  __syncthreads();
  Vec<kVec> a, b;
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    a.v[k] = shared[own + k].x;
    b.v[k] = shared[own + k].y;
  }
  for_each([&](uint32_t c, const auto& loaded) {
    op.template Store<false, kVec>(of, a, b, c, at(c), loaded);
  });
}

template <typename Op, int kVec>
cudaError_t LaunchNormRows(const ChannelShape& s, const Op& op, cudaStream_t stream) {
  const int64_t vectors = s.channels / kVec, rows = s.outer * s.inner;
  constexpr int64_t kMaxOfWarp = 2 * kWarp * kHeldVectors;
  // As many threads as hold the row, but enough to read two sectors of a cache line at once.
  const int64_t held = TileWidth(CeilDiv(vectors, kHeldVectors), kWarp);
  const int64_t width = vectors > kMaxOfWarp ? kThreads : std::max(held, TileWidth(vectors, 4));
  return LaunchDependent(rows * vectors, NormRows<Op, kVec>,
                         static_cast<unsigned>(CeilDiv(rows, kThreads / width)), kThreads, stream,
                         op, static_cast<size_t>(rows), static_cast<uint32_t>(vectors),
                         static_cast<uint32_t>(width));
}

template <typename Op, int kVec>
cudaError_t LaunchNormColumns(const ChannelShape& s, const Op& op, cudaStream_t stream) {
  const int64_t columns = s.inner / kVec, width = ColumnWidth(columns);
  const int64_t blocks = CeilDiv(columns, width);
  const dim3 block(static_cast<unsigned>(width), static_cast<unsigned>(kThreads / width));
  return LaunchDependent(s.outer * s.channels * columns, NormColumns<Op, kVec>,
                         static_cast<unsigned>(s.outer * blocks), block, stream, op,
                         static_cast<uint32_t>(columns), static_cast<uint32_t>(s.channels),
                         Divider<uint32_t>(blocks));
}

// Runs op over a tensor of elements of type T, which has fewer than 2^31 positions in all images,
// and channels.
template <typename T, typename Op>
cudaError_t NormPositions(const ChannelShape& s, bool aligned, const Op& op, cudaStream_t stream) {
  if (!Fits32(s.outer * s.inner) || !Fits32(s.channels)) return cudaErrorInvalidValue;
  if (s.channels_last) {
    return aligned && Vectorised(s, kWide<T>) ? LaunchNormRows<Op, kWide<T>>(s, op, stream)
                                              : LaunchNormRows<Op, 1>(s, op, stream);
  }
  // Small images have too few vectors for many blocks.
  constexpr int kVec = 4;
  constexpr int64_t kMinVectors = 8 * kColumnWidth;
  return aligned && Vectorised(s, kVec) && s.inner >= kMinVectors * kVec
             ? LaunchNormColumns<Op, kVec>(s, op, stream)
             : LaunchNormColumns<Op, 1>(s, op, stream);
}

}  // namespace neap::kernels
