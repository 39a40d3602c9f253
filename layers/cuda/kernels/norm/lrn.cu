// Local response normalisation. If the channels of a pixel are contiguous, a block loads whole
// pixels into shared memory, with a thread per value; dx may overwrite dy, because a block reads
// all its input before it writes.
//
// Otherwise one thread iterates over the channels of one pixel, with a window of them in registers.
// It reads ahead of its writes and keeps the earlier values that it needs, so dx may overwrite dy.
//
//   channel   i-2r .. i-r .. i .. i+r .. i+2r    x is read 2r ahead: its squares give s up to i+r
//   s, t             [ s t s t s t s ]           t = dy x s^(-beta-1) is computed r ahead
//   dx                        i                  dx is written at i
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

struct Walk {
  size_t pixels = 0;
  Divider<uint32_t> inner{1};
  size_t image_stride = 0, pixel_stride = 0, channel_stride = 0;
  int channels = 0;
};

struct Scale {
  float k, alpha_over_size, beta;
};

__device__ __forceinline__ float NegativePower(float s, float beta) {
  // The usual exponent, at a tenth of the cost of powf.
  if (beta == 0.75F) return 1.0F / (sqrtf(s) * sqrtf(sqrtf(s)));
  return powf(s, -beta);
}

// The last 2 * kMax + 1 values of a sequence, newest last, of which 2r + 1 are summed.
template <int kMax>
struct Window {
  float v[2 * kMax + 1] = {};
  __device__ __forceinline__ void Push(float f) {
#pragma unroll
    for (int i = 0; i < 2 * kMax; ++i) v[i] = v[i + 1];
    v[2 * kMax] = f;
  }
  // The value that was pushed `age` pushes ago; compile-time indices keep the array in registers.
  __device__ __forceinline__ float Ago(int age) const {
    float found = 0;
#pragma unroll
    for (int i = 0; i <= 2 * kMax; ++i) found = 2 * kMax - i == age ? v[i] : found;
    return found;
  }
  __device__ __forceinline__ float Sum(int radius) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i <= 2 * kMax; ++i) sum += 2 * kMax - i <= 2 * radius ? v[i] : 0.0F;
    return sum;
  }
  __device__ __forceinline__ float SumOfSquares(int radius) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i <= 2 * kMax; ++i) sum += 2 * kMax - i <= 2 * radius ? v[i] * v[i] : 0.0F;
    return sum;
  }
};

__device__ __forceinline__ size_t FirstChannel(const Walk& walk, size_t pixel) {
  uint32_t within = 0;
  const size_t image = walk.inner.Split(static_cast<uint32_t>(pixel), within);
  return image * walk.image_stride + within * walk.pixel_stride;
}

template <int kMax, typename T>
__global__ void __launch_bounds__(kThreads)
    LrnForward(Walk walk, int radius, Scale scale, const T* __restrict__ x, T* __restrict__ y) {
  const size_t pixel = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (pixel >= walk.pixels) return;
  const size_t base = FirstChannel(walk, pixel);
  Window<kMax> near;
  for (int ahead = 0; ahead < walk.channels + radius; ++ahead) {
    near.Push(ahead < walk.channels ? ToFloat(x[base + ahead * walk.channel_stride]) : 0.0F);
    const int c = ahead - radius;
    if (c < 0) continue;
    const float s = scale.k + scale.alpha_over_size * near.SumOfSquares(radius);
    y[base + c * walk.channel_stride] = RoundTo<T>(near.Ago(radius) * NegativePower(s, scale.beta));
  }
}

