// The passes of group norm over a tensor, with an activation behind it or without: the map that
// applies the statistics; backward, sums for each image and channel, and the map that uses those of
// groups. What is between the norm and the activation is rounded, as if it had been stored. An
// instance norm of small images has one kernel for each direction (instance_norm_tiles.cuh).
#pragma once

#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_gradient.cuh"
#include "neap/layers/cuda/kernels/norm/image_channels.cuh"
#include "neap/layers/cuda/kernels/norm/image_norm.cuh"
#include "neap/layers/cuda/kernels/norm/image_norm.h"
#include "neap/layers/cuda/kernels/norm/instance_norm_tiles.cuh"

namespace neap::kernels {

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

// Stands for no activation. An activation also has With<T>(run), which calls run(f) with its
// function f of activation.cuh for tensors of type T, the same one in all threads.
struct NoActivation {
  static constexpr bool kActivates = false;
};

// What a channel's elements become, in groups.
template <int kVec>
struct GroupConstants {
  Centred<kVec> centred;
  Vec<kVec> gamma, beta;
};
template <bool kLast, int kVec, typename Function>
__device__ __forceinline__ GroupConstants<kVec> GroupConstantsOf(const ImageNormOperands& in,
                                                                 const ImageNormStatistics& of,
                                                                 const GroupIndex& index,
                                                                 const Function&, size_t number) {
  const uint32_t c = index.Channel(number);
  GroupConstants<kVec> constants = {
      index.CentredOf<kLast, kVec>(of, number), PerChannelOr<kLast, kVec>(in.gamma, c, 1), {}};
  if constexpr (Function::kActivates) constants.beta = PerChannelOr<kLast, kVec>(in.beta, c, 0);
  return constants;
}

// The gradient of the norm's result for dy, `d`, that of the activation's.
template <typename T, int kVec, typename Function>
__device__ __forceinline__ void BeforeActivation(const Function& function,
                                                 const GroupConstants<kVec>& of, const Vec<kVec>& x,
                                                 Vec<kVec>& d) {
  if constexpr (Function::kActivates) {
    Vec<kVec> z;
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      z.v[k] = Normalised<T>(x.v[k], of.centred.mean.v[k],
                             __fmul_rn(of.centred.invstd.v[k], of.gamma.v[k]), of.beta.v[k]);
    }
    function.template With<T>([&](const auto& f) {
#pragma unroll
      for (int k = 0; k < kVec; ++k) d.v[k] = Rounded<T>(f.Gradient(z.v[k], d.v[k]));
    });
  }
}

template <typename T, typename Function>
struct GroupNormOp {
  ImageNormOperands in;
  ImageNormStatistics of;
  GroupIndex index;
  Function function;
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
    if constexpr (Function::kActivates) {
      function.template With<T>([&](const auto& f) {
#pragma unroll
        for (float& value : v.v) value = f.Value(value);
      });
    }
    Write<kVec>(y, i, v);
  }
};

// Sums dz and dz * xhat, where dz is the gradient of the norm's result.
template <typename T, typename Function>
struct GroupNormSumsOp {
  using Total = Sums<2>;
  ImageNormOperands in;
  ImageNormStatistics of;
  GroupIndex index;
  Function function;
  const T* dy;
  template <int kVec>
  using Registers = LoadedPair<T, kVec>;
  template <bool kLast, int kVec>
  __device__ GroupConstants<kVec> Prepare(size_t number, size_t) const {
    if constexpr (Function::kActivates) {
      return GroupConstantsOf<kLast, kVec>(in, of, index, function, number);
    } else {
      return {index.CentredOf<kLast, kVec>(of, number), {}, {}};
    }
  }
  template <int kVec>
  __device__ LoadedPair<T, kVec> Load(size_t i) const {
    return {Read<kVec>(As<T>(in.x), i), Read<kVec>(dy, i)};
  }
  template <int kVec>
  __device__ void Accumulate(const GroupConstants<kVec>& constants,
                             const LoadedPair<T, kVec>& loaded, size_t,
                             Accumulators<2, kVec>& sums) const {
    const Vec<kVec> values = Unpack(loaded.x);
    Vec<kVec> d = Unpack(loaded.dy);
    BeforeActivation<T>(function, constants, values, d);
    AddSums(d, values, constants.centred, sums);
  }
};

