// Batch norms that write their parts of a concatenation: builds launches from signatures.
#include "neap/layers/fusion/concat_batch_norms.h"

#include <algorithm>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/norm/batch_norm_reads.h"
#include "neap/layers/cuda/pointwise/concatenation.h"

namespace neap::cuda {
namespace {

using namespace operands;

kernels::BatchNormOperands ReadsOf(const LaunchArgs& a, int input, const BatchNorm& norm) {
  return BatchNormReads(a, norm, 2 * input, a.Array(X(input)));
}

bool HasStatistics(const StepSignature& signature) {
  return signature.mode == Mode::kTraining && !signature.rerun;
}

// Calls launch(i, place, array) for every input; `array` begins with its channels of `concat`.
template <typename Launch>
cudaError_t ForEachInput(const LaunchArgs& a, Operand concat, Launch launch) {
  const ConcatBatchNorms& layer = *a.signature.layer.As<ConcatBatchNorms>();
  const Concatenation whole = ConcatenationOf(a.signature.Spec(concat));
  const std::vector<ConcatInput> inputs = ConcatInputs(layer, a.signature);
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    const ConcatInput& place = inputs[static_cast<size_t>(i)];
    const kernels::Array first = After(a.Array(concat), place.first * whole.per_channel);
    const cudaError_t error = launch(i, place, whole, first);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t ConcatNormsForward(const LaunchArgs& a) {
  return ForEachInput(
      a, Y(), [&](int i, const ConcatInput& place, const Concatenation& whole, kernels::Array y) {
        if (place.part == nullptr) {
          const kernels::RowCopy copy = CopyOfPart(whole, place.channels, /*into=*/true);
          return kernels::CopyRows(copy, a.Array(X(i)), y, a.stream);
        }
        const BatchNorm& norm = place.part->norm;
        const kernels::ChannelShape shape = ChannelShapeOf(a.signature.Spec(X(i)));
        if (HasStatistics(a.signature)) {
          const cudaError_t error =
              kernels::BatchNormStatistics(shape, a.Array(X(i)), norm.epsilon, norm.momentum,
                                           BatchNormWrites(a, 2 * i), a.Reduction(), a.stream);
          if (error != cudaSuccess) return error;
        }
        return kernels::BatchNormApplySlice(shape, ReadsOf(a, i, norm), place.part->relu, y,
                                            whole.length / whole.per_channel, a.stream);
      });
}

cudaError_t ConcatNormsBackward(const LaunchArgs& a) {
  return ForEachInput(
      a, Dy(), [&](int i, const ConcatInput& place, const Concatenation& whole, kernels::Array dy) {
        const bool adds = a.signature.Accumulates(Dx(i));
        if (place.part == nullptr) {
          const kernels::RowCopy copy = CopyOfPart(whole, place.channels, /*into=*/false, adds);
          return kernels::CopyRows(copy, dy, a.Array(Dx(i)), a.stream);
        }
        const kernels::BatchNormSums sums = {a.Get<float>(ParamGrad(2 * i)),
                                             a.Get<float>(ParamGrad(2 * i + 1))};
        return kernels::BatchNormBackwardSlice(ChannelShapeOf(a.signature.Spec(X(i))),
                                               ReadsOf(a, i, place.part->norm), place.part->relu,
                                               dy, whole.length / whole.per_channel, sums,
                                               a.Array(Dx(i)), adds, a.Reduction(), a.stream);
      });
}

}  // namespace

absl::StatusOr<Candidates> ConcatBatchNormsCandidates(const StepSignature& signature,
                                                      const SharedRuntime& runtime) {
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kParam}));
  const bool forward = signature.phase == Phase::kForward;
  const TensorSpec& concat = signature.Spec(forward ? Y() : Dy());
  const kernels::ChannelShape shape = ChannelShapeOf(concat);
  RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.inner));
  RETURN_IF_ERROR(CheckFits32(signature, shape.channels * shape.inner));
  int64_t scratch = 0;
  const ConcatBatchNorms& layer = *signature.layer.As<ConcatBatchNorms>();
  for (int i = 0; i < static_cast<int>(layer.parts.size()); ++i) {
    scratch = std::max(scratch, kernels::ChannelScratchBytes(ChannelShapeOf(signature.Spec(X(i))),
                                                             ElementOf(concat.dtype)));
  }
  const bool reduces = !forward || HasStatistics(signature);
  return OwnKernel(signature, runtime, forward ? ConcatNormsForward : ConcatNormsBackward,
                   reduces ? scratch : 0);
}

}  // namespace neap::cuda
