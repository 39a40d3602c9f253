// Instance norm of small images with the channels last, in one kernel: a block reduces all rows of
// a tile of an image's channels, and maps them while they are in cache. At low resolutions the
// launches of a reduction, of what merges it and of a map take longer than what they do.
//
//   image n: [c0 .. c63][c64 .. c127] ...    a block has one tile of all positions
//
// Whether an image is small is a matter of its shape alone, so its bits are the same in every
// batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/channel_cut.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/dependent_launch.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_moments.cuh"
#include "neap/layers/cuda/kernels/norm/image_norm.h"

namespace neap::kernels {

inline constexpr int kNormTileThreads = 512;
inline constexpr int64_t kMaxTileRows = 1024;  // more take longer in one block than in several

inline bool IsTiled(const GroupNormShape& s) {
  return s.images.channels_last && s.groups == s.images.channels && s.images.inner <= kMaxTileRows;
}

// Stores the statistics of a channel of an image.
struct TileMomentsFinal {
  StatisticsFinal final;
  __device__ void operator()(uint32_t number, const Moments::Of<float>& part) const {
    Moments::Of<double> total = {};
    total.Merge(part, total.ShareOf(part));
    final(number, total);
  }
};

// Stores the sums of a channel of an image, and the means that are these sums times gamma.
struct TileSumsFinal {
  Sums<2>::Of<float>* partial;
  const float* gamma;
  Divider<uint32_t> channels;
  double count;
  ImageNormStatistics means;
  __device__ void operator()(uint32_t number, const Sums<2>::Of<float>& part) const {
    uint32_t c = 0;
    channels.Split(number, c);
    const float factor = gamma == nullptr ? 1.0F : gamma[c];
    partial[number] = part;
    means.mean[number] = static_cast<float>(static_cast<double>(part.v[0] * factor) / count);
    means.invstd[number] = static_cast<float>(static_cast<double>(part.v[1] * factor) / count);
  }
};

// Block (channel vectors, rows), grid (tiles of channels of each image).
template <typename Reduction, typename Final, typename Op, int kVec>
__global__ void __launch_bounds__(kNormTileThreads)
    ReduceAndMapTiles(Reduction reduction, Final final, Op op, Divider<uint32_t> tiles,
                      uint32_t channel_vectors, uint32_t rows) {
  AwaitKernelBefore();
  using Part = typename Reduction::Total::template Of<float>;
  constexpr int kWarps = kNormTileThreads / kWarp;
  __shared__ Part shared[kWarps * kWidestTile<kVec>];
  uint32_t tile = 0;
  const size_t image = tiles.Split(blockIdx.x, tile);
  const uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x;
  const uint32_t cv = tile * blockDim.x + threadIdx.x, channels = channel_vectors * kVec;
  const size_t number = (image * channel_vectors + cv) * kVec;  // of the thread's first channel
  Part parts[kVec] = {};
  if (cv < channel_vectors)
    SumRows(reduction, {image * rows, (image + 1) * rows, channel_vectors}, cv, number, parts);
  MergeTile<kWarps>(thread, parts, shared);
  const uint32_t own = tile * blockDim.x * kVec + thread;
  if (thread < blockDim.x * kVec && own < channels)
    final(static_cast<uint32_t>(image * channels + own), shared[thread]);
  __syncthreads();  // the block reads what `final` has stored
  if (cv >= channel_vectors) return;
  constexpr uint32_t kLoads = LoadsOf<Op>();
  const auto constants = op.template Prepare<true, kVec>(number);
  const auto at = [&](uint32_t row) { return (image * rows + row) * channel_vectors + cv; };
  for (uint32_t first = threadIdx.y; first < rows; first += blockDim.y * kLoads) {
    typename Op::template Registers<kVec> loaded[kLoads];
#pragma unroll
    for (uint32_t u = 0; u < kLoads; ++u) {
      const uint32_t row = first + u * blockDim.y;
      if (row < rows) loaded[u] = op.template Load<kVec>(at(row));
    }
    Repeat<kLoads>([&](int u) {
      const uint32_t row = first + static_cast<uint32_t>(u) * blockDim.y;
      if (row < rows) op.template Store<kVec>(at(row), constants, loaded[u]);
    });
  }
}

template <int kVec, typename Reduction, typename Final, typename Op>
cudaError_t LaunchTiles(const ChannelShape& s, const Reduction& reduction, const Final& final,
                        const Op& op, cudaStream_t stream) {
  const int64_t vectors = s.channels / kVec, width = TileWidth(vectors, kVec == 1 ? kWarp : 8);
  const int64_t tiles = CeilDiv(vectors, width);
  const dim3 block(static_cast<unsigned>(width), static_cast<unsigned>(kNormTileThreads / width));
  return LaunchDependent(s.outer * vectors * s.inner, ReduceAndMapTiles<Reduction, Final, Op, kVec>,
                         static_cast<unsigned>(s.outer * tiles), block, stream, reduction, final,
                         op, Divider<uint32_t>(tiles), static_cast<uint32_t>(vectors),
                         static_cast<uint32_t>(s.inner));
}

// Reduces a tensor of elements of type T, hands the result of each channel to `final`, and then
// runs op over it.
template <typename T, typename Reduction, typename Final, typename Op>
cudaError_t ReduceAndMap(const ChannelShape& s, bool aligned, const Reduction& reduction,
                         const Final& final, const Op& op, cudaStream_t stream) {
  if (!Fits32(s.outer * s.channels)) return cudaErrorInvalidValue;
  constexpr int kVec = kWide<T>;
  return aligned && Vectorised(s, kVec) ? LaunchTiles<kVec>(s, reduction, final, op, stream)
                                        : LaunchTiles<1>(s, reduction, final, op, stream);
}

}  // namespace neap::kernels
