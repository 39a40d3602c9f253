// Activations, sums, dropout and the optimizer, each as one pass over flat memory.
#include "neap/core/base/philox.h"
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

struct ReluFunction {
  __device__ static float Forward(float x) { return ReluOf(x); }
  __device__ static float Backward(float y, float dy) { return ReluGradient(y, dy); }
};
struct SigmoidFunction {
  __device__ static float Forward(float x) { return 1.0F / (1.0F + expf(-x)); }
  __device__ static float Backward(float y, float dy) { return dy * (1.0F - y) * y; }
};
struct TanhFunction {
  __device__ static float Forward(float x) { return tanhf(x); }
  __device__ static float Backward(float y, float dy) { return dy * (1.0F - y * y); }
};

template <typename Function>
struct ForwardOp {
  const float* x;
  float* y;
  template <int kVec>
  using Registers = Vec<kVec>;
  template <int kVec>
  __device__ Vec<kVec> Load(size_t i) const {
    return At<kVec>(x, i);
  }
  template <int kVec>
  __device__ void Store(size_t i, Vec<kVec> v) const {
#pragma unroll
    for (float& f : v.v) f = Function::Forward(f);
    At<kVec>(y, i) = v;
  }
};

template <int kVec>
struct Pair {
  Vec<kVec> a, b;
};

template <typename Function>
struct BackwardOp {
  const float* y;
  const float* dy;
  float* dx;
  template <int kVec>
  using Registers = Pair<kVec>;
  template <int kVec>
  __device__ Pair<kVec> Load(size_t i) const {
    return {At<kVec>(y, i), At<kVec>(dy, i)};
  }
  template <int kVec>
  __device__ void Store(size_t i, Pair<kVec> in) const {
#pragma unroll
    for (int k = 0; k < kVec; ++k) in.b.v[k] = Function::Backward(in.a.v[k], in.b.v[k]);
    At<kVec>(dx, i) = in.b;
  }
};

template <typename Function>
cudaError_t Forward(const float* x, float* y, int64_t n, cudaStream_t stream) {
  return Map(ForwardOp<Function>{x, y}, n, AllAligned16(x, y), stream);
}
template <typename Function>
cudaError_t Backward(const float* y, const float* dy, float* dx, int64_t n, cudaStream_t stream) {
  return Map(BackwardOp<Function>{y, dy, dx}, n, AllAligned16(y, dy, dx), stream);
}

template <int kCount>
struct AddOp {
  const float* inputs[kCount];
  float* y;
  template <int kVec>
  struct Registers {
    Vec<kVec> in[kCount];
  };
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    Registers<kVec> r;
#pragma unroll
    for (int j = 0; j < kCount; ++j) r.in[j] = At<kVec>(inputs[j], i);
    return r;
  }
  template <int kVec>
  __device__ void Store(size_t i, Registers<kVec> r) const {
#pragma unroll
    for (int j = 1; j < kCount; ++j) {
#pragma unroll
      for (int k = 0; k < kVec; ++k) r.in[0].v[k] += r.in[j].v[k];
    }
    At<kVec>(y, i) = r.in[0];
  }
};

template <int kCount>
cudaError_t AddSome(const float* const* inputs, float* y, int64_t n, cudaStream_t stream) {
  AddOp<kCount> op = {.y = y};
  bool aligned = Aligned16(y);
  for (int j = 0; j < kCount; ++j) {
    op.inputs[j] = inputs[j];
    aligned = aligned && Aligned16(inputs[j]);
  }
  return Map(op, n, aligned, stream);
}

// The device's copy of IterationScalars (core/step/layer.h).
struct Scalars {
  float learning_rate;
  uint32_t step;
  uint64_t seed;
};

// One Philox block makes the mask of four neighbours, so a thread computes four elements whatever
// the alignment.
__global__ void __launch_bounds__(kThreads)
    DropoutKernel(const float* x, float* y, size_t n, float probability, uint64_t layer_seed,
                  const Scalars* scalars, bool aligned) {
  const size_t group = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  const size_t first = group * 4;
  if (first >= n) return;
  const uint64_t stream = layer_seed + uint64_t{0x9E3779B97F4A7C15} * (scalars->step + 1);
  const PhiloxBlock random = Philox({.key = scalars->seed, .stream = stream, .position = group});
  const float scale = 1.0F / (1.0F - probability);
  const uint32_t bits[4] = {random[0], random[1], random[2], random[3]};
  if (aligned && first + 4 <= n) {
    Vec<4> v = At<4>(x, group);
#pragma unroll
    for (int k = 0; k < 4; ++k)
      v.v[k] = ToUnitFloat(bits[k]) >= probability ? v.v[k] * scale : 0.0F;
    At<4>(y, group) = v;
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (first + k < n)
      y[first + k] = ToUnitFloat(bits[k]) >= probability ? x[first + k] * scale : 0.0F;
  }
}

