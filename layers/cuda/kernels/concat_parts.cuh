// Kernels that read or write tensors which are concatenated along the channels, nowhere in memory.
//
// A thread keeps its channels, so it finds their part and their address once. Whatever a kernel
// does to the whole tensor besides (its division into blocks, its vectors) is as for one that is in
// memory, so sums have the same bits.
//
//   NHWC, parts of 64 and 32 channels: threads stride over the rows
//     row 0: part 0 [t0 t1 t2 t3 ...]   part 1 [t8 t9 ...]
//     row 1: part 0 [t0 t1 t2 t3 ...]   part 1 [t8 t9 ...]
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_position.cuh"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"

namespace neap::kernels {

// Part of a kernel's parameters. `inner` is the number of elements in a row of a channel: those of
// a plane in NCHW, 1 in NHWC.
struct PartTable {
  uint32_t count = 0;
  uint32_t inner = 1;
  uint32_t first[kMaxParts + 1] = {};  // channel of each part; then the number of channels

  __device__ __forceinline__ uint32_t PartOf(uint32_t c) const {
    uint32_t part = 0;
    for (uint32_t end = count; end - part > 1;) {
      const uint32_t middle = (part + end) / 2;
      (first[middle] <= c ? part : end) = middle;
    }
    return part;
  }
  // Elements per row of the part.
  __device__ __forceinline__ uint32_t Stride(uint32_t part) const {
    return (first[part + 1] - first[part]) * inner;
  }
  // From the beginning of a row of the part to channel c.
  __device__ __forceinline__ uint32_t Offset(uint32_t part, uint32_t c) const {
    return (c - first[part]) * inner;
  }
};

inline PartTable PartTableOf(const ChannelShape& s, const BatchNormParts& parts) {
  PartTable table;
  table.count = static_cast<uint32_t>(parts.count);
  table.inner = s.channels_last ? 1 : static_cast<uint32_t>(s.inner);
  for (int i = 0; i < parts.count; ++i)
    table.first[i + 1] = table.first[i] + static_cast<uint32_t>(parts.parts[i].channels);
  return table;
}

// Whether the parts are a concatenation of this shape that the kernels can address.
inline bool AreParts(const ChannelShape& s, const BatchNormParts& parts) {
  if (parts.count < 1 || parts.count > kMaxParts) return false;
  int64_t channels = 0;
  for (int i = 0; i < parts.count; ++i) channels += parts.parts[i].channels;
  return channels == s.channels && Fits32(channels * s.inner) && Fits32(s.outer * s.inner);
}

// Whether no vector has channels of two parts, and all are aligned.
inline bool PartsFit(const ChannelShape& s, const BatchNormParts& parts, int vec) {
  for (int i = 0; i < parts.count; ++i) {
    const BatchNormPart& part = parts.parts[i];
    if (!AllAligned16(part.x, part.dx)) return false;
    if (s.channels_last && part.channels % vec != 0) return false;
  }
  return true;
}

// The address of a thread's vector in row 0, or of each of its elements if they are in different
// parts, and the number of elements between rows.
template <typename T, int kAddresses>
struct PartPlace {
  const T* at[kAddresses];
  uint32_t stride[kAddresses];
};

template <int kVec, typename T, int kAddresses>
__device__ __forceinline__ Packed<T, kVec> ReadPart(const PartPlace<T, kAddresses>& place,
                                                    const RowPosition& p) {
  const auto row = [&](int k) {
    return place.at[k] + static_cast<size_t>(p.row) * place.stride[k];
  };
  if constexpr (kAddresses == 1) {
    return Read<kVec>(row(0), p.within);
  } else {
    static_assert(kAddresses == kVec);
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;
    constexpr int kPerWord = sizeof(uint32_t) / sizeof(T);
    Packed<T, kVec> v = {};
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const uint32_t bits = *reinterpret_cast<const Bits*>(row(k));
      v.words[k / kPerWord] |= bits << k % kPerWord * 16;
    }
    return v;
  }
}

template <typename T>
struct Parts {
  PartTable table;
  const T* x[kMaxParts];

  // Of channels c, c + 1, ...
  template <int kAddresses>
  __device__ __forceinline__ PartPlace<T, kAddresses> PlaceOf(uint32_t c) const {
    PartPlace<T, kAddresses> place;
    uint32_t part = table.PartOf(c);
#pragma unroll
    for (int k = 0; k < kAddresses; ++k) {
      while (k > 0 && c + k >= table.first[part + 1]) ++part;
      place.at[k] = x[part] + table.Offset(part, c + k);
      place.stride[k] = table.Stride(part);
    }
    return place;
  }
};

