// Tiles of attention in shared memory, and the two products that kernels compute of them. A tile
// has kRows positions of a head, in fp32 and rotated; what is beyond the head's positions and
// dimensions is 0.
//
//   using Tile = AttentionTile<64>;
//   __shared__ float query[Tile::kFloats], key[Tile::kFloats], weights[Tile::kWeights];
//   LoadTile<64, T>(array, steps, dims, turning, first, count, query);
//   __syncthreads();
//   const PairsOfTile<64> scores = RowProducts<64>(query, key, dims);
//   PairsOfTile<64>::ForEach([&](int k, int l, int row, int of_key) {  // and a barrier behind it
//     weights[of_key * Tile::kWeightStride + row] = scores.v[k][l];
//   });
//   AddWeighted<64>(weights, key, sums);  // sums of a thread for some rows and dimensions
#pragma once

#include "neap/layers/cuda/kernels/attention/attention.h"
#include "neap/layers/cuda/kernels/elements.cuh"

namespace neap::kernels {

inline constexpr int kTileThreads = 128;

// Of heads with at most kDims dimensions: 32, 64, 128, 256 or 512.
template <int kDims>
struct AttentionTile {
  static constexpr int kRows = kDims <= 64 ? 32 : 2048 / kDims;
  static constexpr int kStride = kDims + 4;  // from row to row, so that rows have other banks
  static constexpr int kFloats = kRows * kStride;
  // Weights of pairs of rows {source, target}.
  static constexpr int kWeightStride = kRows + 4;
  static constexpr int kWeights = kRows * kWeightStride;
  // The threads for each row of a tile, neighbours in a warp.
  static constexpr int kOfRow = kTileThreads / kRows;
};

// The places of the pairs of rows that a thread has: kOfTarget rows of one tile by kOfSource of
// another. kSplit neighbouring threads have the same ones.
template <int kDims>
struct PairsOfTile {
  using Tile = AttentionTile<kDims>;
  static constexpr int kOfTarget = kDims <= 64 ? 4 : 2;
  static constexpr int kOfSource = 2;
  static constexpr int kSources = Tile::kRows / kOfSource;  // threads along the sources
  static constexpr int kTargets = Tile::kRows / kOfTarget;
  static constexpr int kSplit = kTileThreads / (kSources * kTargets);

  float v[kOfTarget][kOfSource] = {};

  static __device__ __forceinline__ int Target(int k) {
    return static_cast<int>(threadIdx.x) / kSplit / kSources + k * kTargets;
  }
  static __device__ __forceinline__ int Source(int l) {
    return static_cast<int>(threadIdx.x) / kSplit % kSources + l * kSources;
  }
  // Calls visit(k, l, target, source) for each pair: its place in v, and its rows.
  template <typename Visit>
  static __device__ __forceinline__ void ForEach(const Visit& visit) {
#pragma unroll
    for (int k = 0; k < kOfTarget; ++k) {
#pragma unroll
      for (int l = 0; l < kOfSource; ++l) visit(k, l, Target(k), Source(l));
    }
  }
};

// How the positions of query and key are rotated.
struct Turning {
  int dims = 0;
  const float2* turns = nullptr;  // {position, dims / 2}

  // Dimension d of a head at a position, which value(d) reads; forth, or back if so asked.
  template <typename Value>
  __device__ __forceinline__ float Turned(int position, int d, bool back,
                                          const Value& value) const {
    if (d >= dims) return value(d);
    const int half = dims / 2;
    const float2 turn = turns[static_cast<size_t>(position) * half + d % half];
    const float sine = (d < half) == back ? turn.y : -turn.y;
    return value(d) * turn.x + value(d < half ? d + half : d - half) * sine;
  }
};

// Calls visit(row, dim) for the elements of a tile, neighbours in memory by neighbouring threads.
template <int kDims, typename Visit>
__device__ __forceinline__ void ForEachOfTile(const HeadSteps& steps, const Visit& visit) {
  constexpr int kRows = AttentionTile<kDims>::kRows;
  const bool by_dim = steps.dim == 1;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kDims; i += kTileThreads) {
    if (by_dim) {
      visit(i / kDims, i % kDims);
    } else {
      visit(i % kRows, i / kRows);
    }
  }
}

// Loads the positions from `first` on, of which the head has `count`.
template <int kDims, typename T>
__device__ __forceinline__ void LoadTile(const T* head, const HeadSteps& steps, int dims,
                                         const Turning& turning, int first, int count,
                                         float* tile) {
  ForEachOfTile<kDims>(steps, [&](int row, int dim) {
    const int position = first + row;
    float value = 0;
    if (position < count && dim < dims) {
      const T* const at = head + position * steps.position;
      value =
          turning.Turned(position, dim, false, [&](int d) { return ToFloat(at[d * steps.dim]); });
    }
    tile[row * AttentionTile<kDims>::kStride + dim] = value;
  });
}

