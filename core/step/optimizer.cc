#include "neap/core/step/optimizer.h"

#include <cmath>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

absl::Status Refuse(std::string_view field, float value, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer: ", std::string(field), " ", value, " ", std::string(what)));
}

// The checks are written so that NaN is refused.
absl::Status CheckShare(std::string_view field, float value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return Refuse(field, value, "is outside [0, 1)");
}

absl::Status CheckSize(std::string_view field, float value) {
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return Refuse(field, value, "must be finite and not negative");
}

}  // namespace

absl::Status CheckOptimizer(const Optimizer& optimizer) {
  if (!(optimizer.momentum >= 0 && optimizer.momentum <= 1))
    return Refuse("momentum", optimizer.momentum, "is outside [0, 1]");
  RETURN_IF_ERROR(CheckSize("weight_decay", optimizer.weight_decay));
  RETURN_IF_ERROR(CheckShare("beta1", optimizer.beta1));
  RETURN_IF_ERROR(CheckShare("beta2", optimizer.beta2));
  if (!(optimizer.epsilon > 0 && std::isfinite(optimizer.epsilon)))
    return Refuse("epsilon", optimizer.epsilon, "must be finite and positive");
  RETURN_IF_ERROR(CheckSize("clip_norm", optimizer.clip_norm));
  RETURN_IF_ERROR(CheckShare("average_decay", optimizer.average_decay));
  const bool has_momentum = optimizer.rule == Optimizer::Rule::kSgd && optimizer.momentum != 0;
  if (optimizer.nesterov && !has_momentum)
    return absl::InvalidArgumentError("optimizer: nesterov needs SGD with momentum");
  return absl::OkStatus();
}

}  // namespace neap
