// Activations (layers/activation.h), each as one pass over flat memory.
#include "neap/layers/cuda/kernels/activation.cuh"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

template <typename V>
struct Pair {
  V a, b;
};

template <typename Function, typename T>
struct ActivationBackwardOp {
  const T* value;  // y, or x
  const T* dy;
  T* dx;
  Function function;
  template <int kVec>
  using Registers = Pair<Packed<T, kVec>>;
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    return {Read<kVec>(value, i), Read<kVec>(dy, i)};
  }
  template <int kVec>
  __device__ void Store(size_t i, const Registers<kVec>& in) const {
    const Vec<kVec> values = Unpack(in.a);
    Vec<kVec> v = Unpack(in.b);
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] = function.Gradient(values.v[k], v.v[k]);
    Write<kVec>(dx, i, v);
  }
};

// Calls run(function) with the function for tensors of type T.
template <typename T, typename Run>
cudaError_t WithActivation(const Activation& of, const Run& run) {
  using Function = Activation::Function;
  switch (of.function) {
    case Function::kRelu:
      return run(ReluFunction{});
    case Function::kLeakyRelu:
      return run(LeakyReluFunction{of.a});
    case Function::kClip:
      return run(ClipFunction{of.a, of.b});
    case Function::kSigmoid:
      return run(SigmoidFunction<T>{});
    case Function::kTanh:
      return run(TanhFunction<T>{});
    case Function::kHardSigmoid:
      return run(HardSigmoidFunction{});
    case Function::kHardSwish:
      return run(HardSwishFunction{});
    case Function::kSilu:
      return run(SiluFunction<T>{});
    case Function::kGelu:
      return run(GeluFunction<T>{});
    case Function::kTanhGelu:
      return run(TanhGeluFunction<T>{});
    case Function::kElu:
      return run(EluFunction<T>{of.a});
    case Function::kSoftplus:
      return run(SoftplusFunction<T>{of.a, of.b});
    case Function::kMish:
      return run(MishFunction<T>{});
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t Activate(const Activation& activation, ConstArray x, Array y, int64_t n,
                     cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return WithActivation<T>(activation, [&]<typename Function>(const Function& function) {
      return Map<T>(FunctionOp<Function, T>{As<T>(x), As<T>(y), function}, n, AllAligned16(x, y),
                    stream);
    });
  };
  return WithElement(run, x, y);
}

cudaError_t ActivateBackward(const Activation& activation, ConstArray value, ConstArray dy,
                             Array dx, int64_t n, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return WithActivation<T>(activation, [&]<typename Function>(const Function& function) {
      return Map<T>(ActivationBackwardOp<Function, T>{As<T>(value), As<T>(dy), As<T>(dx), function},
                    n, AllAligned16(value, dy, dx), stream);
    });
  };
  return WithElement(run, value, dy, dx);
}

}  // namespace neap::kernels
