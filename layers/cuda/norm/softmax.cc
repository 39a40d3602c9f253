// Softmax along an axis: builds launches from signatures.
#include "neap/layers/norm/softmax.h"

#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/norm/softmax.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t LaunchSoftmax(const LaunchArgs& a) {
  const Softmax& layer = *a.signature.layer.As<Softmax>();
  const AxisRows rows = AxisRowsOf(a.signature.Spec(Y()), static_cast<int>(layer.axis));
  if (a.signature.phase == Phase::kForward)
    return kernels::SoftmaxAxis(rows, layer.logarithm, a.Array(X()), a.Array(Y()), a.stream);
  return kernels::SoftmaxAxisBackward(rows, layer.logarithm, a.Array(Y()), a.Array(Dy()),
                                      a.Array(Dx()), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> SoftmaxAxisCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, LaunchSoftmax);
}

}  // namespace neap::cuda
