#include "neap/layers/cuda/biased_matmul.h"

#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/cuda_status.h"

namespace neap::cuda {

absl::Status BiasedMatmul::Build(const Runtime& runtime, const MatmulShape& shape, DType dtype,
                                 bool relu) {
  type_ = ElementOf(dtype);
  relu_ = relu;
  c_ = {.outer = shape.n, .channels = shape.m, .channels_last = true};
  absl::StatusOr<std::unique_ptr<Matmul>> matmul =
      Matmul::Build(runtime, shape, dtype, {.bias = true, .relu = relu});
  fused_ = matmul.ok();
  if (absl::IsUnimplemented(matmul.status())) matmul = Matmul::Build(runtime, shape, dtype);
  RETURN_IF_ERROR(matmul.status());
  matmul_ = *std::move(matmul);
  return absl::OkStatus();
}

absl::Status BiasedMatmul::Run(const MatmulPointers& pointers, float* wide,
                               cudaStream_t stream) const {
  if (fused_) return matmul_->Run(pointers);
  MatmulPointers product = pointers;
  product.bias = nullptr;
  RETURN_IF_ERROR(matmul_->Run(product));
  return AddBias(pointers, wide, stream);
}

absl::Status BiasedMatmul::AddBias(const MatmulPointers& pointers, float* wide,
                                   cudaStream_t stream) const {
  const float* bias = static_cast<const float*>(pointers.bias);
  if (type_ != kernels::Element::kFp32) {
    RETURN_IF_ERROR(
        CudaStatus(kernels::Widen({pointers.bias, type_}, wide, c_.channels, /*add=*/false, stream),
                   "bias of a product"));
    bias = wide;
  }
  const kernels::Array c = {pointers.c, type_};
  return CudaStatus(
      relu_ ? kernels::BiasRelu(c_, c, bias, c, stream) : kernels::AddBias(c_, bias, c, stream),
      "bias of a product");
}

}  // namespace neap::cuda
