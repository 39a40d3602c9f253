// ChannelSplit: builds launches from signatures, one for each output.
#include "neap/layers/channel_split.h"

#include <iterator>

#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/pointwise/concatenation.h"

namespace neap::cuda {
namespace {

using namespace operands;

// Whether no loss depends on some of the outputs.
bool LacksGradients(const StepSignature& signature) {
  for (int i = 0; i < std::ssize(signature.layer.As<ChannelSplit>()->channels); ++i) {
    if (!signature.Has(Dy(i))) return true;
  }
  return false;
}

cudaError_t LaunchSplit(const LaunchArgs& a) {
  const std::vector<int64_t>& channels = a.signature.layer.As<ChannelSplit>()->channels;
  const bool forward = a.signature.phase == Phase::kForward;
  const Operand joined = forward ? X() : Dx();
  const Concatenation concat = ConcatenationOf(a.signature.Spec(joined));
  kernels::Array whole = a.Array(joined);
  cudaError_t error = cudaSuccess;
  if (!forward && LacksGradients(a.signature)) {
    const auto bytes = static_cast<size_t>(a.signature.Spec(joined).size_bytes());
    error = cudaMemsetAsync(whole.data, 0, bytes, a.stream);
  }
  for (int i = 0; i < std::ssize(channels) && error == cudaSuccess; ++i) {
    const kernels::Array part = a.FindArray(forward ? Y(i) : Dy(i));
    const kernels::RowCopy copy = CopyOfPart(concat, channels[static_cast<size_t>(i)], !forward);
    if (part.data != nullptr) {
      error = forward ? kernels::CopyRows(copy, whole, part, a.stream)
                      : kernels::CopyRows(copy, part, whole, a.stream);
    }
    whole = After(whole, copy.width);
  }
  return error;
}

}  // namespace

absl::StatusOr<Candidates> ChannelSplitCandidates(const StepSignature& signature,
                                                  const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, LaunchSplit);
}

}  // namespace neap::cuda
