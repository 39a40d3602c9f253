// Batch norms that write their parts of a concatenation: builds launches from signatures.
#include "neap/layers/joined_batch_norms.h"

#include <algorithm>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/batch_norm_reads.h"
#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {
namespace {

using namespace operands;

// The rows of the concatenation or its gradient, and of each input in it.
struct Rows {
  explicit Rows(const TensorSpec& joined)
      : shape(ChannelShapeOf(joined)),
        count(shape.channels_last ? shape.outer * shape.inner : shape.outer),
        per_channel(shape.channels_last ? 1 : shape.inner) {}
  kernels::ChannelShape shape;
  int64_t count, per_channel;
};

kernels::BatchNormOperands ReadsOf(const LaunchArgs& a, int input, const BatchNorm& norm) {
  return BatchNormReads(a, norm, 2 * input, a.Array(X(input)));
}

bool HasStatistics(const StepSignature& signature) {
  return signature.mode == Mode::kTraining && !signature.rerun;
}

// Calls launch(i, place, array) for every input; `array` begins with its channels of `joined`.
template <typename Launch>
cudaError_t ForEachInput(const LaunchArgs& a, Operand joined, Launch launch) {
  const JoinedBatchNorms& layer = *a.signature.layer.As<JoinedBatchNorms>();
  const Rows rows(a.signature.Spec(joined));
  const std::vector<JoinedInput> inputs = JoinedInputs(layer, a.signature);
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    const JoinedInput& place = inputs[static_cast<size_t>(i)];
    const kernels::Array first = After(a.Array(joined), place.first * rows.per_channel);
    const cudaError_t error = launch(i, place, rows, first);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t Forward(const LaunchArgs& a) {
  return ForEachInput(
      a, Y(), [&](int i, const JoinedInput& place, const Rows& rows, kernels::Array y) {
        if (place.part == nullptr) {
          const int64_t width = place.channels * rows.per_channel;
          const kernels::RowCopy copy = {.rows = rows.count,
                                         .width = width,
                                         .in_stride = width,
                                         .out_stride = rows.shape.channels * rows.per_channel};
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
                                            rows.shape.channels, a.stream);
      });
}

cudaError_t Backward(const LaunchArgs& a) {
  return ForEachInput(
      a, Dy(), [&](int i, const JoinedInput& place, const Rows& rows, kernels::Array dy) {
        const bool adds = a.signature.Accumulates(Dx(i));
        if (place.part == nullptr) {
          const int64_t width = place.channels * rows.per_channel;
          const kernels::RowCopy copy = {.rows = rows.count,
                                         .width = width,
                                         .in_stride = rows.shape.channels * rows.per_channel,
                                         .out_stride = width,
                                         .accumulate = adds};
          return kernels::CopyRows(copy, dy, a.Array(Dx(i)), a.stream);
        }
        const kernels::BatchNormSums sums = {a.Get<float>(ParamGrad(2 * i)),
                                             a.Get<float>(ParamGrad(2 * i + 1))};
        return kernels::BatchNormBackwardSlice(ChannelShapeOf(a.signature.Spec(X(i))),
                                               ReadsOf(a, i, place.part->norm), place.part->relu,
                                               dy, rows.shape.channels, sums, a.Array(Dx(i)), adds,
                                               a.Reduction(), a.stream);
      });
}

}  // namespace

absl::StatusOr<Candidates> JoinedBatchNormsCandidates(const StepSignature& signature,
                                                      const SharedRuntime& runtime) {
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kParam}));
  const bool forward = signature.phase == Phase::kForward;
  const TensorSpec& joined = signature.Spec(forward ? Y() : Dy());
  const kernels::ChannelShape shape = ChannelShapeOf(joined);
  RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.inner));
  RETURN_IF_ERROR(CheckFits32(signature, shape.channels * shape.inner));
  int64_t scratch = 0;
  const JoinedBatchNorms& layer = *signature.layer.As<JoinedBatchNorms>();
  for (int i = 0; i < static_cast<int>(layer.parts.size()); ++i) {
    scratch = std::max(scratch, kernels::ChannelScratchBytes(ChannelShapeOf(signature.Spec(X(i))),
                                                             ElementOf(joined.dtype)));
  }
  const bool reduces = !forward || HasStatistics(signature);
  return OwnKernel(signature, runtime, forward ? Forward : Backward, reduces ? scratch : 0);
}

}  // namespace neap::cuda
