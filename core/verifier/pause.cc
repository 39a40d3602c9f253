// Checks of a step at which the iteration pauses, which must hold for any actions.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "neap/core/verifier/site.h"

namespace neap::verifier {
namespace {

bool HandsOutAndTakes(const Plan& plan, const PlanStep& step) {
  const bool takes_gradients = std::all_of(
      step.writes.begin(), step.writes.end(),
      [&](TensorId written) { return plan.tensors[written.index()].role == Role::kGradient; });
  return takes_gradients && !step.reads.empty() && !step.writes.empty() &&
         step.accumulates.empty() && step.rerun_reads.empty() && step.slices.empty();
}

}  // namespace

absl::Status CheckPause(const Plan& plan, const Site& site, const PlanStep& step) {
  const auto fault = [&](std::string_view what) {
    return site.Fault(PlanFault::kPause, absl::StrFormat("%s %s", site.Describe(step.id), what));
  };
  if (!HandsOutAndTakes(plan, step))
    return fault("pauses, but does not only read outputs and write their gradients");
  const auto pauses =
      std::count_if(plan.steps.begin(), plan.steps.end(),
                    [](const PlanStep& other) { return other.phase == Phase::kPause; });
  if (pauses > 1) return fault("is one of several that pause");
  if (plan.sub_batches == 1) return absl::OkStatus();
  return fault("pauses, but the batch is run in parts");
}

}  // namespace neap::verifier
