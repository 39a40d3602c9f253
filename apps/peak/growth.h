// How networks grow in the searches for peaks.
//
//   ASSIGN_OR_RETURN(const PeakResult peak, FindPeak(flags, target, GrowingBatch(), "resnet50"));
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "apps/cli/net_flags.h"
#include "neap/nets/registry.h"

namespace neap::apps {

inline constexpr int64_t kMaxBatch = 1 << 24;

// How the network grows with n, which is a batch or the n of a depth rule (3n+134).
struct Growth {
  std::string what;  // "batch" or "depth"
  int64_t most = 0;
  int64_t least = 1;  // FindPeak() (apps/peak/find_peak.h) sets it
  // Whether parameters on the host are tried without being asked for. They allow much deeper
  // networks, which take long to plan.
  bool tries_offloading = false;
  std::function<void(int64_t n, nets::NetOptions& options)> apply;
  // Called for every network before it is planned or trained; may be null.
  std::function<void(const std::string& doing, const NetFlags& net)> on_size = {};
  // Called for every network that "fits the budget" or, with --keep, "keeps its speed", or null.
  std::function<void(const std::string& what, const NetFlags& net)> on_found = {};
};

Growth GrowingBatch();
// Growth by the network's rule of depths (3n+134). Errors: BadUsage() for a network of fixed depth.
absl::StatusOr<Growth> GrowingDepth(const std::string& net);

}  // namespace neap::apps
