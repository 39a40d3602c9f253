// Backward of attention: with P the softmax of the scores S, which are computed anew, and m the
// products of each row of the output with its gradient dy,
//
//   dvalue = P^T dy    dS = P (dy value^T - m)    dquery = scale dS key    dkey = scale dS^T query
//
// m is written by the kernel of dquery, and read by those that follow.
#include "neap/layers/cuda/kernels/attention/attention_gradient.cuh"

namespace neap::kernels {
namespace {

template <int kDims, typename T>
__global__ void __launch_bounds__(kTileThreads)
    QueryGradientKernel(const __grid_constant__ AttentionProblem p, float* means) {
  using Tile = AttentionTile<kDims>;
  __shared__ __align__(16) float query[Tile::kFloats];
  __shared__ __align__(16) float dy[Tile::kFloats];
  __shared__ __align__(16) float key[Tile::kFloats];
  __shared__ __align__(16) float value[Tile::kFloats];
  __shared__ __align__(16) float weights[Tile::kWeights];
  __shared__ RowNumbers<kDims> rows;
  const int tiles = TilesOf(p.queries, Tile::kRows);
  const auto of_images = static_cast<int>(blockIdx.x) / tiles;
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x) % tiles) * Tile::kRows;
  const int head = of_images % p.heads;
  const AttentionBlock<T> block = {p, of_images / p.heads, head, head / (p.heads / p.kv_heads)};
  block.template LoadQuery<kDims>(first, query);
  block.template LoadOutput<kDims>(p.output.gradient, first, dy);
  block.template LoadOutput<kDims>(p.output.values, first, value);
  __syncthreads();
  {
    const int row = static_cast<int>(threadIdx.x) / Tile::kOfRow;
    const int part = static_cast<int>(threadIdx.x) % Tile::kOfRow;
    float sum = 0;
    for (int d = part; d < p.value_dims; d += Tile::kOfRow)
      sum = fmaf(dy[row * Tile::kStride + d], value[row * Tile::kStride + d], sum);
    sum = ReduceRow<false, kDims>(sum);
    const int i = first + row;
    if (part == 0) {
      rows.mean[row] = sum;
      rows.lse[row] = i < p.queries ? p.lse[block.RowAt(i)] : 0.0F;
      if (i < p.queries) means[block.RowAt(i)] = sum;
    }
  }
  __syncthreads();
  WeightedSums<kDims> sums;
  const int end = p.causal ? min(p.keys, first + Tile::kRows) : p.keys;
  for (int begin = 0; begin < end; begin += Tile::kRows) {
    block.template LoadKey<kDims>(begin, key);
    block.template LoadValue<kDims>(begin, value);
    __syncthreads();
    const PairsOfTile<kDims> products = RowProducts<kDims>(query, key, p.dims);
    const PairsOfTile<kDims> dprobabilities = RowProducts<kDims>(dy, value, p.value_dims);
    products.ForEach([&](int k, int l, int target, int source) {
      const PairGradient pair =
          GradientOfPair(block, first + target, begin + source, products.v[k][l],
                         dprobabilities.v[k][l], rows.lse[target], rows.mean[target]);
      weights[source * Tile::kWeightStride + target] = p.scale * pair.score;
    });
    __syncthreads();
    AddWeighted<kDims>(weights, key, sums);
    __syncthreads();
  }
  sums.Put(key);
  __syncthreads();
  const HeadSteps& steps = p.query.steps;
  StoreTile<kDims>(key, steps, p.dims, block.turning(), first, p.queries,
                   As<T>(p.query.gradient) + block.First(steps, block.image, head));
}

