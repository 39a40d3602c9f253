// Group norm with an activation behind it (layers/fusion/activated_group_norm.h), in the passes of
// group norm alone. Relu and LeakyRelu, a comparison each, share their kernels, and so do the
// others: in one kernel with functions that take more registers, fewer of its blocks would be on a
// multiprocessor, and kernels for each would take more time to compile.
#include "neap/layers/cuda/kernels/activation.cuh"
#include "neap/layers/cuda/kernels/norm/group_norm.cuh"
#include "neap/layers/cuda/kernels/norm/image_norm.h"

namespace neap::kernels {
namespace {

struct Rectifier {
  static constexpr bool kActivates = true;
  bool is_relu;
  float slope;
  template <typename T, typename Run>
  __device__ __forceinline__ void With(const Run& run) const {
    if (is_relu) {
      run(ReluFunction{});
    } else {
      run(LeakyReluFunction{slope});
    }
  }
};

// Silu or a Gelu.
struct SmoothActivation {
  static constexpr bool kActivates = true;
  Activation::Function function;
  template <typename T, typename Run>
  __device__ __forceinline__ void With(const Run& run) const {
    switch (function) {
      case Activation::Function::kGelu:
        return run(GeluFunction<T>{});
      case Activation::Function::kTanhGelu:
        return run(TanhGeluFunction<T>{});
      default:
        return run(SiluFunction<T>{});
    }
  }
};

// Calls run(function).
template <typename Run>
cudaError_t WithNormActivation(const Activation& activation, const Run& run) {
  switch (activation.function) {
    case Activation::Function::kRelu:
    case Activation::Function::kLeakyRelu:
      return run(Rectifier{activation.function == Activation::Function::kRelu, activation.a});
    case Activation::Function::kSilu:
    case Activation::Function::kGelu:
    case Activation::Function::kTanhGelu:
      return run(SmoothActivation{activation.function});
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t GroupNormActivated(const GroupNormShape& s, const ImageNormOperands& in, float epsilon,
                               const ImageNormStatistics& statistics, bool given,
                               const Activation& activation, Array y, void* scratch,
                               cudaStream_t stream) {
  return WithNormActivation(activation, [&](const auto& function) {
    return GroupNormWith(function, s, in, epsilon, statistics, given, y, scratch, stream);
  });
}

cudaError_t GroupNormActivatedBackward(const GroupNormShape& s, const ImageNormOperands& in,
                                       const ImageNormStatistics& statistics,
                                       const Activation& activation, ConstArray dy,
                                       const ImageNormSums& sums, Array dx, void* scratch,
                                       cudaStream_t stream) {
  return WithNormActivation(activation, [&](const auto& function) {
    return GroupNormBackwardWith(function, s, in, statistics, dy, sums, dx, scratch, stream);
  });
}

}  // namespace neap::kernels
