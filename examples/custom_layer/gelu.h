// The approximation of GELU by a sigmoid (Hendrycks and Gimpel, "Gaussian Error Linear Units",
// 2016), as in CLIP, as a layer that a program adds to neap: y = x s(1.702 x), where s is the
// sigmoid. neap's own Gelu has the exact function and the approximation by tanh.
//
//   step           reads  writes  in place
//   forward        x      y       y over x
//   backward_data  x, dy  dx      dx over dy
#pragma once

#include <neap/core/step/layer.h>
#include <neap/layers/catalog/custom_kernel.h>

#include <string_view>
#include <vector>

struct QuickGelu {
  static constexpr std::string_view kType = "quick_gelu";
  absl::StatusOr<neap::LayerSpec> Specify(const neap::LayerContext& context) const;
  friend bool operator==(const QuickGelu&, const QuickGelu&) = default;
};

// The kernels for CpuDevice::Open() and CudaDevice::Open(). In a build without CUDA, the CUDA
// kernels only serve to plan for a GPU.
std::vector<neap::CustomKernel> CpuQuickGeluKernels();
std::vector<neap::CustomKernel> CudaQuickGeluKernels();
