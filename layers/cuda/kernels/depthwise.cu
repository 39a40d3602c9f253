// Depthwise convolutions: forward, and both gradients.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/depthwise.cuh"
#include "neap/layers/cuda/kernels/depthwise.h"
#include "neap/layers/cuda/kernels/device_math.cuh"

namespace neap::kernels {
namespace {

constexpr int kPartLanes = 8;  // threads that add the parts of one weight's gradient

// `out` is the convolution of `in` with the weights, flipped if dx is computed of dy.
template <int kSide, int kStride, int kVec, typename T>
__global__ void __launch_bounds__(kThreads, kBlocks<kSide, kStride>)
    DepthwiseKernel(Planes in_planes, Planes out_planes, int padding_h, int padding_w, Work work,
                    bool flipped, const T* __restrict__ in, const T* __restrict__ weight,
                    const T* __restrict__ addend, T* __restrict__ out) {
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
    WriteTile(out_planes, out, addend, image, share.vector, row, column, sums);
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
    WriteTile<2, kVec, T>(dx_planes, dx, nullptr, image, share.vector,
                          tile_row * kTileRows - padding_h % 2, tile_column * 2 - padding_w % 2,
                          sums);
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

template <size_t kBytes>
bool Aligned(const ConstArray& array) {
  return reinterpret_cast<uintptr_t>(array.data) % kBytes == 0;
}

// Calls launch.template operator()<kSide, kVec, T>() for the shape and the arrays' element type.
template <typename Launch>
cudaError_t WithWindow(const DepthwiseShape& s, const Launch& launch, const ConstArray& a,
                       const ConstArray& b, const ConstArray& c, const ConstArray& d = {}) {
  const cudaError_t error = WithElement(
      [&]<typename T>() {
        const auto with_side = [&]<int kSide>() {
          constexpr int kVec = kChannels<kSide>;
          constexpr size_t kAlignment = AlignmentOf(sizeof(T) * kVec);
          const bool aligned = Aligned<kAlignment>(a) && Aligned<kAlignment>(b) &&
                               Aligned<kAlignment>(c) && Aligned<kAlignment>(d);
          if (s.channels_last && s.channels % kVec == 0 && aligned)
            launch.template operator()<kSide, kVec, T>();
          else
            launch.template operator()<kSide, 1, T>();
        };
        switch (s.kernel) {
          case 3:
            with_side.template operator()<3>();
            return cudaSuccess;
          case 5:
            with_side.template operator()<5>();
            return cudaSuccess;
          case 7:
            with_side.template operator()<7>();
            return cudaSuccess;
          default:
            return cudaErrorInvalidValue;
        }
      },
      a, b, c, d);
  return error != cudaSuccess ? error : cudaGetLastError();
}

template <int kSide>
int64_t MostPartBlocks(const DepthwiseShape& s) {
  constexpr int kVec = kChannels<kSide>;
  const int64_t narrow = OutputWork<1>(s).part_blocks();
  const bool wide = s.channels_last && s.channels % kVec == 0;
  return wide ? std::max(narrow, OutputWork<kVec>(s).part_blocks()) : narrow;
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
              As<T>(weight), nullptr, As<T>(y));
    };
    s.stride == 1 ? run.template operator()<1>() : run.template operator()<2>();
  };
  return WithWindow(s, launch, x, weight, y);
}

cudaError_t DepthwiseBackwardData(const DepthwiseShape& s, ConstArray dy, ConstArray weight,
                                  ConstArray addend, Array dx, cudaStream_t stream) {
  if (s.stride != 1 && addend.data != nullptr) return cudaErrorInvalidValue;
  const auto launch = [&]<int kSide, int kVec, typename T>() {
    const Planes dy_planes = PlanesOf(s, s.out_h, s.out_w, kVec);
    const Planes dx_planes = PlanesOf(s, s.h, s.w, kVec);
    const int padding_h = static_cast<int>(s.padding_h), padding_w = static_cast<int>(s.padding_w);
    if (s.stride == 1) {
      const Work work = WorkOf(s, s.h, s.w, kTileColumns<kVec>, kVec);
      DepthwiseKernel<kSide, 1, kVec, T><<<GridOf(work.tile_blocks(), work), kThreads, 0, stream>>>(
          dy_planes, dx_planes, kSide - 1 - padding_h, kSide - 1 - padding_w, work, true, As<T>(dy),
          As<T>(weight), As<T>(addend), As<T>(dx));
    } else {
      const Work work = WorkOf(s, s.h + padding_h % 2, s.w + padding_w % 2, 2, kVec);
      StridedGradientKernel<kSide, kVec, T>
          <<<GridOf(work.tile_blocks(), work), kThreads, 0, stream>>>(
              dy_planes, dx_planes, padding_h, padding_w, work, As<T>(dy), As<T>(weight),
              As<T>(dx));
    }
  };
  return WithWindow(s, launch, dy, weight, addend, dx);
}

int64_t DepthwiseScratchBytes(const DepthwiseShape& s) {
  const int64_t parts = s.kernel == 3   ? MostPartBlocks<3>(s)
                        : s.kernel == 5 ? MostPartBlocks<5>(s)
                                        : MostPartBlocks<7>(s);
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
