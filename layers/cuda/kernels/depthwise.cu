// Depthwise convolutions.
//
// A thread computes tiles of a few pixels of a vector of channels, so that it loads most of x once
// for several pixels, and keeps its channels' weights in registers for several tiles. Neighbouring
// threads of a block have neighbouring vectors of channels (NHWC), then neighbouring tiles of a
// row, so that their loads are close to each other in either layout:
//
//   NHWC, 48 channels in vectors of 4    |c0 c4 ... c44|c0 c4 ... c44|...   thread 12 has the
//                                         tile 0        tile 1              first of tile 1
//   NCHW                                 |tile 0, 1, 2, ...|                one channel per block
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/depthwise.h"
#include "neap/layers/cuda/kernels/device_math.cuh"

namespace neap::kernels {
namespace {

constexpr int kMostVectors = 64;            // of channels in a block
constexpr int64_t kWantedBlocks = 4 * 132;  // four for each multiprocessor of a large GPU
constexpr int64_t kTilesPerThread = 4;      // for which it loads the weights once
constexpr int kPartLanes = 8;               // threads that add the parts of one weight's gradient

constexpr int kTileRows = 4;
// Two pixels side by side share loads. In NCHW, where vectors have one channel, neighbouring
// threads then load neighbouring pixels from the cache, and one is better.
template <int kVec>
inline constexpr int kTileColumns = kVec > 1 ? 2 : 1;

// Vectors of channels: small enough that their weights fit in registers.
template <int kSide>
inline constexpr int kChannels = kSide == 3 ? 4 : 2;

// Blocks of a multiprocessor, which bound the registers of a thread. More blocks hide more of the
// loads' latency, until sums no longer fit in registers (measured on an H200).
template <int kSide, int kStride>
inline constexpr int kBlocks = kSide == 5 && kStride == 2 ? 1 : 2;
template <int kSide>
inline constexpr int kStridedGradientBlocks = kSide == 3 ? 3 : 2;

// An image's size, and strides in vectors of channels.
struct Planes {
  int h, w;
  ptrdiff_t image, row, pixel, channel;
};

Planes PlanesOf(const DepthwiseShape& s, int64_t h, int64_t w, int vec) {
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
    return channels_last ? CeilDiv(vectors, CeilDiv(vectors, kMostVectors)) : 1;
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
  int64_t filling_blocks() const { return CeilDiv(kWantedBlocks, channel_blocks()); }

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
    __shared__ Vec<kVec> taps[kTaps][kMostVectors];
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

// Writes the pixels of a tile that are inside the image.
template <int kColumns, int kVec, typename T>
__device__ __forceinline__ void WriteTile(const Planes& planes, T* data, uint32_t image,
                                          uint32_t vector, int first_row, int first_column,
                                          const Vec<kVec> (&tile)[kTileRows][kColumns]) {
  const ptrdiff_t begin = image * planes.image + vector * planes.channel;
#pragma unroll
  for (int r = 0; r < kTileRows; ++r) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int row = first_row + r, column = first_column + c;
      if (row >= 0 && row < planes.h && column >= 0 && column < planes.w)
        Write<kVec>(data, static_cast<size_t>(begin + row * planes.row + column * planes.pixel),
                    tile[r][c]);
    }
  }
}

// `out` is the convolution of `in` with the weights, flipped if dx is computed of dy.
template <int kSide, int kStride, int kVec, typename T>
__global__ void __launch_bounds__(kThreads, kBlocks<kSide, kStride>)
    DepthwiseKernel(Planes in_planes, Planes out_planes, int padding_h, int padding_w, Work work,
                    bool flipped, const T* __restrict__ in, const T* __restrict__ weight,
                    T* __restrict__ out) {
  constexpr int kColumns = kTileColumns<kVec>;
  const Share share(work);
  const Weights<kSide, kVec> weights(work, share, weight, flipped);
  ForEachTile(work, share, [&](uint32_t image, int tile_row, int tile_column) {
    const int row = tile_row * kTileRows, column = tile_column * kColumns;
    const Window<LoadedPixels(kSide, kStride, kColumns), kVec, T> x(
        in_planes, in, image, share.vector, row * kStride - padding_h,
        column * kStride - padding_w);
    Vec<kVec> sums[kTileRows][kColumns] = {};
    ForEachProduct<kSide, kStride, kColumns>(x, [&](int a, int b, int tap, const Vec<kVec>& pixel) {
      AddProduct(sums[a][b], pixel, weights.of[tap]);
    });
    WriteTile(out_planes, out, image, share.vector, row, column, sums);
  });
}

// dx with a stride of 2: the pixel at h + padding = 2 m + a, with a of 0 or 1, reads the rows m - i
// / 2 of dy for the weights' rows i of which a - i is even. A tile has two columns, of both
// parities; h + padding and w + padding of its first pixel are even.
template <int kSide, int kVec, typename T>
__global__ void __launch_bounds__(kThreads, kStridedGradientBlocks<kSide>)
    StridedGradientKernel(Planes dy_planes, Planes dx_planes, int padding_h, int padding_w,
                          Work work, const T* __restrict__ dy, const T* __restrict__ weight,
                          T* __restrict__ dx) {
  constexpr int kReach = (kSide - 1) / 2;  // rows of dy above the one at m, and columns
  const Share share(work);
  const Weights<kSide, kVec> weights(work, share, weight, false);
  ForEachTile(work, share, [&](uint32_t image, int tile_row, int tile_column) {
    const Window<kReach + 1, kVec, T> y(dy_planes, dy, image, share.vector,
                                        tile_row * (kTileRows / 2) + padding_h / 2 - kReach,
                                        tile_column + padding_w / 2 - kReach);
    Vec<kVec> sums[kTileRows][2] = {};
#pragma unroll
    for (int r = 0; r < kReach + kTileRows / 2; ++r) {
      Vec<kVec> pixels[kReach + 1];
      y.Load(r, pixels);
#pragma unroll
      for (int a = 0; a < kTileRows; ++a) {
        const int i = a - 2 * (r - kReach);
        if (i < 0 || i >= kSide) continue;
#pragma unroll
        for (int b = 0; b < 2; ++b) {
#pragma unroll
          for (int c = 0; c <= kReach; ++c) {
            const int j = b - 2 * (c - kReach);
            if (j < kSide) AddProduct(sums[a][b], pixels[c], weights.of[i * kSide + j]);
          }
        }
      }
    }
    WriteTile(dx_planes, dx, image, share.vector, tile_row * kTileRows - padding_h % 2,
              tile_column * 2 - padding_w % 2, sums);
  });
}

// parts[blockIdx.x] {channels, kSide, kSide} = the weight's gradient of the block's tiles.
template <int kSide, int kStride, int kVec, typename T>
__global__ void __launch_bounds__(kThreads, kBlocks<kSide, kStride>)
    WeightGradientKernel(Planes x_planes, Planes dy_planes, int padding_h, int padding_w, Work work,
                         const T* __restrict__ x, const T* __restrict__ dy,
                         float* __restrict__ parts) {
  constexpr int kTaps = kSide * kSide;
  constexpr int kColumns = kTileColumns<kVec>;
  const Share share(work);
  Vec<kVec> sums[kTaps] = {};
  ForEachTile(work, share, [&](uint32_t image, int tile_row, int tile_column) {
    const int row = tile_row * kTileRows, column = tile_column * kColumns;
    const Window<kColumns, kVec, T> y(dy_planes, dy, image, share.vector, row, column);
    const Window<LoadedPixels(kSide, kStride, kColumns), kVec, T> in(
        x_planes, x, image, share.vector, row * kStride - padding_h, column * kStride - padding_w);
    Vec<kVec> dys[kTileRows][kColumns];
#pragma unroll
    for (int a = 0; a < kTileRows; ++a) y.Load(a, dys[a]);
    ForEachProduct<kSide, kStride, kColumns>(in,
                                             [&](int a, int b, int tap, const Vec<kVec>& pixel) {
                                               AddProduct(sums[tap], pixel, dys[a][b]);
                                             });
  });

  // Over the tiles of the block, a row of weights at a time.
  __shared__ Vec<kVec> shared[kSide][kThreads];
  for (int i = 0; i < kSide; ++i) {
    __syncthreads();
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {  // constant indices keep the sums in registers
      if (tap / kSide == i) shared[tap % kSide][threadIdx.x] = sums[tap];
    }
    for (uint32_t count = work.at_a_time; count > 1;) {
      __syncthreads();
      const uint32_t half = (count + 1) / 2;
      if (share.slot < count - half) {
#pragma unroll
        for (int j = 0; j < kSide; ++j) {
          const Vec<kVec>& other = shared[j][threadIdx.x + half * work.per_block.divisor];
#pragma unroll
          for (int k = 0; k < kVec; ++k) shared[j][threadIdx.x].v[k] += other.v[k];
        }
      }
      count = half;
    }
    if (share.slot != 0 || !share.works) continue;
    const size_t channel = static_cast<size_t>(share.vector) * kVec;
    const size_t channels = static_cast<size_t>(work.vectors) * kVec;
#pragma unroll
    for (int j = 0; j < kSide; ++j) {
#pragma unroll
      for (int k = 0; k < kVec; ++k)
        parts[(blockIdx.x * channels + channel + k) * kTaps + i * kSide + j] =
            shared[j][threadIdx.x].v[k];
    }
  }
}

// A block has 32 weights, and kPartLanes threads for each.
__global__ void __launch_bounds__(32 * kPartLanes)
    SumWeightParts(const float* __restrict__ parts, int count, size_t n, bool adds,
                   float* __restrict__ sum) {
  __shared__ float lanes[kPartLanes][32];
  const size_t i = static_cast<size_t>(blockIdx.x) * 32 + threadIdx.x;
  float total = 0;
  if (i < n) {
#pragma unroll 8
    for (int p = static_cast<int>(threadIdx.y); p < count; p += kPartLanes)
      total += parts[p * n + i];
  }
  lanes[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y != 0 || i >= n) return;
  for (int lane = 1; lane < kPartLanes; ++lane) total += lanes[lane][threadIdx.x];
  sum[i] = adds ? sum[i] + total : total;
}

// The work of tiles that are `columns` wide.
Work WorkOf(const DepthwiseShape& s, int64_t h, int64_t w, int columns, int vec) {
  return {s.n, CeilDiv(h, kTileRows), CeilDiv(w, columns), s.channels / vec, s.channels_last};
}
template <int kVec>
Work OutputWork(const DepthwiseShape& s) {
  return WorkOf(s, s.out_h, s.out_w, kTileColumns<kVec>, kVec);
}

dim3 GridOf(int64_t tile_blocks, const Work& work) {
  return {static_cast<unsigned>(tile_blocks), static_cast<unsigned>(work.channel_blocks()), 1};
}

// Calls launch.template operator()<kSide, kVec, T>() for the shape and the arrays' element type.
template <typename Launch>
cudaError_t WithWindow(const DepthwiseShape& s, const Launch& launch, const ConstArray& a,
                       const ConstArray& b, const ConstArray& c) {
  const cudaError_t error = WithElement(
      [&]<typename T>() {
        const auto with_side = [&]<int kSide>() {
          constexpr int kVec = kChannels<kSide>;
          if (s.channels_last && s.channels % kVec == 0 && AllAligned16(a, b, c))
            launch.template operator()<kSide, kVec, T>();
          else
            launch.template operator()<kSide, 1, T>();
        };
        s.kernel == 3 ? with_side.template operator()<3>() : with_side.template operator()<5>();
        return cudaSuccess;
      },
      a, b, c);
  return error != cudaSuccess ? error : cudaGetLastError();
}

template <int kSide>
int64_t MostPartBlocks(const DepthwiseShape& s) {
  constexpr int kVec = kChannels<kSide>;
  const int64_t narrow = OutputWork<1>(s).part_blocks();
  return s.channels % kVec == 0 ? std::max(narrow, OutputWork<kVec>(s).part_blocks()) : narrow;
}

}  // namespace

