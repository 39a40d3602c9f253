// Sums over N, H and W per channel, or moments derived from them, in two stages and a fixed order.
//
// Blocks write partial results to scratch memory. Of the blocks that share channels, the last one
// to finish merges them in an order that does not depend on which block it is. Where there are too
// few tickets to tell the last one, a second kernel merges them. The split depends only on the
// tensor's shape, so the bits are reproducible.
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
#include "neap/layers/cuda/kernels/dependent_launch.cuh"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

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
// a thread's or a block's part, Of<double> merges the blocks' parts, in doubles unless a Total has
// floats that are as accurate. a.Merge(b, a.ShareOf(b)) adds b's elements to a's; the share depends
// only on how many elements they have.
template <int kCount>
struct Sums {
  static constexpr int kSums = kCount;
  static constexpr int kResident = 0;      // blocks that registers must allow per multiprocessor
  static constexpr int kRowThreads = 512;  // of a block that reduces rows
  static constexpr int kResidentRows = 0;  // such blocks that registers must allow
  static constexpr int64_t kRowBlocks = kWantedBlocks;
  template <typename T>
  struct Of {
    struct Share {};
    T v[kCount];
    template <typename U>
    __device__ Share ShareOf(const Of<U>&) const {
      return {};
    }
    template <typename U>
    __device__ void Merge(const Of<U>& other, Share) {
#pragma unroll
      for (int n = 0; n < kCount; ++n) v[n] += other.v[n];
    }
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

// Stores a channel's only sum, or adds it to what is there.
struct StoreSum {
  float* sum;
  bool add;
  __device__ void operator()(uint32_t c, const Sums<1>::Of<double>& sums) const {
    const float value = static_cast<float>(sums.v[0]);
    sum[c] = add ? sum[c] + value : value;
  }
};

// The merged result is valid in thread 0 only.
template <typename Part>
static __device__ Part MergeBlock(Part part) {
  __shared__ Part warps[kThreads / kWarp];
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const Part below = part.Below(offset);
    part.Merge(below, part.ShareOf(below));
  }
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = part;
  __syncthreads();
  if (threadIdx.x != 0) return part;
  for (int w = 1; w < kThreads / kWarp; ++w) part.Merge(warps[w], part.ShareOf(warps[w]));
  return part;
}

// Merges the rows of a warp's threads, which are `width` threads wide. The first row has the
// result. All channels of a row have as many elements.
template <int kVec, typename Part>
__device__ void MergeWarp(Part (&parts)[kVec], uint32_t width) {
  for (uint32_t offset = kWarp / 2; offset >= width; offset /= 2) {
    typename Part::Share share = {};
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const Part below = parts[k].Below(static_cast<int>(offset));
      if (k == 0) share = parts[0].ShareOf(below);
      parts[k].Merge(below, share);
    }
  }
}

