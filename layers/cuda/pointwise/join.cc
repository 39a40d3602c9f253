// Add and Concat: builds launches from signatures.
#include "neap/layers/join.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/pointwise/concatenation.h"

namespace neap::cuda {
namespace {

using namespace operands;

// Calls f for the operands of one slot, in the order of the signature.
template <typename F>
void ForEachOfSlot(const StepSignature& signature, Slot slot, F f) {
  for (size_t i = 0; i < signature.operands.size(); ++i) {
    if (signature.operands[i].operand.slot == slot) f(signature.operands[i], i);
  }
}

cudaError_t AddForward(const LaunchArgs& a) {
  std::array<kernels::ConstArray, kernels::kMaxAddends> inputs = {};
  int count = 0;
  ForEachOfSlot(a.signature, Slot::kInput, [&](const OperandSpec& operand, size_t) {
    inputs[static_cast<size_t>(count++)] = a.Array(operand.operand);
  });
  return kernels::Add(inputs.data(), count, a.Array(Y()), a.Elements(Y()), a.stream);
}

cudaError_t AddPerChannel(const LaunchArgs& a) {
  return kernels::AddPerChannel(ChannelShapeOf(a.signature.Spec(X(0))), a.Array(X(0)),
                                a.Array(X(1)), a.Array(Y()), a.stream);
}

cudaError_t AddPerChannelBackward(const LaunchArgs& a) {
  kernels::PairGradients gradients = {
      .da = a.FindArray(Dx(0)),
      .db = a.Array(Dx(1)),
      .adds_da = a.signature.Has(Dx(0)) && a.signature.Accumulates(Dx(0)),
      .adds_db = a.signature.Accumulates(Dx(1))};
  if (gradients.da.data == a.Array(Dy()).data) gradients.da = {};  // dy is dx_0 already
  return kernels::AddPerChannelBackward(ChannelShapeOf(a.signature.Spec(Dy())), a.Array(Dy()),
                                        gradients, a.run.workspace, a.stream);
}

cudaError_t AddGradientsLaunch(const LaunchArgs& a) {
  const kernels::Array sum = a.Array(Dx());
  const kernels::ConstArray terms[] = {sum, a.Array(Addend())};
  return kernels::Add(terms, 2, sum, a.Elements(Dx()), a.stream);
}

// Copies come before sums, because two inputs may be the same tensor.
cudaError_t AddBackward(const LaunchArgs& a) {
  const kernels::ConstArray dy = a.Array(Dy());
  const int64_t n = a.Elements(Dy());
  cudaError_t error = cudaSuccess;
  for (Access access : {Access::kWrite, Access::kAccumulate}) {
    ForEachOfSlot(a.signature, Slot::kInputGrad, [&](const OperandSpec& operand, size_t) {
      if (operand.access != access || error != cudaSuccess) return;
      const kernels::Array dx = a.Array(operand.operand);
      const kernels::ConstArray terms[] = {dx, dy};
      error = access == Access::kWrite ? kernels::Add(&dy, 1, dx, n, a.stream)
                                       : kernels::Add(terms, 2, dx, n, a.stream);
    });
  }
  return error;
}

cudaError_t ConcatLaunch(const LaunchArgs& a) {
  const bool forward = a.signature.phase == Phase::kForward;
  const Operand whole = forward ? Y() : Dy();
  const Concatenation concat = ConcatenationOf(a.signature.Spec(whole));
  kernels::Array joined = a.Array(whole);
  cudaError_t error = cudaSuccess;
  for (int index = 0; error == cudaSuccess; ++index) {
    const std::optional<size_t> i =
        a.signature.Find({forward ? Slot::kInput : Slot::kInputGrad, index});
    if (!i) break;
    const OperandSpec& operand = a.signature.operands[*i];
    const kernels::Array part = a.Array(operand.operand);
    const kernels::RowCopy copy = CopyOfPart(concat, operand.tensor.shape.c(), forward,
                                             operand.access == Access::kAccumulate);
    error = forward ? kernels::CopyRows(copy, part, joined, a.stream)
                    : kernels::CopyRows(copy, joined, part, a.stream);
    joined = After(joined, copy.width);
  }
  return error;
}

absl::StatusOr<Candidates> AddBackwardCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime) {
  const int64_t of_second = signature.Has(Dx(1)) ? signature.Spec(Dx(1)).elements() : 0;
  const kernels::ChannelShape shape = ChannelShapeOf(signature.Spec(Dy()));
  if (of_second == 0 || of_second == shape.outer * shape.channels * shape.inner)
    return OwnKernel(signature, runtime, AddBackward);
  RETURN_IF_ERROR(CheckFits32(signature, of_second));
  RETURN_IF_ERROR(CheckFits32(signature, shape.inner));
  return OwnKernel(signature, runtime, AddPerChannelBackward,
                   kernels::PerChannelScratchBytes(shape, of_second));
}

}  // namespace

absl::StatusOr<Candidates> AddCandidates(const StepSignature& signature,
                                         const SharedRuntime& runtime) {
  if (signature.phase != Phase::kForward) return AddBackwardCandidates(signature, runtime);
  if (signature.Spec(X(1)).elements() != signature.Spec(Y()).elements())
    return OwnKernel(signature, runtime, AddPerChannel);
  int64_t inputs = 0;
  ForEachOfSlot(signature, Slot::kInput, [&](const OperandSpec&, size_t) { ++inputs; });
  if (inputs <= kernels::kMaxAddends) return OwnKernel(signature, runtime, AddForward);
  return absl::UnimplementedError(
      absl::StrCat("the CUDA add takes at most ", kernels::kMaxAddends, " tensors, not ", inputs));
}

absl::StatusOr<Candidates> AddGradientsCandidates(const StepSignature& signature,
                                                  const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, AddGradientsLaunch);
}

absl::StatusOr<Candidates> ConcatCandidates(const StepSignature& signature,
                                            const SharedRuntime& runtime) {
  if (signature.phase == Phase::kForward) return OwnKernel(signature, runtime, ConcatLaunch);
  int64_t channels = 0;
  ForEachOfSlot(signature, Slot::kInputGrad,
                [&](const OperandSpec& operand, size_t) { channels += operand.tensor.shape.c(); });
  if (channels == signature.Spec(Dy()).shape.c())
    return OwnKernel(signature, runtime, ConcatLaunch);
  return absl::UnimplementedError(
      "the CUDA kernel of concat backward_data needs the gradients of all inputs");
}

}  // namespace neap::cuda
