// Sums over N, H and W per channel, or moments derived from them, in two stages and a fixed order.
//
// Blocks write partial results to scratch memory. Of the blocks that share channels, the last one
// to finish merges them; it takes them in the order of the splits, so it does not matter which
// block it is. If one block would take longer for this than a launch takes, a second kernel merges
// them. The split depends only on the tensor's shape, so the bits are reproducible.
//
//   NCHW: a block reduces part of one channel's planes
//     channel c: [n0 ####][n1 ####][n2 ####]
//                | block(c, 0) | block(c, 1) |
//
//   NHWC: a block reduces some rows of a tile of channels; threads are contiguous along the
//   channels, and stride over the rows
//     row 0: [c0 c1 c2 c3 | ...]
//     row 1: [c0 c1 c2 c3 | ...]
#pragma once

#include <algorithm>

#include "neap/layers/cuda/kernels/channel_cut.cuh"
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_position.cuh"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

// Whether rows count their elements. A merge then needs the other row's share of them, a division
// that MergeColumn() takes out of its loop.
template <typename Row>
inline constexpr bool kWeighted = requires(Row row) {
  row.count;
};

// The sums of a vector's lanes, and of one lane.
template <int kCount, int kVec>
struct Accumulators {
  Vec<kVec> v[kCount];
};
template <int kCount>
struct LaneSums {
  float v[kCount];
};

// A Total is the result of an operation's kSums sums over some elements of a channel. Of<float> is
// a thread's or a block's part, Of<double> merges the blocks' parts.
template <int kCount>
struct Sums {
  static constexpr int kSums = kCount;
  static constexpr int kResident = 0;  // blocks that registers must allow per multiprocessor
  template <typename T>
  struct Of {
    using Number = T;
    T v[kCount];
    template <typename U>
    __device__ void Merge(const Of<U>& other) {
#pragma unroll
      for (int n = 0; n < kCount; ++n) v[n] += other.v[n];
    }
    __device__ void Merge(const Of& other, T) { Merge(other); }
    __device__ Of Below(int offset) const {
      Of below;
#pragma unroll
      for (int n = 0; n < kCount; ++n) below.v[n] = __shfl_down_sync(~0U, v[n], offset);
      return below;
    }
  };
  template <typename Constants>
  static __device__ Of<float> Close(const Constants&, int, const LaneSums<kCount>& sums, uint32_t) {
    Of<float> of;
#pragma unroll
    for (int n = 0; n < kCount; ++n) of.v[n] = sums.v[n];
    return of;
  }
};

// The merged result is valid in thread 0 only.
template <typename Part>
static __device__ Part MergeBlock(Part part) {
  __shared__ Part warps[kThreads / kWarp];
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) part.Merge(part.Below(offset));
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = part;
  __syncthreads();
  if (threadIdx.x != 0) return part;
  for (int w = 1; w < kThreads / kWarp; ++w) part.Merge(warps[w]);
  return part;
}

// Sets the weights with which each of n rows is merged into the rows before it in its group of
// `height` rows. The column of any channel has the numbers of elements. All threads of the block
// call it, after a barrier behind the column's writes.
template <typename Row>
__device__ void FindWeights(uint32_t thread, const Row* column, uint32_t stride, uint32_t height,
                            uint32_t n, typename Row::Number* weights) {
  if constexpr (kWeighted<Row>) {
    if (thread < n) {
      typename Row::Number before = 0;
      const auto own = column[thread * stride].count;
#pragma unroll 4
      for (uint32_t y = thread / height * height; y < thread; ++y)
        before += column[y * stride].count;
      weights[thread] = own / (before + own);
    }
    __syncthreads();
  }
}

// Merges n rows in their order.
template <typename Row>
__device__ Row MergeColumn(const Row* column, uint32_t stride, uint32_t n,
                           const typename Row::Number* weights) {
  Row total = column[0];
#pragma unroll 4
  for (uint32_t y = 1; y < n; ++y) total.Merge(column[y * stride], kWeighted<Row> ? weights[y] : 0);
  return total;
}