template <int kVec>
__device__ void UpdateVector(const SgdTensors& t, int which, size_t i, float momentum, float decay,
                             float rate) {
  Vec<kVec> w = At<kVec>(t.parameters[which], i);
  Vec<kVec> g = At<kVec>(t.gradients[which], i);
  float* const velocity = t.velocities[which];
  Vec<kVec> v = {};
  if (velocity != nullptr) v = At<kVec>(static_cast<const float*>(velocity), i);
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    v.v[k] = momentum * v.v[k] + (g.v[k] + decay * w.v[k]);
    w.v[k] -= rate * v.v[k];
  }
  if (velocity != nullptr) At<kVec>(velocity, i) = v;
  At<kVec>(t.parameters[which], i) = w;
}

// blockIdx.y chooses the tensor. For a small tensor, most blocks have no work.
__global__ void __launch_bounds__(kThreads) SgdKernel(SgdTensors t, float momentum, float decay,
                                                      const Scalars* scalars, unsigned vectorised) {
  const int which = static_cast<int>(blockIdx.y);
  const float rate = scalars->learning_rate;
  const size_t n = static_cast<size_t>(t.elements[which]);
  const size_t step = static_cast<size_t>(gridDim.x) * kThreads;
  const size_t first = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if ((vectorised >> which & 1U) != 0) {
    for (size_t i = first; i < n / 4; i += step)
      UpdateVector<4>(t, which, i, momentum, decay, rate);
    return;
  }
  for (size_t i = first; i < n; i += step) UpdateVector<1>(t, which, i, momentum, decay, rate);
}

}  // namespace

cudaError_t Relu(const float* x, float* y, int64_t n, cudaStream_t stream) {
  return Forward<ReluFunction>(x, y, n, stream);
}
cudaError_t ReluBackward(const float* y, const float* dy, float* dx, int64_t n,
                         cudaStream_t stream) {
  return Backward<ReluFunction>(y, dy, dx, n, stream);
}
cudaError_t Sigmoid(const float* x, float* y, int64_t n, cudaStream_t stream) {
  return Forward<SigmoidFunction>(x, y, n, stream);
}
cudaError_t SigmoidBackward(const float* y, const float* dy, float* dx, int64_t n,
                            cudaStream_t stream) {
  return Backward<SigmoidFunction>(y, dy, dx, n, stream);
}
cudaError_t Tanh(const float* x, float* y, int64_t n, cudaStream_t stream) {
  return Forward<TanhFunction>(x, y, n, stream);
}
cudaError_t TanhBackward(const float* y, const float* dy, float* dx, int64_t n,
                         cudaStream_t stream) {
  return Backward<TanhFunction>(y, dy, dx, n, stream);
}

cudaError_t Add(const float* const* inputs, int count, float* y, int64_t n, cudaStream_t stream) {
  switch (count) {
    case 1:
      return AddSome<1>(inputs, y, n, stream);
    case 2:
      return AddSome<2>(inputs, y, n, stream);
    case 3:
      return AddSome<3>(inputs, y, n, stream);
    case 4:
      return AddSome<4>(inputs, y, n, stream);
    case 5:
      return AddSome<5>(inputs, y, n, stream);
    case 6:
      return AddSome<6>(inputs, y, n, stream);
    case 7:
      return AddSome<7>(inputs, y, n, stream);
    case 8:
      return AddSome<8>(inputs, y, n, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t Dropout(const float* x, float* y, int64_t n, float probability, uint64_t layer_seed,
                    const void* scalars, cudaStream_t stream) {
  if (n == 0) return cudaSuccess;
  const unsigned blocks = static_cast<unsigned>(CeilDiv(n, 4 * kThreads));
  DropoutKernel<<<blocks, kThreads, 0, stream>>>(x, y, static_cast<size_t>(n), probability,
                                                 layer_seed, static_cast<const Scalars*>(scalars),
                                                 AllAligned16(x, y));
  return cudaGetLastError();
}

cudaError_t SgdUpdate(const SgdTensors& tensors, float momentum, float weight_decay,
                      const void* scalars, cudaStream_t stream) {
  int64_t largest = 0;
  unsigned vectorised = 0;
  for (int i = 0; i < tensors.count; ++i) {
    largest = tensors.elements[i] > largest ? tensors.elements[i] : largest;
    const bool aligned = AllAligned16(tensors.parameters[i], tensors.gradients[i],
                                      static_cast<const float*>(tensors.velocities[i]));
    if (aligned && tensors.elements[i] % 4 == 0) vectorised |= 1U << i;
  }
  if (largest == 0) return cudaSuccess;
  constexpr int64_t kMostBlocks = 4096;
  const int64_t wanted = CeilDiv(largest, 4 * kThreads);
  const dim3 grid(static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks),
                  static_cast<unsigned>(tensors.count));
  SgdKernel<<<grid, kThreads, 0, stream>>>(tensors, momentum, weight_decay,
                                           static_cast<const Scalars*>(scalars), vectorised);
  return cudaGetLastError();
}

}  // namespace neap::kernels
