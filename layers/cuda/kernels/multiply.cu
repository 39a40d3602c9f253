// The product of two tensors, the second of the shape of the first or with one factor for each
// image and channel (layers/multiply.h), and the sum of a tensor and such a second one
// (layers/join.h).
#include <algorithm>

#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

// Of two tensors of one shape.
template <typename T>
struct MultiplyOp {
  const T* a;
  const T* b;
  T* y;
  template <int kVec>
  struct Registers {
    Packed<T, kVec> a, b;
  };
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    return {Read<kVec>(a, i), Read<kVec>(b, i)};
  }
  template <int kVec>
  __device__ void Store(size_t i, const Registers<kVec>& in) const {
    const Vec<kVec> factors = Unpack(in.b);
    Vec<kVec> v = Unpack(in.a);
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] *= factors.v[k];
    Write<kVec>(y, i, v);
  }
};

template <typename T>
struct MultiplyBackwardOp {
  const T* a;
  const T* b;
  const T* dy;
  T* da;
  T* db;
  bool adds_da, adds_db;
  template <int kVec>
  struct Registers {
    Packed<T, kVec> a, b, dy;
  };
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    return {Read<kVec>(a, i), Read<kVec>(b, i), Read<kVec>(dy, i)};
  }
  template <int kVec>
  __device__ void Store(size_t i, const Registers<kVec>& in) const {
    const Vec<kVec> gradient = Unpack(in.dy);
    Vec<kVec> of_a = Unpack(in.b), of_b = Unpack(in.a);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      of_a.v[k] *= gradient.v[k];
      of_b.v[k] *= gradient.v[k];
    }
    WriteOrAdd<kVec>(da, i, of_a, adds_da);
    WriteOrAdd<kVec>(db, i, of_b, adds_db);
  }
};

// What is made of an element of the first tensor and the second one's of its image and channel.
struct Product {
  static constexpr bool kIsSum = false;
  static __device__ float Of(float a, float b) { return a * b; }
};
struct Sum {
  static constexpr bool kIsSum = true;  // so gradients read neither tensor
  static __device__ float Of(float a, float b) { return a + b; }
};

// With the numbers of b of the i-th vector of kVec elements, n of them. NCHW: block = inner. NHWC:
// block = inner * channels, one image. Both and the channels are counted in vectors.
template <typename Pair, int kVec, typename Index, typename T>
__global__ void __launch_bounds__(kThreads)
    PairByChannel(const T* a, const T* __restrict__ b, T* y, Index n, Divider<Index> block,
                  Divider<Index> channels, bool channels_last) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  Index within = 0, c = 0;
  const Index outer = block.Split(i, within);
  Vec<kVec> v = Unpack(Read<kVec>(a, i));
  if (channels_last) {
    channels.Split(i, c);
    const Vec<kVec> factors =
        Unpack(Read<kVec>(b, outer * static_cast<Index>(channels.divisor) + c));
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] = Pair::Of(v.v[k], factors.v[k]);
  } else {
    const float factor = ToFloat(b[outer]);
#pragma unroll
    for (float& f : v.v) f = Pair::Of(f, factor);
  }
  Write<kVec>(y, i, v);
}

// NCHW: one warp per plane, of `inner` vectors.
template <typename Pair, int kVec, typename T>
__global__ void __launch_bounds__(kThreads)
    PlaneGradients(const T* a, const T* __restrict__ b, const T* dy, T* da, T* db, bool adds_da,
                   bool adds_db, size_t planes, int inner) {
  const size_t plane = static_cast<size_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (plane >= planes) return;
  float factor = 1, sum = 0;
  if constexpr (!Pair::kIsSum) factor = ToFloat(b[plane]);
#pragma unroll 2
  for (int p = static_cast<int>(threadIdx.x % 32); p < inner; p += 32) {
    const size_t i = plane * inner + p;
    Vec<kVec> v = Unpack(Read<kVec>(dy, i));
    if constexpr (Pair::kIsSum) {
#pragma unroll
      for (int k = 0; k < kVec; ++k) sum += v.v[k];
    } else {
      const Vec<kVec> values = Unpack(Read<kVec>(a, i));
#pragma unroll
      for (int k = 0; k < kVec; ++k) {
        sum += v.v[k] * values.v[k];
        v.v[k] *= factor;
      }
    }
    if (da != nullptr) WriteOrAdd<kVec>(da, i, v, adds_da);
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0U, sum, offset);
  if (threadIdx.x % 32 == 0) WriteOrAdd<1>(db, plane, Vec<1>{{sum}}, adds_db);
}

// NHWC: a block of threads {channels, pixels} takes some channels of a part of the pixels of an
// image, and writes their sums to partial[image][part][channel]. Channels are counted in vectors.
struct RowParts {
  int64_t images = 0, vectors = 0, pixels = 0;
  unsigned width = 1, height = 1;  // of a block
  int64_t tiles = 1;               // blocks side by side
  int64_t parts = 1;
};

