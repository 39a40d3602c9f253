// Reductions over the positions of each image and channel, and maps with values for these, in both
// layouts.
//
// The channels of all images are numbered together: channel c of image n is number n * channels +
// c. An operation's Prepare() gets this number (channel_reduce.cuh, channel_map.cuh). How an image
// is divided into blocks depends on its shape alone, so its bits are the same in every batch.
//
//   NCHW: a warp or a block reduces part of a plane
//     image n, channel c: [ block(nc, 0) | block(nc, 1) ]
//
//   NHWC: a block reduces some rows of a tile of an image's channels
//     row 0: [c0 c1 c2 c3 | ...]
//     row 1: [c0 c1 c2 c3 | ...]
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

// The vectors of planes that are reduced by a warp each.
inline constexpr int64_t kMaxWarpVectors = 2 * kWarp * kUnroll;
// Blocks that reduce or map one image, which may be the only one.
inline constexpr int64_t kWantedImageBlocks = 8 * kWantedBlocks;

// How an image is divided, for vectors of this width.
inline Cut CutImage(const ChannelShape& s, int vec) {
  const ChannelShape image = {1, s.channels, s.inner, s.channels_last};
  return s.channels_last ? CutRows(image, vec, kThreads, kWantedImageBlocks)
                         : CutPlanes(image, vec);
}

// The partial results of all images.
inline int64_t ImagePartialBytes(const ChannelShape& s, Element type) {
  const int64_t splits = MostSplits(s, type, [&](int vec) { return CutImage(s, vec); });
  return splits * s.outer * s.channels * kPartBytes;
}

// partial[split * planes + plane], where kWidth threads, a warp or a block, reduce a part of a
// plane of so many vectors. Grid (planes, splits).
template <typename Op, int kVec, int kWidth>
__global__ void __launch_bounds__(kThreads, Op::Total::kResident)
    ReduceImagePlanes(Op op, uint32_t planes, uint32_t vectors, uint32_t per_split,
                      typename Op::Total::template Of<float>* partial) {
  AwaitKernelBefore();
  AllowDependents();
  const uint32_t plane = blockIdx.x * (kThreads / kWidth) + threadIdx.x / kWidth;
  if (plane >= planes) return;
  const uint32_t begin = blockIdx.y * per_split;
  const uint32_t end = min(begin + per_split, vectors);
  const auto at = [&](uint32_t v) {
    return RowPosition{static_cast<size_t>(plane) * vectors + v, plane, v};
  };
  typename Op::Total::template Of<float> part[] = {
      SumVectors<Op, kVec, kWidth>(op, plane, at, begin + threadIdx.x % kWidth, end)};
  if constexpr (kWidth == kWarp) {
    MergeWarp<1>(part, 1);
  } else {
    part[0] = MergeBlock(part[0]);
  }
  if (threadIdx.x % kWidth == 0)
    partial[static_cast<size_t>(blockIdx.y) * planes + plane] = part[0];
}

// partial[split * all channels + channel], block (channel vectors, rows), grid (tiles of channels
// of each image, splits). An image has `rows` rows.
template <typename Op, int kVec>
__global__ void __launch_bounds__(kThreads)
    ReduceImageRows(Op op, Divider<uint32_t> tiles, uint32_t channel_vectors, uint32_t rows,
                    size_t all_channels, typename Op::Total::template Of<float>* partial) {
  AwaitKernelBefore();
  AllowDependents();
  using Part = typename Op::Total::template Of<float>;
  constexpr int kWarps = kThreads / kWarp;
  __shared__ Part shared[kWarps * kWidestTile<kVec>];
  uint32_t tile = 0;
  const size_t image = tiles.Split(blockIdx.x, tile);
  const uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x;
  const uint32_t cv = tile * blockDim.x + threadIdx.x, channels = channel_vectors * kVec;
  Part parts[kVec] = {};
  if (cv < channel_vectors) {
    SumRows(op, {image * rows, (image + 1) * rows, channel_vectors}, cv,
            image * channels + static_cast<size_t>(cv) * kVec, parts);
  }
  MergeTile<kWarps>(thread, parts, shared);
  const uint32_t width = blockDim.x * kVec;
  const uint32_t begin = tile * width, end = min(begin + width, channels);
  if (begin + thread < end) {
    partial[static_cast<size_t>(blockIdx.y) * all_channels + image * channels + begin + thread] =
        shared[thread];
  }
}

// The partial results of a reduction: partial[split * all channels + channel].
template <typename Total>
struct ImagePartials {
  typename Total::template Of<float>* partial = nullptr;
  uint32_t splits = 1;
};

