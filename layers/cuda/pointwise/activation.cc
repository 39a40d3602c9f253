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

// What backward reads besides dy.
kernels::Array OfGradient(const LaunchArgs& a) { return a.Array(a.signature.Has(Y()) ? Y() : X()); }

template <auto kLaunch>
cudaError_t UnaryBackward(const LaunchArgs& a) {
  return kLaunch(OfGradient(a), a.Array(Dy()), a.Array(Dx()), a.Elements(Dx()), a.stream);
}

template <auto kForward, auto kBackward>
Candidates Activation(const StepSignature& signature, const SharedRuntime& runtime) {
  const bool forward = signature.phase == Phase::kForward;
  return OwnKernel(signature, runtime, forward ? UnaryForward<kForward> : UnaryBackward<kBackward>);
}

cudaError_t LeakyReluLaunch(const LaunchArgs& a) {
  const float slope = a.signature.layer.As<LeakyRelu>()->negative_slope;
  if (a.signature.phase == Phase::kForward)
    return kernels::LeakyRelu(a.Array(X()), a.Array(Y()), a.Elements(Y()), slope, a.stream);
  return kernels::LeakyReluBackward(a.Array(Y()), a.Array(Dy()), a.Array(Dx()), a.Elements(Dx()),
                                    slope, a.stream);
}

cudaError_t ClipLaunch(const LaunchArgs& a) {
  const auto [low, high] = a.signature.layer.As<Clip>()->RoundedTo(a.signature.Spec(Y()).dtype);
  if (a.signature.phase == Phase::kForward)
    return kernels::Clip(a.Array(X()), a.Array(Y()), a.Elements(Y()), low, high, a.stream);
  return kernels::ClipBackward(a.Array(Y()), a.Array(Dy()), a.Array(Dx()), a.Elements(Dx()), low,
                               high, a.stream);
}

}  // namespace

absl::StatusOr<Candidates> ReluCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime) {
  return Activation<kernels::Relu, kernels::ReluBackward>(signature, runtime);
}

absl::StatusOr<Candidates> LeakyReluCandidates(const StepSignature& signature,
                                               const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, LeakyReluLaunch);
}

absl::StatusOr<Candidates> ClipCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, ClipLaunch);
}

absl::StatusOr<Candidates> SigmoidCandidates(const StepSignature& signature,
                                             const SharedRuntime& runtime) {
  return Activation<kernels::Sigmoid, kernels::SigmoidBackward>(signature, runtime);
}

absl::StatusOr<Candidates> TanhCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime) {
  return Activation<kernels::Tanh, kernels::TanhBackward>(signature, runtime);
}

absl::StatusOr<Candidates> HardSigmoidCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime) {
  return Activation<kernels::HardSigmoid, kernels::HardSigmoidBackward>(signature, runtime);
}

absl::StatusOr<Candidates> HardSwishCandidates(const StepSignature& signature,
                                               const SharedRuntime& runtime) {
  return Activation<kernels::HardSwish, kernels::HardSwishBackward>(signature, runtime);
}

absl::StatusOr<Candidates> SiluCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime) {
  return Activation<kernels::Silu, kernels::SiluBackward>(signature, runtime);
}

}  // namespace neap::cuda
