// Bias: forward adds it to every element of its channel; its gradient is the sum over the channel.
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

// Sums dy.
template <typename T>
struct SumOp {
  using Total = Sums;
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
                             Two<Vec<kVec>>& sums) const {
    const Vec<kVec> v = Unpack(in);
#pragma unroll
    for (int k = 0; k < kVec; ++k) sums.a.v[k] += v.v[k];
  }
};

template <typename T>
struct BiasOp {
  const float* bias;
  T* y;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <int kVec>
  __device__ Packed<T, kVec> Load(size_t i) const {
    return Read<kVec>(y, i);
  }
  template <bool kLast, int kVec>
  __device__ Vec<kVec> Prepare(size_t c) const {
    return PerChannel<kLast, kVec>(bias, c);
  }
  template <int kVec>
  __device__ void Store(size_t i, const Vec<kVec>& b, const Packed<T, kVec>& in) const {
    Vec<kVec> v = Unpack(in);
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] += b.v[k];
    Write<kVec>(y, i, v);
  }
};

struct BiasFinal {
  float* dbias;
  bool add;
  __device__ void operator()(uint32_t c, const Sums::Of<double>& sums) const {
    const float sum = static_cast<float>(sums.a);
    dbias[c] = add ? dbias[c] + sum : sum;
  }
};

}  // namespace

int64_t ChannelScratchBytes(const ChannelShape& s, Element type) {
  const int wide = static_cast<int>(16 / SizeOf(type));
  uint32_t splits = 1;
  for (int vec : {1, wide}) {
    if (!Vectorised(s, vec)) continue;
    splits = std::max(splits, (s.channels_last ? CutRows(s, vec) : CutPlanes(s, vec)).splits);
  }
  return static_cast<int64_t>(splits) * s.channels * kPartBytes;
}

cudaError_t AddBias(const ChannelShape& s, const float* bias, Array y, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return MapChannels<T>(s, AllAligned16(bias, y), BiasOp<T>{bias, As<T>(y)}, stream);
  };
  return WithElement(run, y);
}

cudaError_t BiasGradient(const ChannelShape& s, ConstArray dy, float* dbias, bool add,
                         void* scratch, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return Reduce<T>(s, Aligned16(dy), SumOp<T>{As<T>(dy)}, BiasFinal{dbias, add}, scratch, stream);
  };
  return WithElement(run, dy);
}

}  // namespace neap::kernels
