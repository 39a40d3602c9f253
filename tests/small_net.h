// A network small enough to train in milliseconds, and its batches. Tests that need no session
// include this file alone, and are compiled again less often than with tests/small_training.h.
#pragma once

#include <cstdint>
#include <memory>

#include "neap/core/graph/graph.h"
#include "neap/core/vision/batch.h"
#include "neap/layers/cpu/cpu_device.h"

namespace neap {

// A residual network with everything that makes planning difficult: in-place results, a fork, a
// join, saved tensors, dropout. Without its block, the trunk feeds the layer after the join.
Graph SmallNet(Layout layout = Layout::kChannelsFirst, bool with_block = true,
               DType dtype = DType::kFp32);

// SmallNet() with other properties; its first convolution has a bias.
struct BlockOptions {
  int64_t batch = 8;
  DType dtype = DType::kFp32;
  bool dropout = true;  // its masks depend on an image's place in the batch
  bool batch_norm = false;
  bool shares = false;  // two layers of the block share a parameter
};
Graph BlockNet(const BlockOptions& options = {});

Batch MakeBatch(uint64_t seed);

std::unique_ptr<CpuDevice> OpenCpu();

}  // namespace neap