template <int kDims, typename T>
__global__ void __launch_bounds__(kTileThreads)
    KeyGradientKernel(const __grid_constant__ AttentionProblem p, const float* means) {
  using Tile = AttentionTile<kDims>;
  __shared__ __align__(16) float key[Tile::kFloats];
  __shared__ __align__(16) float value[Tile::kFloats];
  __shared__ __align__(16) float query[Tile::kFloats];
  __shared__ __align__(16) float dy[Tile::kFloats];
  __shared__ __align__(16) float probabilities[Tile::kWeights];
  __shared__ __align__(16) float weights[Tile::kWeights];
  __shared__ RowNumbers<kDims> rows;
  const int tiles = TilesOf(p.keys, Tile::kRows), group = p.heads / p.kv_heads;
  const auto of_images = static_cast<int>(blockIdx.x) / tiles;
  const int first = static_cast<int>(blockIdx.x) % tiles * Tile::kRows;
  const int kv_head = of_images % p.kv_heads;
  AttentionBlock<T> block = {p, of_images / p.kv_heads, kv_head * group, kv_head};
  block.template LoadKey<kDims>(first, key);
  block.template LoadValue<kDims>(first, value);
  WeightedSums<kDims> dkey, dvalue;
  for (; block.head < (kv_head + 1) * group; ++block.head) {
    for (int begin = p.causal ? first : 0; begin < p.queries; begin += Tile::kRows) {
      block.template LoadQuery<kDims>(begin, query);
      block.template LoadOutput<kDims>(p.output.gradient, begin, dy);
      rows.Load(block, means, begin);
      __syncthreads();
      const PairsOfTile<kDims> products = RowProducts<kDims>(key, query, p.dims);
      const PairsOfTile<kDims> dprobabilities = RowProducts<kDims>(value, dy, p.value_dims);
      products.ForEach([&](int k, int l, int target, int source) {
        const PairGradient pair =
            GradientOfPair(block, begin + source, first + target, products.v[k][l],
                           dprobabilities.v[k][l], rows.lse[source], rows.mean[source]);
        probabilities[source * Tile::kWeightStride + target] = pair.probability;
        weights[source * Tile::kWeightStride + target] = p.scale * pair.score;
      });
      __syncthreads();
      AddWeighted<kDims>(probabilities, dy, dvalue);
      AddWeighted<kDims>(weights, query, dkey);
      __syncthreads();
    }
  }
  __syncthreads();  // no query may read the keys of a causal head
  dkey.Put(key);
  dvalue.Put(value);
  __syncthreads();
  StoreTile<kDims>(key, p.key.steps, p.dims, block.turning(), first, p.keys,
                   As<T>(p.key.gradient) + block.First(p.key.steps, block.image, kv_head));
  StoreTile<kDims>(value, p.value.steps, p.value_dims, {}, first, p.keys,
                   As<T>(p.value.gradient) + block.First(p.value.steps, block.image, kv_head));
}

}  // namespace

int64_t AttentionScratchBytes(int64_t images, int64_t heads, int64_t queries) {
  return images * heads * queries * static_cast<int64_t>(sizeof(float));
}

cudaError_t AttentionBackward(const AttentionProblem& p, void* scratch, cudaStream_t stream) {
  float* const means = static_cast<float*>(scratch);
  const auto run = [&]<typename T>() {
    return WithHeadDims(p, [&]<int kDims>() {
      constexpr int kRows = AttentionTile<kDims>::kRows;
      const int64_t of_queries = p.images * p.heads * TilesOf(p.queries, kRows);
      QueryGradientKernel<kDims, T>
          <<<static_cast<unsigned>(of_queries), kTileThreads, 0, stream>>>(p, means);
      const int64_t of_keys = p.images * p.kv_heads * TilesOf(p.keys, kRows);
      KeyGradientKernel<kDims, T>
          <<<static_cast<unsigned>(of_keys), kTileThreads, 0, stream>>>(p, means);
      return cudaGetLastError();
    });
  };
  return WithElement(run, p.query.values, p.query.gradient, p.key.values, p.key.gradient,
                     p.value.values, p.value.gradient, p.output.values, p.output.gradient);
}

}  // namespace neap::kernels
