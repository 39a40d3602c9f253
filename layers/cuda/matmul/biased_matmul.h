// A matrix product whose columns get a bias, and perhaps a ReLU and its mask: in one kernel of
// cuBLASLt as far as that has one for the shape and the types, otherwise in several. Which they are
// depends on the library and the GPU only, so all products of a shape have the same bits.
#pragma once

#include <memory>

#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/matmul/matmul.h"

namespace neap::cuda {

class BiasedMatmul {
 public:
  // Always with a bias. The mask is that of kernels::ReluMask(), except that a product decides
  // before it rounds. Errors: those of Matmul::Build().
  absl::Status Build(const Runtime& runtime, const MatmulShape& shape, DType dtype,
                     const MatmulOptions& options = {});

  // The bias is that of the pointers, of c's type. `wide` has room for it in fp32.
  absl::Status Run(const MatmulPointers& pointers, float* wide, cudaStream_t stream) const;
  // With a bias of fp32 instead. `narrow` has room for it in c's type, to which the product rounds
  // it; null if that is fp32. Without a mask.
  absl::Status RunRounding(const MatmulPointers& pointers, const float* bias, void* narrow,
                           cudaStream_t stream) const;

 private:
  absl::Status AddBias(const MatmulPointers& pointers, const float* bias,
                       cudaStream_t stream) const;

  kernels::Element type_ = kernels::Element::kFp32;
  MatmulOptions wanted_, fused_;  // all, and what the product computes
  kernels::ChannelShape c_;
  std::unique_ptr<Matmul> matmul_;
};

}  // namespace neap::cuda