template <typename T>
Parts<T> PartsOf(const ChannelShape& s, const BatchNormParts& parts) {
  Parts<T> of = {PartTableOf(s, parts), {}};
  for (int i = 0; i < parts.count; ++i) of.x[i] = As<T>(parts.parts[i].x);
  return of;
}

// Maps `rows` vectors of every channel, in NCHW, or of every vector of channels. An Op's
// Prepare(c) gives what Load() and Store() need for a vector of channel c. Blocks begin at the end,
// as those of ChannelMap do.
template <typename Op, int kVec, bool kLast>
__global__ void __launch_bounds__(kThreads, 2)
    PartMap(Op op, uint32_t channels, uint32_t rows, Divider<uint32_t> inner) {
  const uint32_t height = kLast ? blockDim.y : kThreads;
  const uint32_t own = kLast ? threadIdx.y : threadIdx.x;
  const uint32_t c = kLast ? blockIdx.x * blockDim.x + threadIdx.x : blockIdx.x;
  if (c >= channels) return;
  const auto at = [&](uint32_t row) {
    uint32_t within = 0;
    if constexpr (!kLast) row = inner.Split(row, within);
    const size_t i = (static_cast<size_t>(row) * channels + c) * inner.divisor + within;
    return RowPosition{i, row, within};
  };
  const auto constants = op.template Prepare<kLast, kVec>(kLast ? c * kVec : c);
  const uint32_t chunks = (rows + height - 1) / height;  // of a row for each thread
  const auto row_of = [&](uint32_t chunk) { return (chunks - 1 - chunk) * height + own; };
  for (uint32_t first = blockIdx.y; first < chunks; first += gridDim.y * kUnroll) {
    typename Op::template Registers<kVec> loaded[kUnroll];
#pragma unroll
    for (uint32_t u = 0; u < kUnroll; ++u) {
      const uint32_t chunk = first + u * gridDim.y;
      if (chunk < chunks && row_of(chunk) < rows)
        loaded[u] = op.template Load<kVec>(constants, at(row_of(chunk)));
    }
#pragma unroll
    for (uint32_t u = 0; u < kUnroll; ++u) {
      const uint32_t chunk = first + u * gridDim.y;
      if (chunk < chunks && row_of(chunk) < rows)
        op.template Store<kVec>(at(row_of(chunk)), constants, loaded[u]);
    }
  }
}

template <typename Op, int kVec, bool kLast>
void LaunchPartMap(const ChannelShape& s, const Op& op, cudaStream_t stream) {
  const int64_t channels = kLast ? s.channels / kVec : s.channels;
  const int64_t rows = kLast ? s.outer * s.inner : s.outer * s.inner / kVec;
  const int64_t tiles = kLast ? CeilDiv(channels, 32) : channels;
  const int64_t width = kLast ? CeilDiv(channels, tiles) : kThreads;
  const int64_t height = kThreads / width;
  const int64_t chunks = CeilDiv(rows, kLast ? height : kThreads);
  const int64_t splits = std::min(CeilDiv(chunks, kUnroll), CeilDiv(2 * kFewMapBlocks, tiles));
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(splits));
  const dim3 block(static_cast<unsigned>(width), static_cast<unsigned>(height));
  PartMap<Op, kVec, kLast>
      <<<grid, block, 0, stream>>>(op, static_cast<uint32_t>(channels), static_cast<uint32_t>(rows),
                                   Divider<uint32_t>(kLast ? 1 : s.inner / kVec));
}

// Runs op over a concatenation of elements of type T. `wide`: every array of the op is aligned, and
// every vector has channels of one part.
template <typename T, typename Op>
cudaError_t MapParts(const ChannelShape& s, bool wide, const Op& op, cudaStream_t stream) {
  constexpr int kVec = kWide<T>;
  wide = wide && Vectorised(s, kVec);
  if (s.channels_last) {
    wide ? LaunchPartMap<Op, kVec, true>(s, op, stream) : LaunchPartMap<Op, 1, true>(s, op, stream);
  } else {
    wide ? LaunchPartMap<Op, kVec, false>(s, op, stream)
         : LaunchPartMap<Op, 1, false>(s, op, stream);
  }
  return cudaGetLastError();
}

}  // namespace neap::kernels
