// The gradient of the bias of attention, dS (attention_backward.cu): a block takes a tile of pairs
// of positions, and sums over the images and heads that have the same bias. Where that would be few
// blocks with many images each, every block has some of the images, and another kernel adds up. So
// it is with the bias of windows, of which another kernel also sums the pairs of each offset.
#include <algorithm>

#include "neap/layers/cuda/kernels/attention/attention_gradient.cuh"
#include "neap/layers/cuda/kernels/device_math.cuh"

namespace neap::kernels {
namespace {

// Blocks that keep every GPU busy.
constexpr int64_t kEnoughBiasBlocks = 512;

// The images and heads of which the bias has one each, and the parts of the images that have one
// together, a block for each.
struct BiasCounts {
  int64_t images;
  int heads;
  int parts;
};

template <int kDims, typename T, typename Gradient>
__global__ void __launch_bounds__(kTileThreads)
    BiasGradientKernel(const __grid_constant__ AttentionProblem p, BiasCounts counts,
                       const float* means, float* partial) {
  using Tile = AttentionTile<kDims>;
  __shared__ __align__(16) float query[Tile::kFloats];
  __shared__ __align__(16) float dy[Tile::kFloats];
  __shared__ __align__(16) float key[Tile::kFloats];
  __shared__ __align__(16) float value[Tile::kFloats];
  __shared__ RowNumbers<kDims> rows;
  const int tiles = TilesOf(p.keys, Tile::kRows);
  const int part = static_cast<int>(blockIdx.x) % counts.parts;
  const int tile = static_cast<int>(blockIdx.x) / counts.parts;
  const int of_rows = tile / tiles;
  const int first_key = tile % tiles * Tile::kRows;
  const int row_tiles = TilesOf(p.queries, Tile::kRows);
  const int first_query = of_rows % row_tiles * Tile::kRows;
  const int bias_head = of_rows / row_tiles % counts.heads;
  const int bias_image = of_rows / row_tiles / counts.heads;
  const int64_t image_begin = counts.images == 1 ? p.images * part / counts.parts : bias_image;
  const int64_t image_end =
      counts.images == 1 ? p.images * (part + 1) / counts.parts : image_begin + 1;
  const int head_begin = counts.heads == 1 ? 0 : bias_head;
  const int head_end = counts.heads == 1 ? p.heads : head_begin + 1;
  const bool is_read = !p.causal || first_key < first_query + Tile::kRows;
  PairsOfTile<kDims> sums;
  for (int64_t image = image_begin; is_read && image < image_end; ++image) {
    for (int head = head_begin; head < head_end; ++head) {
      const AttentionBlock<T> block = {p, image, head, head / (p.heads / p.kv_heads)};
      block.template LoadQuery<kDims>(first_query, query);
      block.template LoadOutput<kDims>(p.output.gradient, first_query, dy);
      block.template LoadKey<kDims>(first_key, key);
      block.template LoadValue<kDims>(first_key, value);
      rows.Load(block, means, first_query);
      __syncthreads();
      const PairsOfTile<kDims> products = RowProducts<kDims>(query, key, p.dims);
      const PairsOfTile<kDims> dprobabilities = RowProducts<kDims>(dy, value, p.value_dims);
      products.ForEach([&](int k, int l, int target, int source) {
        sums.v[k][l] +=
            GradientOfPair(block, first_query + target, first_key + source, products.v[k][l],
                           dprobabilities.v[k][l], rows.lse[target], rows.mean[target])
                .score;
      });
      __syncthreads();
    }
  }
  if (threadIdx.x % PairsOfTile<kDims>::kSplit != 0) return;
  Gradient* const gradient = As<Gradient>(p.bias_gradient);
  sums.ForEach([&](int k, int l, int target, int source) {
    const int i = first_query + target, j = first_key + source;
    if (i >= p.queries || j >= p.keys) return;
    if (partial != nullptr) {
      const int64_t row = (static_cast<int64_t>(part) * counts.heads + bias_head) * p.queries + i;
      partial[row * p.keys + j] = sums.v[k][l];
    } else {
      const int64_t at = BiasAt(p, bias_image, bias_head, i, j);
      WriteOrAdd<1>(gradient, static_cast<size_t>(at), Vec<1>{{sums.v[k][l]}},
                    p.adds_to_bias_gradient);
    }
  });
}

// The sums of the parts, in their order.
__global__ void __launch_bounds__(kThreads)
    AddBiasParts(const float* partial, int64_t count, int parts, bool adds, float* gradient) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  float sum = 0;
  for (int part = 0; part < parts; ++part) sum += partial[part * count + i];
  gradient[i] = adds ? gradient[i] + sum : sum;
}

// The sums of the parts and of the pairs of an offset: a warp for each element of the table, whose
// threads take every 32nd part and pair.
__global__ void __launch_bounds__(kThreads)
    AddOffsets(const __grid_constant__ AttentionProblem p, const float* partial, int parts) {
  constexpr int kWarp = 32;
  const int64_t at = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (at >= static_cast<int64_t>(p.windows.offsets()) * p.heads) return;
  const auto head = static_cast<int>(at % p.heads);
  const WindowOffset offset = p.windows.Offset(static_cast<int>(at / p.heads));
  const int pairs = offset.pairs();
  float sum = 0;
  for (int64_t i = lane; i < static_cast<int64_t>(pairs) * parts; i += kWarp) {
    const int64_t row = i / pairs * p.heads + head;
    const WindowPair pair = p.windows.Pair(offset, static_cast<int>(i % pairs));
    sum += partial[(row * p.queries + pair.query) * p.keys + pair.key];
  }
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0U, sum, lanes);
  if (lane != 0) return;
  float& gradient = As<float>(p.bias_gradient)[at];
  gradient = p.adds_to_bias_gradient ? gradient + sum : sum;
}

