// Batch norm over ranks: builds launches from signatures.
#include "neap/layers/fusion/sync_batch_norm.h"

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/norm/batch_norm_reads.h"

namespace neap::cuda {
namespace {

using namespace operands;

// Of statistics or their gradient.
kernels::BatchNormRow RowOfRank(const LaunchArgs& a, Operand statistics, int rank) {
  const auto row = RowOf(a.Get<float>(statistics), rank, a.signature.Spec(X()).shape.c());
  return {row.count, row.mean, row.squares};
}
kernels::BatchNormRows RowsOf(const LaunchArgs& a, Operand statistics) {
  const Shape& shape = a.signature.Spec(statistics).shape;
  return {RowOfRank(a, statistics, 0), shape[1], static_cast<int>(shape.n())};
}

cudaError_t StatisticsForward(const LaunchArgs& a) {
  return kernels::BatchNormRankStatistics(ChannelShapeOf(a.signature.Spec(X())), a.Array(X()),
                                          a.signature.layer.As<BatchNormStatistics>()->rank,
                                          RowsOf(a, Y()), a.Reduction(), a.stream);
}

cudaError_t StatisticsBackward(const LaunchArgs& a) {
  const int rank = a.signature.layer.As<BatchNormStatistics>()->rank;
  return kernels::BatchNormStatisticsBackward(
      ChannelShapeOf(a.signature.Spec(X())), a.Array(X()), RowOfRank(a, Y(), rank),
      RowOfRank(a, Dy(), rank), a.Array(Dx()), a.signature.Accumulates(Dx()), a.stream);
}

cudaError_t ApplyForward(const LaunchArgs& a) {
  const BatchNorm& norm = a.signature.layer.As<BatchNormApply>()->norm;
  const kernels::ChannelShape shape = ChannelShapeOf(a.signature.Spec(X(0)));
  if (!a.signature.rerun) {
    const cudaError_t error =
        kernels::BatchNormCombine(RowsOf(a, X(1)), shape.channels, norm.epsilon, norm.momentum,
                                  BatchNormWrites(a, 0), a.stream);
    if (error != cudaSuccess) return error;
  }
  return kernels::BatchNormApply(shape, BatchNormReads(a, norm, 0, a.Array(X(0))), {}, a.Array(Y()),
                                 a.stream);
}

cudaError_t ApplyBackward(const LaunchArgs& a) {
  const BatchNorm& norm = a.signature.layer.As<BatchNormApply>()->norm;
  return kernels::BatchNormDirectBackward(
      ChannelShapeOf(a.signature.Spec(X(0))), BatchNormReads(a, norm, 0, a.Array(X(0))),
      a.Array(Dy()), RowsOf(a, X(1)), RowsOf(a, Dx(1)),
      {.dgamma = a.Get<float>(ParamGrad(0)), .dbeta = a.Get<float>(ParamGrad(1))}, a.Array(Dx(0)),
      a.Reduction(), a.stream);
}

absl::StatusOr<Candidates> Reducing(const StepSignature& signature, const SharedRuntime& runtime,
                                    OwnLaunch launch) {
  const kernels::ChannelShape shape = ChannelShapeOf(signature.Spec(X()));
  RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.inner));
  return OwnKernel(signature, runtime, launch,
                   kernels::ChannelScratchBytes(shape, ElementOf(signature.Spec(X()).dtype)));
}

}  // namespace

absl::StatusOr<Candidates> BatchNormStatisticsCandidates(const StepSignature& signature,
                                                         const SharedRuntime& runtime) {
  if (signature.phase == Phase::kForward) return Reducing(signature, runtime, StatisticsForward);
  RETURN_IF_ERROR(CheckPlanesFit32(signature, ChannelShapeOf(signature.Spec(X()))));
  return OwnKernel(signature, runtime, StatisticsBackward);
}

absl::StatusOr<Candidates> BatchNormApplyCandidates(const StepSignature& signature,
                                                    const SharedRuntime& runtime) {
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kParam}));
  if (signature.phase != Phase::kForward) return Reducing(signature, runtime, ApplyBackward);
  RETURN_IF_ERROR(CheckPlanesFit32(signature, ChannelShapeOf(signature.Spec(X()))));
  return OwnKernel(signature, runtime, ApplyForward);
}

}  // namespace neap::cuda
