// The device's copy of IterationScalars (core/step/layer_spec.h).
#pragma once

#include <cstdint>

namespace neap::kernels {

struct Scalars {
  float learning_rate;
  uint32_t step;
  uint64_t seed;
};

}  // namespace neap::kernels