template <typename Pair, int kVec, typename T>
__global__ void __launch_bounds__(kThreads)
    RowGradients(const T* a, const T* __restrict__ b, const T* dy, T* da, bool adds_da,
                 float* partial, RowParts shape) {
  __shared__ float sums[kThreads * kVec];
  const int64_t tile = blockIdx.x % shape.tiles, at = blockIdx.x / shape.tiles;
  const int64_t part = at % shape.parts, image = at / shape.parts;
  const int64_t c = tile * shape.width + threadIdx.x;
  Vec<kVec> sum = {};
  if (c < shape.vectors) {
    Vec<kVec> factors = {};
    if constexpr (!Pair::kIsSum)
      factors = Unpack(Read<kVec>(b, static_cast<size_t>(image * shape.vectors + c)));
    for (int64_t p = part * shape.height + threadIdx.y; p < shape.pixels;
         p += shape.parts * shape.height) {
      const size_t i = static_cast<size_t>((image * shape.pixels + p) * shape.vectors + c);
      Vec<kVec> v = Unpack(Read<kVec>(dy, i));
      if constexpr (Pair::kIsSum) {
#pragma unroll
        for (int k = 0; k < kVec; ++k) sum.v[k] += v.v[k];
      } else {
        const Vec<kVec> values = Unpack(Read<kVec>(a, i));
#pragma unroll
        for (int k = 0; k < kVec; ++k) {
          sum.v[k] += v.v[k] * values.v[k];
          v.v[k] *= factors.v[k];
        }
      }
      if (da != nullptr) WriteOrAdd<kVec>(da, i, v, adds_da);
    }
  }
  const unsigned thread = threadIdx.y * shape.width + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kVec; ++k) sums[thread * kVec + k] = sum.v[k];
  __syncthreads();
  if (threadIdx.y != 0 || c >= shape.vectors) return;
  for (unsigned row = 1; row < shape.height; ++row) {
#pragma unroll
    for (int k = 0; k < kVec; ++k) sum.v[k] += sums[(row * shape.width + threadIdx.x) * kVec + k];
  }
  const int64_t to = ((image * shape.parts + part) * shape.vectors + c) * kVec;
#pragma unroll
  for (int k = 0; k < kVec; ++k) partial[to + k] = sum.v[k];
}

// db = the sums of the parts.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    SumParts(const float* __restrict__ partial, T* db, bool adds, int64_t sums, int64_t channels,
             int64_t parts) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= sums) return;
  const float* const first = partial + i / channels * parts * channels + i % channels;
  float sum = 0;
  for (int64_t part = 0; part < parts; ++part) sum += first[part * channels];
  WriteOrAdd<1>(db, static_cast<size_t>(i), Vec<1>{{sum}}, adds);
}

// The parts depend on the shape only, not on the type, since the scratch memory has their sums.
int64_t PartsOf(const ChannelShape& s) {
  constexpr int64_t kEnough = 1024;   // blocks of at least 64 channels
  constexpr int64_t kMinPixels = 64;  // of a part
  const int64_t blocks = s.outer * CeilDiv(s.channels, 64);
  return std::clamp<int64_t>(kEnough / blocks, 1, CeilDiv(s.inner, kMinPixels));
}

template <typename Pair, int kVec, typename T>
cudaError_t ByChannel(const ChannelShape& s, const T* a, const T* b, T* y, cudaStream_t stream) {
  const int64_t n = s.outer * s.channels * s.inner / kVec;
  const int64_t vectors = s.channels_last ? s.channels / kVec : 1;
  const int64_t block = s.channels_last ? s.inner * vectors : s.inner / kVec;
  const auto launch = [&]<typename Index>() {
    PairByChannel<Pair, kVec><<<BlocksOf(n), kThreads, 0, stream>>>(
        a, b, y, static_cast<Index>(n), Divider<Index>(block), Divider<Index>(vectors),
        s.channels_last);
  };
  Fits32(n) ? launch.template operator()<uint32_t>() : launch.template operator()<uint64_t>();
  return cudaGetLastError();
}

template <typename Pair, typename T>
cudaError_t ByChannel(const ChannelShape& s, const T* a, const T* b, T* y, bool aligned,
                      cudaStream_t stream) {
  const bool wide = (s.channels_last ? s.channels : s.inner) % kWide<T> == 0 && aligned;
  return wide ? ByChannel<Pair, kWide<T>>(s, a, b, y, stream)
              : ByChannel<Pair, 1>(s, a, b, y, stream);
}

template <typename Pair, int kVec, typename T>
cudaError_t PlanesBackward(const ChannelShape& s, const T* a, const T* b, const T* dy,
                           const PairGradients& g, cudaStream_t stream) {
  const int64_t planes = s.outer * s.channels;
  PlaneGradients<Pair, kVec><<<BlocksOf(planes * 32), kThreads, 0, stream>>>(
      a, b, dy, As<T>(g.da), As<T>(g.db), g.adds_da, g.adds_db, static_cast<size_t>(planes),
      static_cast<int>(s.inner / kVec));
  return cudaGetLastError();
}

