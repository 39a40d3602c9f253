// Launchers of depthwise convolutions: every channel of y is the convolution of one channel of x
// with kernel x kernel weights of its own.
//
// They have few multiply-adds for each byte: those with a 3x3 kernel take about twice as long as a
// copy of the images. Those with a 7x7 kernel are bound by the multiply-adds. Sums are in fp32 and
// in a fixed order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "neap/layers/cuda/kernels/array.h"

namespace neap::kernels {

// x is {n, channels, h, w}, y is {n, channels, out_h, out_w}, the weight {channels, 1, kernel,
// kernel}. The kernel is 3, 5 or 7, the stride 1 or 2.
struct DepthwiseShape {
  int64_t n = 0, channels = 0;
  int64_t h = 0, w = 0;
  int64_t out_h = 0, out_w = 0;
  int kernel = 3;
  int stride = 1;
  int64_t padding_h = 0, padding_w = 0;
  bool channels_last = false;
};

cudaError_t DepthwiseForward(const DepthwiseShape& shape, ConstArray x, ConstArray weight, Array y,
                             cudaStream_t stream);

// Adds `addend`, unless that is null, to dx as it would be stored. It is null if the stride is 2.
cudaError_t DepthwiseBackwardData(const DepthwiseShape& shape, ConstArray dy, ConstArray weight,
                                  ConstArray addend, Array dx, cudaStream_t stream);

// Writes dweight, or adds to it. The scratch memory is DepthwiseScratchBytes().
int64_t DepthwiseScratchBytes(const DepthwiseShape& shape);
cudaError_t DepthwiseWeightGradient(const DepthwiseShape& shape, ConstArray x, ConstArray dy,
                                    float* dweight, bool adds, void* scratch, cudaStream_t stream);

}  // namespace neap::kernels