// Whether this is the last of `blocks` blocks with this ticket to arrive here. It can read what all
// of them wrote before. The ticket is 0 before the first and after the last of them.
static __device__ bool ArrivesLast(uint32_t thread, uint32_t* ticket, uint32_t blocks) {
  __shared__ bool last;
  __syncthreads();
  if (thread == 0) {
    uint32_t before = 0;
    if (blocks > 1) {
      // Publishes this block's writes, which the barrier has ordered before it, and shows others'.
      asm volatile("atom.acq_rel.gpu.inc.u32 %0, [%1], %2;"
                   : "=r"(before)
                   : "l"(ticket), "r"(blocks - 1)
                   : "memory");
    }
    last = before == blocks - 1;
  }
  __syncthreads();
  return last;
}

// The order in which the splits of a channel are merged: row r merges splits r, r + kFinishRows,
// ..., then the rows are merged.
inline constexpr int kFinishRows = 32;

// Merges the splits of channels [begin, end), kLanes at a time, and hands the results to `final`.
// All kBlock threads of a block take part. `shared` has kFinishRows * kLanes elements.
template <typename Total, int kLanes, int kBlock, typename Final>
__device__ void FinishChannels(uint32_t thread, const Final& final,
                               const typename Total::template Of<float>* partial, uint32_t channels,
                               uint32_t splits, uint32_t begin, uint32_t end,
                               typename Total::template Of<double>* shared) {
  using Part = typename Total::template Of<float>;
  using Gathered = typename Total::template Of<double>;
  __shared__ double weights[kWeighted<Gathered> ? kFinishRows : 1];
  constexpr uint32_t kApart = kBlock / kLanes;  // between the rows of a thread
  constexpr uint32_t kOwn = kApart < kFinishRows ? kFinishRows / kApart : 1;
  constexpr uint32_t kAhead = 64 / (sizeof(Part) * kOwn);  // loads in flight per row
  const uint32_t lane = thread % kLanes, first_row = thread / kLanes;
  const uint32_t rows = min(splits, static_cast<uint32_t>(kFinishRows));
  for (uint32_t base = begin; base < end; base += kLanes) {
    const uint32_t c = base + lane;
    Gathered totals[kOwn] = {};
    if (c < end && first_row < rows) {
#pragma unroll 1
      for (uint32_t first = first_row; first < splits; first += kAhead * kFinishRows) {
        Part loaded[kAhead][kOwn];
#pragma unroll
        for (uint32_t a = 0; a < kAhead; ++a) {
#pragma unroll
          for (uint32_t i = 0; i < kOwn; ++i) {
            const uint32_t s = first + a * kFinishRows + i * kApart;
            loaded[a][i] = s < splits ? partial[static_cast<size_t>(s) * channels + c] : Part{};
          }
        }
#pragma unroll
        for (uint32_t a = 0; a < kAhead; ++a) {
#pragma unroll
          for (uint32_t i = 0; i < kOwn; ++i) totals[i].Merge(loaded[a][i]);
        }
      }
    }
    if (base != begin) __syncthreads();
#pragma unroll
    for (uint32_t i = 0; i < kOwn; ++i) {
      const uint32_t row = first_row + i * kApart;
      if (row < rows) shared[row * kLanes + lane] = totals[i];
    }
    __syncthreads();
    FindWeights(thread, shared, kLanes, kFinishRows, rows, weights);
    if (first_row == 0 && c < end) final(c, MergeColumn(shared + lane, kLanes, rows, weights));
  }
}

