#include "gelu.h"

#include <neap/advanced.h>

#include <cmath>

using namespace neap::operands;

absl::StatusOr<neap::LayerSpec> QuickGelu::Specify(const neap::LayerContext& context) const {
  RETURN_IF_ERROR(neap::CheckSpatialInputs(context, 1));
  const neap::TensorSpec& x = context.inputs[0];
  const double flops = 10 * static_cast<double>(x.elements());
  neap::LayerSpec spec = {.output = x, .traits = {.independent_images = true}};
  spec.steps.push_back({.phase = neap::Phase::kForward,
                        .reads = {X()},
                        .writes = {Y()},
                        .in_place = {{Y(), X()}},
                        .flops = flops});
  if (context.mode == neap::Mode::kInference) return spec;
  spec.steps.push_back({.phase = neap::Phase::kBackwardData,
                        .reads = {X(), Dy()},
                        .writes = {Dx()},
                        .in_place = {{Dx(), Dy()}},
                        .flops = 2 * flops});
  return spec;
}

namespace {

float Gate(float x) { return 1 / (1 + std::exp(-1.702F * x)); }

absl::Status Forward(const neap::CustomRun& step) {
  const float* const x = step.Get<float>(X());
  float* const y = step.Get<float>(Y());
  const int64_t elements = step.Elements(Y());
  for (int64_t i = 0; i < elements; ++i) y[i] = x[i] * Gate(x[i]);
  return absl::OkStatus();
}

absl::Status Backward(const neap::CustomRun& step) {
  const float* const x = step.Get<float>(X());
  const float* const dy = step.Get<float>(Dy());
  float* const dx = step.Get<float>(Dx());
  const int64_t elements = step.Elements(Dx());
  for (int64_t i = 0; i < elements; ++i) {
    const float gate = Gate(x[i]);
    dx[i] = dy[i] * gate * (1 + 1.702F * x[i] * (1 - gate));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<neap::CustomKernel> CpuQuickGeluKernels() {
  const std::string type(QuickGelu::kType);
  return {{.layer_type = type, .phase = neap::Phase::kForward, .run = Forward},
          {.layer_type = type, .phase = neap::Phase::kBackwardData, .run = Backward}};
}