// The inverse: rotates back and rounds.
template <int kDims, typename T>
__device__ __forceinline__ void StoreTile(const float* tile, const HeadSteps& steps, int dims,
                                          const Turning& turning, int first, int count, T* head) {
  ForEachOfTile<kDims>(steps, [&](int row, int dim) {
    const int position = first + row;
    if (position >= count || dim >= dims) return;
    const float* const values = tile + row * AttentionTile<kDims>::kStride;
    head[position * steps.position + dim * steps.dim] =
        RoundTo<T>(turning.Turned(position, dim, true, [&](int d) { return values[d]; }));
  });
}

__device__ __forceinline__ float4 Four(const float* values) {
  return *reinterpret_cast<const float4*>(values);
}

// The products of rows of the targets and the sources.
template <int kDims>
__device__ __forceinline__ PairsOfTile<kDims> RowProducts(const float* targets,
                                                          const float* sources, int dims) {
  using Pairs = PairsOfTile<kDims>;
  constexpr int kStride = AttentionTile<kDims>::kStride;
  Pairs pairs;
  for (int d = 4 * (static_cast<int>(threadIdx.x) % Pairs::kSplit); d < dims;
       d += 4 * Pairs::kSplit) {
    float4 a[Pairs::kOfTarget], b[Pairs::kOfSource];
#pragma unroll
    for (int k = 0; k < Pairs::kOfTarget; ++k)
      a[k] = Four(targets + Pairs::Target(k) * kStride + d);
#pragma unroll
    for (int l = 0; l < Pairs::kOfSource; ++l)
      b[l] = Four(sources + Pairs::Source(l) * kStride + d);
#pragma unroll
    for (int k = 0; k < Pairs::kOfTarget; ++k) {
#pragma unroll
      for (int l = 0; l < Pairs::kOfSource; ++l) {
        float& sum = pairs.v[k][l];
        sum = fmaf(a[k].x, b[l].x, sum);
        sum = fmaf(a[k].y, b[l].y, sum);
        sum = fmaf(a[k].z, b[l].z, sum);
        sum = fmaf(a[k].w, b[l].w, sum);
      }
    }
  }
  Pairs::ForEach([&](int k, int l, int, int) {
#pragma unroll
    for (int lanes = Pairs::kSplit / 2; lanes > 0; lanes /= 2)
      pairs.v[k][l] += __shfl_xor_sync(~0U, pairs.v[k][l], lanes);
  });
  return pairs;
}

// Sums over sources, of some targets in four dimensions.
template <int kDims>
struct WeightedSums {
  using Tile = AttentionTile<kDims>;
  static constexpr int kColumns = kDims / 4;  // threads side by side
  static constexpr int kTargets = Tile::kRows / (kTileThreads / kColumns);

  float v[kTargets][4] = {};

  static __device__ __forceinline__ int Target(int k) {
    return static_cast<int>(threadIdx.x) / kColumns * kTargets + k;
  }
  static __device__ __forceinline__ int Dim() {
    return static_cast<int>(threadIdx.x) % kColumns * 4;
  }
  // factors has one for each target.
  __device__ __forceinline__ void Scale(const float* factors) {
#pragma unroll
    for (int k = 0; k < kTargets; ++k) {
#pragma unroll
      for (float& sum : v[k]) sum *= factors[Target(k)];
    }
  }
  __device__ __forceinline__ void Put(float* tile) const {
#pragma unroll
    for (int k = 0; k < kTargets; ++k) {
#pragma unroll
      for (int d = 0; d < 4; ++d) tile[Target(k) * Tile::kStride + Dim() + d] = v[k][d];
    }
  }
};

// Adds the rows of the sources times their weights.
template <int kDims>
__device__ __forceinline__ void AddWeighted(const float* weights, const float* sources,
                                            WeightedSums<kDims>& sums) {
  using Sums = WeightedSums<kDims>;
  using Tile = AttentionTile<kDims>;
#pragma unroll 4
  for (int j = 0; j < Tile::kRows; ++j) {
    const float4 row = Four(sources + j * Tile::kStride + Sums::Dim());
    const float* const of = weights + j * Tile::kWeightStride + Sums::Target(0);
#pragma unroll
    for (int k = 0; k < Sums::kTargets; ++k) {
      const float weight = of[k];
      sums.v[k][0] = fmaf(weight, row.x, sums.v[k][0]);
      sums.v[k][1] = fmaf(weight, row.y, sums.v[k][1]);
      sums.v[k][2] = fmaf(weight, row.z, sums.v[k][2]);
      sums.v[k][3] = fmaf(weight, row.w, sums.v[k][3]);
    }
  }
}