// partial[split * channels + channel], grid (channels, splits). A channel has `vectors` vectors,
// `inner` per image, and a ticket. Without tickets, Finish() must follow.
template <typename Op, int kVec, typename Final>
__global__ void __launch_bounds__(kThreads, Op::Total::kResident)
    ReducePlanes(Op op, Final final, Divider<uint32_t> inner, uint32_t vectors, uint32_t per_split,
                 typename Op::Total::template Of<float>* partial, uint32_t* tickets) {
  const uint32_t channels = gridDim.x, c = blockIdx.x;
  const uint32_t begin = blockIdx.y * per_split;
  const uint32_t end = min(begin + per_split, vectors);
  const uint32_t mine = begin + threadIdx.x;
  const auto at = [&](uint32_t v) {
    uint32_t within = 0;
    const size_t image = inner.Split(v, within);
    return RowPosition{(image * channels + c) * inner.divisor + within,
                       static_cast<uint32_t>(image), within};
  };
  const auto constants = PrepareAt<false, kVec>(op, c, at(min(mine, end - 1)));
  constexpr int kSums = Op::Total::kSums;
  Accumulators<kSums, kVec> sums = {};
  for (uint32_t first = mine; first < end; first += kThreads * kUnroll) {
    typename Op::template Registers<kVec> loaded[kUnroll];
#pragma unroll
    for (uint32_t u = 0; u < kUnroll; ++u) {
      const uint32_t v = first + u * kThreads;
      if (v < end) loaded[u] = LoadAt<kVec>(op, constants, at(v));
    }
#pragma unroll
    for (uint32_t u = 0; u < kUnroll; ++u) {
      const uint32_t v = first + u * kThreads;
      if (v < end) op.template Accumulate<kVec>(constants, loaded[u], at(v).i, sums);
    }
  }
  LaneSums<kSums> sum = {};
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
#pragma unroll
    for (int n = 0; n < kSums; ++n) sum.v[n] += sums.v[n].v[k];
  }
  const uint32_t count = mine < end ? (end - mine + kThreads - 1) / kThreads * kVec : 0;
  const auto part = MergeBlock(Op::Total::Close(constants, 0, sum, count));
  if (threadIdx.x == 0) partial[static_cast<size_t>(blockIdx.y) * channels + c] = part;
  if (tickets == nullptr || !ArrivesLast(threadIdx.x, tickets + c, gridDim.y)) return;
  __shared__ typename Op::Total::template Of<double> rows[kFinishRows];
  FinishChannels<typename Op::Total, 1, kThreads>(threadIdx.x, final, partial, channels, gridDim.y,
                                                  c, c + 1, rows);
}

// partial[split * channels + channel], block (channel vectors, rows), grid (tiles of channels,
// blocks of rows). A split is `height` rows of threads, so a block has one split or several. A tile
// has a ticket. Without tickets, Finish() must follow.
template <typename Op, int kVec, typename Final>
__global__ void __launch_bounds__(kThreads, Op::Total::kResident)
    ReduceRows(Op op, Final final, uint32_t channel_vectors, size_t rows, uint32_t splits,
               uint32_t height, typename Op::Total::template Of<float>* partial,
               uint32_t* tickets) {
  using Part = typename Op::Total::template Of<float>;
  using Gathered = typename Op::Total::template Of<double>;
  constexpr size_t kBytes =
      std::max(sizeof(Part) * kThreads * kVec, sizeof(Gathered) * kFinishRows * kWarp);
  __shared__ __align__(16) unsigned char bytes[kBytes];
  __shared__ float weights[kWeighted<Part> ? kThreads : 1];
  Part* const shared = reinterpret_cast<Part*>(bytes);
  const uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x;
  const uint32_t cv = blockIdx.x * blockDim.x + threadIdx.x;
  if (cv < channel_vectors) {
    const size_t step = static_cast<size_t>(splits) * height;
    const size_t mine = static_cast<size_t>(blockIdx.y) * blockDim.y + threadIdx.y;
    const size_t end = mine < step ? rows : 0;  // the last block may have too many splits
    const auto at = [&](size_t row) {
      return RowPosition{row * channel_vectors + cv, static_cast<uint32_t>(row), 0};
    };
    const auto constants = PrepareAt<true, kVec>(op, static_cast<size_t>(cv) * kVec,
                                                 at(mine < rows ? mine : rows - 1));
    constexpr int kSums = Op::Total::kSums;
    Accumulators<kSums, kVec> sums = {};
    for (size_t first = mine; first < end; first += step * kUnroll) {
      typename Op::template Registers<kVec> loaded[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const size_t row = first + static_cast<size_t>(u) * step;
        if (row < end) loaded[u] = LoadAt<kVec>(op, constants, at(row));
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const size_t row = first + static_cast<size_t>(u) * step;
        if (row < end) op.template Accumulate<kVec>(constants, loaded[u], at(row).i, sums);
      }
    }
    const uint32_t count = mine < end ? static_cast<uint32_t>((end - mine + step - 1) / step) : 0;
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      LaneSums<kSums> sum;
#pragma unroll
      for (int n = 0; n < kSums; ++n) sum.v[n] = sums.v[n].v[k];
      shared[thread * kVec + k] = Op::Total::Close(constants, k, sum, count);
    }
  }
  __syncthreads();
  // A thread merges one channel of one split.
  const uint32_t channels = channel_vectors * kVec, width = blockDim.x * kVec;
  const uint32_t folds = blockDim.y / height;
  const uint32_t begin = blockIdx.x * width;
  const uint32_t fold = thread / width, c = begin + thread % width;
  const uint32_t split = blockIdx.y * folds + fold;
  FindWeights(thread, shared, width, height, blockDim.y, weights);
  if (fold < folds && split < splits && c < channels) {
    const uint32_t first = fold * height;
    partial[static_cast<size_t>(split) * channels + c] =
        MergeColumn(shared + first * width + thread % width, width, height, weights + first);
  }
  if (tickets == nullptr || !ArrivesLast(thread, tickets + blockIdx.x, gridDim.y)) return;
  FinishChannels<typename Op::Total, kWarp, kThreads>(thread, final, partial, channels, splits,
                                                      begin, min(begin + width, channels),
                                                      reinterpret_cast<Gathered*>(bytes));
}

