#include "apps/train/report/fit_report.h"

#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/program/homes.h"

namespace neap::apps {
namespace {

bool IsAny(const Movement& moved) {
  return moved.extra_forwards + moved.offloaded_bytes + moved.prefetched_bytes > 0;
}

}  // namespace

std::optional<double> Fit::slowdown() const {
  if (!predicted_ms.has_value() || !predicted_ms_unlimited.has_value()) return std::nullopt;
  return *predicted_ms / *predicted_ms_unlimited;
}

std::optional<double> PredictedMs(const Plan& plan) {
  return plan.predicted_ms > 0 ? std::optional<double>(plan.predicted_ms) : std::nullopt;
}

namespace {

Fit FitOf(const Plan& plan, const Movement& moved) {
  return {.moved = moved,
          .sub_batches = plan.sub_batches,
          .batch_norm_in_parts = plan.batch_norm_in_parts,
          .predicted_ms = PredictedMs(plan)};
}

}  // namespace

std::optional<Fit> FitOfFile(const Plan& plan) {
  const Movement moved = TotalMovement(plan);
  if (plan.budget_bytes == kUnlimited && !IsAny(moved)) return std::nullopt;
  return FitOf(plan, moved);
}

absl::StatusOr<std::optional<Fit>> FindFit(const Program& program, const Plan& plan,
                                           const PlannerOptions& options,
                                           const DeviceDescription& device,
                                           EngineCatalog& catalog) {
  const Movement moved = TotalMovement(plan);
  if (options.budget_bytes == kUnlimited && !IsAny(moved)) return std::nullopt;
  Fit fit = FitOf(plan, moved);
  PlannerOptions unlimited = options;
  unlimited.policy = "liveness";
  unlimited.budget_bytes = kUnlimited;
  const Program resident = WithOffloadedParams(program, false);
  ASSIGN_OR_RETURN(const PlanResult result, MakePlan(resident, unlimited, device, catalog));
  fit.predicted_ms_unlimited = PredictedMs(result.plan);
  return fit;
}

std::string ToText(const Fit& fit) {
  std::vector<std::string> done;
  const Movement& moved = fit.moved;
  if (fit.sub_batches > 1)
    done.push_back(absl::StrFormat("the batch in %d parts%s", fit.sub_batches,
                                   fit.batch_norm_in_parts ? ", batch norms of each alone" : ""));
  if (moved.offloaded_bytes + moved.prefetched_bytes > 0) {
    done.push_back(absl::StrFormat("%s to the %s, %s back", FormatBytes(moved.offloaded_bytes),
                                   moved.peer_offloaded_bytes > 0 ? "peer and the host" : "host",
                                   FormatBytes(moved.prefetched_bytes)));
  }
  if (moved.extra_forwards > 0)
    done.push_back(absl::StrFormat("%d forward steps run again", moved.extra_forwards));
  if (done.empty()) done.emplace_back("nothing moves, nothing is run again");
  std::string text = absl::StrFormat("  %-16s %s", "to fit", absl::StrJoin(done, ", "));
  if (fit.predicted_ms.has_value())
    absl::StrAppendFormat(&text, "; predicted %.3f ms a step", *fit.predicted_ms);
  if (const std::optional<double> slowdown = fit.slowdown())
    absl::StrAppendFormat(&text, " (%+.1f%% against no budget)", 100 * (*slowdown - 1));
  return text + "\n";
}

Json ToJson(const Fit& fit) {
  return {{"sub_batches", fit.sub_batches},
          {"batch_norm_in_parts", fit.batch_norm_in_parts},
          {"offloaded_bytes", fit.moved.offloaded_bytes},
          {"prefetched_bytes", fit.moved.prefetched_bytes},
          {"extra_forwards", fit.moved.extra_forwards},
          {"predicted_ms", OrNull(fit.predicted_ms)},
          {"predicted_ms_unlimited", OrNull(fit.predicted_ms_unlimited)},
          {"slowdown", OrNull(fit.slowdown())}};
}

}  // namespace neap::apps