template <int kMax, typename T>
__global__ void __launch_bounds__(kThreads)
    LrnBackwardKernel(Walk walk, int radius, Scale scale, const T* __restrict__ x, const T* dy,
                      T* dx) {
  const size_t pixel = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (pixel >= walk.pixels) return;
  const size_t base = FirstChannel(walk, pixel);
  // `near` runs 2r ahead of c, the rest r ahead of c.
  Window<kMax> near, ratio, direct, here;
  const float factor = 2.0F * scale.beta * scale.alpha_over_size;
  for (int ahead = 0; ahead < walk.channels + 2 * radius; ++ahead) {
    near.Push(ahead < walk.channels ? ToFloat(x[base + ahead * walk.channel_stride]) : 0.0F);
    const int middle = ahead - radius;
    if (middle < 0) continue;
    float t = 0, g = 0, x_middle = 0;
    if (middle < walk.channels) {
      const float s = scale.k + scale.alpha_over_size * near.SumOfSquares(radius);
      const float gradient = ToFloat(dy[base + middle * walk.channel_stride]);
      x_middle = near.Ago(radius);
      g = gradient * NegativePower(s, scale.beta);
      t = g * x_middle / s;
    }
    ratio.Push(t);
    direct.Push(g);
    here.Push(x_middle);
    const int c = middle - radius;
    if (c >= 0)
      dx[base + c * walk.channel_stride] =
          RoundTo<T>(direct.Ago(radius) - factor * here.Ago(radius) * ratio.Sum(radius));
  }
}

// Whole pixels of channels-last images.
struct Tile {
  size_t values = 0;  // elements of the tensor
  uint32_t tile_values = 0;
  Divider<uint32_t> channels{1};
  int channel_count = 0;
};
constexpr uint32_t kTileValues = 4096;  // maximum; three such arrays are 48 KiB

// Loads the values of `tile` from `begin` to at most the end of the tensor. Returns their number.
template <typename T>
__device__ __forceinline__ uint32_t LoadTile(const Tile& tile, size_t begin,
                                             const T* __restrict__ from, float* to) {
  const size_t left = tile.values - begin;
  const auto count = static_cast<uint32_t>(left < tile.tile_values ? left : tile.tile_values);
  for (uint32_t i = threadIdx.x; i < count; i += kThreads) to[i] = ToFloat(from[begin + i]);
  return count;
}

// The sum of term(v) over the values v of a tile around value i of a pixel.
template <typename Term>
__device__ __forceinline__ float SumAround(const Tile& tile, const float* values, uint32_t i,
                                           int radius, const Term& term) {
  uint32_t channel = 0;
  tile.channels.Split(i, channel);
  const int c = static_cast<int>(channel);
  const float* const pixel = values + (i - channel);
  float sum = 0;
  for (int j = max(c - radius, 0); j <= min(c + radius, tile.channel_count - 1); ++j)
    sum += term(pixel[j]);
  return sum;
}

// k + alpha / size * sum of squares around value i of x.
__device__ __forceinline__ float Denominator(const Tile& tile, const float* x, uint32_t i,
                                             int radius, const Scale& scale) {
  const float sum = SumAround(tile, x, i, radius, [](float v) { return v * v; });
  return scale.k + scale.alpha_over_size * sum;
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    LrnForwardTiles(Tile tile, int radius, Scale scale, const T* __restrict__ x, T* y) {
  __shared__ float tile_x[kTileValues];
  const size_t begin = static_cast<size_t>(blockIdx.x) * tile.tile_values;
  const uint32_t count = LoadTile(tile, begin, x, tile_x);
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
    const float s = Denominator(tile, tile_x, i, radius, scale);
    y[begin + i] = RoundTo<T>(tile_x[i] * NegativePower(s, scale.beta));
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    LrnBackwardTiles(Tile tile, int radius, Scale scale, const T* __restrict__ x, const T* dy,
                     T* dx) {
  __shared__ float tile_x[kTileValues];
  __shared__ float direct[kTileValues];  // dy, then dy x s^-beta
  __shared__ float ratio[kTileValues];   // direct x / s
  const size_t begin = static_cast<size_t>(blockIdx.x) * tile.tile_values;
  const uint32_t count = LoadTile(tile, begin, x, tile_x);
  LoadTile(tile, begin, dy, direct);
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
    const float s = Denominator(tile, tile_x, i, radius, scale);
    direct[i] *= NegativePower(s, scale.beta);
    ratio[i] = direct[i] * tile_x[i] / s;
  }
  __syncthreads();
  const float factor = 2.0F * scale.beta * scale.alpha_over_size;
  for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
    const float sum = SumAround(tile, ratio, i, radius, [](float v) { return v; });
    dx[begin + i] = RoundTo<T>(direct[i] - factor * tile_x[i] * sum);
  }
}

