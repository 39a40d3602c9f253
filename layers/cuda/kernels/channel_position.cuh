// Where the vectors of a reduction per channel are (channel_reduce.cuh).
#pragma once

#include <cstddef>
#include <cstdint>

namespace neap::kernels {

// A vector: number `i` of the tensor; number `within` of row `row` of its channels, where an image
// has one row in NCHW, and a pixel one in NHWC.
struct RowPosition {
  size_t i;
  uint32_t row, within;
};

// Most operations load by the number. Those with `parts`, which are concatenated along the
// channels, or with a `slice` of such a concatenation, find the address from what they prepared for
// the channel, and those with `statistics` of positions or factors of `images` read these, too.
template <typename Op>
inline constexpr bool kReadsByRow = requires(Op op) {
  op.parts;
}
|| requires(Op op) { op.slice; }
|| requires(Op op) { op.statistics; }
|| requires(Op op) { op.images; };
template <bool kLast, int kVec, typename Op>
__device__ __forceinline__ auto PrepareAt(const Op& op, size_t c, const RowPosition& at) {
  if constexpr (kReadsByRow<Op>) {
    return op.template Prepare<kLast, kVec>(c, at);
  } else {
    return op.template Prepare<kLast, kVec>(c, at.i);
  }
}
template <int kVec, typename Op, typename Constants>
__device__ __forceinline__ auto LoadAt(const Op& op, const Constants& constants,
                                       const RowPosition& at) {
  if constexpr (kReadsByRow<Op>) {
    return op.template Load<kVec>(constants, at);
  } else {
    return op.template Load<kVec>(at.i);
  }
}

}  // namespace neap::kernels
