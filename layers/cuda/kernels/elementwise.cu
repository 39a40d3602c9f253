// Sums, conversions and dropout, each as one pass over flat memory.
#include "neap/core/base/philox.h"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/dropped_units.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/norm/image_channels.cuh"
#include "neap/layers/cuda/kernels/scalars.cuh"

namespace neap::kernels {
namespace {

template <int kCount, typename T>
struct AddOp {
  const T* inputs[kCount];
  T* y;
  template <int kVec>
  struct Registers {
    Packed<T, kVec> in[kCount];
  };
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    Registers<kVec> r;
#pragma unroll
    for (int j = 0; j < kCount; ++j) r.in[j] = Read<kVec>(inputs[j], i);
    return r;
  }
  template <int kVec>
  __device__ void Store(size_t i, const Registers<kVec>& r) const {
    Vec<kVec> sum = Unpack(r.in[0]);
#pragma unroll
    for (int j = 1; j < kCount; ++j) {
      const Vec<kVec> v = Unpack(r.in[j]);
#pragma unroll
      for (int k = 0; k < kVec; ++k) sum.v[k] += v.v[k];
    }
    Write<kVec>(y, i, sum);
  }
};

template <int kCount>
cudaError_t AddSome(const ConstArray* inputs, Array y, int64_t n, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    AddOp<kCount, T> op = {.y = As<T>(y)};
    bool aligned = Aligned16(y);
    for (int j = 0; j < kCount; ++j) {
      if (inputs[j].type != y.type) return cudaErrorInvalidValue;
      op.inputs[j] = As<T>(inputs[j]);
      aligned = aligned && Aligned16(inputs[j]);
    }
    return Map<T>(op, n, aligned, stream);
  };
  return WithElement(run, y);
}

template <bool kAdd, typename T>
struct WidenOp {
  const T* from;
  float* to;
  template <int kVec>
  struct Registers {
    Packed<T, kVec> in;
    Vec<kVec> old;
  };
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    if constexpr (kAdd) {
      return {Read<kVec>(from, i), ReadFloats<kVec>(to, i)};
    } else {
      return {Read<kVec>(from, i)};
    }
  }
  template <int kVec>
  __device__ void Store(size_t i, const Registers<kVec>& r) const {
    Vec<kVec> v = Unpack(r.in);
    if constexpr (kAdd) {
#pragma unroll
      for (int k = 0; k < kVec; ++k) v.v[k] += r.old.v[k];
    }
    reinterpret_cast<Vec<kVec>*>(to)[i] = v;
  }
};

template <typename T>
struct NarrowOp {
  const float* from;
  T* to;
  template <int kVec>
  using Registers = Vec<kVec>;
  template <int kVec>
  __device__ Vec<kVec> Load(size_t i) const {
    return ReadFloats<kVec>(from, i);
  }
  template <int kVec>
  __device__ void Store(size_t i, const Vec<kVec>& v) const {
    Write<kVec>(to, i, v);
  }
};

// One Philox block makes the mask of four neighbours, so a thread computes whole groups of four,
// as many as a wide access has, whatever the alignment. `before` elements of the layer precede
// x[0].
template <typename T>
__global__ void __launch_bounds__(kThreads)
    DropoutKernel(const T* x, T* y, size_t n, uint64_t before, float probability,
                  uint64_t layer_seed, const Scalars* scalars, bool aligned) {
  constexpr int kVec = kWide<T>;
  const size_t vector = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  const size_t first = vector * kVec;
  if (first >= n) return;
  const uint64_t stream = layer_seed + uint64_t{0x9E3779B97F4A7C15} * (scalars->step + 1);
  const float scale = 1.0F / (1.0F - probability);
  bool kept[kVec];
  if (before % 4 == 0) {
#pragma unroll
    for (int group = 0; group < kVec / 4; ++group) {
      const PhiloxBlock random = Philox(
          {.key = scalars->seed, .stream = stream, .position = (before + first) / 4 + group});
#pragma unroll
      for (int k = 0; k < 4; ++k) kept[group * 4 + k] = ToUnitFloat(random[k]) >= probability;
    }
  } else {
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      kept[k] =
          DropoutKeeps(scalars->seed, layer_seed, scalars->step, before + first + k, probability);
    }
  }
  if (aligned && first + kVec <= n) {
    Vec<kVec> v = Unpack(Read<kVec>(x, vector));
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] = kept[k] ? v.v[k] * scale : 0.0F;
    Write<kVec>(y, vector, v);
    return;
  }
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    if (first + k < n) y[first + k] = RoundTo<T>(kept[k] ? ToFloat(x[first + k]) * scale : 0.0F);
  }
}

