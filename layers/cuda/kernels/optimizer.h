// The launchers of the optimizer: updates of parameters, and the loss scale with which fp16 trains.
//
// Gradients of activations can be too small for fp16. The loss's gradient is therefore multiplied
// by a scale, and so are all that follow from it; the update divides by it. If a gradient of a
// parameter is not finite, the step changes nothing and the scale falls; after many good steps it
// rises (Micikevicius et al., "Mixed Precision Training", ICLR 2018, section 3.2). The scale is in
// device memory, so that an iteration can be recorded once and replayed. At the end of a step:
//
//   CheckFinite        of all gradients of parameters, sets `overflow`
//   SgdUpdate          of all parameters, unless there was an overflow
//   CommitState        of all running statistics: keeps them, or takes them back
//   UpdateLossScale    clears `overflow`
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "neap/layers/cuda/kernels/array.h"

namespace neap::kernels {

struct LossScale {
  float scale = 65536;
  uint32_t good_steps = 0;  // since the scale changed
  uint32_t overflow = 0;    // nonzero: a gradient of this step is not finite
  uint32_t skipped = 0;     // steps with an overflow
};
static_assert(sizeof(LossScale) == 16);

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

// Factors and bounds are powers of two, so that scaling is exact.
struct LossScaleRule {
  float growth = 2;
  float backoff = 0.5F;
  uint32_t growth_interval = 2000;  // good steps
  float least = 1;
  float most = 16777216;
};
cudaError_t UpdateLossScale(LossScale* loss_scale, const LossScaleRule& rule, cudaStream_t stream);

}  // namespace neap::kernels