bool FitsTile(const ChannelShape& s) { return s.channels_last && s.channels <= kTileValues; }

Tile TileOf(const ChannelShape& s) {
  const auto pixels = static_cast<uint32_t>(kTileValues / s.channels);
  return {.values = static_cast<size_t>(s.outer * s.inner * s.channels),
          .tile_values = pixels * static_cast<uint32_t>(s.channels),
          .channels = Divider<uint32_t>(s.channels),
          .channel_count = static_cast<int>(s.channels)};
}

unsigned BlocksOf(const Tile& tile) {
  return static_cast<unsigned>((tile.values + tile.tile_values - 1) / tile.tile_values);
}

Walk WalkOf(const ChannelShape& s) {
  const size_t channels = static_cast<size_t>(s.channels), inner = static_cast<size_t>(s.inner);
  return {.pixels = static_cast<size_t>(s.outer) * inner,
          .inner = Divider<uint32_t>(s.inner),
          .image_stride = channels * inner,
          .pixel_stride = s.channels_last ? channels : 1,
          .channel_stride = s.channels_last ? 1 : inner,
          .channels = static_cast<int>(s.channels)};
}

// Calls launch.template operator()<kMax>(blocks) with the smallest window that holds `size`.
template <typename Launch>
cudaError_t WithWindow(const ChannelShape& s, const LrnOptions& options, const Launch& launch) {
  if (!Fits32(s.outer * s.inner) || options.size > kMaxLrnSize) return cudaErrorInvalidValue;
  const unsigned blocks = static_cast<unsigned>(CeilDiv(s.outer * s.inner, kThreads));
  const int radius = options.size / 2;
  if (radius <= 2) {
    launch.template operator()<2>(blocks);
  } else if (radius <= 4) {
    launch.template operator()<4>(blocks);
  } else {
    launch.template operator()<static_cast<int>(kMaxLrnSize / 2)>(blocks);
  }
  return cudaGetLastError();
}

Scale ScaleOf(const LrnOptions& options) {
  return {options.k, options.alpha / static_cast<float>(options.size), options.beta};
}

}  // namespace

cudaError_t Lrn(const ChannelShape& s, const LrnOptions& options, ConstArray x, Array y,
                cudaStream_t stream) {
  const Scale scale = ScaleOf(options);
  const int radius = options.size / 2;
  const auto run = [&]<typename T>() {
    if (FitsTile(s)) {
      const Tile tile = TileOf(s);
      LrnForwardTiles<<<BlocksOf(tile), kThreads, 0, stream>>>(tile, radius, scale, As<T>(x),
                                                               As<T>(y));
      return cudaGetLastError();
    }
    return WithWindow(s, options, [&]<int kMax>(unsigned blocks) {
      LrnForward<kMax>
          <<<blocks, kThreads, 0, stream>>>(WalkOf(s), radius, scale, As<T>(x), As<T>(y));
    });
  };
  return WithElement(run, x, y);
}

cudaError_t LrnBackward(const ChannelShape& s, const LrnOptions& options, ConstArray x,
                        ConstArray dy, Array dx, cudaStream_t stream) {
  const Scale scale = ScaleOf(options);
  const int radius = options.size / 2;
  const auto run = [&]<typename T>() {
    if (FitsTile(s)) {
      const Tile tile = TileOf(s);
      LrnBackwardTiles<<<BlocksOf(tile), kThreads, 0, stream>>>(tile, radius, scale, As<T>(x),
                                                                As<T>(dy), As<T>(dx));
      return cudaGetLastError();
    }
    return WithWindow(s, options, [&]<int kMax>(unsigned blocks) {
      LrnBackwardKernel<kMax><<<blocks, kThreads, 0, stream>>>(WalkOf(s), radius, scale, As<T>(x),
                                                               As<T>(dy), As<T>(dx));
    });
  };
  return WithElement(run, x, dy, dx);
}

}  // namespace neap::kernels
