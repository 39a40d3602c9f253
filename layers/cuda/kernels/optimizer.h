// The launchers of the optimizer: updates of parameters, and what a scaled loss needs
// (core/step/loss_scale.h). All values that change from step to step are in device memory, so that
// an iteration can be recorded once and replayed. At the end of a step:
//
//   CheckFinite        of all gradients of parameters, sets `overflow`
//   SgdUpdate          of all parameters; after an overflow, only writes the rounded ones again
//   CommitState        of all running statistics: keeps them, or takes them back
//   UpdateLossScale    clears `overflow`
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "neap/core/step/loss_scale.h"
#include "neap/layers/cuda/kernels/array.h"

namespace neap::kernels {

// The tensors of a launch. A kernel's parameters, which hold their addresses, fit into the 4 KiB
// that every driver allows.
inline constexpr int kMostTensors = 64;

// optimizer.cu. `parameters` are fp32: the masters of 16-bit parameters, whose values are written
// to `rounded`. `velocities[i]` is null without momentum, `rounded[i]` for an fp32 parameter.
struct SgdTensors {
  int count = 0;
  float* parameters[kMostTensors] = {};
  const float* gradients[kMostTensors] = {};
  float* velocities[kMostTensors] = {};
  Array rounded[kMostTensors] = {};
  int64_t elements[kMostTensors] = {};
};
// `scalars` points to an IterationScalars in device memory; `loss_scale` may be null.
cudaError_t SgdUpdate(const SgdTensors& tensors, float momentum, float weight_decay,
                      const void* scalars, const LossScale* loss_scale, cudaStream_t stream);

// loss_scale.cu. Sets `overflow` if an element of the gradients is infinite or NaN.
struct GradientTensors {
  int count = 0;
  const float* gradients[kMostTensors] = {};
  int64_t elements[kMostTensors] = {};
};
cudaError_t CheckFinite(const GradientTensors& tensors, LossScale* loss_scale, cudaStream_t stream);

// After an overflow, states = backups; otherwise backups = states.
struct StateTensors {
  int count = 0;
  float* states[kMostTensors] = {};
  float* backups[kMostTensors] = {};
  int64_t elements[kMostTensors] = {};
};
cudaError_t CommitState(const StateTensors& tensors, const LossScale* loss_scale,
                        cudaStream_t stream);

cudaError_t UpdateLossScale(LossScale* loss_scale, cudaStream_t stream);

}  // namespace neap::kernels
