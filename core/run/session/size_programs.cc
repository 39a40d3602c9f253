#include "neap/core/run/session/size_programs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/graph/sizes.h"
#include "neap/core/program/passes.h"

namespace neap {
namespace {

constexpr int64_t kMaxBatch = 1 << 20;
constexpr int64_t kPrecision = 64;  // of the batch, a 64th

}  // namespace

absl::StatusOr<SizedProgram> LowerSize(const Graph& net, const GraphSize& size,
                                       const Program& whole, const DeviceDescription& device) {
  ASSIGN_OR_RETURN(Graph sized, WithSize(net, size));
  Program of_all = whole;
  of_all.options.sub_batches = std::min(of_all.options.sub_batches, sized.options().batch);
  ASSIGN_OR_RETURN(Program program, LowerPart(sized, of_all, device));
  return SizedProgram{std::move(sized), std::move(program)};
}

absl::StatusOr<int64_t> FillingBatch(const Graph& net, const std::vector<int64_t>& extents,
                                     const Program& whole, int64_t budget_bytes,
                                     const DeviceDescription& device, SessionPlanner& planner) {
  if (whole.options.share.ranks > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(net.options().name,
                     ": among ranks, a size has the network's batch, not one that fills a "
                     "rank's budget"));
  }
  if (budget_bytes == kUnlimited) {
    return absl::InvalidArgumentError(
        absl::StrCat(net.options().name, ": without a budget, no batch of a size fills it"));
  }
  const auto fits = [&](int64_t batch) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(const SizedProgram sized,
                     LowerSize(net, {.extents = extents, .batch = batch}, whole, device));
    ASSIGN_OR_RETURN(const PlanResult planned, planner.Plan(sized.program, kUnlimited));
    return planned.plan.peak_bytes <= budget_bytes;
  };
  int64_t most = 0, fewest = net.options().batch;  // that fits, and that may not
  while (fewest < kMaxBatch) {
    ASSIGN_OR_RETURN(const bool is_within, fits(fewest));
    if (!is_within) break;
    most = std::exchange(fewest, 2 * fewest);
  }
  while (fewest - most > std::max<int64_t>(1, most / kPrecision)) {
    const int64_t middle = most + (fewest - most) / 2;
    ASSIGN_OR_RETURN(const bool is_within, fits(middle));
    (is_within ? most : fewest) = middle;
  }
  return std::max<int64_t>(most, 1);
}

}  // namespace neap
