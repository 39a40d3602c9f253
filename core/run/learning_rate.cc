#include "neap/core/run/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace neap {

float LearningRate::At(int64_t step) const {
  if (step < warmup_steps) {
    return base * static_cast<float>(step + 1) / static_cast<float>(warmup_steps);
  }
  const int64_t period = std::max<int64_t>(period_steps, 1);
  switch (decay) {
    case Decay::kConstant:
      return base;
    case Decay::kStep:
      return base * std::pow(factor, static_cast<float>(step / period));
    case Decay::kCosine: {
      const double progress =
          std::min(1.0, static_cast<double>(step) / static_cast<double>(period));
      return static_cast<float>(base * 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
    }
  }
  return base;
}

}  // namespace neap
