// The learning rate as a function of the training step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace neap {

// Rises linearly from `warmup_start` times `base`, before the first step, to `base` over
// `warmup_steps`, then follows `decay`. With a start of 0.01 and kCosine, this is the recipe by
// which torchvision trains ResNet-50, step by step instead of epoch by epoch.
struct LearningRate {
  enum class Decay : uint8_t {
    kConstant,
    kStep,         // times `factor` after every `period_steps` that follow the warm-up
    kExponential,  // times `factor` after `period_steps`, a little after every step
    kCosine,  // half a cosine from `base` at the end of the warm-up to `minimum` at `period_steps`
  };
  float base = 0.01F;
  float minimum = 0;  // of kCosine, which stays there
  int64_t warmup_steps = 0;
  float warmup_start = 0;
  Decay decay = Decay::kConstant;
  int64_t period_steps = 1;
  float factor = 0.1F;

  float At(int64_t step) const;
  bool operator==(const LearningRate&) const = default;
};

// Errors: INVALID_ARGUMENT naming the field: a base, minimum, start or factor that is negative,
// infinite or NaN, a negative number of steps, or a cosine that ends before the warm-up does.
absl::Status CheckLearningRate(const LearningRate& rate);

// All fields as one line, from which ParseLearningRate() makes an equal rate. Errors:
// INVALID_ARGUMENT for another text, and those of CheckLearningRate().
std::string ToString(const LearningRate& rate);
absl::StatusOr<LearningRate> ParseLearningRate(std::string_view text);

}  // namespace neap
