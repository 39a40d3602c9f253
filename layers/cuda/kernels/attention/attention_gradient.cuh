// What the kernels of attention's backward steps compute of a pair of a query and a key position.
#pragma once

#include <cmath>

#include "neap/layers/cuda/kernels/attention/attention_tiles.cuh"

namespace neap::kernels {

// Of the query positions of a tile: lse, and the product of the output and its gradient.
template <int kDims>
struct RowNumbers {
  float lse[AttentionTile<kDims>::kRows];
  float mean[AttentionTile<kDims>::kRows];

  // `means` are those of all rows in memory. Positions beyond the head's have 0.
  template <typename T>
  __device__ __forceinline__ void Load(const AttentionBlock<T>& block, const float* means,
                                       int first) {
    for (int row = static_cast<int>(threadIdx.x); row < AttentionTile<kDims>::kRows;
         row += kTileThreads) {
      const int query = first + row;
      const bool is_there = query < block.p.queries;
      lse[row] = is_there ? block.p.lse[block.RowAt(query)] : 0.0F;
      mean[row] = is_there ? means[block.RowAt(query)] : 0.0F;
    }
  }
};

// A probability, and the gradient of its score; 0 of a pair that is not read.
struct PairGradient {
  float probability, score;
};
template <typename T>
__device__ __forceinline__ PairGradient GradientOfPair(const AttentionBlock<T>& block, int query,
                                                       int key, float product, float dprobability,
                                                       float lse, float mean) {
  if (!block.Reads(query, key)) return {0, 0};
  const float probability = expf(block.Score(product, query, key) - lse);
  return {probability, probability * (dprobability - mean)};
}

}  // namespace neap::kernels
