#include "neap/core/step/sgd.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace neap {

absl::Status CheckSgd(const Sgd& sgd) {
  // Written so that NaN is refused.
  if (!(sgd.momentum >= 0 && sgd.momentum <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("sgd: momentum ", sgd.momentum, " is outside [0, 1]"));
  }
  if (!(sgd.weight_decay >= 0 && std::isfinite(sgd.weight_decay))) {
    return absl::InvalidArgumentError(
        absl::StrCat("sgd: weight_decay ", sgd.weight_decay, " must be finite and not negative"));
  }
  return absl::OkStatus();
}

}  // namespace neap
