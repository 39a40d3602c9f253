// How networks grow in the searches for peaks.
//
//   ASSIGN_OR_RETURN(const PeakResult peak, FindPeak(flags, target, GrowingBatch(), "resnet50"));
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "apps/peak/peak_finder.h"

namespace neap::apps {

inline constexpr int64_t kMaxBatch = 1 << 24;

Growth GrowingBatch();
// By the network's rule of depths (3n+134). Errors: BadUsage() for a network of fixed depth.
absl::StatusOr<Growth> GrowingDepth(const std::string& net);

}  // namespace neap::apps
