// Backward of a layer norm whose channels are the last axis, in one pass: x, dy and the addend are
// read once, and dx is written, while a thread's registers keep the sums of dy and dy * xhat of its
// channels over the rows of its block. A second kernel merges the blocks' sums.
//
//   rows of a round:    | 0 .. 7   | 8 .. 15  | ...                 |   `width` threads have a row,
//   next round:         | block 0  | block 1  | ...  | last block   |   in kHeld vectors each
//
//   partial: {blocks, channels}, the sums that a block's rows add up to
//
// Blocks and rows of a block depend on the tensor's shape alone, and so do the bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/channel_cut.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/dependent_launch.cuh"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_gradient.cuh"
#include "neap/layers/cuda/kernels/norm/image_norm.cuh"

namespace neap::kernels {

// The most vectors of a row that a thread has: two sums for each of their channels take 48
// registers where elements have 16 bits, or 32.
constexpr int MaxRowVectors(int vec) { return vec == 8 ? 3 : 4; }

// How rows of a tensor are divided.
struct GradientCut {
  uint32_t width = 0;  // threads of a row, a power of two; 0 if a block's registers hold no row
  int held = 0;        // vectors of a thread: MaxRowVectors() or one less
  uint32_t blocks = 0;
};

// There are as many blocks as a large GPU runs at the same time, unless they had too few rows:
// more of them would take more memory for sums.
inline GradientCut CutGradientRows(const ChannelShape& s, int vec) {
  constexpr int64_t kMaxBlocks = 2 * kWantedBlocks, kMinRounds = 2;
  const int64_t vectors = s.channels / vec;
  const int most = MaxRowVectors(vec);
  if (!s.channels_last || !Vectorised(s, vec) || vectors > kThreads * most) return {};
  const int64_t width = TileWidth(CeilDiv(vectors, most), kThreads);
  const int64_t blocks = CeilDiv(s.outer * s.inner, kThreads / width * kMinRounds);
  return {.width = static_cast<uint32_t>(width),
          .held = std::max(static_cast<int>(CeilDiv(vectors, width)), most - 1),
          .blocks = static_cast<uint32_t>(std::min(blocks, kMaxBlocks))};
}

inline int64_t GradientRowsScratchBytes(const ChannelShape& s, Element type) {
  const GradientCut cut = CutGradientRows(s, static_cast<int>(16 / SizeOf(type)));
  return cut.blocks * s.channels * static_cast<int64_t>(sizeof(Sums<2>::Of<float>));
}

// The sum of the parts of the `width` threads of a row, which all of them get. All threads of a
// block call it; `warps` has an element for each warp, and is another array at the next call.
template <typename Part>
__device__ __forceinline__ Part SumOfRow(Part part, uint32_t width, Part* warps) {
  for (uint32_t offset = min(width, static_cast<uint32_t>(kWarp)) / 2; offset > 0; offset /= 2) {
    Part other;
#pragma unroll
    for (int n = 0; n < 2; ++n) other.v[n] = __shfl_xor_sync(~0U, part.v[n], offset);
    part.Merge(other, {});
  }
  if (width <= kWarp) return part;
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = part;
  __syncthreads();
  const uint32_t first = threadIdx.x / width * (width / kWarp);
  part = warps[first];
#pragma unroll 1
  for (uint32_t w = 1; w < width / kWarp; ++w) part.Merge(warps[first + w], {});
  return part;
}

// Merges the sums of a block's rows for vectors `first` .. first + width - 1 of the channels, of
// which each thread has one, and writes them to `partial`.
template <int kVec>
__device__ __forceinline__ void StoreRowSums(const Accumulators<2, kVec>& sums, uint32_t width,
                                             uint32_t first, uint32_t vectors,
                                             Sums<2>::Of<float>* partial) {
  using Part = Sums<2>::Of<float>;
  // Neighbours in `shared` are those of neighbouring threads; the elements behind `width` keep a
  // vector's lanes, which are then read next to each other, in different banks.
  constexpr uint32_t kPad = 16 / kVec, kWarps = kThreads / kWarp;
  __shared__ Part shared[kWarps * kVec * (kWarp + kPad)];
  Part parts[kVec];
#pragma unroll
  for (int k = 0; k < kVec; ++k) parts[k] = {{sums.v[0].v[k], sums.v[1].v[k]}};
  MergeWarp<kVec>(parts, width);
  const uint32_t span = max(width, static_cast<uint32_t>(kWarp)), pitch = width + kPad;
  const uint32_t within = threadIdx.x % span;
  __syncthreads();  // others may still read what they merged before
  if (within < width) {
#pragma unroll
    for (uint32_t k = 0; k < kVec; ++k)
      shared[(threadIdx.x / span * kVec + k) * pitch + within] = parts[k];
  }
  __syncthreads();
  const uint32_t end = min(width, vectors - min(first, vectors)) * kVec;
  for (uint32_t c = threadIdx.x; c < end; c += kThreads) {
    const uint32_t at = c % kVec * pitch + c / kVec;
    Part total = shared[at];
    for (uint32_t r = 1; r < kThreads / span; ++r) total.Merge(shared[r * kVec * pitch + at], {});
    partial[static_cast<size_t>(first) * kVec + c] = total;
  }
}

// Op is one of NormPositions() (layer_norm.cuh) that loads x and dy.
template <typename Op, int kVec, int kHeld>
__global__ void __launch_bounds__(kThreads, 2)
    GradientRows(Op op, uint32_t rows, uint32_t vectors, uint32_t width,
                 Sums<2>::Of<float>* partial) {
  AwaitKernelBefore();
  using Part = Sums<2>::Of<float>;
  __shared__ Part warps[2][kThreads / kWarp];
  const uint32_t lane = threadIdx.x % width, group = threadIdx.x / width;
  const uint32_t groups = kThreads / width;
  Accumulators<2, kVec> of_channels[kHeld] = {};
  uint32_t round = 0;
  for (uint32_t first = blockIdx.x * groups; first < rows; first += gridDim.x * groups) {
    const uint32_t row = min(first + group, rows - 1);
    const uint32_t end = first + group < rows ? vectors : 0;
    const auto at = [&](uint32_t v) { return static_cast<size_t>(row) * vectors + v; };
    typename Op::template Registers<kVec> held[kHeld] = {};
#pragma unroll
    for (uint32_t u = 0; u < kHeld; ++u) {
      const uint32_t v = lane + u * width;
      if (v < end) held[u] = op.template Load<kVec>(at(v));
    }
    const auto of = op.template Begin<true, kVec>(row, held[0]);
    Accumulators<2, kVec> sums = {};
#pragma unroll
    for (uint32_t u = 0; u < kHeld; ++u) {
      const uint32_t v = lane + u * width;
      if (v >= end) continue;
      op.template Accumulate<true, kVec>(of, static_cast<size_t>(v) * kVec, held[u], sums);
      AddSums(Unpack(held[u].dy), Unpack(held[u].x), of, of_channels[u]);
    }
    Part part = {};
#pragma unroll
    for (int k = 0; k < kVec; ++k) part.Merge(Part{{sums.v[0].v[k], sums.v[1].v[k]}}, {});
    const float2 means = op.End(row, SumOfRow(part, width, warps[round++ % 2]));
    const Vec<kVec> a = Broadcast<kVec>(means.x), b = Broadcast<kVec>(means.y);
#pragma unroll
    for (uint32_t u = 0; u < kHeld; ++u) {
      const uint32_t v = lane + u * width;
      if (v < end)
        op.template Store<true, kVec>(of, a, b, static_cast<size_t>(v) * kVec, at(v), held[u]);
    }
  }
  AllowDependents();
  Part* const of_block = partial + static_cast<size_t>(blockIdx.x) * vectors * kVec;
#pragma unroll
  for (uint32_t u = 0; u < kHeld; ++u)
    StoreRowSums<kVec>(of_channels[u], width, u * width, vectors, of_block);
}

// Runs op over a tensor of which a block's registers hold rows, and stores the sums. The scratch
// memory is GradientRowsScratchBytes(). There are fewer than 2^31 positions in all images.
template <typename T, typename Op>
cudaError_t LaunchGradientRows(const ChannelShape& s, const Op& op, const ImageNormSums& sums,
                               void* scratch, cudaStream_t stream) {
  constexpr int kVec = kWide<T>, kMost = MaxRowVectors(kVec);
  const GradientCut cut = CutGradientRows(s, kVec);
  const int64_t vectors = s.channels / kVec, rows = s.outer * s.inner;
  if (cut.width == 0 || !Fits32(rows)) return cudaErrorInvalidValue;
  auto* const partial = static_cast<Sums<2>::Of<float>*>(scratch);
  const auto kernel =
      cut.held == kMost ? GradientRows<Op, kVec, kMost> : GradientRows<Op, kVec, kMost - 1>;
  const cudaError_t error = LaunchDependent(rows * vectors, kernel, cut.blocks, kThreads, stream,
                                            op, static_cast<uint32_t>(rows),
                                            static_cast<uint32_t>(vectors), cut.width, partial);
  if (error != cudaSuccess) return error;
  return LaunchDependent(cut.blocks * vectors, Finish<Sums<2>, ImageNormSumsFinal>,
                         static_cast<unsigned>(CeilDiv(s.channels, kWarp)), kFinishThreads, stream,
                         ImageNormSumsFinal{sums}, partial, static_cast<uint32_t>(s.channels),
                         cut.blocks);
}

}  // namespace neap::kernels
