// y = scale * x + shift (layers/scale_shift.h), as one pass over flat memory.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/scale_shift.h"

namespace neap::kernels {
namespace {

template <typename T>
struct ScaleShiftOp {
  const T* x;
  T* y;
  float scale, shift;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <int kVec>
  __device__ Packed<T, kVec> Load(size_t i) const {
    return Read<kVec>(x, i);
  }
  template <int kVec>
  __device__ void Store(size_t i, const Packed<T, kVec>& in) const {
    Vec<kVec> v = Unpack(in);
#pragma unroll
    for (float& f : v.v) f = f * scale + shift;
    Write<kVec>(y, i, v);
  }
};

}  // namespace

cudaError_t ScaleShift(ConstArray x, Array y, int64_t n, float scale, float shift,
                       cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return Map<T>(ScaleShiftOp<T>{As<T>(x), As<T>(y), scale, shift}, n, AllAligned16(x, y), stream);
  };
  return WithElement(run, x, y);
}

}  // namespace neap::kernels