template <typename T, typename Function>
struct GroupNormBackwardOp {
  ImageNormOperands in;
  ImageNormStatistics of;
  ImageNormStatistics means;  // of gamma * dz, and of gamma * dz * xhat
  GroupIndex index;
  Function function;
  const T* dy;
  T* dx;
  template <int kVec>
  using Registers = LoadedPair<T, kVec>;
  template <int kVec>
  struct Constants {
    GroupConstants<kVec> of;
    Vec<kVec> mean_dz, mean_dz_xhat;
  };
  template <int kVec>
  __device__ LoadedPair<T, kVec> Load(size_t i) const {
    return {Read<kVec>(As<T>(in.x), i), Read<kVec>(dy, i)};
  }
  template <bool kLast, int kVec>
  __device__ Constants<kVec> Prepare(size_t number) const {
    return {GroupConstantsOf<kLast, kVec>(in, of, index, function, number),
            index.PerGroup<kLast, kVec>(means.mean, number),
            index.PerGroup<kLast, kVec>(means.invstd, number)};
  }
  template <int kVec>
  __device__ void Store(size_t i, const Constants<kVec>& c,
                        const LoadedPair<T, kVec>& loaded) const {
    const Vec<kVec> x = Unpack(loaded.x);
    Vec<kVec> d = Unpack(loaded.dy);
    BeforeActivation<T>(function, c.of, x, d);
    Write<kVec>(dx, i,
                ImageNormGradient(c.of.centred, c.of.gamma, c.mean_dz, c.mean_dz_xhat, x, d));
  }
};

// Two values for each group, behind the partial results.
ImageNormStatistics GroupsInScratch(const GroupNormShape& s, Element type, void* scratch);

// The number of values of a group.
inline double CountOf(const GroupNormShape& s) {
  return static_cast<double>(s.images.channels / s.groups * s.images.inner);
}

// The statistics of x.
cudaError_t GroupStatistics(const GroupNormShape& s, ConstArray x, float epsilon,
                            const ImageNormStatistics& statistics, void* scratch,
                            cudaStream_t stream);
// The sums of channels over all images, of those for each image and channel.
cudaError_t SumImages(const GroupNormShape& s, const ImagePartials<Sums<2>>& partials,
                      const ImageNormSums& sums, cudaStream_t stream);
// What follows from the sums for each image and channel: those of channels, and the means over
// groups of these sums times gamma.
cudaError_t MergeGroupSums(const GroupNormShape& s, const ImagePartials<Sums<2>>& partials,
                           const float* gamma, const ImageNormSums& sums,
                           const ImageNormStatistics& means, cudaStream_t stream);

template <typename Function>
cudaError_t GroupNormWith(const Function& function, const GroupNormShape& s,
                          const ImageNormOperands& in, float epsilon,
                          const ImageNormStatistics& statistics, bool given, Array y, void* scratch,
                          cudaStream_t stream) {
  const ImageNormStatistics of =
      statistics.mean == nullptr ? GroupsInScratch(s, y.type, scratch) : statistics;
  const bool is_tiled = !given && IsTiled(s);
  if (!given && !is_tiled) {
    const cudaError_t error = GroupStatistics(s, in.x, epsilon, of, scratch, stream);
    if (error != cudaSuccess) return error;
  }
  const auto run = [&]<typename T>() {
    const bool aligned = AllAligned16(in.x, y) && HasAlignedParameters(s.images, in);
    const GroupNormOp<T, Function> op = {in, of, GroupIndex(s), function, As<T>(y)};
    if (is_tiled) {
      const TileMomentsFinal final = {
          {.count = CountOf(s), .epsilon = epsilon, .state = {of.mean, of.invstd}}};
      return ReduceAndMap<T>(s.images, aligned, TensorMomentsOp<T>{As<T>(in.x)}, final, op, stream);
    }
    return MapImages<T>(s.images, aligned, op, stream);
  };
  return WithElement(run, in.x, y);
}

template <typename Function>
cudaError_t GroupNormBackwardWith(const Function& function, const GroupNormShape& s,
                                  const ImageNormOperands& in,
                                  const ImageNormStatistics& statistics, ConstArray dy,
                                  const ImageNormSums& sums, Array dx, void* scratch,
                                  cudaStream_t stream) {
  const ImageNormStatistics means = GroupsInScratch(s, dx.type, scratch);
  const GroupIndex index(s);
  const bool aligned = AllAligned16(in.x, dy) && HasAlignedParameters(s.images, in);
  const auto run = [&]<typename T>() {
    ImagePartials<Sums<2>> partials;
    const GroupNormSumsOp<T, Function> sums_op = {in, statistics, index, function, As<T>(dy)};
    const GroupNormBackwardOp<T, Function> op = {in,       statistics, means,    index,
                                                 function, As<T>(dy),  As<T>(dx)};
    if (IsTiled(s)) {
      partials.partial = static_cast<Sums<2>::Of<float>*>(scratch);
      const TileSumsFinal final = {partials.partial, in.gamma, index.channels, CountOf(s), means};
      const cudaError_t mapped =
          ReduceAndMap<T>(s.images, aligned && Aligned16(dx), sums_op, final, op, stream);
      const bool sums_images = mapped == cudaSuccess && sums.dgamma != nullptr;
      return sums_images ? SumImages(s, partials, sums, stream) : mapped;
    }
    cudaError_t error = ReduceImages<T>(s.images, aligned, sums_op, scratch, partials, stream);
    if (error == cudaSuccess) error = MergeGroupSums(s, partials, in.gamma, sums, means, stream);
    if (error != cudaSuccess) return error;
    return MapImages<T>(s.images, aligned && Aligned16(dx), op, stream);
  };
  return WithElement(run, in.x, dy, dx);
}

}  // namespace neap::kernels