// Merges `rows` rows of `width` elements into the first one. Both are powers of two, and a block
// has at least half as many threads as there are elements. All of them call it, after a barrier.
template <typename Row>
__device__ void MergeRows(uint32_t thread, Row* elements, uint32_t width, uint32_t rows) {
  for (uint32_t half = rows / 2; half > 0; half /= 2) {
    if (thread < half * width) {
      const Row other = elements[thread + half * width];
      elements[thread].Merge(other, elements[thread].ShareOf(other));
    }
    __syncthreads();
  }
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

// Merges the splits of channels [begin, end), of which there are at most `width`, a power of two,
// and hands the results to `final`. Row r of the threads merges splits r, r + rows, ..., then the
// rows are merged. All kBlock threads of a block take part. `shared` has kBlock elements.
template <typename Total, int kBlock, typename Final>
__device__ void FinishChannels(uint32_t thread, const Final& final,
                               const typename Total::template Of<float>* partial, uint32_t channels,
                               uint32_t splits, uint32_t begin, uint32_t end, uint32_t width,
                               typename Total::template Of<double>* shared) {
  using Part = typename Total::template Of<float>;
  constexpr uint32_t kAhead = 128 / sizeof(Part);  // loads in flight per thread
  const uint32_t c = begin + thread % width, rows = kBlock / width;
  typename Total::template Of<double> total = {};
  if (c < end) {
#pragma unroll 1
    for (uint32_t first = thread / width; first < splits; first += kAhead * rows) {
      Part loaded[kAhead];
#pragma unroll
      for (uint32_t a = 0; a < kAhead; ++a) {
        const uint32_t s = first + a * rows;
        loaded[a] = s < splits ? partial[static_cast<size_t>(s) * channels + c] : Part{};
      }
#pragma unroll
      for (uint32_t a = 0; a < kAhead; ++a) total.Merge(loaded[a], total.ShareOf(loaded[a]));
    }
  }
  shared[thread] = total;
  __syncthreads();
  uint32_t used = rows;
  while (used / 2 >= splits) used /= 2;
  MergeRows(thread, shared, width, used);
  if (thread < width && c < end) final(c, shared[thread]);
}

// The part of channel c of this thread's vectors, `mine`, mine + kApart, ..., below `end`. at(v) is
// the position of vector v; the vectors before `end` are those of a block.
template <typename Op, int kVec, uint32_t kApart, typename At>
__device__ __forceinline__ auto SumVectors(const Op& op, size_t c, const At& at, uint32_t mine,
                                           uint32_t end) {
  constexpr uint32_t kLoads = LoadsOf<Op>();
  const auto constants = PrepareAt<false, kVec>(op, c, at(min(mine, end - 1)));
  constexpr int kSums = Op::Total::kSums;
  Accumulators<kSums, kVec> sums = {};
  for (uint32_t first = mine; first < end; first += kApart * kLoads) {
    typename Op::template Registers<kVec> loaded[kLoads];
#pragma unroll
    for (uint32_t u = 0; u < kLoads; ++u) {
      const uint32_t v = first + u * kApart;
      if (v < end) loaded[u] = LoadAt<kVec>(op, constants, at(v));
    }
#pragma unroll
    for (uint32_t u = 0; u < kLoads; ++u) {
      const uint32_t v = first + u * kApart;
      if (v < end) op.template Accumulate<kVec>(constants, loaded[u], at(v).i, sums);
    }
  }
  LaneSums<kSums> sum = {};
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
#pragma unroll
    for (int n = 0; n < kSums; ++n) sum.v[n] += sums.v[n].v[k];
  }
  const uint32_t count = mine < end ? (end - mine + kApart - 1) / kApart * kVec : 0;
  return Op::Total::Close(constants, 0, sum, count);
}

// partial[split * channels + channel], grid (channels, splits). A channel has `vectors` vectors,
// `inner` per image, and a ticket. Without tickets, Finish() must follow.
template <typename Op, int kVec, typename Final>
__global__ void __launch_bounds__(kThreads, Op::Total::kResident)
    ReducePlanes(Op op, Final final, Divider<uint32_t> inner, uint32_t vectors, uint32_t per_split,
                 typename Op::Total::template Of<float>* partial, uint32_t* tickets) {
  AwaitKernelBefore();
  AllowDependents();
  const uint32_t channels = gridDim.x, c = blockIdx.x;
  const uint32_t begin = blockIdx.y * per_split;
  const uint32_t end = min(begin + per_split, vectors);
  const auto at = [&](uint32_t v) {
    uint32_t within = 0;
    const size_t image = inner.Split(v, within);
    return RowPosition{(image * channels + c) * inner.divisor + within,
                       static_cast<uint32_t>(image), within};
  };
  const auto part = MergeBlock(SumVectors<Op, kVec, kThreads>(op, c, at, begin + threadIdx.x, end));
  if (threadIdx.x == 0) partial[static_cast<size_t>(blockIdx.y) * channels + c] = part;
  if (tickets == nullptr || !ArrivesLast(threadIdx.x, tickets + c, gridDim.y)) return;
  __shared__ typename Op::Total::template Of<double> shared[kThreads];
  FinishChannels<typename Op::Total, kThreads>(threadIdx.x, final, partial, channels, gridDim.y, c,
                                               c + 1, 1, shared);
}

// The threads of a block that reduces rows. An operation that takes few registers has more of them.
template <typename Op>
constexpr int RowThreadsOf() {
  if constexpr (requires { Op::kRowThreads; }) {
    return Op::kRowThreads;
  } else {
    return Op::Total::kRowThreads;
  }
}

