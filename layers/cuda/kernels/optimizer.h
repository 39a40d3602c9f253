// The launchers of the optimizer (core/step/optimizer.h): updates of parameters, and what clipped
// gradients and a scaled loss (core/step/loss_scale.h) need. All values that change from step to
// step are in device memory, so that an iteration can be recorded once and replayed. At the end of
// a step:
//
//   AddSquares         of all gradients of parameters
//   CheckFinite        of all gradients of parameters, sets `overflow`
//   UpdateParameters   of all parameters; after an overflow, only writes the rounded ones again
//   CommitState        of all running statistics: keeps them, or takes them back
//   UpdateLossScale    clears `overflow`
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "neap/layers/cuda/kernels/array.h"

namespace neap {
struct LossScale;  // core/step/loss_scale.h
}

namespace neap::kernels {

// The tensors of a launch. A kernel's parameters, which hold their addresses, fit into the 4 KiB
// that every driver allows.
inline constexpr int kMaxTensors = 64;

// What the kernels read of an Optimizer (core/step/optimizer.h).
struct OptimizerOptions {
  bool is_adamw = false;  // or SGD
  bool nesterov = false;
  float momentum = 0, weight_decay = 0;
  float beta1 = 0, beta2 = 0, epsilon = 0;
  float clip_norm = 0, average_decay = 0;
};

// optimizer.cu. `parameters` are fp32: the masters of 16-bit parameters, whose values are written
// to `rounded`, all of one type. A pointer is null if the parameter does not have the tensor.
struct UpdatePointers {
  Element rounded_type = Element::kFp32;
  float* parameters[kMaxTensors] = {};
  const float* gradients[kMaxTensors] = {};
  float* moments[kMaxTensors] = {};
  float* second_moments[kMaxTensors] = {};
  float* averages[kMaxTensors] = {};
  void* rounded[kMaxTensors] = {};
};
struct UpdateTensors {
  int count = 0;
  UpdatePointers pointers;
  int64_t elements[kMaxTensors] = {};
};
// `scalars` points to an IterationScalars in device memory, `squares` to the result of AddSquares()
// for all gradients, or is null if they are not clipped; `loss_scale` may be null.
cudaError_t UpdateParameters(const UpdateTensors& tensors, const OptimizerOptions& optimizer,
                             const void* scalars, const float* squares, const LossScale* loss_scale,
                             cudaStream_t stream);

// loss_scale.cu. Sets `overflow` if an element of the gradients is infinite or NaN.
struct GradientTensors {
  int count = 0;
  const float* gradients[kMaxTensors] = {};
  int64_t elements[kMaxTensors] = {};
};
cudaError_t CheckFinite(const GradientTensors& tensors, LossScale* loss_scale, cudaStream_t stream);

// gradient_norm.cu. Adds the sums of squares of the gradients, one after another, to `*squares`,
// which is 0 before if this is where the sum begins. `parts` has SquaresParts() floats for each
// tensor.
int64_t SquaresParts(int64_t elements);
cudaError_t AddSquares(const GradientTensors& tensors, bool begins, float* parts, float* squares,
                       cudaStream_t stream);

// After an overflow, states = backups; otherwise backups = states.
struct StateTensors {
  int count = 0;
  float* states[kMaxTensors] = {};
  float* backups[kMaxTensors] = {};
  int64_t elements[kMaxTensors] = {};
};
cudaError_t CommitState(const StateTensors& tensors, const LossScale* loss_scale,
                        cudaStream_t stream);

cudaError_t UpdateLossScale(LossScale* loss_scale, cudaStream_t stream);

}  // namespace neap::kernels
