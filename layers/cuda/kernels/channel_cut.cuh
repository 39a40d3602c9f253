// How a reduction per channel (channel_reduce.cuh) is divided into blocks, by the tensor's shape
// and the width of its vectors alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

inline constexpr int64_t kWantedBlocks = 132;  // one per multiprocessor of a large GPU
inline constexpr int kWarp = 32;
inline constexpr int64_t kPartBytes = 16;   // the most that a split writes per channel
inline constexpr int kMinRowThreads = 512;  // of a block that reduces rows

// How a reduction is split into blocks.
struct Cut {
  uint32_t splits = 1;
  uint32_t per_split = 0;  // NCHW: vectors
  dim3 block = kThreads;
  dim3 grid;
};

inline Cut CutPlanes(const ChannelShape& s, int vec) {
  const int64_t vectors = s.outer * s.inner / vec;
  const int64_t wanted = CeilDiv(kWantedBlocks * 8, s.channels);
  const int64_t most = std::max<int64_t>(1, std::min(wanted, CeilDiv(vectors, kThreads * kUnroll)));
  const int64_t per_split = CeilDiv(vectors, most);
  const uint32_t splits = static_cast<uint32_t>(CeilDiv(vectors, per_split));
  return {.splits = splits,
          .per_split = static_cast<uint32_t>(per_split),
          .grid = dim3(static_cast<unsigned>(s.channels), splits)};
}

// The vectors of channels that a block has: a power of two.
inline int64_t TileWidth(int64_t vectors, int64_t most) {
  int64_t width = 1;
  while (width < vectors && width < most) width *= 2;
  return width;
}

// A block of `threads` reads whole cache lines of each row: 128 bytes are 8 wide vectors. There are
// few large blocks, about one per multiprocessor, where one block merges all splits of its
// channels.
inline Cut CutRows(const ChannelShape& s, int vec, int threads, int64_t wanted_blocks) {
  const int64_t vectors = s.channels / vec;
  const int64_t width = TileWidth(vectors, vec == 1 ? kWarp : 8);
  const int64_t height = threads / width;
  const int64_t tiles = CeilDiv(vectors, width);
  const int64_t wanted = std::max<int64_t>(1, wanted_blocks / tiles);
  const int64_t splits = std::min(wanted, CeilDiv(s.outer * s.inner, height * kUnroll));
  return {.splits = static_cast<uint32_t>(splits),
          .block = dim3(static_cast<unsigned>(width), static_cast<unsigned>(height)),
          .grid = dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(splits))};
}

// The most splits that cut_of(vec) makes, whatever the width of vectors of the type.
template <typename CutOf>
int64_t MostSplits(const ChannelShape& s, Element type, const CutOf& cut_of) {
  uint32_t splits = 1;
  for (const int vec : {1, static_cast<int>(16 / SizeOf(type))}) {
    if (Vectorised(s, vec)) splits = std::max(splits, cut_of(vec).splits);
  }
  return splits;
}

// The partial results of a reduction.
inline int64_t PartialBytes(const ChannelShape& s, Element type, int64_t part_bytes,
                            int64_t row_blocks) {
  const auto cut_of = [&](int vec) {
    return s.channels_last ? CutRows(s, vec, kMinRowThreads, row_blocks) : CutPlanes(s, vec);
  };
  return MostSplits(s, type, cut_of) * s.channels * part_bytes;
}

}  // namespace neap::kernels