// The rows [begin, end) of a tensor whose channels are `vectors` vectors.
struct RowRange {
  size_t begin, end;
  uint32_t vectors;
};

// The parts of the channels of vector `cv`, of which `c` is the first, in this thread's rows: every
// gridDim.y * blockDim.y-th.
template <typename Op, int kVec>
__device__ __forceinline__ void SumRows(const Op& op, const RowRange& rows, uint32_t cv, size_t c,
                                        typename Op::Total::template Of<float> (&parts)[kVec]) {
  const size_t step = static_cast<size_t>(gridDim.y) * blockDim.y;
  const size_t mine = rows.begin + static_cast<size_t>(blockIdx.y) * blockDim.y + threadIdx.y;
  const auto at = [&](size_t row) {
    return RowPosition{row * rows.vectors + cv, static_cast<uint32_t>(row), 0};
  };
  const auto constants = PrepareAt<true, kVec>(op, c, at(mine < rows.end ? mine : rows.end - 1));
  constexpr int kLoads = LoadsOf<Op>(), kSums = Op::Total::kSums;
  Accumulators<kSums, kVec> sums = {};
  for (size_t first = mine; first < rows.end; first += step * kLoads) {
    typename Op::template Registers<kVec> loaded[kLoads];
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const size_t row = first + static_cast<size_t>(u) * step;
      if (row < rows.end) loaded[u] = LoadAt<kVec>(op, constants, at(row));
    }
    Repeat<kLoads>([&](int u) {
      const size_t row = first + static_cast<size_t>(u) * step;
      if (row < rows.end) op.template Accumulate<kVec>(constants, loaded[u], at(row).i, sums);
    });
  }
  const uint32_t count =
      mine < rows.end ? static_cast<uint32_t>((rows.end - mine + step - 1) / step) : 0;
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    LaneSums<kSums> sum;
#pragma unroll
    for (int n = 0; n < kSums; ++n) sum.v[n] = sums.v[n].v[k];
    parts[k] = Op::Total::Close(constants, k, sum, count);
  }
}

// The most channels of a tile, which is a block's.
template <int kVec>
inline constexpr int kWidestTile = std::max(8 * kVec, kWarp);

// Merges the parts of a block's threads, {channel vectors, rows}, of which there are kWarps warps,
// into the first blockDim.x * kVec elements of `shared`, which has kWidestTile for each warp.
template <int kWarps, int kVec, typename Part>
__device__ __forceinline__ void MergeTile(uint32_t thread, Part (&parts)[kVec], Part* shared) {
  MergeWarp<kVec>(parts, blockDim.x);
  const uint32_t width = blockDim.x * kVec;
  if (thread % kWarp < blockDim.x) {
#pragma unroll
    for (int k = 0; k < kVec; ++k)
      shared[thread / kWarp * width + threadIdx.x * kVec + k] = parts[k];
  }
  __syncthreads();
  MergeRows(thread, shared, width, kWarps);
}

// partial[split * channels + channel], block (channel vectors, rows), grid (tiles of channels,
// splits). A tile has a ticket. Without tickets, Finish() must follow.
template <typename Op, int kVec, typename Final>
__global__ void __launch_bounds__(RowThreadsOf<Op>(), Op::Total::kResidentRows)
    ReduceRows(Op op, Final final, uint32_t channel_vectors, size_t rows,
               typename Op::Total::template Of<float>* partial, uint32_t* tickets) {
  AwaitKernelBefore();
  AllowDependents();
  using Part = typename Op::Total::template Of<float>;
  using Gathered = typename Op::Total::template Of<double>;
  constexpr int kBlock = RowThreadsOf<Op>(), kWarps = kBlock / kWarp;
  constexpr size_t kBytes =
      std::max(sizeof(Part) * kWarps * kWidestTile<kVec>, sizeof(Gathered) * kBlock);
  __shared__ __align__(16) unsigned char bytes[kBytes];
  Part* const shared = reinterpret_cast<Part*>(bytes);
  const uint32_t thread = threadIdx.y * blockDim.x + threadIdx.x;
  const uint32_t cv = blockIdx.x * blockDim.x + threadIdx.x;
  Part parts[kVec] = {};
  if (cv < channel_vectors) {
    SumRows(op, {0, rows, channel_vectors}, cv, static_cast<size_t>(cv) * kVec, parts);
  }
  MergeTile<kWarps>(thread, parts, shared);
  const uint32_t width = blockDim.x * kVec, channels = channel_vectors * kVec;
  const uint32_t begin = blockIdx.x * width, end = min(begin + width, channels);
  if (begin + thread < end)
    partial[static_cast<size_t>(blockIdx.y) * channels + begin + thread] = shared[thread];
  if (tickets == nullptr || !ArrivesLast(thread, tickets + blockIdx.x, gridDim.y)) return;
  FinishChannels<typename Op::Total, kBlock>(thread, final, partial, channels, gridDim.y, begin,
                                             end, width, reinterpret_cast<Gathered*>(bytes));
}