cudaError_t DepthwiseForward(const DepthwiseShape& s, ConstArray x, ConstArray weight, Array y,
                             cudaStream_t stream) {
  const auto launch = [&]<int kSide, int kVec, typename T>() {
    const Work work = OutputWork<kVec>(s);
    const auto run = [&]<int kStride>() {
      DepthwiseKernel<kSide, kStride, kVec, T>
          <<<GridOf(work.tile_blocks(), work), kThreads, 0, stream>>>(
              PlanesOf(s, s.h, s.w, kVec), PlanesOf(s, s.out_h, s.out_w, kVec),
              static_cast<int>(s.padding_h), static_cast<int>(s.padding_w), work, false, As<T>(x),
              As<T>(weight), As<T>(y));
    };
    s.stride == 1 ? run.template operator()<1>() : run.template operator()<2>();
  };
  return WithWindow(s, launch, x, weight, y);
}

cudaError_t DepthwiseBackwardData(const DepthwiseShape& s, ConstArray dy, ConstArray weight,
                                  Array dx, cudaStream_t stream) {
  const auto launch = [&]<int kSide, int kVec, typename T>() {
    const Planes dy_planes = PlanesOf(s, s.out_h, s.out_w, kVec);
    const Planes dx_planes = PlanesOf(s, s.h, s.w, kVec);
    const int padding_h = static_cast<int>(s.padding_h), padding_w = static_cast<int>(s.padding_w);
    if (s.stride == 1) {
      const Work work = WorkOf(s, s.h, s.w, kTileColumns<kVec>, kVec);
      DepthwiseKernel<kSide, 1, kVec, T><<<GridOf(work.tile_blocks(), work), kThreads, 0, stream>>>(
          dy_planes, dx_planes, kSide - 1 - padding_h, kSide - 1 - padding_w, work, true, As<T>(dy),
          As<T>(weight), As<T>(dx));
    } else {
      const Work work = WorkOf(s, s.h + padding_h % 2, s.w + padding_w % 2, 2, kVec);
      StridedGradientKernel<kSide, kVec, T>
          <<<GridOf(work.tile_blocks(), work), kThreads, 0, stream>>>(
              dy_planes, dx_planes, padding_h, padding_w, work, As<T>(dy), As<T>(weight),
              As<T>(dx));
    }
  };
  return WithWindow(s, launch, dy, weight, dx);
}