template <typename Pair, int kVec, typename T>
cudaError_t RowsBackward(const ChannelShape& s, const T* a, const T* b, const T* dy,
                         const PairGradients& g, float* partial, cudaStream_t stream) {
  RowParts shape = {s.outer, s.channels / kVec, s.inner, 1, 1, 1, PartsOf(s)};
  while (shape.width < 32 && shape.width < shape.vectors) shape.width *= 2;
  shape.height = kThreads / shape.width;
  shape.tiles = CeilDiv(shape.vectors, shape.width);
  RowGradients<Pair, kVec><<<static_cast<unsigned>(shape.tiles * shape.parts * shape.images),
                             dim3(shape.width, shape.height), 0, stream>>>(
      a, b, dy, As<T>(g.da), g.adds_da, partial, shape);
  const int64_t sums = s.outer * s.channels;
  SumParts<<<BlocksOf(sums), kThreads, 0, stream>>>(partial, As<T>(g.db), g.adds_db, sums,
                                                    s.channels, shape.parts);
  return cudaGetLastError();
}

template <typename Pair, typename T>
cudaError_t ByChannelBackward(const ChannelShape& s, const T* a, const T* b, const T* dy,
                              const PairGradients& g, bool aligned, void* scratch,
                              cudaStream_t stream) {
  if (!s.channels_last) {
    const bool wide = s.inner % kWide<T> == 0 && aligned;
    return wide ? PlanesBackward<Pair, kWide<T>>(s, a, b, dy, g, stream)
                : PlanesBackward<Pair, 1>(s, a, b, dy, g, stream);
  }
  float* const partial = static_cast<float*>(scratch);
  constexpr int kWord = 4 / static_cast<int>(sizeof(T));
  const bool wide = s.channels % kWord == 0 && aligned;
  return wide ? RowsBackward<Pair, kWord>(s, a, b, dy, g, partial, stream)
              : RowsBackward<Pair, 1>(s, a, b, dy, g, partial, stream);
}

bool IsElementwise(const ChannelShape& s, int64_t factors) {
  return factors == s.outer * s.channels * s.inner;
}

}  // namespace

int64_t PerChannelScratchBytes(const ChannelShape& s, int64_t factors) {
  if (IsElementwise(s, factors) || !s.channels_last) return 0;
  return s.outer * s.channels * PartsOf(s) * static_cast<int64_t>(sizeof(float));
}

cudaError_t Multiply(const ChannelShape& s, ConstArray a, ConstArray b, int64_t factors, Array y,
                     cudaStream_t stream) {
  const bool aligned = AllAligned16(a, b, y);
  const auto run = [&]<typename T>() {
    if (IsElementwise(s, factors))
      return Map<T>(MultiplyOp<T>{As<T>(a), As<T>(b), As<T>(y)}, factors, aligned, stream);
    return ByChannel<Product>(s, As<T>(a), As<T>(b), As<T>(y), aligned, stream);
  };
  return WithElement(run, a, b, y);
}

cudaError_t MultiplyBackward(const ChannelShape& s, ConstArray a, ConstArray b, int64_t factors,
                             ConstArray dy, const PairGradients& g, void* scratch,
                             cudaStream_t stream) {
  const bool aligned = AllAligned16(a, b, dy, g.da, g.db);
  const auto run = [&]<typename T>() {
    const T *const pa = As<T>(a), *const pb = As<T>(b), *const pdy = As<T>(dy);
    if (IsElementwise(s, factors)) {
      const MultiplyBackwardOp<T> op = {pa,          pb,        pdy,      As<T>(g.da),
                                        As<T>(g.db), g.adds_da, g.adds_db};
      return Map<T>(op, factors, aligned, stream);
    }
    return ByChannelBackward<Product>(s, pa, pb, pdy, g, aligned, scratch, stream);
  };
  return WithElement(run, a, b, dy, g.da, g.db);
}

cudaError_t AddPerChannel(const ChannelShape& s, ConstArray a, ConstArray b, Array y,
                          cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return ByChannel<Sum>(s, As<T>(a), As<T>(b), As<T>(y), AllAligned16(a, b, y), stream);
  };
  return WithElement(run, a, b, y);
}

cudaError_t AddPerChannelBackward(const ChannelShape& s, ConstArray dy, const PairGradients& g,
                                  void* scratch, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const bool aligned = AllAligned16(dy, g.da, g.db);
    const T* const unread = nullptr;
    return ByChannelBackward<Sum>(s, unread, unread, As<T>(dy), g, aligned, scratch, stream);
  };
  return WithElement(run, dy, g.da, g.db);
}

}  // namespace neap::kernels
