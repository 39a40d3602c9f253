#include "neap/memory/smallest_program.h"

#include <algorithm>
#include <limits>

#include "neap/core/base/status_macros.h"
#include "neap/memory/budget_bound.h"
#include "neap/memory/planner.h"

namespace neap {
namespace {

// No budget suffices for what cannot be run.
constexpr int64_t kNoBudget = std::numeric_limits<int64_t>::max();

}  // namespace

void ProgramSizes::Add(const ProgramChoice& choice) { sizes_.push_back({choice}); }

void ProgramSizes::Add(const ProgramChoice& choice, int64_t smallest_bytes) {
  sizes_.push_back({choice, smallest_bytes, /*is_exact=*/true});
}

absl::Status ProgramSizes::Bound(Size& size) const {
  if (size.bound_bytes.has_value()) return absl::OkStatus();
  const absl::StatusOr<Program> program = lower_(size.choice);
  const bool is_refused = absl::IsInvalidArgument(program.status());
  if (!is_refused) RETURN_IF_ERROR(program.status());
  size.is_exact = is_refused;
  size.bound_bytes = is_refused ? kNoBudget : BudgetBound(*program, options_);
  return absl::OkStatus();
}

absl::Status ProgramSizes::VisitThoseThatFit(Visit visit) {
  for (Size& size : sizes_) {
    RETURN_IF_ERROR(Bound(size));
    if (*size.bound_bytes > options_.budget_bytes) continue;
    ASSIGN_OR_RETURN(const Program program, lower_(size.choice));
    ASSIGN_OR_RETURN(const bool fits, Fits(size, program));
    if (!fits) continue;
    ASSIGN_OR_RETURN(const bool is_found, visit(size.choice, program));
    if (is_found) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> ProgramSizes::Fits(const Size& size, const Program& program) const {
  if (size.is_exact) return *size.bound_bytes <= options_.budget_bytes;
  absl::StatusOr<bool> fits = FitsBudget(program, options_, device_, catalog_);
  if (absl::IsUnimplemented(fits.status())) return false;  // kernels have no indices for the batch
  return fits;
}

absl::StatusOr<std::optional<ProgramChoice>> ProgramSizes::Smallest() {
  for (Size& size : sizes_) RETURN_IF_ERROR(Bound(size));
  std::vector<Size> sizes = sizes_;
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](const Size& a, const Size& b) { return *a.bound_bytes < *b.bound_bytes; });
  std::optional<ProgramChoice> smallest;
  int64_t least_bytes = kNoBudget;
  for (const Size& size : sizes) {
    if (*size.bound_bytes >= least_bytes) break;
    ASSIGN_OR_RETURN(const int64_t bytes, Exact(size));
    if (bytes >= least_bytes) continue;
    least_bytes = bytes;
    smallest = size.choice;
  }
  return smallest;
}

absl::StatusOr<int64_t> ProgramSizes::Exact(const Size& size) const {
  if (size.is_exact) return *size.bound_bytes;
  ASSIGN_OR_RETURN(const Program program, lower_(size.choice));
  absl::StatusOr<int64_t> bytes = MinimumBudget(program, options_, device_, catalog_);
  if (absl::IsUnimplemented(bytes.status())) return kNoBudget;
  return bytes;
}

}  // namespace neap
