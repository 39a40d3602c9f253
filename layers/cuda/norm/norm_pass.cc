// Batch norm, alone and with its neighbours: builds launches from signatures.
#include "neap/layers/fusion/norm_pass.h"

#include <optional>
#include <variant>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/norm/batch_norm_reads.h"
#include "neap/layers/cuda/pointwise/pool_shape.h"

namespace neap::cuda {
namespace {

using namespace operands;

// Of the first batch norm or the second one, `at` the first of whose parameters, states and saved
// tensors are.
kernels::BatchNormOperands ReadsOf(const LaunchArgs& a, const BatchNorm& norm, int at) {
  const bool in_parts = NormPassOf(a.signature.layer).concatenates;
  return BatchNormReads(a, norm, at, in_parts ? kernels::ConstArray() : a.Array(X(at / 2)));
}

bool HasStatistics(const StepSignature& signature, int at) {
  return signature.phase == Phase::kForward && signature.Has(Saved(at)) && !signature.rerun;
}

cudaError_t Statistics(const LaunchArgs& a, const BatchNorm& norm, int at) {
  if (!HasStatistics(a.signature, at)) return cudaSuccess;
  const kernels::BatchNormState state = BatchNormWrites(a, at);
  return kernels::BatchNormStatistics(ChannelShapeOf(a.signature.Spec(X())), a.Array(X(at / 2)),
                                      norm.epsilon, norm.momentum, state, a.Reduction(), a.stream);
}

// The activation, if it is one that has kernels of its own.
std::optional<kernels::BatchNormActivation> KernelActivation(const LaunchArgs& a,
                                                             const NormPass& layer) {
  using Function = kernels::BatchNormActivation::Function;
  if (const Clip* const clip = std::get_if<Clip>(&layer.activation)) {
    const Clip rounded = clip->RoundedTo(a.signature.Spec(X()).dtype);
    return kernels::BatchNormActivation{Function::kClip, rounded.low, rounded.high};
  }
  if (std::holds_alternative<HardSwish>(layer.activation))
    return kernels::BatchNormActivation{Function::kHardSwish};
  if (std::holds_alternative<Silu>(layer.activation))
    return kernels::BatchNormActivation{Function::kSilu};
  return std::nullopt;
}

cudaError_t Forward(const LaunchArgs& a) {
  const NormPass layer = NormPassOf(a.signature.layer);
  const TensorSpec& x = a.signature.Spec(X());
  cudaError_t error = Statistics(a, layer.norm, 0);
  if (error != cudaSuccess) return error;
  const kernels::BatchNormOperands in = ReadsOf(a, layer.norm, 0);
  if (const auto activation = KernelActivation(a, layer)) {
    return kernels::BatchNormActivated(ChannelShapeOf(x), in, *activation, a.Array(Y()), a.stream);
  }
  uint8_t* const mask_or_index = a.Find<uint8_t>(layer.MaskOrIndex());
  if (layer.pool() != nullptr) {
    return kernels::BatchNormReluPool(PoolShapeOf(*layer.pool(), x, a.signature.Spec(Y())),
                                      x.shape.c(), in, a.Array(Y()), mask_or_index, a.stream);
  }
  kernels::BatchNormEpilogue epilogue = {
      .addend = {.x = a.FindArray(X(1))}, .relu = layer.relu(), .mask = mask_or_index};
  if (layer.addend_norm() != nullptr) {
    error = Statistics(a, *layer.addend_norm(), 2);
    if (error != cudaSuccess) return error;
    epilogue.addend = ReadsOf(a, *layer.addend_norm(), 2);
  }
  const kernels::ChannelShape shape = ChannelShapeOf(x);
  return layer.averages() ? kernels::BatchNormAverage(shape, in, epilogue, a.Array(Y()), a.stream)
                          : kernels::BatchNormApply(shape, in, epilogue, a.Array(Y()), a.stream);
}

kernels::BatchNormSums SumsOf(const LaunchArgs& a, int at) {
  return {.dgamma = a.Get<float>(ParamGrad(at)), .dbeta = a.Get<float>(ParamGrad(at + 1))};
}

cudaError_t Backward(const LaunchArgs& a) {
  const NormPass layer = NormPassOf(a.signature.layer);
  const TensorSpec& x = a.signature.Spec(X());
  const kernels::ChannelShape shape = ChannelShapeOf(x);
  const kernels::BatchNormOperands in = ReadsOf(a, layer.norm, 0);
  const kernels::BatchNormSums sums = SumsOf(a, 0);
  if (const auto activation = KernelActivation(a, layer)) {
    return kernels::BatchNormActivatedBackward(shape, in, *activation, a.Array(Dy()), sums,
                                               a.Array(Dx()), a.Reduction(), a.stream);
  }
  const uint8_t* const mask_or_index = a.Find<uint8_t>(layer.MaskOrIndex());
  if (layer.pool() != nullptr) {
    return kernels::BatchNormPoolBackward(
        shape, PoolShapeOf(*layer.pool(), x, a.signature.Spec(Dy())), in, a.Array(Dy()),
        mask_or_index, sums, a.Array(Dx()), a.Reduction(), a.stream);
  }
  if (layer.addend_norm() != nullptr) {
    const kernels::SummedBatchNorms norms = {.first = in,
                                             .second = ReadsOf(a, *layer.addend_norm(), 2),
                                             .first_sums = sums,
                                             .second_sums = SumsOf(a, 2),
                                             .dx = a.Array(Dx(0)),
                                             .dother = a.Array(Dx(1))};
    const auto backward = layer.averages() ? kernels::SummedBatchNormsAverageBackward
                                           : kernels::SummedBatchNormsBackward;
    return backward(shape, norms, a.Array(Dy()), mask_or_index, a.Reduction(), a.stream);
  }
  const kernels::BatchNormGradient gradient = {.dy = a.Array(Dy()),
                                               .other = a.FindArray(Dy(1)),
                                               .relu = layer.relu(),
                                               .mask = mask_or_index,
                                               .daddend = a.FindArray(Dx(1))};
  if (layer.averages()) {
    return kernels::BatchNormAverageBackward(shape, in, gradient, sums, a.Array(Dx()),
                                             a.Reduction(), a.stream);
  }
  return kernels::BatchNormBackward(shape, in, gradient, sums, a.Array(Dx()), a.Reduction(),
                                    a.stream);
}

static_assert(NormPass::kMaxParts <= kernels::kMaxParts);
std::vector<kernels::BatchNormPart> PartsOf(const LaunchArgs& a) {
  std::vector<kernels::BatchNormPart> parts;
  for (int i = 0; a.signature.Has(X(i)); ++i) {
    parts.push_back({.channels = a.signature.Spec(X(i)).shape.c(),
                     .x = a.Array(X(i)),
                     .dx = a.FindArray(Dx(i)),
                     .adds = a.signature.Accumulates(Dx(i))});
  }
  return parts;
}

cudaError_t ForwardOfParts(const LaunchArgs& a) {
  const NormPass layer = NormPassOf(a.signature.layer);
  const kernels::ChannelShape shape = ChannelShapeOf(a.signature.Spec(Y()));
  const std::vector<kernels::BatchNormPart> list = PartsOf(a);
  const kernels::BatchNormParts parts = {list.data(), static_cast<int>(list.size())};
  if (HasStatistics(a.signature, 0)) {
    const cudaError_t error =
        kernels::BatchNormStatistics(shape, parts, layer.norm.epsilon, layer.norm.momentum,
                                     BatchNormWrites(a, 0), a.Reduction(), a.stream);
    if (error != cudaSuccess) return error;
  }
  return kernels::BatchNormApply(shape, parts, ReadsOf(a, layer.norm, 0), layer.relu(),
                                 a.Array(Y()), a.stream);
}

cudaError_t BackwardOfParts(const LaunchArgs& a) {
  const NormPass layer = NormPassOf(a.signature.layer);
  const std::vector<kernels::BatchNormPart> list = PartsOf(a);
  const kernels::BatchNormParts parts = {list.data(), static_cast<int>(list.size())};
  return kernels::BatchNormBackward(ChannelShapeOf(a.signature.Spec(Dy())), parts,
                                    ReadsOf(a, layer.norm, 0), a.Array(Dy()), layer.relu(),
                                    SumsOf(a, 0), a.Reduction(), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> NormPassCandidates(const StepSignature& signature,
                                              const SharedRuntime& runtime) {
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kParam}));
  const kernels::ChannelShape shape = ChannelShapeOf(NormalisedSpec(signature));
  const bool in_parts = NormPassOf(signature.layer).concatenates;
  const bool forward = signature.phase == Phase::kForward;
  const bool reduces = !forward || HasStatistics(signature, 0);
  if (forward && NormPassOf(signature.layer).averages()) {
    RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.channels));
    RETURN_IF_ERROR(CheckFits32(signature, shape.inner));
  }
  if (reduces || in_parts) RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.inner));
  RETURN_IF_ERROR(CheckPlanesFit32(signature, shape));
  if (const MaxPool* const pool = NormPassOf(signature.layer).pool()) {
    RETURN_IF_ERROR(CheckPoolFits32(signature, *pool, signature.Spec(X()),
                                    signature.Spec(forward ? Y() : Dy()),
                                    /*has_values_per_channel=*/true));
  }
  if (in_parts) RETURN_IF_ERROR(CheckFits32(signature, shape.channels * shape.inner));
  const kernels::Element type = ElementOf(signature.Spec(X()).dtype);
  const OwnLaunch whole = forward ? Forward : Backward;
  const OwnLaunch of_parts = forward ? ForwardOfParts : BackwardOfParts;
  return OwnKernel(signature, runtime, in_parts ? of_parts : whole,
                   reduces ? kernels::ChannelScratchBytes(shape, type) : 0);
}

}  // namespace neap::cuda
