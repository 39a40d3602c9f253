// The learning rate as a function of the training step.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace neap {

// Rises linearly from 0 over `warmup_steps`, then follows `decay`.
struct LearningRate {
  enum class Decay : uint8_t {
    kConstant,
    kStep,    // times `factor` after every `period_steps`
    kCosine,  // half a cosine from `base` down to 0 at `period_steps`, then 0
  };
  float base = 0.01F;
  int64_t warmup_steps = 0;
  Decay decay = Decay::kConstant;
  int64_t period_steps = 1;
  float factor = 0.1F;

  float At(int64_t step) const;
};

// Errors: INVALID_ARGUMENT naming the field: a base or factor that is negative, infinite or NaN, or
// a negative number of steps.
absl::Status CheckLearningRate(const LearningRate& rate);

}  // namespace neap
