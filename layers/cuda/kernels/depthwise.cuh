// What the kernels of depthwise convolutions have in common: how threads share their work, the
// weights, and tiles of pixels.
//
// A thread computes tiles of a few pixels of a vector of channels, so that it loads most of x once
// for several pixels, and keeps its channels' weights in registers for several tiles. Neighbouring
// threads of a block have neighbouring vectors of channels (NHWC), then neighbouring tiles of a
// row, so that their loads are close to each other in either layout:
//
//   NHWC, 48 channels in vectors of 4    |c0 c4 ... c44|c0 c4 ... c44|...   thread 12 has the
//                                         tile 0        tile 1              first of tile 1
//   NCHW                                 |tile 0, 1, 2, ...|                one channel per block
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/depthwise.h"
#include "neap/layers/cuda/kernels/device_math.cuh"

namespace neap::kernels {

inline constexpr int kMaxVectors = 64;  // of channels in a block
inline constexpr int64_t kWantedDepthwiseBlocks =
    4 * 132;                                   // four for each multiprocessor of a large GPU
inline constexpr int64_t kTilesPerThread = 4;  // for which it loads the weights once

inline constexpr int kTileRows = 4;
// Two pixels side by side share loads. In NCHW, where vectors have one channel, neighbouring
// threads then load neighbouring pixels from the cache, and one is better.
template <int kVec>
inline constexpr int kTileColumns = kVec > 1 ? 2 : 1;

// Vectors of channels: small enough that their weights fit in registers.
template <int kSide>
inline constexpr int kChannels = kSide == 3 ? 4 : 2;

// Blocks of a multiprocessor, which bound the registers of a thread. More blocks hide more of the
// loads' latency, until sums no longer fit in registers (3 and 5 were measured on an H200; the 98
// weights of two channels of a 7x7 kernel need more than half of them).
template <int kSide, int kStride>
inline constexpr int kBlocks = kSide == 7 || (kSide == 5 && kStride == 2) ? 1 : 2;
template <int kSide>
inline constexpr int kStridedGradientBlocks = kSide == 3   ? 3
                                              : kSide == 5 ? 2
                                                           : 1;

// An image's size, and strides in vectors of channels.
struct Planes {
  int h, w;
  ptrdiff_t image, row, pixel, channel;
};

inline Planes PlanesOf(const DepthwiseShape& s, int64_t h, int64_t w, int vec) {
  const int64_t vectors = s.channels / vec;
  const int ih = static_cast<int>(h), iw = static_cast<int>(w);
  if (s.channels_last) return {ih, iw, h * w * vectors, w * vectors, vectors, 1};
  return {ih, iw, h * w * vectors, w, 1, h * w};
}

// The tiles of all images, and how blocks share them and the channels: a block has `per_block`
// vectors of channels, and as many tiles at a time as it has threads for these.
struct Work {
  Work(int64_t n, int64_t tiles_high, int64_t tiles_wide, int64_t channel_vectors,
       bool channels_last)
      : tiles(static_cast<uint32_t>(n * tiles_high * tiles_wide)),
        vectors(static_cast<uint32_t>(channel_vectors)),
        per_block(VectorsPerBlock(channel_vectors, channels_last)),
        at_a_time(kThreads / per_block.divisor),
        columns(tiles_wide),
        rows(tiles_high) {}

  // Blocks have nearly equal numbers of vectors.
  static int64_t VectorsPerBlock(int64_t vectors, bool channels_last) {
    return channels_last ? CeilDiv(vectors, CeilDiv(vectors, kMaxVectors)) : 1;
  }
  int64_t channel_blocks() const { return CeilDiv(vectors, per_block.divisor); }
  int64_t most_tile_blocks() const { return CeilDiv(tiles, at_a_time); }
  // Enough to fill a GPU, or else few for each thread to have several tiles.
  int64_t tile_blocks() const {
    return std::min(most_tile_blocks(),
                    std::max(CeilDiv(most_tile_blocks(), kTilesPerThread), filling_blocks()));
  }
  // No more than fill a GPU: each writes its part of the weight's gradient.
  int64_t part_blocks() const { return std::min(most_tile_blocks(), filling_blocks()); }
  int64_t filling_blocks() const { return CeilDiv(kWantedDepthwiseBlocks, channel_blocks()); }

