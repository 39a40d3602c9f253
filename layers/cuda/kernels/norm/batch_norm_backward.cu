// Batch norm, backward: sums, and then a map that uses them. The sum, the ReLU and the max pooling
// behind a batch norm take part in both passes (layers/fusion/norm_pass.h).
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"
#include "neap/layers/cuda/kernels/norm/batch_norm_passes.cuh"
#include "neap/layers/cuda/kernels/pooling/pooled_gradient.cuh"

namespace neap::kernels {
namespace {

// `Source` gathers dy.
template <typename Source, typename T>
struct PooledSumsOp : SumsOp<Gradient<Through::kNothing, Source, T>, T> {
  static constexpr int kLoads = Source::kLoads;
};

}  // namespace

cudaError_t BatchNormBackward(const ChannelShape& s, const BatchNormOperands& in,
                              const BatchNormGradient& gradient, const BatchNormSums& sums,
                              Array dx, const ReductionMemory& memory, cudaStream_t stream) {
  const Array& daddend = gradient.daddend;
  const Passes passes = {s, in, sums, dx, daddend, memory, stream};
  const bool aligned = AllAligned16(in) && AllAligned16(gradient.dy, gradient.other);
  const auto run = [&]<typename T>() {
    using Stored = Gradient<Through::kMaskOrRelu, StoredGradient<T>, T>;
    const auto run_through_daddend = [&]<typename Source>(const Source& source) {
      const cudaError_t error = passes.Sum<T>(source, aligned);
      if (error != cudaSuccess) return error;
      // It holds dz.
      return passes.Map<T>(Stored{in, {As<T>(daddend)}}, aligned && Aligned16(daddend));
    };
    if (gradient.other.data != nullptr) {
      if (daddend.data == nullptr) return cudaErrorInvalidValue;
      const SummedGradient<T> dy = {As<T>(gradient.dy), As<T>(gradient.other)};
      return run_through_daddend(
          Gradient<Through::kMask, SummedGradient<T>, T>{in, dy, gradient.mask});
    }
    const bool relu = gradient.relu && gradient.mask == nullptr;
    const Stored source = {in, {As<T>(gradient.dy)}, gradient.mask, relu};
    return daddend.data == nullptr ? passes.Run<T>(source, aligned) : run_through_daddend(source);
  };
  return WithElement(run, in.x, gradient.dy, gradient.other, daddend, dx);
}

cudaError_t BatchNormPoolBackward(const ChannelShape& s, const PoolShape& pool,
                                  const BatchNormOperands& in, ConstArray dy, const uint8_t* index,
                                  const BatchNormSums& sums, Array dx,
                                  const ReductionMemory& memory, cudaStream_t stream) {
  const bool aligned = AllAligned16(in) && AllAligned16(dy, index, dx);
  // dx holds dz between the passes: it takes longer to gather than to read again.
  const auto run = [&]<typename T>() {
    const auto make = [&]<typename Source>(const Source& gathered) {
      using Dz = Gradient<Through::kNothing, Source, T>;
      return PooledSumsOp<Source, T>{{Dz{in, gathered}, As<T>(dx)}};
    };
    const cudaError_t error =
        ReducePooled(s, pool, aligned, As<T>(dy), index, make, GradientFinal{sums}, memory, stream);
    if (error != cudaSuccess) return error;
    using Stored = Gradient<Through::kMaskOrRelu, StoredGradient<T>, T>;
    return Passes{s, in, sums, dx, {}, memory, stream}.Map<T>(Stored{in, {As<T>(dx)}}, aligned);
  };
  return WithElement(run, in.x, dy, dx);
}

cudaError_t SummedBatchNormsBackward(const ChannelShape& s, const SummedBatchNorms& norms,
                                     ConstArray dy, const uint8_t* mask,
                                     const ReductionMemory& memory, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return RunBoth<T>(s, norms, StoredGradient<T>{As<T>(dy)}, mask, Aligned16(dy), memory, stream);
  };
  return WithElement(run, norms.first.x, norms.second.x, dy, norms.dx, norms.dother);
}

}  // namespace neap::kernels
