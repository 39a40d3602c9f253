#include "apps/train/fit_report.h"

#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"

namespace neap::apps {
namespace {

bool IsAny(const Movement& moved) {
  return moved.extra_forwards + moved.offloaded_bytes + moved.prefetched_bytes > 0;
}

}  // namespace

absl::StatusOr<std::optional<Fit>> FindFit(const Program& program, const Plan& plan,
                                           const PlannerOptions& options,
                                           const DeviceDescription& device,
                                           EngineCatalog& catalog) {
  const Movement moved = TotalMovement(plan);
  if (options.budget_bytes == kUnlimited && !IsAny(moved)) return std::nullopt;
  PlannerOptions unlimited = options;
  unlimited.policy = "liveness";
  unlimited.budget_bytes = kUnlimited;
  unlimited.offload_params = false;
  ASSIGN_OR_RETURN(const PlanResult result, MakePlan(program, unlimited, device, catalog));
  return Fit{.moved = moved,
             .predicted_ms = plan.predicted_ms,
             .predicted_ms_unlimited = result.plan.predicted_ms};
}

std::string ToText(const Fit& fit) {
  std::vector<std::string> done;
  const Movement& moved = fit.moved;
  if (moved.offloaded_bytes + moved.prefetched_bytes > 0) {
    done.push_back(absl::StrFormat("%s to the %s, %s back", FormatBytes(moved.offloaded_bytes),
                                   moved.peer_offloaded_bytes > 0 ? "peer and the host" : "host",
                                   FormatBytes(moved.prefetched_bytes)));
  }
  if (moved.extra_forwards > 0)
    done.push_back(absl::StrFormat("%d forward steps run again", moved.extra_forwards));
  if (done.empty()) done.emplace_back("nothing moves, nothing is run again");
  return absl::StrFormat("  %-16s %s; predicted %.3f ms a step (%+.1f%% against no budget)\n",
                         "to fit", absl::StrJoin(done, ", "), fit.predicted_ms,
                         100 * (fit.slowdown() - 1));
}

Json ToJson(const Fit& fit) {
  return {{"offloaded_bytes", fit.moved.offloaded_bytes},
          {"prefetched_bytes", fit.moved.prefetched_bytes},
          {"extra_forwards", fit.moved.extra_forwards},
          {"predicted_ms", fit.predicted_ms},
          {"predicted_ms_unlimited", fit.predicted_ms_unlimited},
          {"slowdown", fit.slowdown()}};
}

}  // namespace neap::apps
