// Group norm: moments of each image and channel, which are merged to those of groups, and then a
// map that applies them; backward, sums of each image and channel, those of groups and of all
// images, and a map that uses them (group_norm.cuh).
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_gradient.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_moments.cuh"
#include "neap/layers/cuda/kernels/norm/group_norm.cuh"
#include "neap/layers/cuda/kernels/norm/image_channels.cuh"
#include "neap/layers/cuda/kernels/norm/image_norm.cuh"
#include "neap/layers/cuda/kernels/norm/image_norm.h"

namespace neap::kernels {
namespace {

// Merges the parts of the channels of each group: `splits` parts of each. source(i, number) is part
// i of the partial results, of the channel with this number. A block has `width` groups, a power of
// two, and a row of threads for each of their parts, as far as there are threads.
template <typename Total, typename Source, typename Final>
__global__ void __launch_bounds__(kThreads)
    MergeGroups(Source source, Final final, uint32_t groups, Divider<uint32_t> of_group,
                uint32_t splits, uint32_t width) {
  AwaitKernelBefore();
  AllowDependents();
  using Merged = typename Total::template Of<double>;
  using Part = typename Total::template Of<float>;
  constexpr uint32_t kAhead = 4;  // loads in flight per thread
  __shared__ Merged shared[kThreads];
  const uint32_t rows = kThreads / width, row = threadIdx.x % rows, column = threadIdx.x / rows;
  const uint32_t group = blockIdx.x * width + column, parts = of_group.divisor * splits;
  const size_t all_channels = static_cast<size_t>(groups) * of_group.divisor;
  const auto load = [&](uint32_t i) {
    uint32_t c = 0;
    const size_t split = of_group.Split(i, c);
    const uint32_t number = group * of_group.divisor + c;
    return source(split * all_channels + number, number);
  };
  Merged total = {};
  for (uint32_t first = row; group < groups && first < parts; first += kAhead * rows) {
    Part loaded[kAhead];
#pragma unroll
    for (uint32_t a = 0; a < kAhead; ++a) {
      const uint32_t i = first + a * rows;
      loaded[a] = i < parts ? load(i) : Part{};
    }
#pragma unroll
    for (uint32_t a = 0; a < kAhead; ++a) total.Merge(loaded[a], total.ShareOf(loaded[a]));
  }
  shared[row * width + column] = total;
  __syncthreads();
  MergeRows(threadIdx.x, shared, width, rows);
  const uint32_t own = blockIdx.x * width + threadIdx.x;
  if (threadIdx.x < width && own < groups) final(own, shared[threadIdx.x]);
}

template <typename Total, typename Source, typename Final>
cudaError_t LaunchMergeGroups(const GroupNormShape& s, uint32_t splits, const Source& source,
                              const Final& final, cudaStream_t stream) {
  const int64_t groups = s.images.outer * s.groups, of_group = s.images.channels / s.groups;
  const int64_t width = kThreads / TileWidth(of_group * splits, kThreads);
  return LaunchDependent(groups * of_group * splits, MergeGroups<Total, Source, Final>,
                         static_cast<unsigned>(CeilDiv(groups, width)), kThreads, stream, source,
                         final, static_cast<uint32_t>(groups), Divider<uint32_t>(of_group), splits,
                         static_cast<uint32_t>(width));
}

struct MomentsSource {
  const Moments::Of<float>* partial;
  __device__ Moments::Of<float> operator()(size_t i, uint32_t) const { return partial[i]; }
};

// A channel's sums times gamma.
struct WeightedSumsSource {
  const Sums<2>::Of<float>* partial;
  const float* gamma;
  GroupIndex index;
  __device__ Sums<2>::Of<float> operator()(size_t i, uint32_t number) const {
    Sums<2>::Of<float> part = partial[i];
    if (gamma != nullptr) {
      for (float& sum : part.v) sum *= gamma[index.Channel(number)];
    }
    return part;
  }
};

// The means of gamma * dy and of gamma * dy * xhat over a group.
struct GroupMeansFinal {
  double count;
  float* of_dy;
  float* of_dy_xhat;
  __device__ void operator()(uint32_t group, const Sums<2>::Of<double>& total) const {
    of_dy[group] = static_cast<float>(total.v[0] / count);
    of_dy_xhat[group] = static_cast<float>(total.v[1] / count);
  }
};

// Stores a channel's sums as a partial result.
struct PartialSumsFinal {
  Sums<2>::Of<float>* partial;
  __device__ void operator()(uint32_t c, const Sums<2>::Of<double>& total) const {
    partial[c] = {{static_cast<float>(total.v[0]), static_cast<float>(total.v[1])}};
  }
};

// The splits that a block sums for its channels.
constexpr uint32_t kSplitsOfBlock = 256;

// merged[j * channels + c] is the sum of the j-th kSplitsOfBlock of the splits of a channel. Grid
// (tiles of kWarp channels, CeilDiv(splits, kSplitsOfBlock)).
__global__ void __launch_bounds__(kFinishThreads)
    MergeSplits(const Sums<2>::Of<float>* partial, uint32_t channels, uint32_t splits,
                Sums<2>::Of<float>* merged) {
  AwaitKernelBefore();
  AllowDependents();
  __shared__ Sums<2>::Of<double> shared[kFinishThreads];
  const uint32_t begin = blockIdx.x * kWarp, first = blockIdx.y * kSplitsOfBlock;
  FinishChannels<Sums<2>, kFinishThreads>(
      threadIdx.x, PartialSumsFinal{merged + static_cast<size_t>(blockIdx.y) * channels},
      partial + static_cast<size_t>(first) * channels, channels,
      min(kSplitsOfBlock, splits - first), begin, min(begin + kWarp, channels), kWarp, shared);
}

}  // namespace

// dgamma and dbeta: the partial results are those of as many splits of the channels for each image.
// Where these are many, blocks merge them in two stages. What the first one leaves is stored behind
// them, since a partial result has half of the kPartBytes that it may have.
cudaError_t SumImages(const GroupNormShape& s, const ImagePartials<Sums<2>>& partials,
                      const ImageNormSums& sums, cudaStream_t stream) {
  using Part = Sums<2>::Of<float>;
  static_assert(2 * sizeof(Part) <= kPartBytes);
  const int64_t all = s.images.outer * partials.splits * s.images.channels;
  const auto channels = static_cast<uint32_t>(s.images.channels);
  auto splits = static_cast<uint32_t>(s.images.outer * partials.splits);
  const auto tiles = static_cast<unsigned>(CeilDiv(s.images.channels, kWarp));
  const Part* partial = partials.partial;
  if (splits > kSplitsOfBlock) {
    Part* const merged = partials.partial + all;
    const dim3 grid(tiles, static_cast<unsigned>(CeilDiv(splits, kSplitsOfBlock)));
    const cudaError_t error = LaunchDependent(all, MergeSplits, grid, kFinishThreads, stream,
                                              partial, channels, splits, merged);
    if (error != cudaSuccess) return error;
    partial = merged;
    splits = grid.y;
  }
  return LaunchDependent(all, Finish<Sums<2>, ImageNormSumsFinal>, tiles, kFinishThreads, stream,
                         ImageNormSumsFinal{sums}, partial, channels, splits);
}

ImageNormStatistics GroupsInScratch(const GroupNormShape& s, Element type, void* scratch) {
  float* const first =
      static_cast<float*>(scratch) + ImagePartialBytes(s.images, type) / int64_t{sizeof(float)};
  return {first, first + s.images.outer * s.groups};
}

cudaError_t GroupStatistics(const GroupNormShape& s, ConstArray x, float epsilon,
                            const ImageNormStatistics& statistics, void* scratch,
                            cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    ImagePartials<Moments> moments;
    const TensorMomentsOp<T> op = {As<T>(x)};
    const cudaError_t error = ReduceImages<T>(s.images, Aligned16(x), op, scratch, moments, stream);
    if (error != cudaSuccess) return error;
    const StatisticsFinal final = {
        .count = CountOf(s), .epsilon = epsilon, .state = {statistics.mean, statistics.invstd}};
    return LaunchMergeGroups<Moments>(s, moments.splits, MomentsSource{moments.partial}, final,
                                      stream);
  };
  return WithElement(run, x);
}

