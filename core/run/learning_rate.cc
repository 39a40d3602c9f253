#include "neap/core/run/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

constexpr size_t kMaxText = 256;

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

std::string ToString(const LearningRate& rate) {
  return absl::StrFormat(
      "base %.9g minimum %.9g warmup %d from %.9g decay %d period %d factor %.9g", rate.base,
      rate.minimum, rate.warmup_steps, rate.warmup_start, static_cast<int>(rate.decay),
      rate.period_steps, rate.factor);
}

absl::StatusOr<LearningRate> ParseLearningRate(std::string_view text) {
  // A name, then its value.
  const std::vector<std::string> words = absl::StrSplit(std::string(text.substr(0, kMaxText)), ' ');
  constexpr size_t kWords = 14;
  LearningRate rate;
  int decay = -1;
  const bool is_rate =
      words.size() == kWords && absl::SimpleAtof(words[1], &rate.base) &&
      absl::SimpleAtof(words[3], &rate.minimum) && absl::SimpleAtoi(words[5], &rate.warmup_steps) &&
      absl::SimpleAtof(words[7], &rate.warmup_start) && absl::SimpleAtoi(words[9], &decay) &&
      absl::SimpleAtoi(words[11], &rate.period_steps) && absl::SimpleAtof(words[13], &rate.factor);
  if (is_rate && decay >= 0 && decay <= static_cast<int>(LearningRate::Decay::kCosine)) {
    rate.decay = static_cast<LearningRate::Decay>(decay);
    RETURN_IF_ERROR(CheckLearningRate(rate));
    if (ToString(rate) == text) return rate;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", std::string(text.substr(0, kMaxText)), "' is not a learning rate"));
}

}  // namespace neap
