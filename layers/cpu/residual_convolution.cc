// A convolution and the sum behind it: oneDNN's convolution, and a loop over its result, which has
// the type of y. So y has the bits of the two layers.
#include "neap/layers/fusion/residual_convolution.h"

#include <algorithm>
#include <utility>

#include "neap/core/base/float16.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/cpu/converted.h"
#include "neap/layers/cpu/convolution.h"

namespace neap::cpu {
namespace {

using namespace operands;

Convolution BranchOf(const StepSignature& signature) {
  return signature.layer.As<ResidualConvolution>()->convolution();
}

template <typename T>
void AddTo(const void* addend, int64_t count, void* y) {
  T* const sums = static_cast<T*>(y);
  std::transform(sums, sums + count, static_cast<const T*>(addend), sums,
                 [](T a, T b) { return T(static_cast<float>(a) + static_cast<float>(b)); });
}

class SumAfter final : public Kernel {
 public:
  SumAfter(StepSignature signature, std::unique_ptr<Kernel> kernel)
      : signature_(std::move(signature)), kernel_(std::move(kernel)) {}

  absl::Status Run(const KernelArgs& args) override {
    RETURN_IF_ERROR(kernel_->Run(args));
    const TensorSpec& y = signature_.Spec(Y());
    const void* const addend = args.operands[*signature_.Find(X(1))];
    void* const sums = args.operands[*signature_.Find(Y())];
    if (y.dtype == DType::kBf16) {
      AddTo<Bf16>(addend, y.elements(), sums);
    } else if (y.dtype == DType::kFp16) {
      AddTo<Fp16>(addend, y.elements(), sums);
    } else {
      AddTo<float>(addend, y.elements(), sums);
    }
    return absl::OkStatus();
  }

 private:
  StepSignature signature_;
  std::unique_ptr<Kernel> kernel_;
};

}  // namespace

absl::StatusOr<Candidates> ResidualConvolutionForward(const StepSignature& signature) {
  const ListCandidates list = ConvertedOrBf16([](const StepSignature& of) {
    return ListForward(of, {BranchOf(of), X(0), Param(0), Y(), Param(1)});
  });
  ASSIGN_OR_RETURN(Candidates candidates, list(signature));
  for (Candidate& candidate : candidates) {
    candidate.make =
        [signature, make = std::move(candidate.make)]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
      ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, make());
      return std::make_unique<SumAfter>(signature, std::move(kernel));
    };
  }
  return candidates;
}

absl::StatusOr<Candidates> ResidualConvolutionBackwardData(const StepSignature& signature) {
  return ListBackwardData(signature, {BranchOf(signature), Dx(0), Param(0), Dy()});
}

absl::StatusOr<Candidates> ResidualConvolutionBackwardParams(const StepSignature& signature) {
  return ListBackwardParams(signature,
                            {BranchOf(signature), X(0), ParamGrad(0), Dy(), ParamGrad(1)});
}

}  // namespace neap::cpu
