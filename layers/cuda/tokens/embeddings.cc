// Embedding, PositionEmbedding and PrependToken: builds launches from signatures.
#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/tokens/tokens.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/layers/tokens/prepend_token.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t LaunchEmbedding(const LaunchArgs& a) {
  const Embedding& layer = *a.signature.layer.As<Embedding>();
  const int32_t* const ids = a.Get<int32_t>(X());
  if (a.signature.phase == Phase::kForward) {
    return kernels::Embed(ChannelShapeOf(a.signature.Spec(Y())), layer.vocabulary, ids,
                          a.Array(Param(0)), a.Array(Y()), a.stream);
  }
  const kernels::EmbeddingGradient options = {.vocabulary = layer.vocabulary,
                                              .padding = layer.padding.value_or(-1),
                                              .add = a.signature.Accumulates(ParamGrad(0))};
  return kernels::EmbeddingBackward(ChannelShapeOf(a.signature.Spec(Dy())), options, ids,
                                    a.Array(Dy()), a.Get<float>(ParamGrad(0)), a.run.workspace,
                                    a.stream);
}

cudaError_t LaunchPositionEmbedding(const LaunchArgs& a) {
  if (a.signature.phase == Phase::kForward) {
    return kernels::AddPositions(a.signature.Spec(Y()).shape.n(), a.Elements(Param(0)),
                                 a.Array(X()), a.Array(Param(0)), a.Array(Y()), a.stream);
  }
  return kernels::AddPositionsBackward(a.signature.Spec(Dy()).shape.n(), a.Elements(ParamGrad(0)),
                                       a.Array(Dy()), a.Array(Dx()), a.Get<float>(ParamGrad(0)),
                                       a.signature.Accumulates(ParamGrad(0)), a.stream);
}

cudaError_t LaunchPrependToken(const LaunchArgs& a) {
  if (a.signature.phase == Phase::kForward) {
    return kernels::PrependToken(ChannelShapeOf(a.signature.Spec(X())), a.Array(X()),
                                 a.Array(Param(0)), a.Array(Y()), a.stream);
  }
  return kernels::PrependTokenBackward(ChannelShapeOf(a.signature.Spec(Dx())), a.Array(Dy()),
                                       a.Array(Dx()), a.Get<float>(ParamGrad(0)),
                                       a.signature.Accumulates(ParamGrad(0)), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> EmbeddingCandidates(const StepSignature& signature,
                                               const SharedRuntime& runtime) {
  RETURN_IF_ERROR(CheckFits32(signature, signature.Spec(X()).elements()));
  const bool forward = signature.phase == Phase::kForward;
  const int64_t scratch =
      forward ? 0 : kernels::EmbeddingScratchBytes(ChannelShapeOf(signature.Spec(Dy())));
  return OwnKernel(signature, runtime, LaunchEmbedding, scratch);
}

absl::StatusOr<Candidates> PositionEmbeddingCandidates(const StepSignature& signature,
                                                       const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, LaunchPositionEmbedding);
}

absl::StatusOr<Candidates> PrependTokenCandidates(const StepSignature& signature,
                                                  const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, LaunchPrependToken);
}

}  // namespace neap::cuda
