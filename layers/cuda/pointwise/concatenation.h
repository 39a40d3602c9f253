// Copies between a concatenation of tensors and its parts.
#pragma once

#include <cstdint>

#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/steps/concatenation.h"

namespace neap::cuda {

// Copies a part of so many channels into the whole, or out of it.
inline kernels::RowCopy CopyOfPart(const Concatenation& concat, int64_t channels, bool into,
                                   bool accumulate = false) {
  const int64_t width = channels * concat.per_channel;
  return {.rows = concat.rows,
          .width = width,
          .in_stride = into ? width : concat.length,
          .out_stride = into ? concat.length : width,
          .accumulate = accumulate};
}

}  // namespace neap::cuda