  uint32_t tiles, vectors;
  Divider<uint32_t> per_block;
  uint32_t at_a_time;
  Divider<uint32_t> columns, rows;
};

// What a thread of a block computes.
struct Share {
  __device__ explicit Share(const Work& work) {
    slot = work.per_block.Split(threadIdx.x, lane);
    vector = blockIdx.y * work.per_block.divisor + lane;
    works = slot < work.at_a_time && vector < work.vectors;
  }
  uint32_t lane = 0;    // its vector of channels in the block
  uint32_t slot = 0;    // its tile of those that the block computes at a time
  uint32_t vector = 0;  // its vector of channels
  bool works = false;
};

// Calls visit(image, row, column) for the thread's tiles.
template <typename Visit>
__device__ __forceinline__ void ForEachTile(const Work& work, const Share& share,
                                            const Visit& visit) {
  if (!share.works) return;
  for (uint32_t i = blockIdx.x * work.at_a_time + share.slot; i < work.tiles;
       i += gridDim.x * work.at_a_time) {
    uint32_t column = 0, row = 0;
    const uint32_t image = work.rows.Split(work.columns.Split(i, column), row);
    visit(image, static_cast<int>(row), static_cast<int>(column));
  }
}

// The weights of the thread's channels. All threads of the block call it.
template <int kSide, int kVec>
struct Weights {
  template <typename T>
  __device__ __forceinline__ Weights(const Work& work, const Share& share,
                                     const T* __restrict__ weight, bool flipped) {
    constexpr int kTaps = kSide * kSide;
    __shared__ Vec<kVec> taps[kTaps][kMaxVectors];
    const uint32_t begin = blockIdx.y * work.per_block.divisor;
    const uint32_t channels = min(work.per_block.divisor, work.vectors - begin) * kVec;
    for (uint32_t i = threadIdx.x; i < channels * kTaps; i += kThreads) {
      const uint32_t channel = i / kTaps, tap = i % kTaps;
      taps[flipped ? kTaps - 1 - tap : tap][channel / kVec].v[channel % kVec] =
          ToFloat(weight[static_cast<size_t>(begin) * kVec * kTaps + i]);
    }
    __syncthreads();
    if (!share.works) return;
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) of[tap] = taps[tap][share.lane];
  }
  Vec<kVec> of[kSide * kSide];
};

// kCount neighbouring pixels of some rows of an image, zero outside.
template <int kCount, int kVec, typename T>
class Window {
 public:
  __device__ __forceinline__ Window(const Planes& planes, const T* data, uint32_t image,
                                    uint32_t vector, int top, int left)
      : begin_(reinterpret_cast<const Packed<T, kVec>*>(data) + image * planes.image +
               vector * planes.channel + top * planes.row + left * planes.pixel),
        row_(planes.row),
        pixel_(planes.pixel),
        top_(top),
        height_(planes.h) {
#pragma unroll
    for (int c = 0; c < kCount; ++c)
      inside_[c] = static_cast<unsigned>(left + c) < static_cast<unsigned>(planes.w);
  }
  __device__ __forceinline__ void Load(int row, Vec<kVec> (&pixels)[kCount]) const {
    const bool inside = static_cast<unsigned>(top_ + row) < static_cast<unsigned>(height_);
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      Packed<T, kVec> packed = {};
      if (inside && inside_[c]) packed = begin_[row * row_ + c * pixel_];
      pixels[c] = Unpack(packed);
    }
  }

 private:
  const Packed<T, kVec>* begin_;
  ptrdiff_t row_, pixel_;
  int top_, height_;
  bool inside_[kCount];
};

template <int kVec>
__device__ __forceinline__ void AddProduct(Vec<kVec>& sum, const Vec<kVec>& a, const Vec<kVec>& b) {
#pragma unroll
  for (int k = 0; k < kVec; ++k) sum.v[k] = fmaf(a.v[k], b.v[k], sum.v[k]);
}

// The pixels of x in a row of the windows of `count` neighbouring pixels of y.
constexpr int LoadedPixels(int side, int stride, int count) { return (count - 1) * stride + side; }

// Calls visit(a, b, tap, pixel) for each product of a weight and a pixel of x that pixel (a, b) of
// a tile of y is a sum of.
template <int kSide, int kStride, int kColumns, int kCount, int kVec, typename T, typename Visit>
__device__ __forceinline__ void ForEachProduct(const Window<kCount, kVec, T>& x,
                                               const Visit& visit) {
#pragma unroll
  for (int r = 0; r < LoadedPixels(kSide, kStride, kTileRows); ++r) {
    Vec<kVec> pixels[kCount];
    x.Load(r, pixels);
#pragma unroll
    for (int a = 0; a < kTileRows; ++a) {
      const int i = r - a * kStride;  // the row of weights
      if (i < 0 || i >= kSide) continue;
#pragma unroll
      for (int b = 0; b < kColumns; ++b) {
#pragma unroll
        for (int j = 0; j < kSide; ++j) visit(a, b, i * kSide + j, pixels[b * kStride + j]);
      }
    }
  }
}

// Writes the pixels of a tile that are inside the image, or their sum with those of `addend` as if
// they had been stored before, unless that is null.
template <int kColumns, int kVec, typename T>
__device__ __forceinline__ void WriteTile(const Planes& planes, T* data, const T* addend,
                                          uint32_t image, uint32_t vector, int first_row,
                                          int first_column,
                                          const Vec<kVec> (&tile)[kTileRows][kColumns]) {
  const ptrdiff_t begin = image * planes.image + vector * planes.channel;
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int row = first_row + r, column = first_column + c;
      if (row < 0 || row >= planes.h || column < 0 || column >= planes.w) continue;
      const auto i = static_cast<size_t>(begin + row * planes.row + column * planes.pixel);
      Vec<kVec> v = tile[r][c];
      if (addend != nullptr) {
        const Vec<kVec> other = Unpack(Read<kVec>(addend, i));
#pragma unroll
        for (int k = 0; k < kVec; ++k) v.v[k] = __fadd_rn(Rounded<T>(v.v[k]), other.v[k]);
      }
      Write<kVec>(data, i, v);
    }
  }
}

}  // namespace neap::kernels