// With channels last: a thread has some rows of a vector of channels of one image.
template <typename T>
struct DropChannelsOp {
  const T* x;
  T* y;
  UnitFactors factors;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <int kVec>
  __device__ Packed<T, kVec> Load(size_t i) const {
    return Read<kVec>(x, i);
  }
  template <bool kLast, int kVec>
  __device__ Vec<kVec> Prepare(size_t number) const {
    return factors.Of<kVec>(number);
  }
  template <int kVec>
  __device__ void Store(size_t i, const Vec<kVec>& of, const Packed<T, kVec>& in) const {
    Vec<kVec> v = Unpack(in);
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] = Dropped(v.v[k], of.v[k]);
    Write<kVec>(y, i, v);
  }
};

constexpr int kUnitVectors = 8;  // of a thread, which finds once whether their unit is dropped

// kWidth threads, a warp or a block, have a part of a unit of so many vectors. What is dropped is
// not read.
template <typename T, int kVec, int kWidth>
__global__ void __launch_bounds__(kThreads)
    DropPlanes(UnitFactors factors, uint32_t units, Divider<uint32_t> parts, size_t vectors,
               const T* x, T* y) {
  uint32_t part = 0;
  const uint32_t unit = parts.Split(blockIdx.x * (kThreads / kWidth) + threadIdx.x / kWidth, part);
  if (unit >= units) return;
  const float factor = factors.Of<1>(unit).v[0];
  const size_t begin = static_cast<size_t>(part) * (kWidth * kUnitVectors) + threadIdx.x % kWidth;
  Packed<T, kVec> loaded[kUnitVectors] = {};
#pragma unroll
  for (int u = 0; u < kUnitVectors; ++u) {
    const size_t v = begin + u * kWidth;
    if (v < vectors && factor != 0.0F) loaded[u] = Read<kVec>(x, unit * vectors + v);
  }
#pragma unroll
  for (int u = 0; u < kUnitVectors; ++u) {
    const size_t v = begin + u * kWidth;
    if (v >= vectors) return;
    Vec<kVec> values = Unpack(loaded[u]);
#pragma unroll
    for (float& value : values.v) value = Dropped(value, factor);
    Write<kVec>(y, unit * vectors + v, values);
  }
}

template <typename T, int kVec, int kWidth>
cudaError_t LaunchDropPlanes(const ChannelShape& s, const DropoutMask& mask, const T* x, T* y,
                             cudaStream_t stream) {
  const int64_t units = s.outer * s.channels, vectors = s.inner / kVec;
  const int64_t parts = CeilDiv(vectors, kWidth * kUnitVectors);
  if (!Fits32(units * parts + kThreads)) return cudaErrorInvalidValue;
  const auto blocks = static_cast<unsigned>(CeilDiv(units * parts * kWidth, kThreads));
  DropPlanes<T, kVec, kWidth><<<blocks, kThreads, 0, stream>>>(
      UnitFactors(mask), static_cast<uint32_t>(units), Divider<uint32_t>(parts),
      static_cast<size_t>(vectors), x, y);
  return cudaGetLastError();
}

