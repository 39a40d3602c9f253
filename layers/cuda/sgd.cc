// The optimizer: builds launches from signatures.
#include "neap/core/step/sgd.h"

#include "neap/layers/cuda/candidates.h"

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
      tensors.parameters[slot] = a.Get<float>(Param(k));
      tensors.gradients[slot] = a.Get<float>(ParamGrad(k));
      tensors.velocities[slot] = a.Find<float>(Optimizer(k));
      tensors.elements[slot] = a.Elements(Param(k));
    }
    error = kernels::SgdUpdate(tensors, sgd.momentum, sgd.weight_decay, a.Get<void>(Iteration()),
                               a.stream);
  }
  return error;
}

}  // namespace

absl::StatusOr<Candidates> SgdCandidates(const StepSignature& signature,
                                         const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, SgdLaunch);
}

}  // namespace neap::cuda
