#include "neap/layers/steps/linear_steps.h"

#include <utility>

#include "neap/core/step/operands.h"

namespace neap {

using namespace operands;

void AddLinearSteps(bool bias, Mode mode, double flops, LayerSpec& spec) {
  StepSpec forward = {.reads = {X(), Param(0)}, .writes = {Y()}, .flops = flops};
  if (bias) forward.reads.push_back(Param(1));
  spec.steps.push_back(std::move(forward));
  if (mode == Mode::kInference) return;

  StepSpec params_step = {.phase = Phase::kBackwardParams,
                          .reads = {X(), Dy()},
                          .writes = {ParamGrad(0)},
                          .flops = flops};
  if (bias) params_step.writes.push_back(ParamGrad(1));
  spec.steps.push_back(std::move(params_step));
  spec.steps.push_back(
      {.phase = Phase::kBackwardData, .reads = {Dy(), Param(0)}, .writes = {Dx()}, .flops = flops});
}

}  // namespace neap