// The maximum if kMax, otherwise the sum, over the threads of a row.
template <bool kMax, int kDims>
__device__ __forceinline__ float ReduceRow(float value) {
#pragma unroll
  for (int lanes = AttentionTile<kDims>::kOfRow / 2; lanes > 0; lanes /= 2) {
    const float other = __shfl_xor_sync(~0U, value, lanes);
    value = kMax ? fmaxf(value, other) : value + other;
  }
  return value;
}

__device__ __forceinline__ int64_t BiasAt(const AttentionProblem& p, int64_t image, int head,
                                          int query, int key) {
  const BiasSteps& steps = p.bias_steps;
  return image / p.sets * steps.image + image % p.sets * steps.set + head * steps.head +
         query * steps.query + key * steps.key;
}

// Heads of operands, as a block reads them.
template <typename T>
struct AttentionBlock {
  const AttentionProblem& p;
  int64_t image;
  int head, kv_head;

  __device__ __forceinline__ int64_t First(const HeadSteps& steps, int64_t image, int head) const {
    return image / p.sets * steps.image + image % p.sets * steps.set + head * steps.head;
  }
  __device__ __forceinline__ Turning turning() const { return {p.rotary_dims, p.turns}; }
  template <int kDims>
  __device__ __forceinline__ void LoadQuery(int first, float* tile) const {
    LoadTile<kDims>(As<T>(p.query.values) + First(p.query.steps, image, head), p.query.steps,
                    p.dims, turning(), first, p.queries, tile);
  }
  template <int kDims>
  __device__ __forceinline__ void LoadKey(int first, float* tile) const {
    LoadTile<kDims>(As<T>(p.key.values) + First(p.key.steps, image, kv_head), p.key.steps, p.dims,
                    turning(), first, p.keys, tile);
  }
  template <int kDims>
  __device__ __forceinline__ void LoadValue(int first, float* tile) const {
    LoadTile<kDims>(As<T>(p.value.values) + First(p.value.steps, image, kv_head), p.value.steps,
                    p.value_dims, {}, first, p.keys, tile);
  }
  // The output, or its gradient.
  template <int kDims>
  __device__ __forceinline__ void LoadOutput(const Array& of, int first, float* tile) const {
    LoadTile<kDims>(As<T>(of) + First(p.output.steps, image, head), p.output.steps, p.value_dims,
                    {}, first, p.queries, tile);
  }
  // Whether the query position reads the key position.
  __device__ __forceinline__ bool Reads(int query, int key) const {
    return query < p.queries && key < p.keys && (!p.causal || key <= query);
  }
  // The score of such a pair from the product of its rows.
  __device__ __forceinline__ float Score(float product, int query, int key) const {
    const float score = p.scale * product;
    if (p.bias.data == nullptr) return score;
    if (p.has_windows) return score + OfWindow(query, key);
    const int64_t at = BiasAt(p, image, head, query, key);
    return score +
           (p.bias.type == Element::kFp32 ? As<float>(p.bias)[at] : ToFloat(As<T>(p.bias)[at]));
  }
  // What a window adds to the score of a pair.
  __device__ __forceinline__ float OfWindow(int query, int key) const {
    const WindowPlace of_query = p.windows.At(query), of_key = p.windows.At(key);
    const int row = of_query.row - of_key.row + p.windows.center();
    const unsigned cut = p.windows.CutAxes(static_cast<int>(image % p.windows.windows()));
    const bool is_masked = ((of_query.wrapped ^ of_key.wrapped) & cut) != 0;
    return As<float>(p.bias)[row * p.bias_steps.key + head] + (is_masked ? kOtherRegion : 0.0F);
  }
  // The place of a query position's lse.
  __device__ __forceinline__ int64_t RowAt(int query) const {
    return (image * p.heads + head) * p.queries + query;
  }
};

constexpr int TilesOf(int positions, int rows) { return (positions + rows - 1) / rows; }

// Calls run.template operator()<kDims>() for the least kDims that holds so many dimensions.
template <typename Run>
cudaError_t WithDims(int dims, const Run& run) {
  if (dims <= 32) return run.template operator()<32>();
  if (dims <= 64) return run.template operator()<64>();
  if (dims <= 128) return run.template operator()<128>();
  if (dims <= 256) return run.template operator()<256>();
  return dims <= kMaxHeadDims ? run.template operator()<512>() : cudaErrorInvalidValue;
}
// The same for the heads of a step.
template <typename Run>
cudaError_t WithHeadDims(const AttentionProblem& p, const Run& run) {
  return WithDims(p.dims < p.value_dims ? p.value_dims : p.dims, run);
}

}  // namespace neap::kernels
