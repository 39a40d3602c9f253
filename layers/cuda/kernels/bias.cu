// Bias: forward adds it to every element of its channel; its gradient is the sum over the channel.
// The ReLU and the max pooling behind it can take part in both passes (layers/fusion/fused_relu.h).
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/pooling/pooled_gradient.cuh"
#include "neap/layers/cuda/kernels/pooling/pooling.cuh"

namespace neap::kernels {
namespace {

// Sums dy.
template <typename T>
struct SumOp {
  using Total = Sums<1>;
  const T* dy;
  struct Nothing {};
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <bool kLast, int kVec>
  __device__ Nothing Prepare(size_t, size_t) const {
    return {};
  }
  template <int kVec>
  __device__ Packed<T, kVec> Load(size_t i) const {
    return Read<kVec>(dy, i);
  }
  template <int kVec>
  __device__ void Accumulate(Nothing, const Packed<T, kVec>& in, size_t,
                             Accumulators<1, kVec>& sums) const {
    const Vec<kVec> v = Unpack(in);
#pragma unroll
    for (int k = 0; k < kVec; ++k) sums.v[0].v[k] += v.v[k];
  }
};

// Computes the gradient before the ReLU, and sums it.
template <typename T>
struct ReluSumOp {
  using Total = Sums<1>;
  const T* y;
  const T* dy;
  T* dx;
  struct Nothing {};
  template <int kVec>
  using Registers = Two<Packed<T, kVec>>;
  template <bool kLast, int kVec>
  __device__ Nothing Prepare(size_t, size_t) const {
    return {};
  }
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    return {Read<kVec>(y, i), Read<kVec>(dy, i)};
  }
  template <int kVec>
  __device__ void Accumulate(Nothing, const Registers<kVec>& in, size_t i,
                             Accumulators<1, kVec>& sums) const {
    const Vec<kVec> out = Unpack(in.a);
    Vec<kVec> v = Unpack(in.b);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      v.v[k] = ReluGradient(out.v[k], v.v[k]);
      sums.v[0].v[k] += v.v[k];
    }
    Write<kVec>(dx, i, v);
  }
};

// Computes the gradient before the max pool and the ReLU, and sums it.
template <typename Gradient, typename T>
struct PoolSumOp {
  static constexpr int kRowThreads = Gradient::kRowThreads;
  static constexpr int kLoads = Gradient::kLoads;
  using Total = Sums<1>;
  Gradient gradient;
  T* dx;
  struct Nothing {};
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <bool kLast, int kVec>
  __device__ Nothing Prepare(size_t, size_t) const {
    return {};
  }
  template <int kVec>
  __device__ Packed<T, kVec> Load(size_t i) const {
    return gradient.template Load<kVec>(i);
  }
  template <int kVec>
  __device__ void Accumulate(Nothing, const Packed<T, kVec>& in, size_t i,
                             Accumulators<1, kVec>& sums) const {
    const Vec<kVec> v = Unpack(in);
#pragma unroll
    for (int k = 0; k < kVec; ++k) sums.v[0].v[k] += v.v[k];
    Write<kVec>(dx, i, in);
  }
};

// What is pooled is relu(x + bias).
template <typename T>
struct BiasBefore {
  static constexpr bool kRelu = true;
  const float* bias;
  template <int kVec>
  __device__ Vec<kVec> Prepare(size_t c) const {
    return bias == nullptr ? Vec<kVec>{} : ReadFloats<kVec>(bias, c / kVec);
  }
  template <int kVec>
  __device__ void Apply(const Vec<kVec>& b, Vec<kVec>& v) const {
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] = ReluOf(Rounded<T>(v.v[k] + b.v[k]));
  }
};

// y = x + bias, or relu of it.
template <typename T>
struct BiasOp {
  const T* x;
  const float* bias;
  T* y;
  bool relu;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <int kVec>
  __device__ Packed<T, kVec> Load(size_t i) const {
    return Read<kVec>(x, i);
  }
  template <bool kLast, int kVec>
  __device__ Vec<kVec> Prepare(size_t c) const {
    return PerChannel<kLast, kVec>(bias, c);
  }
  template <int kVec>
  __device__ void Store(size_t i, const Vec<kVec>& b, const Packed<T, kVec>& in) const {
    Vec<kVec> v = Unpack(in);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      v.v[k] += b.v[k];
      if (relu) v.v[k] = ReluOf(Rounded<T>(v.v[k]));
    }
    Write<kVec>(y, i, v);
  }
};

}  // namespace

int64_t ChannelScratchBytes(const ChannelShape& s, Element type) {
  return PartialBytes(s, type, kPartBytes, kWantedBlocks);
}

cudaError_t AddBias(const ChannelShape& s, const float* bias, Array y, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    T* const values = As<T>(y);
    return MapChannels<T>(s, AllAligned16(bias, y), BiasOp<T>{values, bias, values, false}, stream);
  };
  return WithElement(run, y);
}

cudaError_t BiasRelu(const ChannelShape& s, ConstArray x, const float* bias, Array y,
                     cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return MapChannels<T>(s, AllAligned16(x, bias, y), BiasOp<T>{As<T>(x), bias, As<T>(y), true},
                          stream);
  };
  return WithElement(run, x, y);
}

cudaError_t BiasReluBackward(const ChannelShape& s, ConstArray y, ConstArray dy, Array dx,
                             float* dbias, const ReductionMemory& memory, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const ReluSumOp<T> op = {As<T>(y), As<T>(dy), As<T>(dx)};
    return Reduce<T>(s, AllAligned16(y, dy, dx), op, StoreSum{dbias, false}, memory, stream);
  };
  return WithElement(run, y, dy, dx);
}

cudaError_t BiasReluPool(const PoolShape& s, int64_t channels, ConstArray x, const float* bias,
                         Array y, uint8_t* index, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return LaunchMaxPool(s, channels, BiasBefore<T>{bias}, Aligned16(bias), As<T>(x), As<T>(y),
                         index, stream);
  };
  return WithElement(run, x, y);
}

cudaError_t BiasReluPoolBackward(const ChannelShape& s, const PoolShape& pool, ConstArray dy,
                                 const uint8_t* index, Array dx, float* dbias,
                                 const ReductionMemory& memory, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const auto make = [&]<typename Gradient>(const Gradient& gradient) {
      return PoolSumOp<Gradient, T>{gradient, As<T>(dx)};
    };
    return ReducePooled(s, pool, AllAligned16(dy, dx, index), As<T>(dy), index, make,
                        StoreSum{dbias, false}, memory, stream);
  };
  return WithElement(run, dy, dx);
}

cudaError_t BiasGradient(const ChannelShape& s, ConstArray dy, float* dbias, bool add,
                         const ReductionMemory& memory, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return Reduce<T>(s, Aligned16(dy), SumOp<T>{As<T>(dy)}, StoreSum{dbias, add}, memory, stream);
  };
  return WithElement(run, dy);
}

}  // namespace neap::kernels
