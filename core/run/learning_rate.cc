#include "neap/core/run/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

absl::Status CheckRate(std::string_view field, float value) {
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("learning rate: ", std::string(field), " ", value,
                                                 " must be finite and not negative"));
}

absl::Status CheckSteps(std::string_view field, int64_t steps) {
  if (steps >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("learning rate: ", std::string(field), " ", steps, " must not be negative"));
}

}  // namespace

float LearningRate::At(int64_t step) const {
  if (step < warmup_steps) {
    const float share = static_cast<float>(step + 1) / static_cast<float>(warmup_steps);
    return base * (warmup_start + (1 - warmup_start) * share);
  }
  const int64_t period = std::max<int64_t>(period_steps, 1);
  switch (decay) {
    case Decay::kConstant:
      return base;
    case Decay::kStep:
      return base * std::pow(factor, static_cast<float>((step - warmup_steps) / period));
    case Decay::kExponential:
      return static_cast<float>(
          base * std::pow(static_cast<double>(factor),
                          static_cast<double>(step - warmup_steps) / static_cast<double>(period)));
    case Decay::kCosine: {
      const int64_t steps = std::max<int64_t>(period - warmup_steps, 1);
      const double progress =
          std::min(1.0, static_cast<double>(step - warmup_steps) / static_cast<double>(steps));
      const double height = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
      return static_cast<float>(minimum + (base - minimum) * height);
    }
  }
  return base;
}

absl::Status CheckLearningRate(const LearningRate& rate) {
  RETURN_IF_ERROR(CheckRate("base", rate.base));
  RETURN_IF_ERROR(CheckRate("minimum", rate.minimum));
  RETURN_IF_ERROR(CheckRate("warmup_start", rate.warmup_start));
  RETURN_IF_ERROR(CheckRate("factor", rate.factor));
  RETURN_IF_ERROR(CheckSteps("warmup_steps", rate.warmup_steps));
  RETURN_IF_ERROR(CheckSteps("period_steps", rate.period_steps));
  const bool ends_early = rate.warmup_steps > 0 && rate.period_steps <= rate.warmup_steps;
  if (rate.decay != LearningRate::Decay::kCosine || !ends_early) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("learning rate: the cosine ends with step ",
                                                 rate.period_steps, ", but the warm-up with step ",
                                                 rate.warmup_steps));
}

}  // namespace neap
