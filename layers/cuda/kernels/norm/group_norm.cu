// Group norm: moments of each image and channel, which are merged to those of groups, and then a
// map that applies them; backward, sums of each image and channel, those of groups and of all
// images, and a map that uses them.
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_gradient.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_moments.cuh"
#include "neap/layers/cuda/kernels/norm/image_channels.cuh"
#include "neap/layers/cuda/kernels/norm/image_norm.cuh"
#include "neap/layers/cuda/kernels/norm/image_norm.h"

namespace neap::kernels {
namespace {

// What the number of a channel among those of all images says: `channels` splits it into the image
// and the channel, and `of_group` gives the group among those of all images.
struct GroupIndex {
  Divider<uint32_t> channels, of_group;

  explicit GroupIndex(const GroupNormShape& s)
      : channels(s.images.channels), of_group(s.images.channels / s.groups) {}
  __device__ __forceinline__ uint32_t Channel(size_t number) const {
    uint32_t c = 0;
    channels.Split(static_cast<uint32_t>(number), c);
    return c;
  }
  // The group's value for each lane of a vector.
  template <bool kLast, int kVec>
  __device__ __forceinline__ Vec<kVec> PerGroup(const float* p, size_t number) const {
    const auto first = static_cast<uint32_t>(number);
    if constexpr (kLast) {
      Vec<kVec> v;
#pragma unroll
      for (uint32_t k = 0; k < kVec; ++k) v.v[k] = p[of_group.Quotient(first + k)];
      return v;
    } else {
      return Broadcast<kVec>(p[of_group.Quotient(first)]);
    }
  }
  template <bool kLast, int kVec>
  __device__ __forceinline__ Centred<kVec> CentredOf(const ImageNormStatistics& of,
                                                     size_t number) const {
    return {PerGroup<kLast, kVec>(of.mean, number), PerGroup<kLast, kVec>(of.invstd, number)};
  }
};

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

double CountOf(const GroupNormShape& s) {
  return static_cast<double>(s.images.channels / s.groups * s.images.inner);
}

// Two values for each group, behind the partial results.
ImageNormStatistics InScratch(const GroupNormShape& s, Element type, void* scratch) {
  float* const first =
      static_cast<float*>(scratch) + ImagePartialBytes(s.images, type) / int64_t{sizeof(float)};
  return {first, first + s.images.outer * s.groups};
}

struct MomentsSource {
  const Moments::Of<float>* partial;
  __device__ Moments::Of<float> operator()(size_t i, uint32_t) const { return partial[i]; }
};

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

template <typename T>
struct GroupNormOp {
  ImageNormOperands in;
  ImageNormStatistics of;
  GroupIndex index;
  T* y;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <int kVec>
  __device__ Packed<T, kVec> Load(size_t i) const {
    return Read<kVec>(As<T>(in.x), i);
  }
  template <bool kLast, int kVec>
  __device__ Normalisation<kVec> Prepare(size_t number) const {
    const uint32_t c = index.Channel(number);
    const Vec<kVec> gamma = PerChannelOr<kLast, kVec>(in.gamma, c, 1);
    Normalisation<kVec> normalisation = {index.PerGroup<kLast, kVec>(of.mean, number),
                                         index.PerGroup<kLast, kVec>(of.invstd, number),
                                         PerChannelOr<kLast, kVec>(in.beta, c, 0)};
#pragma unroll
    for (int k = 0; k < kVec; ++k) normalisation.scale.v[k] *= gamma.v[k];
    return normalisation;
  }
  template <int kVec>
  __device__ void Store(size_t i, const Normalisation<kVec>& normalisation,
                        const Packed<T, kVec>& loaded) const {
    Vec<kVec> v = Unpack(loaded);
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] = normalisation.template Of<T>(v.v[k], k);
    Write<kVec>(y, i, v);
  }
};

// Sums dy and dy * xhat.
template <typename T>
struct GroupNormSumsOp {
  using Total = Sums<2>;
  ConstArray x;
  ImageNormStatistics of;
  GroupIndex index;
  const T* dy;
  template <int kVec>
  using Registers = LoadedPair<T, kVec>;
  template <bool kLast, int kVec>
  __device__ Centred<kVec> Prepare(size_t number, size_t) const {
    return index.CentredOf<kLast, kVec>(of, number);
  }
  template <int kVec>
  __device__ LoadedPair<T, kVec> Load(size_t i) const {
    return {Read<kVec>(As<T>(x), i), Read<kVec>(dy, i)};
  }
  template <int kVec>
  __device__ void Accumulate(const Centred<kVec>& centred, const LoadedPair<T, kVec>& loaded,
                             size_t, Accumulators<2, kVec>& sums) const {
    const Vec<kVec> values = Unpack(loaded.x), d = Unpack(loaded.dy);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      sums.v[0].v[k] += d.v[k];
      sums.v[1].v[k] += d.v[k] * centred.Of(values.v[k], k);
    }
  }
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

template <typename T>
struct GroupNormBackwardOp {
  ImageNormOperands in;
  ImageNormStatistics of;
  const float* mean_dy;
  const float* mean_dy_xhat;
  GroupIndex index;
  const T* dy;
  T* dx;
  template <int kVec>
  using Registers = LoadedPair<T, kVec>;
  template <int kVec>
  struct Constants {
    Centred<kVec> centred;
    Vec<kVec> gamma, mean_dy, mean_dy_xhat;
  };
  template <int kVec>
  __device__ LoadedPair<T, kVec> Load(size_t i) const {
    return {Read<kVec>(As<T>(in.x), i), Read<kVec>(dy, i)};
  }
  template <bool kLast, int kVec>
  __device__ Constants<kVec> Prepare(size_t number) const {
    return {index.CentredOf<kLast, kVec>(of, number),
            PerChannelOr<kLast, kVec>(in.gamma, index.Channel(number), 1),
            index.PerGroup<kLast, kVec>(mean_dy, number),
            index.PerGroup<kLast, kVec>(mean_dy_xhat, number)};
  }
  template <int kVec>
  __device__ void Store(size_t i, const Constants<kVec>& c,
                        const LoadedPair<T, kVec>& loaded) const {
    Write<kVec>(dx, i,
                ImageNormGradient(c.centred, c.gamma, c.mean_dy, c.mean_dy_xhat, Unpack(loaded.x),
                                  Unpack(loaded.dy)));
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

}  // namespace

int64_t GroupNormScratchBytes(const GroupNormShape& s, Element type) {
  return ImagePartialBytes(s.images, type) + 2 * s.images.outer * s.groups * int64_t{sizeof(float)};
}

cudaError_t GroupNorm(const GroupNormShape& s, const ImageNormOperands& in, float epsilon,
                      const ImageNormStatistics& statistics, bool given, Array y, void* scratch,
                      cudaStream_t stream) {
  const ImageNormStatistics of =
      statistics.mean == nullptr ? InScratch(s, y.type, scratch) : statistics;
  if (!given) {
    const cudaError_t error = GroupStatistics(s, in.x, epsilon, of, scratch, stream);
    if (error != cudaSuccess) return error;
  }
  const auto run = [&]<typename T>() {
    const bool aligned = AllAligned16(in.x, y) && HasAlignedParameters(s.images, in);
    return MapImages<T>(s.images, aligned, GroupNormOp<T>{in, of, GroupIndex(s), As<T>(y)}, stream);
  };
  return WithElement(run, in.x, y);
}

cudaError_t GroupNormBackward(const GroupNormShape& s, const ImageNormOperands& in,
                              const ImageNormStatistics& statistics, ConstArray dy,
                              const ImageNormSums& sums, Array dx, void* scratch,
                              cudaStream_t stream) {
  const ImageNormStatistics means = InScratch(s, dx.type, scratch);
  const GroupIndex index(s);
  const auto run = [&]<typename T>() {
    ImagePartials<Sums<2>> partials;
    cudaError_t error = ReduceImages<T>(s.images, AllAligned16(in.x, dy),
                                        GroupNormSumsOp<T>{in.x, statistics, index, As<T>(dy)},
                                        scratch, partials, stream);
    if (error == cudaSuccess && sums.dgamma != nullptr)
      error = SumImages(s, partials, sums, stream);
    if (error != cudaSuccess) return error;
    error = LaunchMergeGroups<Sums<2>>(
        s, partials.splits, WeightedSumsSource{partials.partial, in.gamma, index},
        GroupMeansFinal{CountOf(s), means.mean, means.invstd}, stream);
    if (error != cudaSuccess) return error;
    const GroupNormBackwardOp<T> op = {in,    statistics, means.mean, means.invstd,
                                       index, As<T>(dy),  As<T>(dx)};
    const bool aligned = AllAligned16(in.x, dy, dx) && HasAlignedParameters(s.images, in);
    return MapImages<T>(s.images, aligned, op, stream);
  };
  return WithElement(run, in.x, dy, dx);
}

}  // namespace neap::kernels
