// y = scale * x + shift (layers/scale_shift.h): a pass over flat memory, or, with numbers of
// channels, a map forward and backward a reduction that also writes dx.
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/scale_shift.h"

namespace neap::kernels {
namespace {

struct ScaleShiftFunction {
  float scale, shift;
  __device__ float Value(float x) const { return x * scale + shift; }
};

template <typename T>
struct ScaleShiftOp {
  const T* x;
  T* y;
  ScaleShiftNumbers numbers;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <int kVec>
  __device__ Packed<T, kVec> Load(size_t i) const {
    return Read<kVec>(x, i);
  }
  template <bool kLast, int kVec>
  __device__ Two<Vec<kVec>> Prepare(size_t c) const {
    return {NumbersOf<kLast, kVec>(numbers.scales, numbers.scale, c),
            NumbersOf<kLast, kVec>(numbers.shifts, numbers.shift, c)};
  }
  template <int kVec>
  __device__ void Store(size_t i, const Two<Vec<kVec>>& of, const Packed<T, kVec>& in) const {
    Vec<kVec> v = Unpack(in);
#pragma unroll
    for (int k = 0; k < kVec; ++k) v.v[k] = v.v[k] * of.a.v[k] + of.b.v[k];
    Write<kVec>(y, i, v);
  }
};

// Computes dx, and sums x * dy, unless x is not needed, and dy.
template <typename T, bool kReadsX>
struct ScaleShiftGradientOp {
  using Total = Sums<2>;
  const T* x;
  const T* dy;
  T* dx;
  ScaleShiftNumbers numbers;
  template <int kVec>
  using Registers = Two<Packed<T, kVec>>;
  template <bool kLast, int kVec>
  __device__ Vec<kVec> Prepare(size_t c, size_t) const {
    return NumbersOf<kLast, kVec>(numbers.scales, numbers.scale, c);
  }
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    return {Read<kVec>(kReadsX ? x : dy, i), Read<kVec>(dy, i)};
  }
  template <int kVec>
  __device__ void Accumulate(const Vec<kVec>& scale, const Registers<kVec>& in, size_t i,
                             Accumulators<2, kVec>& sums) const {
    const Vec<kVec> values = Unpack(in.a);
    Vec<kVec> v = Unpack(in.b);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      if constexpr (kReadsX) sums.v[0].v[k] += values.v[k] * v.v[k];
      sums.v[1].v[k] += v.v[k];
      v.v[k] *= scale.v[k];
    }
    Write<kVec>(dx, i, v);
  }
};

struct StoreScaleShiftSums {
  ScaleShiftGradients gradients;
  __device__ void operator()(uint32_t c, const Sums<2>::Of<double>& sums) const {
    if (gradients.scales != nullptr)
      StoreSum{gradients.scales, gradients.adds_scales}(c, {{sums.v[0]}});
    if (gradients.shifts != nullptr)
      StoreSum{gradients.shifts, gradients.adds_shifts}(c, {{sums.v[1]}});
  }
};

}  // namespace

cudaError_t ScaleShift(const ChannelShape& s, const ScaleShiftNumbers& numbers, ConstArray x,
                       Array y, cudaStream_t stream) {
  const bool aligned = AllAligned16(x, y, numbers.scales, numbers.shifts);
  const auto run = [&]<typename T>() {
    if (numbers.scales != nullptr || numbers.shifts != nullptr)
      return MapChannels<T>(s, aligned, ScaleShiftOp<T>{As<T>(x), As<T>(y), numbers}, stream);
    return Map<T>(
        FunctionOp<ScaleShiftFunction, T>{As<T>(x), As<T>(y), {numbers.scale, numbers.shift}},
        s.outer * s.channels * s.inner, aligned, stream);
  };
  return WithElement(run, x, y);
}

cudaError_t ScaleShiftBackward(const ChannelShape& s, const ScaleShiftNumbers& numbers,
                               ConstArray x, ConstArray dy, Array dx,
                               const ScaleShiftGradients& gradients, const ReductionMemory& memory,
                               cudaStream_t stream) {
  const bool aligned = AllAligned16(x, dy, dx, numbers.scales);
  const StoreScaleShiftSums store = {gradients};
  const auto run = [&]<typename T>() {
    if (x.data == nullptr) {
      const ScaleShiftGradientOp<T, false> op = {nullptr, As<T>(dy), As<T>(dx), numbers};
      return Reduce<T>(s, aligned, op, store, memory, stream);
    }
    const ScaleShiftGradientOp<T, true> op = {As<T>(x), As<T>(dy), As<T>(dx), numbers};
    return Reduce<T>(s, aligned, op, store, memory, stream);
  };
  return WithElement(run, dy, dx, x);
}

}  // namespace neap::kernels
