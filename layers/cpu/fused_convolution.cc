// A convolution with a ReLU: oneDNN's convolution, and a loop over its result. oneDNN's own ReLU
// would make 0 of NaN.
#include "neap/layers/fusion/fused_convolution.h"

#include <algorithm>
#include <utility>

#include "neap/core/base/float16.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/cpu/convolution.h"
#include "neap/layers/cpu/norm/channel_rows.h"

namespace neap::cpu {
namespace {

using namespace operands;

const Convolution& ConvolutionOf(const StepSignature& signature) {
  return signature.layer.As<FusedConvolution>()->convolution;
}

template <typename T>
void ReluInPlace(void* y, int64_t count) {
  T* const values = static_cast<T*>(y);
  std::transform(values, values + count, values,
                 [](T value) { return T(ReluOf(static_cast<float>(value))); });
}

class ReluAfter final : public Kernel {
 public:
  ReluAfter(StepSignature signature, std::unique_ptr<Kernel> kernel)
      : signature_(std::move(signature)), kernel_(std::move(kernel)) {}

  absl::Status Run(const KernelArgs& args) override {
    RETURN_IF_ERROR(kernel_->Run(args));
    const TensorSpec& y = signature_.Spec(Y());
    void* const values = args.operands[*signature_.Find(Y())];
    y.dtype == DType::kBf16 ? ReluInPlace<Bf16>(values, y.elements())
                            : ReluInPlace<float>(values, y.elements());
    return absl::OkStatus();
  }

 private:
  StepSignature signature_;
  std::unique_ptr<Kernel> kernel_;
};

void BackwardActivation(const LoopArgs& args) {
  const TensorSpec& spec = args.signature.Spec(Dz());
  const float* const y = args.Get<float>(Y());
  const float* const dy = args.Get<float>(Dy());
  float* const dz = args.Get<float>(Dz());
  for (int64_t i = 0; i < spec.elements(); ++i) dz[i] = y[i] <= 0 ? 0 : dy[i];
  float* const dbias = args.Find<float>(ParamGrad(1));
  if (dbias == nullptr) return;
  SumChannels(
      ChannelRowsOf(spec), [=](int64_t i) { return dz[i]; }, args.Workspace<double>(), dbias);
}

}  // namespace

absl::StatusOr<Candidates> FusedConvolutionForward(const StepSignature& signature) {
  ASSIGN_OR_RETURN(Candidates candidates, ListForward(signature, {ConvolutionOf(signature), X(),
                                                                  Param(0), Y(), Param(1)}));
  for (Candidate& candidate : candidates) {
    candidate.make =
        [signature, make = std::move(candidate.make)]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
      ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, make());
      return std::make_unique<ReluAfter>(signature, std::move(kernel));
    };
  }
  return candidates;
}

absl::StatusOr<Candidates> FusedConvolutionBackwardActivation(const StepSignature& signature) {
  const int64_t channels =
      signature.Has(ParamGrad(1)) ? signature.Spec(ParamGrad(1)).elements() : 0;
  return OwnLoop(signature, BackwardActivation, channels * static_cast<int64_t>(sizeof(double)));
}

absl::StatusOr<Candidates> FusedConvolutionBackwardData(const StepSignature& signature) {
  return ListBackwardData(signature, {ConvolutionOf(signature), Dx(), Param(0), Dz()});
}

absl::StatusOr<Candidates> FusedConvolutionBackwardParams(const StepSignature& signature) {
  return ListBackwardParams(signature, {ConvolutionOf(signature), X(), ParamGrad(0), Dz()});
}

}  // namespace neap::cpu
