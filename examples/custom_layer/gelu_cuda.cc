#include <neap/advanced.h>

#include <string>

#include "gelu.h"

using namespace neap::operands;

// gelu.cu. They return a cudaError_t.
int LaunchQuickGelu(const float* x, float* y, int64_t elements, void* stream);
int LaunchQuickGeluBackward(const float* x, const float* dy, float* dx, int64_t elements,
                            void* stream);

namespace {

absl::Status Launched(int error) {
  if (error == 0) return absl::OkStatus();
  return absl::InternalError("cudaError_t " + std::to_string(error));
}

absl::Status Forward(const neap::CustomRun& step) {
  return Launched(
      LaunchQuickGelu(step.Get<float>(X()), step.Get<float>(Y()), step.Elements(Y()), step.stream));
}

absl::Status Backward(const neap::CustomRun& step) {
  return Launched(LaunchQuickGeluBackward(step.Get<float>(X()), step.Get<float>(Dy()),
                                          step.Get<float>(Dx()), step.Elements(Dx()), step.stream));
}

}  // namespace

std::vector<neap::CustomKernel> CudaQuickGeluKernels() {
  const std::string type(QuickGelu::kType);
  return {{.layer_type = type, .phase = neap::Phase::kForward, .run = Forward},
          {.layer_type = type, .phase = neap::Phase::kBackwardData, .run = Backward}};
}
