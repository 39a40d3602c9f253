// Fully connected layers through cuBLASLt.
//
// cuBLAS is column-major, and reads a row-major matrix as its transpose. With K = C * H * W:
//
//   forward          y'  {out, N} = W' {K, out}^T  x'  {K, N}      (+ bias over the columns)
//   backward_params  dW' {K, out} = x' {K, N}      dy' {out, N}^T
//   backward_data    dx' {K, N}   = W' {K, out}    dy' {out, N}
#include "neap/layers/fully_connected.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/device/cuda_status.h"
#include "neap/layers/cuda/matmul/matmul.h"

namespace neap::cuda {
namespace {

using namespace operands;

constexpr std::string_view kWithWorkspace = "cublaslt-32m";
constexpr std::string_view kWithout = "cublaslt-0";

struct Product {
  Operand a, b, c;
  MatmulShape shape;
};

Product ProductOf(const StepSignature& s) {
  if (s.phase == Phase::kForward) {
    const int64_t out = s.Spec(Y()).shape.c(), batch = s.Spec(Y()).shape.n();
    return {Param(0), X(), Y(), {true, false, out, batch, s.Spec(X()).elements() / batch}};
  }
  const int64_t out = s.Spec(Dy()).shape.c(), batch = s.Spec(Dy()).shape.n();
  if (s.phase == Phase::kBackwardParams) {
    return {X(), Dy(), ParamGrad(0), {false, true, s.Spec(X()).elements() / batch, out, batch}};
  }
  return {Param(0), Dy(), Dx(), {false, false, s.Spec(Dx()).elements() / batch, batch, out}};
}

class FullyConnectedKernel final : public StreamKernel {
 public:
  FullyConnectedKernel(SharedRuntime runtime, const StepSignature& signature)
      : StreamKernel(std::move(runtime), signature), product_(ProductOf(signature)) {}

  absl::Status Build(int64_t workspace_bytes) {
    const MatmulTypes types = {signature().Spec(product_.a).dtype,
                               signature().Spec(product_.c).dtype};
    ASSIGN_OR_RETURN(matmul_, Matmul::Build(runtime(), product_.shape, types,
                                            {.workspace_bytes = workspace_bytes}));
    return absl::OkStatus();
  }

 protected:
  absl::Status Launch(const LaunchArgs& args) override {
    void* const c = args.Get<void>(product_.c);
    RETURN_IF_ERROR(matmul_->Run({.a = args.Get<void>(product_.a),
                                  .b = args.Get<void>(product_.b),
                                  .c = c,
                                  .workspace = args.run.workspace,
                                  .addend = signature().Accumulates(product_.c) ? c : nullptr}));
    if (float* const bias = args.Find<float>(Param(1));
        signature().phase == Phase::kForward && bias != nullptr) {
      return CudaStatus(kernels::AddBias(Rows(Y()), bias, args.Array(Y()), args.stream),
                        "fully connected bias");
    }
    if (float* const dbias = args.Find<float>(ParamGrad(1)); dbias != nullptr) {
      const bool add = signature().Accumulates(ParamGrad(1));
      return CudaStatus(kernels::BiasGradient(Rows(Dy()), args.Array(Dy()), dbias, add,
                                              args.Reduction(), args.stream),
                        "fully connected bias gradient");
    }
    return absl::OkStatus();
  }

 private:
  // {N, out} has the same order in memory in both layouts; channels last has contiguous threads.
  kernels::ChannelShape Rows(Operand operand) const {
    kernels::ChannelShape shape = ChannelShapeOf(signature().Spec(operand));
    shape.channels_last = true;
    return shape;
  }

  Product product_;
  std::unique_ptr<Matmul> matmul_;
};

Candidate CandidateWith(const StepSignature& signature, const SharedRuntime& runtime,
                        std::string_view id, int64_t blas_bytes, int64_t bias_bytes) {
  const auto make = [signature, runtime,
                     blas_bytes]() -> absl::StatusOr<std::unique_ptr<StreamKernel>> {
    auto kernel = std::make_unique<FullyConnectedKernel>(runtime, signature);
    RETURN_IF_ERROR(kernel->Build(blas_bytes));
    return kernel;
  };
  return StreamCandidate(
      {.id = std::string(id), .workspace_bytes = std::max(blas_bytes, bias_bytes)}, make);
}

}  // namespace

absl::StatusOr<Candidates> FullyConnectedCandidates(const StepSignature& signature,
                                                    const SharedRuntime& runtime) {
  const Product p = ProductOf(signature);
  int64_t bias_bytes = 0;
  if (signature.Has(ParamGrad(1))) {
    RETURN_IF_ERROR(CheckFits32(signature, signature.Spec(Dy()).shape.n()));
    const TensorSpec& dy = signature.Spec(Dy());
    bias_bytes = kernels::ChannelScratchBytes(
        {.outer = dy.shape.n(), .channels = dy.shape.c(), .channels_last = true},
        ElementOf(dy.dtype));
  }
  Candidates candidates;
  if (const int64_t blas_bytes = BlasWorkspaceOf(p.shape); blas_bytes > 0)
    candidates.push_back(CandidateWith(signature, runtime, kWithWorkspace, blas_bytes, bias_bytes));
  candidates.push_back(CandidateWith(signature, runtime, kWithout, 0, bias_bytes));
  return candidates;
}

}  // namespace neap::cuda
