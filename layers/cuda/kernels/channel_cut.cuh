// How a reduction per channel (channel_reduce.cuh) is divided into blocks, by the tensor's shape
// and the width of its vectors alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

inline constexpr int64_t kWantedBlocks = 528;  // four per multiprocessor of a large GPU
inline constexpr int kWarp = 32;
inline constexpr int64_t kPartBytes = 16;  // the most that a split writes per channel

// How a reduction is split into blocks.
struct Cut {
  uint32_t splits = 1;
  uint32_t per_split = 0;  // NCHW: vectors
  uint32_t height = 0;     // NHWC: rows of threads of a split
  dim3 block = kThreads;
  dim3 grid;
  int64_t tile = 1;  // channels that share blocks
};

inline Cut CutPlanes(const ChannelShape& s, int vec) {
  const int64_t vectors = s.outer * s.inner / vec;
  const int64_t wanted = CeilDiv(kWantedBlocks * 2, s.channels);
  const int64_t most = std::max<int64_t>(1, std::min(wanted, CeilDiv(vectors, kThreads * kUnroll)));
  const int64_t per_split = CeilDiv(vectors, most);
  const uint32_t splits = static_cast<uint32_t>(CeilDiv(vectors, per_split));
  return {.splits = splits,
          .per_split = static_cast<uint32_t>(per_split),
          .grid = dim3(static_cast<unsigned>(s.channels), splits)};
}

inline int64_t TileWidth(int64_t vectors, int64_t most) {
  int64_t width = 1;
  while (width < vectors && width < most) width *= 2;
  return width;
}

// A block reads whole cache lines of each row: 128 bytes are 8 wide vectors. It has as few channels
// as that allows, because one block merges all splits of its channels. In fp32 the splits are those
// of tiles of up to kWarp vectors: a narrower block has several.
inline Cut CutRows(const ChannelShape& s, int vec) {
  const int64_t vectors = s.channels / vec;
  const int64_t width = TileWidth(vectors, vec == 1 ? kWarp : 8);
  const int64_t split_width = vec == 8 ? width : TileWidth(vectors, kWarp);
  const int64_t height = kThreads / split_width;
  const int64_t rows = s.outer * s.inner;
  const int64_t wanted = CeilDiv(kWantedBlocks, CeilDiv(vectors, split_width));
  const int64_t splits = std::max<int64_t>(1, std::min(wanted, CeilDiv(rows, height * kUnroll)));
  return {.splits = static_cast<uint32_t>(splits),
          .height = static_cast<uint32_t>(height),
          .block = dim3(static_cast<unsigned>(width), static_cast<unsigned>(kThreads / width)),
          .grid = dim3(static_cast<unsigned>(CeilDiv(vectors, width)),
                       static_cast<unsigned>(CeilDiv(splits, split_width / width))),
          .tile = width * vec};
}

// Whether a block merges its channels' splits faster than a second kernel, with a block per kWarp
// channels and a launch, would.
inline constexpr int64_t kMostMergedBytes = 200 * 1024;
inline bool FinishesItself(const Cut& cut, size_t part_bytes) {
  return cut.grid.x <= kTickets &&
         cut.splits * cut.tile * static_cast<int64_t>(part_bytes) <= kMostMergedBytes;
}

}  // namespace neap::kernels
