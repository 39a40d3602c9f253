// Batch norm, forward: statistics, and then a map that applies them. The sum, the ReLU and the max
// pooling that follow a batch norm take part in the map, so they cost no pass of their own
// (layers/fusion/norm_pass.h).
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"
#include "neap/layers/cuda/kernels/norm/batch_norm_apply.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_moments.cuh"
#include "neap/layers/cuda/kernels/pooling/pooling.cuh"

namespace neap::kernels {
namespace {

template <Addend kAddend, typename T>
struct ApplyOp {
  Applied<kAddend, T> applied;
  uint8_t* mask;
  T* y;
  template <int kVec>
  using Registers = typename Applied<kAddend, T>::template Registers<kVec>;
  template <int kVec>
  using Constants = typename Applied<kAddend, T>::template Constants<kVec>;
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    return applied.template Load<kVec>(i);
  }
  template <bool kLast, int kVec>
  __device__ Constants<kVec> Prepare(size_t c) const {
    return applied.template Prepare<kLast, kVec>(c);
  }
  template <int kVec>
  __device__ void Store(size_t i, const Constants<kVec>& of, const Registers<kVec>& v) const {
    unsigned bits = 0;
    Write<kVec>(y, i, applied.template Of<kVec>(of, v, [&](int k, float rounded) {
      if constexpr (kVec > 1) bits |= MaskBit(rounded) << k;
    }));
    if constexpr (kVec > 1) {
      if (mask != nullptr) mask[i] = static_cast<uint8_t>(bits);
    }
  }
};

template <Addend kAddend, typename T>
cudaError_t ApplyTo(const ChannelShape& s, const BatchNormOperands& in,
                    const BatchNormEpilogue& epilogue, Array y, cudaStream_t stream) {
  const BatchNormOperands& addend = epilogue.addend;
  const bool aligned = AllAligned16(in) && AllAligned16(addend) && Aligned16(y);
  const cudaError_t error = MapChannels<T>(
      s, aligned, ApplyOp<kAddend, T>{{in, addend, epilogue.relu}, epilogue.mask, As<T>(y)},
      stream);
  if (error != cudaSuccess || epilogue.mask == nullptr) return error;
  if (aligned && Vectorised(s, kWide<T>)) return cudaSuccess;
  // Vectors do not fit the tensor.
  return ReluMask(y, s.outer * s.channels * s.inner, epilogue.mask, stream);
}

cudaError_t ReduceMoments(const ChannelShape& s, ConstArray x, const StatisticsFinal& final,
                          const ReductionMemory& memory, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return Reduce<T>(s, Aligned16(x), TensorMomentsOp<T>{As<T>(x)}, final, memory, stream);
  };
  return WithElement(run, x);
}

// The pooled values are relu(normalised x).
template <typename T>
struct NormaliseBefore {
  static constexpr bool kRelu = true;
  BatchNormOperands in;
  template <int kVec>
  __device__ Normalisation<kVec> Prepare(size_t c) const {
    return NormalisationOf<true, kVec>(in, c);
  }
  template <int kVec>
  __device__ void Apply(const Normalisation<kVec>& of, Vec<kVec>& v) const {
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] = ReluOf(of.template Of<T>(v.v[k], k));
  }
};

}  // namespace

cudaError_t BatchNormStatistics(const ChannelShape& s, ConstArray x, float epsilon, float momentum,
                                const BatchNormState& state, const ReductionMemory& memory,
                                cudaStream_t stream) {
  const StatisticsFinal final = {.count = static_cast<double>(s.outer * s.inner),
                                 .epsilon = epsilon,
                                 .momentum = momentum,
                                 .state = state};
  return ReduceMoments(s, x, final, memory, stream);
}

cudaError_t BatchNormRankStatistics(const ChannelShape& s, ConstArray x, int rank,
                                    const BatchNormRows& rows, const ReductionMemory& memory,
                                    cudaStream_t stream) {
  const StatisticsFinal final = {
      .count = static_cast<double>(s.outer * s.inner), .rows = rows, .rank = rank};
  return ReduceMoments(s, x, final, memory, stream);
}

cudaError_t BatchNormApply(const ChannelShape& s, const BatchNormOperands& in,
                           const BatchNormEpilogue& epilogue, Array y, cudaStream_t stream) {
  const auto run = [&]<Addend kAddend, typename T>() {
    return ApplyTo<kAddend, T>(s, in, epilogue, y, stream);
  };
  return WithAddend(in, epilogue.addend, y, run);
}

cudaError_t BatchNormReluPool(const PoolShape& s, int64_t channels, const BatchNormOperands& in,
                              Array y, uint8_t* index, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return LaunchMaxPool(s, channels, NormaliseBefore<T>{in}, AllAligned16(in), As<T>(in.x),
                         As<T>(y), index, stream);
  };
  return WithElement(run, in.x, y);
}

}  // namespace neap::kernels
