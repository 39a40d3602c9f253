// Elementwise maps over tensors with per-channel values, in both layouts.
#pragma once

#include <algorithm>

#include "neap/layers/cuda/kernels/dependent_launch.cuh"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

template <int kVec>
__device__ __forceinline__ Vec<kVec> Broadcast(float value) {
  Vec<kVec> v;
#pragma unroll
  for (float& f : v.v) f = value;
  return v;
}

// The channel's value for each lane of a vector.
template <bool kLast, int kVec>
__device__ __forceinline__ Vec<kVec> PerChannel(const float* p, size_t c) {
  if constexpr (kLast) {
    return ReadFloats<kVec>(p, c / kVec);
  } else {
    return Broadcast<kVec>(p[c]);
  }
}

// The same, or `of_all` where there are no numbers of channels.
template <bool kLast, int kVec>
__device__ __forceinline__ Vec<kVec> NumbersOf(const float* of_channels, float of_all, size_t c) {
  return of_channels != nullptr ? PerChannel<kLast, kVec>(of_channels, c) : Broadcast<kVec>(of_all);
}

template <typename V>
struct Two {
  V a, b;
};

// Whether every vector has elements of one channel (NCHW) or of consecutive ones (NHWC).
inline bool Vectorised(const ChannelShape& s, int vec) {
  return (s.channels_last ? s.channels : s.inner) % vec == 0;
}

// The vectors of a launch, numbered from its first one, which is number `base` of the tensor: all
// vectors, unless those are too many for 32-bit numbers. A row is a plane (NCHW) or a pixel (NHWC).
struct MapPart {
  uint32_t vectors = 0;
  size_t base = 0;
  uint32_t first_channel = 0;  // of its first row (NCHW)
};

// An Op's Prepare(c) gives what Store() needs for a vector of channel c. With `one_channel`, all
// vectors of a thread have the same channels, which are then prepared once for `rounds` times
// LoadsOf() vectors. Values per channel are as many bytes as the vectors of one round.
//
// The launch may overlap with the end of the kernel before.
//
// Blocks begin at the end of the tensor: the kernel before wrote or read the end last, so it is
// still in cache, and the kernel after finds the beginning there.
template <typename Op, int kVec, bool kLast>
__global__ void __launch_bounds__(kThreads, 2)
    ChannelMap(Op op, MapPart part, Divider<uint32_t> inner, Divider<uint32_t> channels,
               bool one_channel, uint32_t rounds) {
  AwaitKernelBefore();
  constexpr int kLoads = LoadsOf<Op>();
  constexpr uint32_t kRound = kThreads * kLoads;
  uint32_t first = (gridDim.x - 1 - blockIdx.x) * (kRound * rounds) + threadIdx.x;
  const auto prepared = [&](uint32_t i) {
    uint32_t c = 0, ignored = 0;
    if constexpr (kLast) {
      channels.Split(i, c);
      c *= kVec;
    } else {
      channels.Split(part.first_channel + inner.Split(i, ignored), c);
    }
    return op.template Prepare<kLast, kVec>(c);
  };
  decltype(prepared(first)) constants;
  for (uint32_t round = 1;; ++round) {
    typename Op::template Registers<kVec> loaded[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const uint32_t i = first + static_cast<uint32_t>(u * kThreads);
      if (i < part.vectors) loaded[u] = op.template Load<kVec>(part.base + i);
    }
    Repeat<kLoads>([&](int u) {
      const uint32_t i = first + static_cast<uint32_t>(u * kThreads);
      if (i >= part.vectors) return;
      const bool has_constants = kLast && one_channel && (u > 0 || round > 1);
      if (!has_constants) constants = prepared(i);
      op.template Store<kVec>(part.base + i, constants, loaded[u]);
    });
    if (!kLast || round == rounds) return;
    first += kRound;
  }
}

inline constexpr int64_t kMaxRounds = 4;
inline constexpr int64_t kFewMapBlocks = 1056;  // eight per multiprocessor of a large GPU

template <typename Op, int kVec, bool kLast>
[[nodiscard]] cudaError_t LaunchMap(const ChannelShape& s, const Op& op, cudaStream_t stream) {
  const int64_t n = s.outer * s.channels * s.inner / kVec;
  const int64_t channels = kLast ? s.channels / kVec : s.channels;
  const int64_t inner = kLast ? 1 : s.inner / kVec;
  const int64_t in_row = kLast ? channels : inner;
  const bool one_channel = kLast && kThreads % channels == 0;
  const int64_t round = kThreads * LoadsOf<Op>();
  const int64_t most_rows = std::max<int64_t>(kMaxLaunchVectors / in_row, 1);
  const int64_t most = most_rows * in_row;
  if (!Fits32(in_row) || (!kLast && !Fits32(std::min(n / inner, channels + most_rows))))
    return cudaErrorInvalidValue;
  for (int64_t end = n, begin = 0; end > 0; end = begin) {
    begin = CeilDiv(end, most) * most - most;
    const int64_t vectors = end - begin;
    const int64_t rounds =
        one_channel ? std::clamp<int64_t>(vectors / (round * kFewMapBlocks), 1, kMaxRounds) : 1;
    const MapPart part = {static_cast<uint32_t>(vectors), static_cast<size_t>(begin),
                          kLast ? 0 : static_cast<uint32_t>(begin / inner % channels)};
    const cudaError_t error = LaunchDependent(
        n, ChannelMap<Op, kVec, kLast>, static_cast<unsigned>(CeilDiv(vectors, round * rounds)),
        kThreads, stream, op, part, Divider<uint32_t>(inner), Divider<uint32_t>(channels),
        one_channel, static_cast<uint32_t>(rounds));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

// Runs op over a tensor of elements of type T.
template <typename T, typename Op>
cudaError_t MapChannels(const ChannelShape& s, bool aligned, const Op& op, cudaStream_t stream) {
  constexpr int kVec = kWide<T>;
  if (aligned && Vectorised(s, kVec)) {
    return s.channels_last ? LaunchMap<Op, kVec, true>(s, op, stream)
                           : LaunchMap<Op, kVec, false>(s, op, stream);
  }
  // Element by element, NHWC is NCHW with planes of one pixel.
  const ChannelShape pixels = {.outer = s.outer * s.inner, .channels = s.channels, .inner = 1};
  return LaunchMap<Op, 1, false>(s.channels_last ? pixels : s, op, stream);
}

}  // namespace neap::kernels
