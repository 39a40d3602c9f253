// Forward of attention: a block takes a tile of queries of a head, and keeps the sums of its
// softmax relative to the largest score so far, by which it rescales them when it finds a larger
// one.
#include <cmath>

#include "neap/layers/cuda/kernels/attention/attention_tiles.cuh"

namespace neap::kernels {
namespace {

template <int kDims, typename T>
__global__ void __launch_bounds__(kTileThreads)
    AttentionForwardKernel(const __grid_constant__ AttentionProblem p) {
  using Tile = AttentionTile<kDims>;
  __shared__ __align__(16) float query[Tile::kFloats];
  __shared__ __align__(16) float key[Tile::kFloats];
  __shared__ __align__(16) float value[Tile::kFloats];
  __shared__ __align__(16) float weights[Tile::kWeights];
  __shared__ float factors[Tile::kRows];
  const int tiles = TilesOf(p.queries, Tile::kRows);
  const auto of_images = static_cast<int>(blockIdx.x) / tiles;
  // Those with the most keys of a causal head first.
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x) % tiles) * Tile::kRows;
  const int head = of_images % p.heads;
  const AttentionBlock<T> block = {p, of_images / p.heads, head, head / (p.heads / p.kv_heads)};
  const int row = static_cast<int>(threadIdx.x) / Tile::kOfRow;
  const int part = static_cast<int>(threadIdx.x) % Tile::kOfRow;
  float largest = -INFINITY, total = 0;  // of the row, in all its threads
  WeightedSums<kDims> sums;
  block.template LoadQuery<kDims>(first, query);
  const int end = p.causal ? min(p.keys, first + Tile::kRows) : p.keys;
  for (int begin = 0; begin < end; begin += Tile::kRows) {
    block.template LoadKey<kDims>(begin, key);
    block.template LoadValue<kDims>(begin, value);
    __syncthreads();
    const PairsOfTile<kDims> products = RowProducts<kDims>(query, key, p.dims);
    products.ForEach([&](int k, int l, int target, int source) {
      const int i = first + target, j = begin + source;
      weights[source * Tile::kWeightStride + target] =
          block.Reads(i, j) ? block.Score(products.v[k][l], i, j) : -INFINITY;
    });
    __syncthreads();
    float tile_largest = largest;
    for (int j = part; j < Tile::kRows; j += Tile::kOfRow)
      tile_largest = fmaxf(tile_largest, weights[j * Tile::kWeightStride + row]);
    tile_largest = ReduceRow<true, kDims>(tile_largest);
    // Where all scores are -infinity, so far, the exponentials are 0.
    const float shift = tile_largest == -INFINITY ? 0.0F : tile_largest;
    const float factor = expf(largest - shift);
    float sum = 0;
    for (int j = part; j < Tile::kRows; j += Tile::kOfRow) {
      float& weight = weights[j * Tile::kWeightStride + row];
      weight = expf(weight - shift);
      sum += weight;
    }
    total = total * factor + ReduceRow<false, kDims>(sum);
    largest = tile_largest;
    if (part == 0) factors[row] = factor;
    __syncthreads();
    sums.Scale(factors);
    AddWeighted<kDims>(weights, value, sums);
    __syncthreads();
  }
  if (part == 0) {
    factors[row] = 1.0F / total;
    const int i = first + row;
    if (p.lse != nullptr && i < p.queries) p.lse[block.RowAt(i)] = largest + logf(total);
  }
  __syncthreads();
  sums.Scale(factors);
  sums.Put(value);
  __syncthreads();
  const HeadSteps& steps = p.output.steps;
  StoreTile<kDims>(value, steps, p.value_dims, {}, first, p.queries,
                   As<T>(p.output.values) + block.First(steps, block.image, head));
}

}  // namespace

cudaError_t AttentionForward(const AttentionProblem& p, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return WithHeadDims(p, [&]<int kDims>() {
      const int64_t blocks = p.images * p.heads * TilesOf(p.queries, AttentionTile<kDims>::kRows);
      AttentionForwardKernel<kDims, T>
          <<<static_cast<unsigned>(blocks), kTileThreads, 0, stream>>>(p);
      return cudaGetLastError();
    });
  };
  return WithElement(run, p.query.values, p.key.values, p.value.values, p.output.values);
}

}  // namespace neap::kernels
