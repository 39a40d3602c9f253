// The blocks of a launch that works on many tensors: each tensor has as many as its elements need,
// so that none are wasted on small ones.
//
//   tensors   a: 5000 elements    b: 64    c: 3000            2048 elements per block
//   first     0                   3        4          6
//   blocks    [0)   [1)   [2)     [3)      [4)   [5)
//
//   const auto blocks = BlocksOf<kMax>(tensors, 2048);
//   Kernel<<<blocks.total(), kThreads, 0, stream>>>(tensors, blocks);
//   ... in the kernel:
//   const BlockShare share = ShareOf(blocks, blockIdx.x);
//   float* const x = tensors.x[share.tensor];
//   for (size_t i = share.begin + threadIdx.x; i < share.end; i += kThreads) x[i] = 0;
#pragma once

#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/device_math.cuh"

namespace neap::kernels {

// Part of a kernel's parameters.
template <int kMax>
struct TensorBlocks {
  int count = 0;
  unsigned first[kMax + 1] = {};  // the first block of each tensor; then the number of blocks
  int64_t elements[kMax] = {};
  int64_t per_block = 0;  // elements; a multiple of kThreads * kUnroll

  unsigned total() const { return first[count]; }
};

// Every tensor's blocks, with `per_block` elements each, a multiple of kThreads * kUnroll.
// `tensors` has fields `count` and `elements`.
template <int kMax, typename Tensors>
TensorBlocks<kMax> FixedBlocksOf(const Tensors& tensors, int64_t per_block) {
  TensorBlocks<kMax> blocks;
  blocks.count = tensors.count;
  blocks.per_block = per_block;
  for (int i = 0; i < tensors.count; ++i) {
    blocks.elements[i] = tensors.elements[i];
    blocks.first[i + 1] =
        blocks.first[i] + static_cast<unsigned>(CeilDiv(blocks.elements[i], per_block));
  }
  return blocks;
}

// With more elements for each block if there would be many blocks.
template <int kMax, typename Tensors>
TensorBlocks<kMax> BlocksOf(const Tensors& tensors, int64_t per_block) {
  constexpr int64_t kManyBlocks = 4096;
  int64_t all = 0;
  for (int i = 0; i < tensors.count; ++i) all += tensors.elements[i];
  const int64_t granularity = kThreads * kUnroll;
  const int64_t needed = CeilDiv(CeilDiv(all, kManyBlocks), granularity) * granularity;
  return FixedBlocksOf<kMax>(tensors, per_block < needed ? needed : per_block);
}

// The elements [begin, end) of a tensor.
struct BlockShare {
  int tensor;
  size_t begin, end;
};

template <int kMax>
__device__ __forceinline__ BlockShare ShareOf(const TensorBlocks<kMax>& blocks, unsigned block) {
  int tensor = 0;
  for (int end = blocks.count; end - tensor > 1;) {
    const int middle = (tensor + end) / 2;
    (blocks.first[middle] <= block ? tensor : end) = middle;
  }
  const size_t begin =
      static_cast<size_t>(block - blocks.first[tensor]) * static_cast<size_t>(blocks.per_block);
  const size_t end = begin + static_cast<size_t>(blocks.per_block);
  const size_t elements = static_cast<size_t>(blocks.elements[tensor]);
  return {tensor, begin, end < elements ? end : elements};
}

}  // namespace neap::kernels