// Merges the splits where one block of the kernels above would take too long.
inline constexpr int kFinishThreads = kWarp * kFinishRows;
template <typename Total, typename Final>
__global__ void __launch_bounds__(kFinishThreads)
    Finish(Final final, const typename Total::template Of<float>* partial, uint32_t channels,
           uint32_t splits) {
  __shared__ typename Total::template Of<double> shared[kFinishThreads];
  const uint32_t begin = blockIdx.x * kWarp;
  FinishChannels<Total, kWarp, kFinishThreads>(threadIdx.x, final, partial, channels, splits, begin,
                                               min(begin + kWarp, channels), shared);
}

template <typename Op, typename Final, int kVec>
void LaunchReduction(const ChannelShape& s, const Op& op, const Final& final,
                     const ReductionMemory& memory, cudaStream_t stream) {
  using Part = typename Op::Total::template Of<float>;
  static_assert(sizeof(Part) <= kPartBytes);
  Part* const partial = static_cast<Part*>(memory.scratch);
  const Cut cut = s.channels_last ? CutRows(s, kVec) : CutPlanes(s, kVec);
  const bool alone = memory.tickets != nullptr && FinishesItself(cut, sizeof(Part));
  uint32_t* const tickets = alone ? memory.tickets : nullptr;
  const unsigned channels = static_cast<unsigned>(s.channels);
  if (s.channels_last) {
    ReduceRows<Op, kVec><<<cut.grid, cut.block, 0, stream>>>(
        op, final, channels / kVec, static_cast<size_t>(s.outer * s.inner), cut.splits, cut.height,
        partial, tickets);
  } else {
    const uint32_t vectors = static_cast<uint32_t>(s.outer * s.inner / kVec);
    ReducePlanes<Op, kVec><<<cut.grid, cut.block, 0, stream>>>(
        op, final, Divider<uint32_t>(s.inner / kVec), vectors, cut.per_split, partial, tickets);
  }
  if (alone) return;
  Finish<typename Op::Total><<<(channels + kWarp - 1) / kWarp, kFinishThreads, 0, stream>>>(
      final, partial, channels, cut.splits);
}

// Reduces a tensor of elements of type T.
template <typename T, typename Op, typename Final>
cudaError_t Reduce(const ChannelShape& s, bool aligned, const Op& op, const Final& final,
                   const ReductionMemory& memory, cudaStream_t stream) {
  constexpr int kVec = kWide<T>;
  if (!Fits32(s.outer * s.inner)) return cudaErrorInvalidValue;
  if (aligned && Vectorised(s, kVec)) {
    LaunchReduction<Op, Final, kVec>(s, op, final, memory, stream);
  } else {
    LaunchReduction<Op, Final, 1>(s, op, final, memory, stream);
  }
  return cudaGetLastError();
}

}  // namespace neap::kernels
