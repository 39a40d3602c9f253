// Local response normalisation: builds launches from signatures.
#include "neap/layers/lrn.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t LrnLaunch(const LaunchArgs& a) {
  const LocalResponseNorm& layer = *a.signature.layer.As<LocalResponseNorm>();
  const kernels::LrnOptions options = {static_cast<int>(layer.size), layer.alpha, layer.beta,
                                       layer.k};
  const kernels::ChannelShape shape = ChannelShapeOf(a.signature.Spec(X()));
  const kernels::ConstArray x = a.Array(X());
  if (a.signature.phase == Phase::kForward)
    return kernels::Lrn(shape, options, x, a.Array(Y()), a.stream);
  return kernels::LrnBackward(shape, options, x, a.Array(Dy()), a.Array(Dx()), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> LrnCandidates(const StepSignature& signature,
                                         const SharedRuntime& runtime) {
  const kernels::ChannelShape shape = ChannelShapeOf(signature.Spec(X()));
  RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.inner));
  const int64_t size = signature.layer.As<LocalResponseNorm>()->size;
  if (size <= kernels::kMaxLrnSize) return OwnKernel(signature, runtime, LrnLaunch);
  return absl::UnimplementedError(absl::StrCat("the CUDA lrn normalises over at most ",
                                               kernels::kMaxLrnSize, " channels, not ", size));
}

}  // namespace neap::cuda