int64_t DepthwiseScratchBytes(const DepthwiseShape& s) {
  const int64_t parts = s.kernel == 3 ? MostPartBlocks<3>(s) : MostPartBlocks<5>(s);
  return parts * s.channels * s.kernel * s.kernel * static_cast<int64_t>(sizeof(float));
}

cudaError_t DepthwiseWeightGradient(const DepthwiseShape& s, ConstArray x, ConstArray dy,
                                    float* dweight, bool adds, void* scratch, cudaStream_t stream) {
  float* const parts = static_cast<float*>(scratch);
  const int64_t weights = s.channels * s.kernel * s.kernel;
  const auto launch = [&]<int kSide, int kVec, typename T>() {
    const Work work = OutputWork<kVec>(s);
    const auto run = [&]<int kStride>() {
      WeightGradientKernel<kSide, kStride, kVec, T>
          <<<GridOf(work.part_blocks(), work), kThreads, 0, stream>>>(
              PlanesOf(s, s.h, s.w, kVec), PlanesOf(s, s.out_h, s.out_w, kVec),
              static_cast<int>(s.padding_h), static_cast<int>(s.padding_w), work, As<T>(x),
              As<T>(dy), parts);
    };
    s.stride == 1 ? run.template operator()<1>() : run.template operator()<2>();
    SumWeightParts<<<static_cast<unsigned>(CeilDiv(weights, 32)), dim3(32, kPartLanes), 0,
                     stream>>>(parts, static_cast<int>(work.part_blocks()),
                               static_cast<size_t>(weights), adds, dweight);
  };
  return WithWindow(s, launch, x, dy, ConstArray());
}

}  // namespace neap::kernels