// Merges the splits where blocks have no tickets.
inline constexpr int kFinishThreads = 1024;
template <typename Total, typename Final>
__global__ void __launch_bounds__(kFinishThreads)
    Finish(Final final, const typename Total::template Of<float>* partial, uint32_t channels,
           uint32_t splits) {
  AwaitKernelBefore();
  __shared__ typename Total::template Of<double> shared[kFinishThreads];
  const uint32_t begin = blockIdx.x * kWarp;
  FinishChannels<Total, kFinishThreads>(threadIdx.x, final, partial, channels, splits, begin,
                                        min(begin + kWarp, channels), kWarp, shared);
}

// `s` has the channels last if kLast.
template <typename Op, typename Final, int kVec, bool kLast>
[[nodiscard]] cudaError_t LaunchReduction(const ChannelShape& s, const Op& op, const Final& final,
                                          const ReductionMemory& memory, cudaStream_t stream) {
  using Part = typename Op::Total::template Of<float>;
  static_assert(sizeof(Part) <= kPartBytes && RowThreadsOf<Op>() >= kMinRowThreads);
  Part* const partial = static_cast<Part*>(memory.scratch);
  const Cut cut =
      kLast ? CutRows(s, kVec, RowThreadsOf<Op>(), Op::Total::kRowBlocks) : CutPlanes(s, kVec);
  uint32_t* const tickets = cut.grid.x <= kTickets ? memory.tickets : nullptr;
  const unsigned channels = static_cast<unsigned>(s.channels);
  const int64_t rows = s.outer * s.inner, all = rows * s.channels / kVec;
  cudaError_t error = cudaSuccess;
  if constexpr (kLast) {
    error = LaunchDependent(all, ReduceRows<Op, kVec, Final>, cut.grid, cut.block, stream, op,
                            final, channels / kVec, static_cast<size_t>(rows), partial, tickets);
  } else {
    const uint32_t vectors = static_cast<uint32_t>(rows / kVec);
    error = LaunchDependent(all, ReducePlanes<Op, kVec, Final>, cut.grid, cut.block, stream, op,
                            final, Divider<uint32_t>(s.inner / kVec), vectors, cut.per_split,
                            partial, tickets);
  }
  if (error != cudaSuccess || tickets != nullptr) return error;
  return LaunchDependent(all, Finish<typename Op::Total, Final>, (channels + kWarp - 1) / kWarp,
                         kFinishThreads, stream, final, partial, channels, cut.splits);
}

// Reduces a tensor of elements of type T.
template <typename T, typename Op, typename Final>
cudaError_t Reduce(const ChannelShape& s, bool aligned, const Op& op, const Final& final,
                   const ReductionMemory& memory, cudaStream_t stream) {
  constexpr int kVec = kWide<T>;
  if (!Fits32(s.outer * s.inner)) return cudaErrorInvalidValue;
  const bool wide = aligned && Vectorised(s, kVec);
  if (s.channels_last) {
    return wide ? LaunchReduction<Op, Final, kVec, true>(s, op, final, memory, stream)
                : LaunchReduction<Op, Final, 1, true>(s, op, final, memory, stream);
  }
  return wide ? LaunchReduction<Op, Final, kVec, false>(s, op, final, memory, stream)
              : LaunchReduction<Op, Final, 1, false>(s, op, final, memory, stream);
}

}  // namespace neap::kernels
