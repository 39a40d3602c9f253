#include "neap/layers/cuda/matmul/biased_matmul.h"

#include <utility>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/device/cuda_status.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"

namespace neap::cuda {
namespace {

// From the fewest kernels to the most. Bits of the mask are in bytes of 8, as in
// kernels::ReluMask(), for 16-bit types only.
std::vector<MatmulOptions> Choices(const MatmulOptions& wanted, const MatmulShape& shape,
                                   DType dtype) {
  MatmulOptions unmasked = wanted, plain = wanted;
  unmasked.mask = false;
  plain.bias = plain.relu = plain.mask = false;
  if (wanted.mask && SizeOf(dtype) == 2 && shape.m % 128 == 0) return {wanted, unmasked, plain};
  return {unmasked, plain};
}

}  // namespace

absl::Status BiasedMatmul::Build(const Runtime& runtime, const MatmulShape& shape, DType dtype,
                                 const MatmulOptions& options) {
  type_ = ElementOf(dtype);
  wanted_ = options;
  wanted_.bias = true;
  c_ = {.outer = shape.n, .channels = shape.m, .channels_last = true};
  absl::Status status;
  for (const MatmulOptions& choice : Choices(wanted_, shape, dtype)) {
    absl::StatusOr<std::unique_ptr<Matmul>> matmul = Matmul::Build(runtime, shape, dtype, choice);
    status = matmul.status();
    if (absl::IsUnimplemented(status)) continue;
    RETURN_IF_ERROR(status);
    fused_ = choice;
    matmul_ = *std::move(matmul);
    break;
  }
  return status;
}

absl::Status BiasedMatmul::Run(const MatmulPointers& pointers, float* wide,
                               cudaStream_t stream) const {
  RETURN_IF_ERROR(matmul_->Run(pointers));
  if (!fused_.bias) {
    const float* bias = static_cast<const float*>(pointers.bias);
    if (type_ != kernels::Element::kFp32) {
      RETURN_IF_ERROR(CudaStatus(
          kernels::Widen({pointers.bias, type_}, wide, c_.channels, /*add=*/false, stream),
          "bias of a product"));
      bias = wide;
    }
    RETURN_IF_ERROR(AddBias(pointers, bias, stream));
  }
  if (!wanted_.mask || fused_.mask) return absl::OkStatus();
  return CudaStatus(kernels::ReluMask({pointers.c, type_}, c_.outer * c_.channels,
                                      static_cast<uint8_t*>(pointers.mask), stream),
                    "ReLU mask");
}

absl::Status BiasedMatmul::RunRounding(const MatmulPointers& pointers, const float* bias,
                                       void* narrow, cudaStream_t stream) const {
  MatmulPointers with_bias = pointers;
  with_bias.bias = bias;
  if (fused_.bias && type_ != kernels::Element::kFp32) {
    RETURN_IF_ERROR(
        CudaStatus(kernels::Narrow(bias, {narrow, type_}, c_.channels, stream), "cast of a bias"));
    with_bias.bias = narrow;
  }
  RETURN_IF_ERROR(matmul_->Run(with_bias));
  return fused_.bias ? absl::OkStatus() : AddBias(pointers, bias, stream);
}

absl::Status BiasedMatmul::AddBias(const MatmulPointers& pointers, const float* bias,
                                   cudaStream_t stream) const {
  const kernels::Array c = {pointers.c, type_};
  return CudaStatus(wanted_.relu ? kernels::BiasRelu(c_, c, bias, c, stream)
                                 : kernels::AddBias(c_, bias, c, stream),
                    "bias of a product");
}

}  // namespace neap::cuda
