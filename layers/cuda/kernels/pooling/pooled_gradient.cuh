// The gradient of a max pool's input, computed where it is read.
//
// The backward steps of layers that end with a max pooling (layers/fusion/norm_pass.h,
// layers/fusion/fused_relu.h) reduce it per channel, and store it on the way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/pooling/pooling.cuh"

namespace neap::kernels {

// The gradient is the T that the pool alone would have stored. This one is for any windows and
// vectors of any width: of neighbouring pixels of a channel (channels first), or of channels.
template <typename T, bool kLast, int kAxes>
class PooledGradient {
 public:
  static constexpr int kRowThreads = 512;  // of a reduction whose registers are this gradient's
  static constexpr int kLoads = 1;         // loops over windows do not overlap
  PooledGradient(const PoolShape& s, const T* dy, const uint8_t* index)
      : PooledGradient(s, dy, index, s.channels % kWide<T> == 0 ? s.channels / kWide<T> : 1) {}

  // Of the i-th vector of the input.
  template <int kVec>
  __device__ __forceinline__ Packed<T, kVec> Load(size_t i) const {
    if constexpr (kLast && kVec > 1) {
      return Pack<T>(At<kVec>(vectors_(i)));
    } else {
      T lanes[kVec];
#pragma unroll 1
      for (int k = 0; k < kVec; ++k) lanes[k] = RoundTo<T>(At<1>(elements_(i * kVec + k)).v[0]);
      Packed<T, kVec> packed;
      memcpy(&packed, lanes, sizeof(lanes));
      return packed;
    }
  }

 private:
  // Divides by 32-bit numbers unless the tensor is too large.
  struct AnyDecoder {
    AnyDecoder(const PoolShape& s, int64_t channels)
        : fits(Fits32(s.outer * s.d * s.h * s.w * channels)),
          narrow(InGrid(s), fits ? channels : 1),
          wide(InGrid(s), channels) {}
    __device__ __forceinline__ Position<size_t> operator()(size_t i) const {
      if (!fits) return Long(i);
      const Position<uint32_t> p = narrow(static_cast<uint32_t>(i));
      return {p.outer, p.plane, p.row, p.column, p.channel};
    }
    __device__ __noinline__ Position<size_t> Long(size_t i) const {
      const Position<uint64_t> p = wide(i);
      return {p.outer, p.plane, p.row, p.column, p.channel};
    }
    bool fits;
    Decoder<uint32_t, kAxes> narrow;
    Decoder<uint64_t, kAxes> wide;
  };

  PooledGradient(const PoolShape& s, const T* dy, const uint8_t* index, int64_t vectors)
      : s_(s), by_(s), vectors_(s, vectors), elements_(s, s.channels), dy_(dy), index_(index) {}

  template <int kVec>
  __device__ __forceinline__ Vec<kVec> At(const Position<size_t>& p) const {
    return GatherGradient<kAxes, kVec>(s_, by_, p, dy_, index_);
  }

  PoolShape s_;
  WindowDividers by_;
  AnyDecoder vectors_, elements_;
  const T* dy_;
  const uint8_t* index_;
};

// The same for images with wide vectors of channels and windows without dilation, where at most
// kMax windows cover a row, and kMax a column: they are read without a loop, so the loads of
// several vectors overlap.
template <typename T, int kMax>
class FewWindowsGradient {
 public:
  static constexpr int kRowThreads = kMax == 1 ? 1024 : 512;
  static constexpr int kLoads = 2;
  FewWindowsGradient(const PoolShape& s, const T* dy, const uint8_t* index)
      : s_(s),
        stride_(StrideDividers(s)),
        vectors_(InGrid(s), s.channels / kWide<T>),
        dy_(dy),
        index_(index) {}

