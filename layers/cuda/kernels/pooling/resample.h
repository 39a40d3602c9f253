// resample.cu
#pragma once

#include <array>
#include <cstdint>

#include "neap/core/base/tensor.h"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/steps/resample_axis.h"

namespace neap::kernels {

// Images {outer, D, H, W, channels}: channels-first is outer = N * C, channels = 1. Forward, the
// result's axes are the outputs of `axes`; `backward`, their inputs.
struct ResampleShape {
  int64_t outer = 1;
  int64_t channels = 1;
  std::array<ResampleAxis<int64_t>, kMaxSpatialAxes> axes = {};  // D, H, W
  bool backward = false;
};
// Each element of `to` is a weighted sum of a range of `from`, in a fixed order.
cudaError_t Resample(const ResampleShape& shape, ConstArray from, Array to, cudaStream_t stream);

}  // namespace neap::kernels
