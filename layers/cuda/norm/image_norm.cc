// Group norm, instance norm and layer norm: builds launches from signatures.
#include "neap/layers/cuda/kernels/norm/image_norm.h"

#include <optional>

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/fusion/activated_group_norm.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"

namespace neap::cuda {
namespace {

using namespace operands;

kernels::ImageNormOperands ImageNormReads(const LaunchArgs& a) {
  return {a.Array(X()), a.Find<float>(Param(0)), a.Find<float>(Param(1))};
}
kernels::ImageNormStatistics StatisticsOf(const LaunchArgs& a) {
  return {a.Find<float>(Saved(0)), a.Find<float>(Saved(1))};
}
kernels::ImageNormSums ImageNormSumsOf(const LaunchArgs& a) {
  return {.dgamma = a.Find<float>(ParamGrad(0)),
          .dbeta = a.Find<float>(ParamGrad(1)),
          .adds_dgamma = a.signature.Accumulates(ParamGrad(0)),
          .adds_dbeta = a.signature.Accumulates(ParamGrad(1))};
}

kernels::GroupNormShape GroupNormShapeOf(const StepSignature& signature) {
  const TensorSpec& x = signature.Spec(X());
  return {DenseChannelShapeOf(x),
          GroupNormOf(WithoutActivation(signature.layer), x.shape.c()).groups};
}

// That of an ActivatedGroupNorm, if it has one.
std::optional<kernels::Activation> ActivationBehind(const StepSignature& signature) {
  const auto* const activated = signature.layer.As<ActivatedGroupNorm>();
  const std::optional<Layer> layer =
      activated == nullptr ? std::nullopt : activated->activation_layer();
  if (!layer.has_value()) return std::nullopt;
  return ActivationOf(*layer, signature.Spec(X()).dtype);
}

cudaError_t GroupNormForward(const LaunchArgs& a) {
  const kernels::GroupNormShape shape = GroupNormShapeOf(a.signature);
  const Layer norm = WithoutActivation(a.signature.layer);
  const float epsilon = GroupNormOf(norm, shape.images.channels).epsilon;
  if (const auto activation = ActivationBehind(a.signature)) {
    return kernels::GroupNormActivated(shape, ImageNormReads(a), epsilon, StatisticsOf(a),
                                       a.signature.rerun, *activation, a.Array(Y()),
                                       a.run.workspace, a.stream);
  }
  return kernels::GroupNorm(shape, ImageNormReads(a), epsilon, StatisticsOf(a), a.signature.rerun,
                            a.Array(Y()), a.run.workspace, a.stream);
}

// The gradient of a bias that an instance norm absorbs.
cudaError_t ClearAbsorbed(const LaunchArgs& a) {
  float* const gradient = a.Find<float>(kAbsorbedBiasGrad);
  if (gradient == nullptr || a.signature.Accumulates(kAbsorbedBiasGrad)) return cudaSuccess;
  const auto bytes = static_cast<size_t>(a.Elements(kAbsorbedBiasGrad)) * sizeof(float);
  return cudaMemsetAsync(gradient, 0, bytes, a.stream);
}

cudaError_t GroupNormBackward(const LaunchArgs& a) {
  const cudaError_t cleared = ClearAbsorbed(a);
  if (cleared != cudaSuccess) return cleared;
  const kernels::GroupNormShape shape = GroupNormShapeOf(a.signature);
  if (const auto activation = ActivationBehind(a.signature)) {
    return kernels::GroupNormActivatedBackward(shape, ImageNormReads(a), StatisticsOf(a),
                                               *activation, a.Array(Dy()), ImageNormSumsOf(a),
                                               a.Array(Dx()), a.run.workspace, a.stream);
  }
  return kernels::GroupNormBackward(shape, ImageNormReads(a), StatisticsOf(a), a.Array(Dy()),
                                    ImageNormSumsOf(a), a.Array(Dx()), a.run.workspace, a.stream);
}

cudaError_t LayerNormForward(const LaunchArgs& a) {
  return kernels::LayerNorm(DenseChannelShapeOf(a.signature.Spec(X())), ImageNormReads(a),
                            a.signature.layer.As<LayerNorm>()->epsilon, StatisticsOf(a),
                            a.signature.rerun, a.Array(Y()), a.stream);
}

cudaError_t LayerNormBackward(const LaunchArgs& a) {
  return kernels::LayerNormBackward(DenseChannelShapeOf(a.signature.Spec(X())), ImageNormReads(a),
                                    StatisticsOf(a), a.Array(Dy()), ImageNormSumsOf(a),
                                    a.FindArray(Addend()), a.Array(Dx()), a.Reduction(), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> GroupNormCandidates(const StepSignature& signature,
                                               const SharedRuntime& runtime) {
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kParam}));
  const kernels::GroupNormShape shape = GroupNormShapeOf(signature);
  RETURN_IF_ERROR(CheckFits32(signature, shape.images.outer * shape.images.channels));
  RETURN_IF_ERROR(CheckFits32(signature, shape.images.inner));
  const int64_t scratch =
      kernels::GroupNormScratchBytes(shape, ElementOf(signature.Spec(X()).dtype));
  if (signature.phase != Phase::kForward)
    return OwnKernel(signature, runtime, GroupNormBackward, scratch);
  return OwnKernel(signature, runtime, GroupNormForward, signature.rerun ? 0 : scratch);
}

absl::StatusOr<Candidates> LayerNormCandidates(const StepSignature& signature,
                                               const SharedRuntime& runtime) {
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kParam}));
  const kernels::ChannelShape shape = DenseChannelShapeOf(signature.Spec(X()));
  RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.inner));
  RETURN_IF_ERROR(CheckFits32(signature, shape.channels));
  if (signature.phase == Phase::kForward) return OwnKernel(signature, runtime, LayerNormForward);
  const kernels::Element type = ElementOf(signature.Spec(X()).dtype);
  const bool sums = signature.Has(ParamGrad(0));
  return OwnKernel(signature, runtime, LayerNormBackward,
                   sums ? kernels::LayerNormScratchBytes(shape, type) : 0);
}

}  // namespace neap::cuda