template <typename Op, int kVec>
cudaError_t LaunchImageReduction(const ChannelShape& s, const Op& op, void* scratch,
                                 ImagePartials<typename Op::Total>& result, cudaStream_t stream) {
  using Part = typename Op::Total::template Of<float>;
  static_assert(sizeof(Part) <= kPartBytes);
  Part* const partial = static_cast<Part*>(scratch);
  const Cut cut = CutImage(s, kVec);
  result = {partial, cut.splits};
  const int64_t all = s.outer * s.channels, vectors = all * s.inner / kVec;
  if (s.channels_last) {
    const dim3 grid(static_cast<unsigned>(s.outer * cut.grid.x), cut.splits);
    return LaunchDependent(vectors, ReduceImageRows<Op, kVec>, grid, cut.block, stream, op,
                           Divider<uint32_t>(cut.grid.x), static_cast<uint32_t>(s.channels / kVec),
                           static_cast<uint32_t>(s.inner), static_cast<size_t>(all), partial);
  }
  const auto launch = [&](auto kernel, int64_t width) {
    const dim3 grid(static_cast<unsigned>(CeilDiv(all * width, kThreads)), cut.splits);
    return LaunchDependent(vectors, kernel, grid, kThreads, stream, op, static_cast<uint32_t>(all),
                           static_cast<uint32_t>(s.inner / kVec), cut.per_split, partial);
  };
  return s.inner / kVec <= kMaxWarpVectors
             ? launch(ReduceImagePlanes<Op, kVec, kWarp>, kWarp)
             : launch(ReduceImagePlanes<Op, kVec, kThreads>, kThreads);
}

// Reduces a tensor of elements of type T. The scratch memory is ImagePartialBytes(). There are
// fewer than 2^31 channels in all images, and positions.
template <typename T, typename Op>
cudaError_t ReduceImages(const ChannelShape& s, bool aligned, const Op& op, void* scratch,
                         ImagePartials<typename Op::Total>& result, cudaStream_t stream) {
  if (!Fits32(s.outer * s.channels) || !Fits32(s.inner)) return cudaErrorInvalidValue;
  constexpr int kVec = kWide<T>;
  return aligned && Vectorised(s, kVec)
             ? LaunchImageReduction<Op, kVec>(s, op, scratch, result, stream)
             : LaunchImageReduction<Op, 1>(s, op, scratch, result, stream);
}

// NHWC: a thread maps one vector of channels in some rows of an image. Block (channel vectors,
// rows), grid (tiles of channels of each image, parts of `per_part` rows). Blocks begin at the end
// of the tensor, as in channel_map.cuh.
template <typename Op, int kVec>
__global__ void __launch_bounds__(kThreads, 2)
    MapImageRows(Op op, Divider<uint32_t> tiles, uint32_t channel_vectors, uint32_t rows,
                 uint32_t per_part) {
  AwaitKernelBefore();
  constexpr uint32_t kLoads = LoadsOf<Op>();
  uint32_t tile = 0;
  const size_t image = tiles.Split(gridDim.x - 1 - blockIdx.x, tile);
  const uint32_t cv = tile * blockDim.x + threadIdx.x;
  if (cv >= channel_vectors) return;
  const size_t first_row = image * rows;
  const auto at = [&](uint32_t row) { return (first_row + row) * channel_vectors + cv; };
  const auto constants = op.template Prepare<true, kVec>((image * channel_vectors + cv) * kVec);
  const uint32_t begin = (gridDim.y - 1 - blockIdx.y) * per_part;
  const uint32_t end = min(begin + per_part, rows);
  for (uint32_t first = begin + threadIdx.y; first < end; first += blockDim.y * kLoads) {
    typename Op::template Registers<kVec> loaded[kLoads];
#pragma unroll
    for (uint32_t u = 0; u < kLoads; ++u) {
      const uint32_t row = first + u * blockDim.y;
      if (row < end) loaded[u] = op.template Load<kVec>(at(row));
    }
    Repeat<kLoads>([&](int u) {
      const uint32_t row = first + static_cast<uint32_t>(u) * blockDim.y;
      if (row < end) op.template Store<kVec>(at(row), constants, loaded[u]);
    });
  }
}

template <typename Op, int kVec>
cudaError_t LaunchImageRowsMap(const ChannelShape& s, const Op& op, cudaStream_t stream) {
  const Cut cut = CutImage(s, kVec);
  const int64_t round = int64_t{cut.block.y} * LoadsOf<Op>();
  const int64_t most = std::max<int64_t>(1, 8 * kWantedImageBlocks / cut.grid.x);
  const int64_t per_part = CeilDiv(s.inner, std::min(most, CeilDiv(s.inner, round)));
  const dim3 grid(static_cast<unsigned>(s.outer * cut.grid.x),
                  static_cast<unsigned>(CeilDiv(s.inner, per_part)));
  return LaunchDependent(s.outer * s.channels * s.inner / kVec, MapImageRows<Op, kVec>, grid,
                         cut.block, stream, op, Divider<uint32_t>(cut.grid.x),
                         static_cast<uint32_t>(s.channels / kVec), static_cast<uint32_t>(s.inner),
                         static_cast<uint32_t>(per_part));
}

// Runs op over a tensor of elements of type T. There are fewer than 2^31 channels in all images,
// and positions.
template <typename T, typename Op>
cudaError_t MapImages(const ChannelShape& s, bool aligned, const Op& op, cudaStream_t stream) {
  if (!Fits32(s.outer * s.channels) || !Fits32(s.inner)) return cudaErrorInvalidValue;
  constexpr int kVec = kWide<T>;
  if (!s.channels_last) {
    const ChannelShape planes = {.channels = s.outer * s.channels, .inner = s.inner};
    return MapChannels<T>(planes, aligned, op, stream);
  }
  return aligned && Vectorised(s, kVec) ? LaunchImageRowsMap<Op, kVec>(s, op, stream)
                                        : LaunchImageRowsMap<Op, 1>(s, op, stream);
}

}  // namespace neap::kernels
