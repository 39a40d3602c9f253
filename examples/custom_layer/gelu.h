// GELU (Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016) as a layer that a program adds
// to neap: y = x Phi(x), where Phi is the standard normal distribution function.
//
//   step           reads  writes  in place
//   forward        x      y       y over x
//   backward_data  x, dy  dx      dx over dy
#pragma once

#include <neap/core/step/layer.h>
#include <neap/layers/catalog/custom_kernel.h>

#include <string_view>
#include <vector>

struct Gelu {
  static constexpr std::string_view kType = "gelu";
  absl::StatusOr<neap::LayerSpec> Specify(const neap::LayerContext& context) const;
  friend bool operator==(const Gelu&, const Gelu&) = default;
};

// The kernels for CpuDevice::Open() and CudaDevice::Open(). In a build without CUDA, the CUDA
// kernels only serve to plan for a GPU.
std::vector<neap::CustomKernel> CpuGeluKernels();
std::vector<neap::CustomKernel> CudaGeluKernels();
