// The sums of dy and dy * xhat per channel, where xhat is x normalised by the statistics of its
// position.
//
//   NHWC: the threads of a warp have few positions, whose statistics stay in the cache nearby:
//         a reduction of rows (channel_reduce.cuh)
//   NCHW: statistics have as many bytes as two fp32 or four 16-bit values, so a thread reads them
//         once for kPlaneGroup channels
//
//     grid (groups of channels, splits), which are cut as planes are in channel_reduce.cuh:
//     channels 0 .. 3: [n0 ####][n1 ####][n2 ####]
//                      | block(0, 0) | block(0, 1) |
#pragma once

#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/channel_cut.cuh"
#include "neap/layers/cuda/kernels/channel_position.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/dependent_launch.cuh"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_gradient.cuh"
#include "neap/layers/cuda/kernels/norm/image_norm.cuh"
#include "neap/layers/cuda/kernels/norm/layer_norm.cuh"

namespace neap::kernels {

// The operation of a reduction of rows.
template <typename T>
struct PositionSums {
  static constexpr int kLoads = 2;
  using Total = Sums<2>;
  const T* x;
  const T* dy;
  ImageNormStatistics statistics;
  template <int kVec>
  struct Registers {
    LoadedPair<T, kVec> loaded;
    Centred<kVec> centred;
  };
  struct Constants {};
  template <bool kLast, int kVec>
  __device__ Constants Prepare(size_t, const RowPosition&) const {
    return {};
  }
  template <int kVec>
  __device__ LoadedPair<T, kVec> LoadPair(size_t i) const {
    return {Read<kVec>(x, i), Read<kVec>(dy, i)};
  }
  // Of row `row` of the statistics, in vectors of positions or, with kLast, of one position.
  template <bool kLast, int kVec>
  __device__ Centred<kVec> CentredOf(size_t row) const {
    return {PerPosition<kLast, kVec>(statistics.mean, row),
            PerPosition<kLast, kVec>(statistics.invstd, row)};
  }
  template <int kVec>
  __device__ Registers<kVec> Load(const Constants&, const RowPosition& at) const {
    return {LoadPair<kVec>(at.i), CentredOf</*kLast=*/true, kVec>(at.row)};
  }
  template <int kVec>
  __device__ void Accumulate(const Constants&, const Registers<kVec>& in, size_t,
                             Accumulators<2, kVec>& sums) const {
    AddSums<kVec>(Unpack(in.loaded.dy), Unpack(in.loaded.x), in.centred, sums);
  }
};

inline constexpr int kPlaneGroup = 4;  // channels of a thread

// The planes of kPlaneGroup channels, which are cut as those of one channel.
inline Cut CutPlaneGroups(const ChannelShape& s, int vec) {
  return CutPlanes({s.outer, CeilDiv(s.channels, kPlaneGroup), s.inner}, vec);
}

inline int64_t PositionSumsScratchBytes(const ChannelShape& s, Element type) {
  if (s.channels_last) return ChannelScratchBytes(s, type);
  const int64_t splits = MostSplits(s, type, [&](int vec) { return CutPlaneGroups(s, vec); });
  return splits * s.channels * kPartBytes;
}

// partial[split * channels + channel], grid (groups of channels, splits). A group has a ticket.
// Without tickets, Finish() must follow. A channel has `vectors` vectors, `inner` per image.
template <typename T, int kVec>
__global__ void __launch_bounds__(kThreads)
    SumPlaneGroups(PositionSums<T> op, ImageNormSumsFinal final, uint32_t channels,
                   Divider<uint32_t> inner, uint32_t vectors, uint32_t per_split,
                   Sums<2>::Of<float>* partial, uint32_t* tickets) {
  AwaitKernelBefore();
  AllowDependents();
  using Part = Sums<2>::Of<float>;
  constexpr uint32_t kWarps = kThreads / kWarp;
  __shared__ Part warps[kWarps][kPlaneGroup];
  const uint32_t first = blockIdx.x * kPlaneGroup;
  const uint32_t end = min(first + kPlaneGroup, channels);
  Part parts[kPlaneGroup] = {};
  const uint32_t last = min((blockIdx.y + 1) * per_split, vectors);
  for (uint32_t v = blockIdx.y * per_split + threadIdx.x; v < last; v += kThreads) {
    uint32_t within = 0;
    const size_t image = inner.Split(v, within);
    const size_t at = (image * channels + first) * inner.divisor + within;
    const Centred<kVec> centred = op.template CentredOf</*kLast=*/false, kVec>(v);
    LoadedPair<T, kVec> loaded[kPlaneGroup];
#pragma unroll
    for (uint32_t g = 0; g < kPlaneGroup; ++g) {
      if (first + g < end)
        loaded[g] = op.template LoadPair<kVec>(at + static_cast<size_t>(g) * inner.divisor);
    }
#pragma unroll
    for (uint32_t g = 0; g < kPlaneGroup; ++g) {
      if (first + g >= end) continue;
      Accumulators<2, kVec> sums = {};
      op.template Accumulate<kVec>({}, {loaded[g], centred}, 0, sums);
#pragma unroll
      for (int k = 0; k < kVec; ++k) {
        parts[g].v[0] += sums.v[0].v[k];
        parts[g].v[1] += sums.v[1].v[k];
      }
    }
  }
  MergeWarp<kPlaneGroup>(parts, 1);
  if (threadIdx.x % kWarp == 0) {
#pragma unroll
    for (int g = 0; g < kPlaneGroup; ++g) warps[threadIdx.x / kWarp][g] = parts[g];
  }
  __syncthreads();
  if (first + threadIdx.x < end) {
    Part total = warps[0][threadIdx.x];
    for (uint32_t w = 1; w < kWarps; ++w) total.Merge(warps[w][threadIdx.x], {});
    partial[static_cast<size_t>(blockIdx.y) * channels + first + threadIdx.x] = total;
  }
  if (tickets == nullptr || !ArrivesLast(threadIdx.x, tickets + blockIdx.x, gridDim.y)) return;
  __shared__ Sums<2>::Of<double> shared[kThreads];
  FinishChannels<Sums<2>, kThreads>(threadIdx.x, final, partial, channels, gridDim.y, first, end,
                                    kPlaneGroup, shared);
}

template <typename T, int kVec>
cudaError_t LaunchPlaneGroups(const ChannelShape& s, const PositionSums<T>& op,
                              const ImageNormSums& sums, const ReductionMemory& memory,
                              cudaStream_t stream) {
  const Cut cut = CutPlaneGroups(s, kVec);
  const auto channels = static_cast<uint32_t>(s.channels);
  const int64_t vectors = s.outer * s.inner / kVec, all = vectors * s.channels;
  auto* const partial = static_cast<Sums<2>::Of<float>*>(memory.scratch);
  uint32_t* const tickets = cut.grid.x <= kTickets ? memory.tickets : nullptr;
  const ImageNormSumsFinal final = {sums};
  const cudaError_t error =
      LaunchDependent(all, SumPlaneGroups<T, kVec>, cut.grid, kThreads, stream, op, final, channels,
                      Divider<uint32_t>(s.inner / kVec), static_cast<uint32_t>(vectors),
                      cut.per_split, partial, tickets);
  if (error != cudaSuccess || tickets != nullptr) return error;
  return LaunchDependent(all, Finish<Sums<2>, ImageNormSumsFinal>,
                         static_cast<unsigned>(CeilDiv(s.channels, kWarp)), kFinishThreads, stream,
                         final, partial, channels, cut.splits);
}

// Sums over the positions of all images. The scratch memory is PositionSumsScratchBytes(). There
// are fewer than 2^31 positions in all images.
template <typename T>
cudaError_t SumPositions(const ChannelShape& s, bool aligned, const PositionSums<T>& op,
                         const ImageNormSums& sums, const ReductionMemory& memory,
                         cudaStream_t stream) {
  constexpr int kVec = kWide<T>;
  if (!Fits32(s.outer * s.inner)) return cudaErrorInvalidValue;
  const bool wide = aligned && Vectorised(s, kVec);
  if (!s.channels_last) {
    return wide ? LaunchPlaneGroups<T, kVec>(s, op, sums, memory, stream)
                : LaunchPlaneGroups<T, 1>(s, op, sums, memory, stream);
  }
  using Op = PositionSums<T>;
  using Final = ImageNormSumsFinal;
  return wide ? LaunchReduction<Op, Final, kVec, true>(s, op, Final{sums}, memory, stream)
              : LaunchReduction<Op, Final, 1, true>(s, op, Final{sums}, memory, stream);
}

}  // namespace neap::kernels