cudaError_t MergeGroupSums(const GroupNormShape& s, const ImagePartials<Sums<2>>& partials,
                           const float* gamma, const ImageNormSums& sums,
                           const ImageNormStatistics& means, cudaStream_t stream) {
  if (sums.dgamma != nullptr) {
    const cudaError_t error = SumImages(s, partials, sums, stream);
    if (error != cudaSuccess) return error;
  }
  return LaunchMergeGroups<Sums<2>>(s, partials.splits,
                                    WeightedSumsSource{partials.partial, gamma, GroupIndex(s)},
                                    GroupMeansFinal{CountOf(s), means.mean, means.invstd}, stream);
}

int64_t GroupNormScratchBytes(const GroupNormShape& s, Element type) {
  return ImagePartialBytes(s.images, type) + 2 * s.images.outer * s.groups * int64_t{sizeof(float)};
}

cudaError_t GroupNorm(const GroupNormShape& s, const ImageNormOperands& in, float epsilon,
                      const ImageNormStatistics& statistics, bool given, Array y, void* scratch,
                      cudaStream_t stream) {
  return GroupNormWith(NoActivation{}, s, in, epsilon, statistics, given, y, scratch, stream);
}

cudaError_t GroupNormBackward(const GroupNormShape& s, const ImageNormOperands& in,
                              const ImageNormStatistics& statistics, ConstArray dy,
                              const ImageNormSums& sums, Array dx, void* scratch,
                              cudaStream_t stream) {
  return GroupNormBackwardWith(NoActivation{}, s, in, statistics, dy, sums, dx, scratch, stream);
}

}  // namespace neap::kernels
