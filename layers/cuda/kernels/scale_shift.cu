// y = scale * x + shift (layers/scale_shift.h), as one pass over flat memory.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/scale_shift.h"

namespace neap::kernels {
namespace {

struct ScaleShiftFunction {
  float scale, shift;
  __device__ float Value(float x) const { return x * scale + shift; }
};

}  // namespace

cudaError_t ScaleShift(ConstArray x, Array y, int64_t n, float scale, float shift,
                       cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return Map<T>(FunctionOp<ScaleShiftFunction, T>{As<T>(x), As<T>(y), {scale, shift}}, n,
                  AllAligned16(x, y), stream);
  };
  return WithElement(run, x, y);
}

}  // namespace neap::kernels
