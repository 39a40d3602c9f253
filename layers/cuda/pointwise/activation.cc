// Activations: builds launches from signatures.
#include "neap/layers/activation.h"

#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {
namespace {

using namespace operands;
using ActivationFunction = kernels::Activation::Function;

// Layers without fields.
struct PlainActivation {
  std::string_view type;
  ActivationFunction function;
};
constexpr PlainActivation kPlainActivations[] = {
    {Relu::kType, ActivationFunction::kRelu},
    {Sigmoid::kType, ActivationFunction::kSigmoid},
    {Tanh::kType, ActivationFunction::kTanh},
    {HardSigmoid::kType, ActivationFunction::kHardSigmoid},
    {HardSwish::kType, ActivationFunction::kHardSwish},
    {Silu::kType, ActivationFunction::kSilu},
    {Mish::kType, ActivationFunction::kMish},
};

cudaError_t LaunchActivation(const LaunchArgs& a) {
  const bool is_forward = a.signature.phase == Phase::kForward;
  const Operand result = is_forward ? Y() : Dx();
  const kernels::Activation activation =
      *ActivationOf(a.signature.layer, a.signature.Spec(result).dtype);
  const int64_t elements = a.Elements(result);
  if (is_forward)
    return kernels::Activate(activation, a.Array(X()), a.Array(Y()), elements, a.stream);
  const kernels::Array value = a.Array(a.signature.Has(Y()) ? Y() : X());
  return kernels::ActivateBackward(activation, value, a.Array(Dy()), a.Array(Dx()), elements,
                                   a.stream);
}

}  // namespace

std::optional<kernels::Activation> ActivationOf(const Layer& layer, DType dtype) {
  if (const auto* const leaky = layer.As<LeakyRelu>())
    return kernels::Activation{ActivationFunction::kLeakyRelu, leaky->negative_slope};
  if (const auto* const clip = layer.As<Clip>()) {
    const auto [low, high] = clip->RoundedTo(dtype);
    return kernels::Activation{ActivationFunction::kClip, low, high};
  }
  if (const auto* const gelu = layer.As<Gelu>()) {
    const bool is_tanh = gelu->approximation == Gelu::Approximation::kTanh;
    return kernels::Activation{is_tanh ? ActivationFunction::kTanhGelu : ActivationFunction::kGelu};
  }
  if (const auto* const elu = layer.As<Elu>())
    return kernels::Activation{ActivationFunction::kElu, elu->alpha};
  if (const auto* const softplus = layer.As<Softplus>())
    return kernels::Activation{ActivationFunction::kSoftplus, softplus->beta, softplus->threshold};
  for (const PlainActivation& plain : kPlainActivations) {
    if (plain.type == layer.type()) return kernels::Activation{plain.function};
  }
  return std::nullopt;
}

absl::StatusOr<Candidates> ActivationCandidates(const StepSignature& signature,
                                                const SharedRuntime& runtime) {
  if (!ActivationOf(signature.layer, signature.operands[0].tensor.dtype).has_value()) {
    return absl::UnimplementedError(
        absl::StrCat("there is no kernel for ", std::string(signature.layer.type())));
  }
  return OwnKernel(signature, runtime, LaunchActivation);
}

}  // namespace neap::cuda
