// What the kernels of batch norm read, of all layers that contain one.
#pragma once

#include "neap/layers/batch_norm.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"

namespace neap::cuda {

// Of the batch norm the first of whose parameters, states and saved tensors are number `at`. In
// inference the running statistics take the place of the saved ones.
inline kernels::BatchNormOperands BatchNormReads(const LaunchArgs& a, const BatchNorm& norm, int at,
                                                 kernels::ConstArray x) {
  using namespace operands;
  const bool training = a.signature.Has(Saved(at));
  return {.x = x,
          .gamma = a.Get<float>(Param(at)),
          .beta = a.Find<float>(Param(at + 1)),
          .mean = a.Get<float>(training ? Saved(at) : State(at)),
          .invstd = a.Get<float>(training ? Saved(at + 1) : State(at + 1)),
          .from_variance = !training,
          .epsilon = norm.epsilon};
}

// What it writes before it normalises.
inline kernels::BatchNormState BatchNormWrites(const LaunchArgs& a, int at) {
  using namespace operands;
  return {a.Get<float>(Saved(at)), a.Get<float>(Saved(at + 1)), a.Find<float>(State(at)),
          a.Find<float>(State(at + 1))};
}

}  // namespace neap::cuda
