// The functions of the CPU backend's table (layers/catalog/table_backend.h): each lists the
// candidate kernels for the signatures of one layer and phase.
#pragma once

#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"
#include "neap/core/step/operands.h"
#include "neap/layers/catalog/step_run.h"
#include "neap/layers/catalog/table_backend.h"

namespace neap::cpu {

using Candidate = KernelCandidate;
using Candidates = KernelCandidates;

// One run of a step, for kernels that are plain loops.
using LoopArgs = StepRun;
using Loop = void (*)(const LoopArgs& args);

// A single candidate "neap" that runs `loop` with a workspace.
Candidates OwnLoop(const StepSignature& signature, Loop loop, int64_t workspace_bytes = 0);

// The functions of the rows, one per layer and phase, or, called ...Steps, one per layer.
absl::StatusOr<Candidates> ConvolutionForward(const StepSignature& signature);
absl::StatusOr<Candidates> ConvolutionBackwardData(const StepSignature& signature);
absl::StatusOr<Candidates> ConvolutionBackwardParams(const StepSignature& signature);
absl::StatusOr<Candidates> TransposedConvolutionForward(const StepSignature& signature);
absl::StatusOr<Candidates> TransposedConvolutionBackwardData(const StepSignature& signature);
absl::StatusOr<Candidates> TransposedConvolutionBackwardParams(const StepSignature& signature);
absl::StatusOr<Candidates> FullyConnectedForward(const StepSignature& signature);
absl::StatusOr<Candidates> FullyConnectedBackwardData(const StepSignature& signature);
absl::StatusOr<Candidates> FullyConnectedBackwardParams(const StepSignature& signature);
absl::StatusOr<Candidates> AveragePoolForward(const StepSignature& signature);
absl::StatusOr<Candidates> AveragePoolBackward(const StepSignature& signature);
absl::StatusOr<Candidates> GlobalAveragePoolForward(const StepSignature& signature);
absl::StatusOr<Candidates> GlobalAveragePoolBackward(const StepSignature& signature);
absl::StatusOr<Candidates> MaxPoolForward(const StepSignature& signature);
absl::StatusOr<Candidates> MaxPoolBackward(const StepSignature& signature);
absl::StatusOr<Candidates> ActivationSteps(const StepSignature& signature);
absl::StatusOr<Candidates> BiasedGeluSteps(const StepSignature& signature);
absl::StatusOr<Candidates> ResidualTailSteps(const StepSignature& signature);
absl::StatusOr<Candidates> PreluSteps(const StepSignature& signature);
absl::StatusOr<Candidates> EmbeddingSteps(const StepSignature& signature);
absl::StatusOr<Candidates> PositionEmbeddingSteps(const StepSignature& signature);
absl::StatusOr<Candidates> PrependTokenSteps(const StepSignature& signature);
absl::StatusOr<Candidates> ScaleShiftSteps(const StepSignature& signature);
absl::StatusOr<Candidates> SigmoidSteps(const StepSignature& signature);
absl::StatusOr<Candidates> TanhSteps(const StepSignature& signature);
absl::StatusOr<Candidates> LrnForward(const StepSignature& signature);
absl::StatusOr<Candidates> LrnBackward(const StepSignature& signature);
absl::StatusOr<Candidates> NormPassForward(const StepSignature& signature);
absl::StatusOr<Candidates> NormPassBackward(const StepSignature& signature);
absl::StatusOr<Candidates> ImageNormSteps(const StepSignature& signature);
absl::StatusOr<Candidates> BatchNormStatisticsForward(const StepSignature& signature);
absl::StatusOr<Candidates> BatchNormStatisticsBackward(const StepSignature& signature);
absl::StatusOr<Candidates> BatchNormApplyForward(const StepSignature& signature);
absl::StatusOr<Candidates> BatchNormApplyBackward(const StepSignature& signature);
absl::StatusOr<Candidates> FusedConvolutionForward(const StepSignature& signature);
absl::StatusOr<Candidates> FusedConvolutionBackwardActivation(const StepSignature& signature);
absl::StatusOr<Candidates> FusedConvolutionBackwardData(const StepSignature& signature);
absl::StatusOr<Candidates> FusedConvolutionBackwardParams(const StepSignature& signature);
absl::StatusOr<Candidates> ResidualConvolutionForward(const StepSignature& signature);
absl::StatusOr<Candidates> ResidualConvolutionBackwardData(const StepSignature& signature);
absl::StatusOr<Candidates> ResidualConvolutionBackwardParams(const StepSignature& signature);
absl::StatusOr<Candidates> FoldedConvolutionForward(const StepSignature& signature);
absl::StatusOr<Candidates> FoldedConvolutionBackwardActivation(const StepSignature& signature);
absl::StatusOr<Candidates> FoldedConvolutionBackwardParams(const StepSignature& signature);
absl::StatusOr<Candidates> FoldedConvolutionBackwardData(const StepSignature& signature);
absl::StatusOr<Candidates> FusedReluForward(const StepSignature& signature);
absl::StatusOr<Candidates> FusedReluBackward(const StepSignature& signature);
absl::StatusOr<Candidates> ConcatBatchNormsForward(const StepSignature& signature);
absl::StatusOr<Candidates> ConcatBatchNormsBackward(const StepSignature& signature);
absl::StatusOr<Candidates> DropoutSteps(const StepSignature& signature);
absl::StatusOr<Candidates> SoftmaxForward(const StepSignature& signature);
absl::StatusOr<Candidates> SoftmaxBackward(const StepSignature& signature);
absl::StatusOr<Candidates> SoftmaxAxisSteps(const StepSignature& signature);
absl::StatusOr<Candidates> LinearCrossEntropySteps(const StepSignature& signature);
absl::StatusOr<Candidates> MeanSquaredErrorSteps(const StepSignature& signature);
absl::StatusOr<Candidates> BinaryCrossEntropySteps(const StepSignature& signature);
absl::StatusOr<Candidates> FocalLossSteps(const StepSignature& signature);
absl::StatusOr<Candidates> DiceSteps(const StepSignature& signature);
absl::StatusOr<Candidates> AddForward(const StepSignature& signature);
absl::StatusOr<Candidates> AddBackward(const StepSignature& signature);
absl::StatusOr<Candidates> MultiplyForward(const StepSignature& signature);
absl::StatusOr<Candidates> MultiplyBackward(const StepSignature& signature);
absl::StatusOr<Candidates> AttentionSteps(const StepSignature& signature);
absl::StatusOr<Candidates> ConcatForward(const StepSignature& signature);
absl::StatusOr<Candidates> ConcatBackward(const StepSignature& signature);
absl::StatusOr<Candidates> CropForward(const StepSignature& signature);
absl::StatusOr<Candidates> CropBackward(const StepSignature& signature);
absl::StatusOr<Candidates> PermutationSteps(const StepSignature& signature);
absl::StatusOr<Candidates> TileSteps(const StepSignature& signature);
absl::StatusOr<Candidates> ResampleSteps(const StepSignature& signature);
absl::StatusOr<Candidates> ChannelSliceForward(const StepSignature& signature);
absl::StatusOr<Candidates> ChannelSliceBackward(const StepSignature& signature);
absl::StatusOr<Candidates> ChannelSplitSteps(const StepSignature& signature);
absl::StatusOr<Candidates> ZeroPadForward(const StepSignature& signature);
absl::StatusOr<Candidates> ZeroPadBackward(const StepSignature& signature);
absl::StatusOr<Candidates> AddGradients(const StepSignature& signature);
absl::StatusOr<Candidates> UpdateParams(const StepSignature& signature);
absl::StatusOr<Candidates> CheckGradients(const StepSignature& signature);
absl::StatusOr<Candidates> UpdateLossScale(const StepSignature& signature);

}  // namespace neap::cpu
