#include "neap/layers/fusion/rules.h"

#include <cstddef>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fusion/activated_group_norm.h"
#include "neap/layers/fusion/biased_gelu.h"
#include "neap/layers/fusion/concat_batch_norms.h"
#include "neap/layers/fusion/folded_convolution.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "neap/layers/fusion/fused_relu.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/fusion/residual_convolution.h"
#include "neap/layers/fusion/residual_tail.h"
#include "neap/layers/fusion/sync_batch_norm.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/pooling.h"
#include "neap/layers/scale_shift.h"

namespace neap {
namespace {

using MaybeLayer = std::optional<Layer>;
using MaybePair = std::optional<std::pair<Layer, Layer>>;

// Folded convolutions.

// Whether it reads one position for each, of whatever tensors.
bool IsPointwise(const Convolution& convolution) {
  return convolution.kernel.AllAre(1) && convolution.stride.AllAre(1) &&
         convolution.padding.AllAre(0) && convolution.dilation.AllAre(1) && convolution.groups == 1;
}

MaybeLayer FoldNorm(const Convolution& convolution, const BatchNorm& norm, int /*input*/) {
  if (!IsPointwise(convolution) || convolution.bias) return std::nullopt;
  return FoldedConvolution{.out_channels = convolution.out_channels, .norm = norm};
}

MaybeLayer FoldAdd(const FoldedConvolution& folded, const Add& /*sum*/, int /*input*/) {
  if (folded.adds || folded.relu) return std::nullopt;
  FoldedConvolution fused = folded;
  fused.adds = true;
  return fused;
}

MaybeLayer FoldRelu(const FoldedConvolution& folded, const Relu& /*relu*/, int /*input*/) {
  if (folded.relu) return std::nullopt;
  FoldedConvolution fused = folded;
  fused.relu = true;
  return fused;
}

// Batch norms and what follows them. A rule for a NormPass holds for a BatchNorm, too.

template <auto kFuse, typename Reader>
MaybeLayer OfAlone(const BatchNorm& norm, const Reader& reader, int input) {
  return kFuse(NormPass{.norm = norm}, reader, input);
}

bool IsAlone(const NormPass& norm) { return norm == NormPass{.norm = norm.norm}; }

template <typename Variant>
bool IsNone(const Variant& variant) {
  return std::holds_alternative<std::monostate>(variant);
}

MaybeLayer IfItHasKernels(const NormPass& norm) {
  return norm.HasKernels() ? MaybeLayer(norm) : std::nullopt;
}

MaybeLayer NormAdd(const NormPass& norm, const Add& /*sum*/, int /*input*/) {
  if (!IsAlone(norm)) return std::nullopt;
  return NormPass{.norm = norm.norm, .addend = NormPass::Raw{}};
}

// The other addend of the sum is normalised already.
MaybeLayer NormAddend(const NormPass& norm, const NormPass& sum, int input) {
  const bool is_raw = std::holds_alternative<NormPass::Raw>(sum.addend);
  if (!IsAlone(norm) || !is_raw || input != 1) return std::nullopt;
  NormPass fused = sum;
  fused.norm = norm.norm;
  fused.addend = sum.norm;
  return fused;
}

template <typename Activation>
MaybeLayer NormActivation(const NormPass& norm, const Activation& activation, int /*input*/) {
  if (!IsNone(norm.activation) || !IsNone(norm.sink)) return std::nullopt;
  NormPass fused = norm;
  fused.activation = activation;
  return IfItHasKernels(fused);
}

MaybeLayer NormMaxPool(const NormPass& norm, const MaxPool& pool, int /*input*/) {
  if (!IsNone(norm.sink)) return std::nullopt;
  NormPass fused = norm;
  fused.sink = pool;
  return IfItHasKernels(fused);
}

MaybeLayer NormAverage(const NormPass& norm, const GlobalAveragePool& pool, int /*input*/) {
  if (!IsNone(norm.sink)) return std::nullopt;
  NormPass fused = norm;
  fused.sink = pool;
  return IfItHasKernels(fused);
}

// Group norms, instance norms, and the activations behind them.

template <typename Norm, typename Activation>
MaybeLayer GroupNormActivation(const Norm& norm, const Activation& activation, int /*input*/) {
  return ActivatedGroupNorm{.norm = norm, .activation = activation};
}

template <typename Activation>
void AddGroupNormRows(std::vector<FusionRule>& rows) {
  rows.push_back(FusionOf<&GroupNormActivation<GroupNorm, Activation>>());
  rows.push_back(FusionOf<&GroupNormActivation<InstanceNorm, Activation>>());
}

// Concatenations in front of batch norms, and of batch norms.

MaybeLayer ConcatNorm(const Concat& /*parts*/, const NormPass& norm, int /*input*/) {
  if (norm.concatenates) return std::nullopt;
  NormPass fused = norm;
  fused.concatenates = true;
  return IfItHasKernels(fused);
}
MaybeLayer ConcatNormAlone(const Concat& parts, const BatchNorm& norm, int input) {
  return ConcatNorm(parts, NormPass{.norm = norm}, input);
}

MaybeLayer NormPart(const NormPass& norm, const ConcatBatchNorms& whole, int input) {
  const bool is_part = IsAlone(norm) || norm == NormPass{.norm = norm.norm, .activation = Relu{}};
  const int normalised = static_cast<int>(whole.parts.size());
  if (!is_part || input < normalised) return std::nullopt;
  ConcatBatchNorms fused = whole;
  const int position = FreePosition(whole, static_cast<size_t>(input - normalised));
  fused.parts.insert(fused.parts.begin(), {norm.norm, norm.relu(), position});
  return fused;
}
MaybeLayer NormConcat(const NormPass& norm, const Concat& /*parts*/, int input) {
  return NormPart(norm, ConcatBatchNorms{}, input);
}

// ReLUs. Fused layers refuse windows that are too large for the tensor.

MaybeLayer ReluMaxPool(const Relu& /*relu*/, const MaxPool& pool, int /*input*/) {
  return FusedRelu{.pool = pool};
}

// Ends of residual branches. The other input of the sum is what the branch bypasses.

MaybeLayer ScaleSum(const ScaleShift& scale, const Add& /*sum*/, int /*input*/) {
  if (scale.learns_shift) return std::nullopt;
  return ResidualTail{.scale = scale};
}
MaybeLayer DropSum(const StochasticDepth& drop, const Add& /*sum*/, int /*input*/) {
  return ResidualTail{.drop = drop};
}
MaybeLayer ScaleTail(const ScaleShift& scale, const ResidualTail& tail, int input) {
  if (scale.learns_shift || tail.scale.has_value() || input != 0) return std::nullopt;
  return ResidualTail{.scale = scale, .drop = tail.drop};
}

MaybeLayer ConvolutionRelu(const Convolution& convolution, const Relu& /*relu*/, int /*input*/) {
  return FusedConvolution{convolution};
}

// The other input of the sum is added in the product.
MaybeLayer ConvolutionSum(const Convolution& convolution, const Add& /*sum*/, int /*input*/) {
  if (!IsPointwise(convolution)) return std::nullopt;
  return ResidualConvolution{.out_channels = convolution.out_channels, .bias = convolution.bias};
}

MaybePair MoveBias(const Convolution& convolution, const FusedRelu& relu) {
  if (!convolution.bias || relu.bias) return std::nullopt;
  Convolution without_bias = convolution;
  without_bias.bias = false;
  return std::pair<Layer, Layer>(without_bias, FusedRelu{.bias = true, .pool = relu.pool});
}

MaybePair MoveBiasToGelu(const Convolution& convolution, const Gelu& gelu) {
  if (!convolution.bias) return std::nullopt;
  Convolution without_bias = convolution;
  without_bias.bias = false;
  return std::pair<Layer, Layer>(without_bias, BiasedGelu{gelu});
}

// An instance norm takes the bias away again.
MaybePair MoveBiasToNorm(const Convolution& convolution, const ActivatedGroupNorm& norm) {
  if (!convolution.bias || norm.absorbs_bias || !CanAbsorbBias(norm.norm)) return std::nullopt;
  Convolution without_bias = convolution;
  without_bias.bias = false;
  ActivatedGroupNorm absorbing = norm;
  absorbing.absorbs_bias = true;
  return std::pair<Layer, Layer>(without_bias, absorbing);
}
MaybePair MoveBiasToNormAlone(const Convolution& convolution, const InstanceNorm& norm) {
  return MoveBiasToNorm(convolution, ActivatedGroupNorm{.norm = norm});
}

MaybePair SplitNorm(const BatchNorm& norm, int rank, int ranks) {
  return std::pair<Layer, Layer>(BatchNormStatistics{.rank = rank, .ranks = ranks},
                                 BatchNormApply{.norm = norm});
}

// Two rows for batch norms that `reader` follows.
template <auto kFuse, typename Reader>
void AddNormRows(std::vector<FusionRule>& rows) {
  rows.push_back(FusionOf<&OfAlone<kFuse, Reader>>());
  rows.push_back(FusionOf<kFuse>());
}

std::vector<FusionRule> FoldsAndPasses() {
  constexpr FusionStage kFold = FusionStage::kFold;
  std::vector<FusionRule> rows = {FusionOf<&FoldNorm>(kFold, FoldingGains),
                                  FusionOf<&FoldAdd>(kFold), FusionOf<&FoldRelu>(kFold)};
  AddNormRows<&NormAdd, Add>(rows);
  AddNormRows<&NormAddend, NormPass>(rows);
  AddNormRows<&NormActivation<Relu>, Relu>(rows);
  AddNormRows<&NormActivation<Clip>, Clip>(rows);
  AddNormRows<&NormActivation<HardSwish>, HardSwish>(rows);
  AddNormRows<&NormActivation<Silu>, Silu>(rows);
  AddGroupNormRows<Relu>(rows);
  AddGroupNormRows<LeakyRelu>(rows);
  AddGroupNormRows<Silu>(rows);
  AddGroupNormRows<Gelu>(rows);
  AddNormRows<&NormAverage, GlobalAveragePool>(rows);
  AddNormRows<&NormConcat, Concat>(rows);
  AddNormRows<&NormPart, ConcatBatchNorms>(rows);
  for (const FusionRule& row :
       {FusionOf<&NormMaxPool>(), FusionOf<&ConcatNorm>(), FusionOf<&ConcatNormAlone>(),
        FusionOf<&ReluMaxPool>(), FusionOf<&ScaleSum>(), FusionOf<&DropSum>(),
        FusionOf<&ScaleTail>()}) {
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

RewriteRules CpuRules() { return {.fusions = FoldsAndPasses(), .ranks = {RankOf<&SplitNorm>()}}; }

RewriteRules GpuRules() {
  RewriteRules rules = CpuRules();
  rules.Append({.fusions = {FusionOf<&ConvolutionRelu>(FusionStage::kEpilogue),
                            FusionOf<&ConvolutionSum>(FusionStage::kEpilogue)},
                .moves = {MoveOf<&MoveBias>(), MoveOf<&MoveBiasToGelu>(), MoveOf<&MoveBiasToNorm>(),
                          MoveOf<&MoveBiasToNormAlone>()}});
  return rules;
}

}  // namespace neap
