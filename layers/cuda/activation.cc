// Activations: builds launches from signatures.
#include "neap/layers/activation.h"

#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {
namespace {

using namespace operands;

template <auto kLaunch>
cudaError_t UnaryForward(const LaunchArgs& a) {
  return kLaunch(a.Array(X()), a.Array(Y()), a.Elements(Y()), a.stream);
}

template <auto kLaunch>
cudaError_t UnaryBackward(const LaunchArgs& a) {
  return kLaunch(a.Array(Y()), a.Array(Dy()), a.Array(Dx()), a.Elements(Dx()), a.stream);
}

template <auto kForward, auto kBackward>
Candidates Activation(const StepSignature& signature, const SharedRuntime& runtime) {
  const bool forward = signature.phase == Phase::kForward;
  return OwnKernel(signature, runtime, forward ? UnaryForward<kForward> : UnaryBackward<kBackward>);
}

}  // namespace

absl::StatusOr<Candidates> ReluCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime) {
  return Activation<kernels::Relu, kernels::ReluBackward>(signature, runtime);
}

absl::StatusOr<Candidates> SigmoidCandidates(const StepSignature& signature,
                                             const SharedRuntime& runtime) {
  return Activation<kernels::Sigmoid, kernels::SigmoidBackward>(signature, runtime);
}

absl::StatusOr<Candidates> TanhCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime) {
  return Activation<kernels::Tanh, kernels::TanhBackward>(signature, runtime);
}

}  // namespace neap::cuda
