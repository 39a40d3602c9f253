// Bias: forward adds it to every element of its channel; its gradient is the sum over the channel.
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

// Sums dy.
struct SumOp {
  using Total = Sums;
  const float* dy;
  struct Nothing {};
  template <int kVec>
  using Registers = Vec<kVec>;
  template <bool kLast, int kVec>
  __device__ Nothing Prepare(size_t, size_t) const {
    return {};
  }
  template <int kVec>
  __device__ Vec<kVec> Load(size_t i) const {
    return At<kVec>(dy, i);
  }
  template <int kVec>
  __device__ void Accumulate(Nothing, const Vec<kVec>& v, size_t, Two<kVec>& sums) const {
#pragma unroll
    for (int k = 0; k < kVec; ++k) sums.a.v[k] += v.v[k];
  }
};

struct BiasOp {
  const float* bias;
  float* y;
  template <int kVec>
  using Registers = Vec<kVec>;
  template <int kVec>
  __device__ Vec<kVec> Load(size_t i) const {
    return At<kVec>(static_cast<const float*>(y), i);
  }
  template <bool kLast, int kVec>
  __device__ void Store(size_t i, size_t c, Vec<kVec> v) const {
    const Vec<kVec> b = PerChannel<kLast, kVec>(bias, c);
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] += b.v[k];
    At<kVec>(y, i) = v;
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

int64_t ChannelScratchBytes(const ChannelShape& s) {
  uint32_t splits = 1;
  for (int vec : {1, 4}) {
    if (vec == 4 && !Vectorised(s)) continue;
    splits = std::max(splits, (s.channels_last ? CutRows(s, vec) : CutPlanes(s, vec)).splits);
  }
  return static_cast<int64_t>(splits) * s.channels * kPartBytes;
}

cudaError_t AddBias(const ChannelShape& s, const float* bias, float* y, cudaStream_t stream) {
  return MapChannels(s, AllAligned16(bias, y), BiasOp{bias, y}, stream);
}

cudaError_t BiasGradient(const ChannelShape& s, const float* dy, float* dbias, bool add,
                         void* scratch, cudaStream_t stream) {
  return Reduce(s, Aligned16(dy), SumOp{dy}, BiasFinal{dbias, add}, scratch, stream);
}

}  // namespace neap::kernels
