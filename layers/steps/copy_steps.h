// The steps of layers that move or average the elements of images, as crops and average pools do:
// the gradient of x depends on that of y alone.
#pragma once

#include <utility>

#include "neap/core/step/layer.h"
#include "neap/core/step/operands.h"

namespace neap {

// forward: x -> y; backward_data: dy -> dx.
inline LayerSpec CopySteps(TensorSpec output, Mode mode, double flops = 0) {
  using namespace operands;
  LayerSpec spec = {.output = std::move(output), .traits = {.independent_images = true}};
  spec.steps.push_back({.reads = {X()}, .writes = {Y()}, .flops = flops});
  if (mode == Mode::kInference) return spec;
  spec.steps.push_back(
      {.phase = Phase::kBackwardData, .reads = {Dy()}, .writes = {Dx()}, .flops = flops});
  return spec;
}

}  // namespace neap