template <int kDims>
int PartsOfImages(int64_t images, int64_t heads, int64_t queries, int64_t keys) {
  constexpr int kRows = AttentionTile<kDims>::kRows;
  const int64_t tiles =
      heads * TilesOf(static_cast<int>(queries), kRows) * TilesOf(static_cast<int>(keys), kRows);
  return static_cast<int>(std::clamp<int64_t>(kEnoughBiasBlocks / tiles, 1, images));
}

cudaError_t AddOffsetsOf(const AttentionProblem& p, const float* partial, int parts,
                         cudaStream_t stream) {
  constexpr int64_t kOfElement = 32;  // threads
  const int64_t threads = kOfElement * p.windows.offsets() * p.heads;
  AddOffsets<<<BlocksOf(threads), kThreads, 0, stream>>>(p, partial, parts);
  return cudaGetLastError();
}

}  // namespace

int64_t AttentionBiasScratchBytes(int64_t images, int64_t heads, int64_t queries, int64_t keys,
                                  int64_t dims, bool has_windows) {
  int64_t parts = 1;
  WithDims(static_cast<int>(dims), [&]<int kDims>() {
    parts = PartsOfImages<kDims>(images, heads, queries, keys);
    return cudaSuccess;
  });
  if (parts == 1 && !has_windows) return 0;
  return parts * heads * queries * keys * static_cast<int64_t>(sizeof(float));
}

cudaError_t AttentionBiasGradient(const AttentionProblem& p, void* scratch, cudaStream_t stream) {
  float* const means = static_cast<float*>(scratch);
  BiasCounts counts = {p.bias_steps.image == 0 ? 1 : p.images, p.bias_steps.head == 0 ? 1 : p.heads,
                       1};
  const auto run = [&]<typename T>() {
    return WithHeadDims(p, [&]<int kDims>() {
      constexpr int kRows = AttentionTile<kDims>::kRows;
      if (p.bias_steps.image == 0)
        counts.parts = PartsOfImages<kDims>(p.images, p.heads, p.queries, p.keys);
      float* const partial =
          counts.parts == 1 && !p.has_windows ? nullptr : means + p.images * p.heads * p.queries;
      const auto blocks =
          static_cast<unsigned>(counts.images * counts.heads * TilesOf(p.queries, kRows) *
                                TilesOf(p.keys, kRows) * counts.parts);
      if (p.bias_gradient.type == Element::kFp32) {
        BiasGradientKernel<kDims, T, float>
            <<<blocks, kTileThreads, 0, stream>>>(p, counts, means, partial);
      } else {
        BiasGradientKernel<kDims, T, T>
            <<<blocks, kTileThreads, 0, stream>>>(p, counts, means, partial);
      }
      if (partial == nullptr) return cudaGetLastError();
      if (p.has_windows) return AddOffsetsOf(p, partial, counts.parts, stream);
      const int64_t count = static_cast<int64_t>(p.heads) * p.queries * p.keys;
      AddBiasParts<<<BlocksOf(count), kThreads, 0, stream>>>(
          partial, count, counts.parts, p.adds_to_bias_gradient, As<float>(p.bias_gradient));
      return cudaGetLastError();
    });
  };
  return WithElement(run, p.query.values, p.key.values, p.value.values, p.output.gradient);
}

}  // namespace neap::kernels
