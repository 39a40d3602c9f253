// The optimizer: builds launches from signatures.
#include "neap/core/step/sgd.h"

#include "absl/strings/str_cat.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/optimizer.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t SgdLaunch(const LaunchArgs& a) {
  const Sgd& sgd = a.signature.sgd;
  cudaError_t error = cudaSuccess;
  for (int first = 0; error == cudaSuccess && a.signature.Has(Param(first));
       first += kernels::kMostUpdates) {
    kernels::SgdTensors tensors;
    for (int k = first; k < first + kernels::kMostUpdates && a.signature.Has(Param(k)); ++k) {
      const int slot = tensors.count++;
      if (float* const master = a.Find<float>(Master(k))) {
        tensors.parameters[slot] = master;
        tensors.rounded[slot] = a.Array(Param(k));
      } else {
        tensors.parameters[slot] = a.Get<float>(Param(k));
      }
      tensors.gradients[slot] = a.Get<float>(ParamGrad(k));
      tensors.velocities[slot] = a.Find<float>(Optimizer(k));
      tensors.elements[slot] = a.Elements(Param(k));
    }
    error = kernels::SgdUpdate(tensors, sgd.momentum, sgd.weight_decay, a.Get<void>(Iteration()),
                               /*loss_scale=*/nullptr, a.stream);
  }
  return error;
}

}  // namespace

absl::StatusOr<Candidates> SgdCandidates(const StepSignature& signature,
                                         const SharedRuntime& runtime) {
  for (int i = 0; signature.Has(Param(i)); ++i) {
    const bool is_fp32 = ElementOf(signature.Spec(Param(i)).dtype) == kernels::Element::kFp32;
    if (signature.Has(Master(i)) != is_fp32) continue;
    return absl::UnimplementedError(absl::StrCat(
        "the CUDA update needs a master of each 16-bit parameter only: ", ToString(signature)));
  }
  return OwnKernel(signature, runtime, SgdLaunch);
}

}  // namespace neap::cuda
