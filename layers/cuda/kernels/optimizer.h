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

// optimizer.cu. Updates up to kMostUpdates tensors in one launch. `parameters` are fp32: the
// masters of 16-bit parameters, whose values are written to `rounded`. `velocities[i]` is null
// without momentum, `rounded[i]` for an fp32 parameter.
inline constexpr int kMostUpdates = 4;
struct SgdTensors {
  int count = 0;
  float* parameters[kMostUpdates] = {};
  const float* gradients[kMostUpdates] = {};
  float* velocities[kMostUpdates] = {};
  Array rounded[kMostUpdates] = {};
  int64_t elements[kMostUpdates] = {};
};
// `scalars` points to an IterationScalars in device memory; `loss_scale` may be null.
cudaError_t SgdUpdate(const SgdTensors& tensors, float momentum, float weight_decay,
                      const void* scalars, const LossScale* loss_scale, cudaStream_t stream);

// loss_scale.cu. Sets `overflow` if an element of the gradients is infinite or NaN.
inline constexpr int kMostChecked = 32;
struct GradientTensors {
  int count = 0;
  const float* gradients[kMostChecked] = {};
  int64_t elements[kMostChecked] = {};
};
cudaError_t CheckFinite(const GradientTensors& tensors, LossScale* loss_scale, cudaStream_t stream);

// After an overflow, states = backups; otherwise backups = states.
inline constexpr int kMostStates = 32;
struct StateTensors {
  int count = 0;
  float* states[kMostStates] = {};
  float* backups[kMostStates] = {};
  int64_t elements[kMostStates] = {};
};
cudaError_t CommitState(const StateTensors& tensors, const LossScale* loss_scale,
                        cudaStream_t stream);

cudaError_t UpdateLossScale(LossScale* loss_scale, cudaStream_t stream);

}  // namespace neap::kernels
