#include "neap/layers/transposed_convolution.h"

#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/layers/cpu/convolution.h"

namespace neap::cpu {
namespace {

using namespace operands;

// The operands' roles in the convolution from y to x.
ConvolutionRoles RolesOf(const StepSignature& signature, Operand x, Operand weight, Operand y) {
  const auto& layer = *signature.layer.As<TransposedConvolution>();
  return {layer.Transposed(signature.Spec(y).shape.c()), x, weight, y};
}

// Calls f(element) for every element of a channel, in all images.
template <typename F>
void ForEachOfChannel(const TensorSpec& tensor, int64_t channel, F f) {
  const int64_t pixels = tensor.shape.positions();
  const int64_t channels = tensor.shape.c();
  const bool last = tensor.layout == Layout::kChannelsLast;
  for (int64_t n = 0; n < tensor.shape.n(); ++n) {
    const int64_t first = n * channels * pixels + (last ? channel : channel * pixels);
    for (int64_t i = 0; i < pixels; ++i) f(first + (last ? i * channels : i));
  }
}

void AddBias(const LoopArgs& args) {
  const TensorSpec& spec = args.signature.Spec(Y());
  const float* const bias = args.Get<float>(Param(1));
  float* const y = args.Get<float>(Y());
  for (int64_t c = 0; c < spec.shape.c(); ++c) {
    ForEachOfChannel(spec, c, [&](int64_t i) { y[i] += bias[c]; });
  }
}

void SumBiasGradient(const LoopArgs& args) {
  const TensorSpec& spec = args.signature.Spec(Dy());
  const float* const dy = args.Get<float>(Dy());
  float* const dbias = args.Get<float>(ParamGrad(1));
  for (int64_t c = 0; c < spec.shape.c(); ++c) {
    double sum = 0;
    ForEachOfChannel(spec, c, [&](int64_t i) { sum += static_cast<double>(dy[i]); });
    dbias[c] = static_cast<float>(sum);
  }
}

// Runs a kernel, and then a loop over the same operands.
class FollowedKernel final : public Kernel {
 public:
  FollowedKernel(std::unique_ptr<Kernel> first, StepSignature signature, Loop then)
      : first_(std::move(first)), signature_(std::move(signature)), then_(then) {}
  absl::Status Run(const KernelArgs& args) override {
    RETURN_IF_ERROR(first_->Run(args));
    then_({.signature = signature_, .run = args});
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<Kernel> first_;
  StepSignature signature_;
  Loop then_;
};

// Adds a loop for the bias, which the gradients of a convolution do not have.
absl::StatusOr<Candidates> Followed(absl::StatusOr<Candidates> candidates,
                                    const StepSignature& signature, Loop then) {
  RETURN_IF_ERROR(candidates.status());
  for (Candidate& candidate : *candidates) {
    candidate.make = [make = std::move(candidate.make), signature,
                      then]() -> absl::StatusOr<std::unique_ptr<Kernel>> {
      ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, make());
      return std::make_unique<FollowedKernel>(std::move(kernel), signature, then);
    };
  }
  return candidates;
}

}  // namespace

absl::StatusOr<Candidates> TransposedConvolutionForward(const StepSignature& signature) {
  absl::StatusOr<Candidates> candidates =
      ListBackwardData(signature, RolesOf(signature, Y(), Param(0), X()));
  if (!signature.Has(Param(1))) return candidates;
  return Followed(std::move(candidates), signature, AddBias);
}

absl::StatusOr<Candidates> TransposedConvolutionBackwardData(const StepSignature& signature) {
  return ListForward(signature, RolesOf(signature, Dy(), Param(0), Dx()));
}

absl::StatusOr<Candidates> TransposedConvolutionBackwardParams(const StepSignature& signature) {
  absl::StatusOr<Candidates> candidates =
      ListBackwardParams(signature, RolesOf(signature, Dy(), ParamGrad(0), X()));
  if (!signature.Has(ParamGrad(1))) return candidates;
  return Followed(std::move(candidates), signature, SumBiasGradient);
}

}  // namespace neap::cpu
