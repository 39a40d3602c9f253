// Replaces gelu_cuda.cc in a build without CUDA: enough to plan for a GPU that is not here.
#include <string>

#include "gelu.h"

std::vector<neap::CustomKernel> CudaQuickGeluKernels() {
  const std::string type(QuickGelu::kType);
  return {{.layer_type = type, .phase = neap::Phase::kForward},
          {.layer_type = type, .phase = neap::Phase::kBackwardData}};
}
