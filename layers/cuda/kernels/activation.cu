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

template <typename Function>
cudaError_t Forward(ConstArray x, Array y, int64_t n, cudaStream_t stream,
                    const Function& function = {}) {
  const auto run = [&]<typename T>() {
    return Map<T>(FunctionOp<Function, T>{As<T>(x), As<T>(y), function}, n, AllAligned16(x, y),
                  stream);
  };
  return WithElement(run, x, y);
}
template <typename Function>
cudaError_t Backward(ConstArray value, ConstArray dy, Array dx, int64_t n, cudaStream_t stream,
                     const Function& function = {}) {
  const auto run = [&]<typename T>() {
    return Map<T>(ActivationBackwardOp<Function, T>{As<T>(value), As<T>(dy), As<T>(dx), function},
                  n, AllAligned16(value, dy, dx), stream);
  };
  return WithElement(run, value, dy, dx);
}

}  // namespace

cudaError_t Relu(ConstArray x, Array y, int64_t n, cudaStream_t stream) {
  return Forward<ReluFunction>(x, y, n, stream);
}
cudaError_t ReluBackward(ConstArray y, ConstArray dy, Array dx, int64_t n, cudaStream_t stream) {
  return Backward<ReluFunction>(y, dy, dx, n, stream);
}
cudaError_t LeakyRelu(ConstArray x, Array y, int64_t n, float slope, cudaStream_t stream) {
  return Forward<LeakyReluFunction>(x, y, n, stream, {slope});
}
cudaError_t LeakyReluBackward(ConstArray y, ConstArray dy, Array dx, int64_t n, float slope,
                              cudaStream_t stream) {
  return Backward<LeakyReluFunction>(y, dy, dx, n, stream, {slope});
}
cudaError_t Clip(ConstArray x, Array y, int64_t n, float low, float high, cudaStream_t stream) {
  return Forward<ClipFunction>(x, y, n, stream, {low, high});
}
cudaError_t ClipBackward(ConstArray y, ConstArray dy, Array dx, int64_t n, float low, float high,
                         cudaStream_t stream) {
  return Backward<ClipFunction>(y, dy, dx, n, stream, {low, high});
}
cudaError_t Sigmoid(ConstArray x, Array y, int64_t n, cudaStream_t stream) {
  return Forward<SigmoidFunction>(x, y, n, stream);
}
cudaError_t SigmoidBackward(ConstArray y, ConstArray dy, Array dx, int64_t n, cudaStream_t stream) {
  return Backward<SigmoidFunction>(y, dy, dx, n, stream);
}
cudaError_t Tanh(ConstArray x, Array y, int64_t n, cudaStream_t stream) {
  return Forward<TanhFunction>(x, y, n, stream);
}
cudaError_t TanhBackward(ConstArray y, ConstArray dy, Array dx, int64_t n, cudaStream_t stream) {
  return Backward<TanhFunction>(y, dy, dx, n, stream);
}
cudaError_t HardSigmoid(ConstArray x, Array y, int64_t n, cudaStream_t stream) {
  return Forward<HardSigmoidFunction>(x, y, n, stream);
}
cudaError_t HardSigmoidBackward(ConstArray x, ConstArray dy, Array dx, int64_t n,
                                cudaStream_t stream) {
  return Backward<HardSigmoidFunction>(x, dy, dx, n, stream);
}
cudaError_t HardSwish(ConstArray x, Array y, int64_t n, cudaStream_t stream) {
  return Forward<HardSwishFunction>(x, y, n, stream);
}
cudaError_t HardSwishBackward(ConstArray x, ConstArray dy, Array dx, int64_t n,
                              cudaStream_t stream) {
  return Backward<HardSwishFunction>(x, dy, dx, n, stream);
}
cudaError_t Silu(ConstArray x, Array y, int64_t n, cudaStream_t stream) {
  return Forward<SiluFunction>(x, y, n, stream);
}
cudaError_t SiluBackward(ConstArray x, ConstArray dy, Array dx, int64_t n, cudaStream_t stream) {
  return Backward<SiluFunction>(x, dy, dx, n, stream);
}

}  // namespace neap::kernels