  // Of the i-th vector of the input.
  template <int kVec>
  __device__ __forceinline__ Packed<T, kVec> Load(size_t i) const {
    static_assert(kVec == kWide<T>);
    const Position<uint32_t> p = vectors_(static_cast<uint32_t>(i));
    const int row = static_cast<int>(p.row), column = static_cast<int>(p.column);
    const Windows rows = Covering(row, s_.kernel_h, stride_.h, s_.padding_h, s_.out_h);
    const Windows columns = Covering(column, s_.kernel_w, stride_.w, s_.padding_w, s_.out_w);
    Indices<kVec, uint8_t> winner[kMax * kMax];
    Packed<T, kVec> dy[kMax * kMax];
    int within[kMax * kMax];
#pragma unroll
    for (int n = 0; n < kMax * kMax; ++n) {
      const int oh = rows.first + n / kMax, ow = columns.first + n % kMax;
      const uint32_t at =
          ((p.outer * s_.out_h + oh) * s_.out_w + ow) * vectors_.channels.divisor + p.channel;
      within[n] = kStopsAtRelu;
      if (oh >= rows.last || ow >= columns.last) continue;
      within[n] = (row + s_.padding_h - oh * s_.stride_h) * s_.kernel_w + column + s_.padding_w -
                  ow * s_.stride_w;
      winner[n] = reinterpret_cast<const Indices<kVec, uint8_t>*>(index_)[at];
      dy[n] = Read<kVec>(dy_, at);
    }
    Vec<kVec> sum = {};
#pragma unroll
    for (int n = 0; n < kMax * kMax; ++n) {
      if (within[n] == kStopsAtRelu) continue;
      const Vec<kVec> g = Unpack(Where(winner[n], within[n], dy[n]));
#pragma unroll
      for (int k = 0; k < kVec; ++k) sum.v[k] += g.v[k];
    }
    return Pack<T>(sum);
  }

 private:
  // The elements whose winner is `within`; 0 for the others.
  template <int kVec>
  static __device__ __forceinline__ Packed<T, kVec> Where(const Indices<kVec, uint8_t>& winner,
                                                          int within, Packed<T, kVec> dy) {
    constexpr int kPerWord = sizeof(uint32_t) / sizeof(T);
    uint32_t winners[kVec / 4];
    memcpy(winners, &winner, sizeof(winners));
#pragma unroll
    for (int w = 0; w < kVec / 4; ++w)
      winners[w] = __vcmpeq4(winners[w], static_cast<uint32_t>(within) * 0x01010101U);
#pragma unroll
    for (int n = 0; n < kVec / kPerWord; ++n) {
      const int first = n * kPerWord % 4, second = first + kPerWord - 1;
      const uint32_t bytes = static_cast<uint32_t>(first * 0x11 + second * 0x1100);
      dy.words[n] &= __byte_perm(winners[n * kPerWord / 4], 0, bytes);
    }
    return dy;
  }

  PoolShape s_;
  AxisDividers stride_;
  Decoder<uint32_t, 2> vectors_;
  const T* dy_;
  const uint8_t* index_;
};

// Reduces the input's gradient: make(gradient) is the operation.
template <typename T, typename Make, typename Final>
cudaError_t ReducePooled(const ChannelShape& shape, const PoolShape& s, bool aligned, const T* dy,
                         const uint8_t* index, const Make& make, const Final& final,
                         const ReductionMemory& memory, cudaStream_t stream) {
  constexpr int kVec = kWide<T>;
  const int64_t most = std::max(CeilDiv(s.kernel_h, s.stride_h), CeilDiv(s.kernel_w, s.stride_w));
  const bool wide = aligned && Vectorised(shape, kVec);
  const bool is_plain = s.axes == 2 && !IsDilated(s) && Fits32(s.outer * InImage(s) / kVec) &&
                        Fits32(s.outer * OutImage(s) / kVec);
  const auto run = [&]<int kWidth, bool kLast, typename Gradient>(const Gradient& gradient) {
    const auto op = make(gradient);
    return LaunchReduction<std::decay_t<decltype(op)>, Final, kWidth, kLast>(shape, op, final,
                                                                             memory, stream);
  };
  if (!Fits32(shape.outer * shape.inner)) return cudaErrorInvalidValue;
  if (shape.channels_last && wide && is_plain && most == 1)
    return run.template operator()<kVec, true>(FewWindowsGradient<T, 1>(s, dy, index));
  if (shape.channels_last && wide && is_plain && most == 2)
    return run.template operator()<kVec, true>(FewWindowsGradient<T, 2>(s, dy, index));
  const auto any = [&]<int kAxes, bool kLast>() {
    const PooledGradient<T, kLast, kAxes> gradient(s, dy, index);
    return wide ? run.template operator()<kVec, kLast>(gradient)
                : run.template operator()<1, kLast>(gradient);
  };
  return WithAxes(s, [&]<int kAxes>() {
    return shape.channels_last ? any.template operator()<kAxes, true>()
                               : any.template operator()<kAxes, false>();
  });
}

}  // namespace neap::kernels