template <typename T, int kVec>
cudaError_t DropPlanesOf(const ChannelShape& s, const DropoutMask& mask, const T* x, T* y,
                         cudaStream_t stream) {
  return s.inner / kVec <= kWarp * kUnitVectors
             ? LaunchDropPlanes<T, kVec, kWarp>(s, mask, x, y, stream)
             : LaunchDropPlanes<T, kVec, static_cast<int>(kThreads)>(s, mask, x, y, stream);
}

template <typename T>
cudaError_t DropUnits(const ChannelShape& s, const DropoutMask& mask, const T* x, T* y,
                      bool aligned, cudaStream_t stream) {
  if (s.channels_last && s.channels > 1) {
    const DropChannelsOp<T> op = {x, y, UnitFactors(mask)};
    return MapImages<T>(s, aligned, op, stream);
  }
  constexpr int kVec = kWide<T>;
  return aligned && s.inner % kVec == 0 ? DropPlanesOf<T, kVec>(s, mask, x, y, stream)
                                        : DropPlanesOf<T, 1>(s, mask, x, y, stream);
}

// Units of one element.
template <typename T>
cudaError_t DropElements(int64_t n, const DropoutMask& mask, const T* x, T* y, bool aligned,
                         cudaStream_t stream) {
  const unsigned blocks = static_cast<unsigned>(CeilDiv(n, kWide<T> * kThreads));
  DropoutKernel<T><<<blocks, kThreads, 0, stream>>>(
      x, y, static_cast<size_t>(n), static_cast<uint64_t>(mask.first), mask.probability,
      mask.layer_seed, static_cast<const Scalars*>(mask.scalars), aligned);
  return cudaGetLastError();
}

}  // namespace

cudaError_t Add(const ConstArray* inputs, int count, Array y, int64_t n, cudaStream_t stream) {
  switch (count) {
    case 1:
      return AddSome<1>(inputs, y, n, stream);
    case 2:
      return AddSome<2>(inputs, y, n, stream);
    case 3:
      return AddSome<3>(inputs, y, n, stream);
    case 4:
      return AddSome<4>(inputs, y, n, stream);
    case 5:
      return AddSome<5>(inputs, y, n, stream);
    case 6:
      return AddSome<6>(inputs, y, n, stream);
    case 7:
      return AddSome<7>(inputs, y, n, stream);
    case 8:
      return AddSome<8>(inputs, y, n, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t Widen(ConstArray from, float* to, int64_t n, bool add, cudaStream_t stream) {
  const bool aligned = AllAligned16(from, to);
  const auto run = [&]<typename T>() {
    return add ? Map<T>(WidenOp<true, T>{As<T>(from), to}, n, aligned, stream)
               : Map<T>(WidenOp<false, T>{As<T>(from), to}, n, aligned, stream);
  };
  if (from.type == Element::kFp16) return run.template operator()<__half>();
  if (from.type == Element::kBf16) return run.template operator()<__nv_bfloat16>();
  return cudaErrorInvalidValue;
}

cudaError_t Narrow(const float* from, Array to, int64_t n, cudaStream_t stream) {
  const bool aligned = AllAligned16(from, to);
  const auto run = [&]<typename T>() {
    return Map<T>(NarrowOp<T>{from, As<T>(to)}, n, aligned, stream);
  };
  if (to.type == Element::kFp16) return run.template operator()<__half>();
  if (to.type == Element::kBf16) return run.template operator()<__nv_bfloat16>();
  return cudaErrorInvalidValue;
}

cudaError_t Dropout(const ChannelShape& s, const DropoutMask& mask, ConstArray x, Array y,
                    cudaStream_t stream) {
  const int64_t n = s.outer * s.channels * s.inner;
  if (n == 0) return cudaSuccess;
  const bool aligned = AllAligned16(x, y);
  const auto run = [&]<typename T>() {
    if (s.inner == 1) return DropElements<T>(n, mask, As<T>(x), As<T>(y), aligned, stream);
    return DropUnits<T>(s, mask, As<T>(x), As<T>(y), aligned, stream);
  };
  return WithElement(run, x, y);
}

}  // namespace neap::kernels
