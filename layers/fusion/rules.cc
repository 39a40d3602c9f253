#include "neap/layers/fusion/rules.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fusion/activated_batch_norm.h"
#include "neap/layers/fusion/folded_convolution.h"
#include "neap/layers/fusion/fused_batch_norm.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "neap/layers/fusion/fused_relu.h"
#include "neap/layers/fusion/joined_batch_norms.h"
#include "neap/layers/fusion/sync_batch_norm.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"

namespace neap {
namespace {

using MaybeLayer = std::optional<Layer>;
using MaybePair = std::optional<std::pair<Layer, Layer>>;

// Folded convolutions.

MaybeLayer FoldNorm(const Convolution& convolution, const BatchNorm& norm, int /*input*/) {
  const Convolution pointwise = {
      .out_channels = convolution.out_channels, .bias = false, .init = convolution.init};
  if (convolution != pointwise) return std::nullopt;
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

// Batch norms and what follows them. A rule for a FusedBatchNorm holds for a BatchNorm, too.

template <auto kFuse, typename Reader>
MaybeLayer OfAlone(const BatchNorm& norm, const Reader& reader, int input) {
  return kFuse(FusedBatchNorm{.norm = norm}, reader, input);
}

bool IsAlone(const FusedBatchNorm& norm) { return norm == FusedBatchNorm{.norm = norm.norm}; }

MaybeLayer NormAdd(const FusedBatchNorm& norm, const Add& /*sum*/, int /*input*/) {
  if (!IsAlone(norm)) return std::nullopt;
  return FusedBatchNorm{.norm = norm.norm, .adds = true};
}

// The other addend of the sum is normalised already.
MaybeLayer NormAddend(const FusedBatchNorm& norm, const FusedBatchNorm& sum, int input) {
  if (!IsAlone(norm) || !sum.adds || sum.addend_norm.has_value() || input != 1) return std::nullopt;
  FusedBatchNorm fused = sum;
  fused.norm = norm.norm;
  fused.addend_norm = sum.norm;
  return fused;
}

MaybeLayer NormRelu(const FusedBatchNorm& norm, const Relu& /*relu*/, int /*input*/) {
  if (norm.relu || norm.Pools()) return std::nullopt;
  FusedBatchNorm fused = norm;
  fused.relu = true;
  return fused;
}

template <typename Activation>
MaybeLayer NormActivation(const FusedBatchNorm& norm, const Activation& activation, int /*input*/) {
  if (!IsAlone(norm)) return std::nullopt;
  return ActivatedBatchNorm{.norm = norm.norm, .activation = activation};
}

MaybeLayer NormMaxPool(const FusedBatchNorm& norm, const MaxPool& pool, int /*input*/) {
  FusedBatchNorm fused = {.norm = norm.norm, .relu = true};
  if (norm != fused || !CanPoolRelu(pool)) return std::nullopt;
  fused.pool = pool;
  return fused;
}

MaybeLayer NormAverage(const FusedBatchNorm& norm, const GlobalAveragePool& /*pool*/,
                       int /*input*/) {
  if (norm.Pools() || norm.concatenates) return std::nullopt;
  FusedBatchNorm fused = norm;
  fused.averages = true;
  return fused;
}

// Concatenations in front of batch norms, and of batch norms.

MaybeLayer ConcatNorm(const Concat& /*parts*/, const FusedBatchNorm& norm, int /*input*/) {
  if (norm.adds || norm.Pools() || norm.concatenates) return std::nullopt;
  FusedBatchNorm fused = norm;
  fused.concatenates = true;
  return fused;
}
MaybeLayer ConcatNormAlone(const Concat& parts, const BatchNorm& norm, int input) {
  return ConcatNorm(parts, FusedBatchNorm{.norm = norm}, input);
}

MaybeLayer NormJoin(const FusedBatchNorm& norm, const JoinedBatchNorms& joined, int input) {
  const FusedBatchNorm part = {.norm = norm.norm, .relu = norm.relu};
  const int normalised = static_cast<int>(joined.parts.size());
  if (norm != part || input < normalised) return std::nullopt;
  JoinedBatchNorms fused = joined;
  const int position = FreePosition(joined, static_cast<size_t>(input - normalised));
  fused.parts.insert(fused.parts.begin(), {norm.norm, norm.relu, position});
  return fused;
}
MaybeLayer NormConcat(const FusedBatchNorm& norm, const Concat& /*parts*/, int input) {
  return NormJoin(norm, JoinedBatchNorms{}, input);
}

// ReLUs.

MaybeLayer ReluMaxPool(const Relu& /*relu*/, const MaxPool& pool, int /*input*/) {
  if (!CanPoolRelu(pool)) return std::nullopt;
  return FusedRelu{.pool = pool};
}

MaybeLayer ConvolutionRelu(const Convolution& convolution, const Relu& /*relu*/, int /*input*/) {
  return FusedConvolution{convolution};
}

MaybePair MoveBias(const Convolution& convolution, const FusedRelu& relu) {
  if (!convolution.bias || relu.bias) return std::nullopt;
  Convolution without_bias = convolution;
  without_bias.bias = false;
  return std::pair<Layer, Layer>(without_bias, FusedRelu{.bias = true, .pool = relu.pool});
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
  AddNormRows<&NormAddend, FusedBatchNorm>(rows);
  AddNormRows<&NormRelu, Relu>(rows);
  AddNormRows<&NormActivation<Clip>, Clip>(rows);
  AddNormRows<&NormActivation<HardSwish>, HardSwish>(rows);
  AddNormRows<&NormActivation<Silu>, Silu>(rows);
  AddNormRows<&NormAverage, GlobalAveragePool>(rows);
  AddNormRows<&NormConcat, Concat>(rows);
  AddNormRows<&NormJoin, JoinedBatchNorms>(rows);
  for (const FusionRule& row : {FusionOf<&NormMaxPool>(), FusionOf<&ConcatNorm>(),
                                FusionOf<&ConcatNormAlone>(), FusionOf<&ReluMaxPool>()}) {
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

RewriteRules CpuRules() { return {.fusions = FoldsAndPasses(), .ranks = {RankOf<&SplitNorm>()}}; }

RewriteRules GpuRules() {
  RewriteRules rules = CpuRules();
  rules.Append({.fusions = {FusionOf<&ConvolutionRelu>(FusionStage::kEpilogue)},
                .moves = {MoveOf<&MoveBias>()}});
  return rules;
}

}  // namespace neap
