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

template <typename V>
struct Two {
  V a, b;
};

// Whether every vector has elements of one channel (NCHW) or of consecutive ones (NHWC).
inline bool Vectorised(const ChannelShape& s, int vec) {
  return (s.channels_last ? s.channels : s.inner) % vec == 0;
}

// An Op's Prepare(c) gives what Store() needs for a vector of channel c. With `one_channel`, all
// vectors of a thread have the same channels, which are then prepared once for `rounds` times
// LoadsOf() vectors. Values per channel are as many bytes as the vectors of one round.
//
// The launch may overlap with the end of the kernel before.
//
// Blocks begin at the end of the tensor: the kernel before wrote or read the end last, so it is
// still in cache, and the kernel after finds the beginning there.
template <typename Op, int kVec, bool kLast, typename Index>
__global__ void __launch_bounds__(kThreads, 2)
    ChannelMap(Op op, Index vectors, Divider<Index> inner, Divider<Index> channels,
               bool one_channel, Index rounds) {
  AwaitKernelBefore();
  constexpr int kLoads = LoadsOf<Op>();
  constexpr Index kRound = kThreads * kLoads;
  Index first = static_cast<Index>(gridDim.x - 1 - blockIdx.x) * (kRound * rounds) + threadIdx.x;
  typename Op::template Registers<kVec> loaded[kLoads];
  const auto load = [&] {
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const Index i = first + static_cast<Index>(u * kThreads);
      if (i < vectors) loaded[u] = op.template Load<kVec>(i);
    }
  };
  load();
  const auto prepared = [&](Index i) {
    Index c = 0, ignored = 0;
    if constexpr (kLast) {
      channels.Split(i, c);
      c *= kVec;
    } else {
      channels.Split(inner.Split(i, ignored), c);
    }
    return op.template Prepare<kLast, kVec>(c);
  };
  if (kLast && one_channel) {
    if (first >= vectors) return;
    const auto constants = prepared(first);
    for (Index round = 1;; ++round) {
#pragma unroll
      for (int u = 0; u < kLoads; ++u) {
        const Index i = first + static_cast<Index>(u * kThreads);
        if (i < vectors) op.template Store<kVec>(i, constants, loaded[u]);
      }
      if (round == rounds) return;
      first += kRound;
      load();
    }
  }
#pragma unroll
  for (int u = 0; u < kLoads; ++u) {
    const Index i = first + static_cast<Index>(u * kThreads);
    if (i < vectors) op.template Store<kVec>(i, prepared(i), loaded[u]);
  }
}

inline constexpr int64_t kMaxRounds = 4;
inline constexpr int64_t kFewMapBlocks = 1056;  // eight per multiprocessor of a large GPU

template <typename Op, int kVec, bool kLast>
[[nodiscard]] cudaError_t LaunchMap(const ChannelShape& s, const Op& op, cudaStream_t stream) {
  const int64_t n = s.outer * s.channels * s.inner / kVec;
  const int64_t channels = kLast ? s.channels / kVec : s.channels;
  const int64_t inner = kLast ? 1 : s.inner / kVec;
  const bool one_channel = kLast && kThreads % channels == 0;
  const int64_t round = kThreads * LoadsOf<Op>();
  const int64_t rounds =
      one_channel ? std::clamp<int64_t>(n / (round * kFewMapBlocks), 1, kMaxRounds) : 1;
  const unsigned blocks = static_cast<unsigned>(CeilDiv(n, round * rounds));
  const auto launch = [&]<typename Index>() {
    return LaunchDependent(n, ChannelMap<Op, kVec, kLast, Index>, blocks, kThreads, stream, op,
                           static_cast<Index>(n), Divider<Index>(inner), Divider<Index>(channels),
                           one_channel, static_cast<Index>(rounds));
  };
  return Fits32(n) ? launch.template operator()<uint32_t>()
                   : launch.template operator()<uint64_t>();
}

// Runs op over a tensor of elements of type T.
template <typename T, typename Op>
cudaError_t MapChannels(const ChannelShape& s, bool aligned, const Op& op, cudaStream_t stream) {
  constexpr int kVec = kWide<T>;
  const bool wide = aligned && Vectorised(s, kVec);
  if (s.channels_last) {
    return wide ? LaunchMap<Op, kVec, true>(s, op, stream) : LaunchMap<Op, 1, true>(s, op, stream);
  }
  return wide ? LaunchMap<Op, kVec, false>(s, op, stream) : LaunchMap<Op, 1, false>(s, op, stream);
}

}  // namespace neap::kernels
