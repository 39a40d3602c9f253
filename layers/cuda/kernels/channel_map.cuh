// Elementwise maps over tensors with per-channel values, in both layouts.
#pragma once

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
    return At<kVec>(p, c / kVec);
  } else {
    return Broadcast<kVec>(p[c]);
  }
}

template <int kVec>
struct Two {
  Vec<kVec> a, b;
};

// Whether every vector of four elements has one channel (NCHW) or four consecutive ones (NHWC).
inline bool Vectorised(const ChannelShape& s) {
  return (s.channels_last ? s.channels : s.inner) % 4 == 0;
}

template <typename Op, int kVec, bool kLast, typename Index>
__global__ void __launch_bounds__(kThreads)
    ChannelMap(Op op, Index vectors, Divider<Index> inner, Divider<Index> channels) {
  const Index first = static_cast<Index>(blockIdx.x) * (kThreads * kUnroll) + threadIdx.x;
  typename Op::template Registers<kVec> loaded[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const Index i = first + static_cast<Index>(u * kThreads);
    if (i < vectors) loaded[u] = op.template Load<kVec>(i);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const Index i = first + static_cast<Index>(u * kThreads);
    if (i >= vectors) continue;
    Index c = 0, ignored = 0;
    if constexpr (kLast) {
      channels.Split(i, c);
      c *= kVec;
    } else {
      channels.Split(inner.Split(i, ignored), c);
    }
    op.template Store<kLast, kVec>(i, c, loaded[u]);
  }
}

template <typename Op, int kVec, bool kLast>
void LaunchMap(const ChannelShape& s, const Op& op, cudaStream_t stream) {
  const int64_t n = s.outer * s.channels * s.inner / kVec;
  const int64_t channels = kLast ? s.channels / kVec : s.channels;
  const int64_t inner = kLast ? 1 : s.inner / kVec;
  if (Fits32(n)) {
    ChannelMap<Op, kVec, kLast, uint32_t><<<MapBlocks(n), kThreads, 0, stream>>>(
        op, static_cast<uint32_t>(n), Divider<uint32_t>(inner), Divider<uint32_t>(channels));
  } else {
    ChannelMap<Op, kVec, kLast, uint64_t><<<MapBlocks(n), kThreads, 0, stream>>>(
        op, static_cast<uint64_t>(n), Divider<uint64_t>(inner), Divider<uint64_t>(channels));
  }
}

template <typename Op>
cudaError_t MapChannels(const ChannelShape& s, bool aligned, const Op& op, cudaStream_t stream) {
  const bool wide = aligned && Vectorised(s);
  if (s.channels_last) {
    wide ? LaunchMap<Op, 4, true>(s, op, stream) : LaunchMap<Op, 1, true>(s, op, stream);
  } else {
    wide ? LaunchMap<Op, 4, false>(s, op, stream) : LaunchMap<Op, 1, false>(s, op, stream);
  }
  return cudaGetLastError();
}

}  // namespace neap::kernels
