#include "apps/peak/size_search.h"

#include <algorithm>
#include <chrono>

#include "neap/core/base/clock.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/memory/budget_bound.h"
#include "neap/memory/planner.h"

namespace neap::apps {
namespace {

SizeFit ToSizeFit(const BudgetFit& fit) {
  return {.fits = fit.fits, .bytes = fit.bound_bytes, .fits_host = fit.fits_host};
}

}  // namespace

absl::StatusOr<SizeFit> SizeSearch::FitBy(int64_t n, EngineCatalog* engines) const {
  if (n < peak_.growth.least) return SizeFit{};
  ++peak_.effort.probes;
  const NetFlags sized = programs_.Sized(n);
  const absl::StatusOr<Graph> graph = programs_.Build("trying", sized);
  if (!graph.ok()) return SizeFit{};  // the smallest size could be built, so this one is too large
  // Sizes beyond the kernels' index range fit no budget.
  const auto is_too_large = [&](const absl::Status& status) {
    return *sized.options.batch > 1 && absl::IsUnimplemented(status);
  };
  const absl::StatusOr<Program> program = programs_.Of(*graph);
  if (is_too_large(program.status())) return SizeFit{};
  RETURN_IF_ERROR(program.status());
  const PlannerOptions options = programs_.Options();
  const int64_t bound_bytes = BudgetBound(*program, options);
  if (bound_bytes > options.budget_bytes) return SizeFit{.bytes = bound_bytes};
  const DeviceDescription& device = peak_.target.description;
  // Where nothing may move, the orders of runs depend on the engines' times.
  if (engines == nullptr || (HasWorkspaces() && options.has_room_outside())) {
    DefaultCatalog without_workspaces;
    const absl::StatusOr<BudgetFit> fit =
        FitInBudget(*program, options, device, without_workspaces);
    const bool is_refused = fit.ok() && !fit->fits && fit->bound_bytes > options.budget_bytes;
    if (is_refused || (engines == nullptr && fit.ok())) return ToSizeFit(*fit);
    if (engines == nullptr) return fit.status();
  }
  ++peak_.effort.listed;
  const absl::StatusOr<BudgetFit> fit = FitInBudget(*program, options, device, *engines);
  if (is_too_large(fit.status())) return SizeFit{};
  RETURN_IF_ERROR(fit.status());
  return ToSizeFit(*fit);
}

absl::StatusOr<SizeFit> SizeSearch::Fit(int64_t n) const {
  ASSIGN_OR_RETURN(const SizeFit fit, FitBy(n, &peak_.target.engines()));
  if (fit.fits && peak_.growth.on_found != nullptr)
    peak_.growth.on_found("fits the budget", programs_.Sized(n));
  return fit;
}

absl::StatusOr<PeakSearch> SizeSearch::Likely(int64_t reached) const {
  const auto try_size = [&](int64_t n) -> absl::StatusOr<SizeProbe> {
    ASSIGN_OR_RETURN(const SizeFit fit, FitBy(n, nullptr));
    return SizeProbe{.fits = fit.fits, .bytes = fit.bytes};
  };
  return FindLargestByBytes({.reached = reached, .most = peak_.growth.most},
                            programs_.Options().budget_bytes, try_size, reached + 1);
}

absl::StatusOr<LargestSize> SizeSearch::Largest(int64_t reached) const {
  const auto start = std::chrono::steady_clock::now();
  const int64_t below = std::max(reached, peak_.growth.least - 1);
  PeakSearch likely = {.largest = below};
  if (HasWorkspaces()) {
    ASSIGN_OR_RETURN(likely, Likely(below));
  }
  LargestSize found;
  const auto try_size = [&](int64_t n) -> absl::StatusOr<SizeProbe> {
    ASSIGN_OR_RETURN(const SizeFit fit, Fit(n));
    if (fit.fits) found.fits_host = fit.fits_host;  // each that fits is larger than the ones before
    return SizeProbe{.fits = fit.fits, .bytes = fit.bytes};
  };
  ASSIGN_OR_RETURN(
      found.search,
      FindLargestByBytes(
          {.reached = below, .most = peak_.growth.most, .bytes_per_size = likely.bytes_per_size},
          programs_.Options().budget_bytes, try_size, std::max(likely.largest, below + 1)));
  if (found.search.largest == below) found.search.largest = reached;
  found.search.elapsed_ms = MillisecondsSince(start);
  return found;
}

}  // namespace neap::apps
