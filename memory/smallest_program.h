// The program with the smallest feasible budget of all that a request allows: numbers of
// sub-batches, and parameters on the device or on the host.
//
// It is needed when no plan fits. A message that names the smallest feasible budget is true only if
// no other program could do with less, and there may be a hundred programs, some of which have
// tens of thousands of steps. A lower bound (memory/budget_bound.h) comes first, and only programs
// that may be smaller than the smallest so far are looked at more closely.
//
//   ProgramSizes sizes(lower, options, device, catalog);
//   for (const int64_t count : PartCounts(250)) sizes.Add({.sub_batches = count});
//   ASSIGN_OR_RETURN(const std::optional<ProgramChoice> smallest, sizes.Smallest());
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/planner.h"
#include "neap/core/step/kernel.h"
#include "neap/memory/planner_options.h"

namespace neap {

class ProgramSizes {
 public:
  // *Ownership*: borrows all.
  ProgramSizes(LowerWith lower, const PlannerOptions& options, const DeviceDescription& device,
               EngineCatalog& catalog)
      : lower_(lower), options_(options), device_(device), catalog_(catalog) {}

  // A program that may be planned. One that is refused with INVALID_ARGUMENT, because it cannot be
  // run in so many parts, fits no budget.
  void Add(const ProgramChoice& choice);
  // The same if its smallest feasible budget is known.
  void Add(const ProgramChoice& choice, int64_t smallest_bytes);

  // Calls `visit` for the programs that fit the options' budget, in the order in which they were
  // added, until it returns true. Errors: those of `visit`, FitsBudget() and lowering.
  using Visit = absl::FunctionRef<absl::StatusOr<bool>(const ProgramChoice&, const Program&)>;
  absl::Status VisitThoseThatFit(Visit visit);

  // The program with the smallest feasible budget; absent if none can be planned. Errors: those of
  // MinimumBudget() and lowering.
  absl::StatusOr<std::optional<ProgramChoice>> Smallest();

 private:
  struct Size {
    ProgramChoice choice;
    std::optional<int64_t> bound_bytes = {};  // a lower bound on its smallest budget
    bool is_exact = false;                    // the bound is that budget
  };
  absl::Status Bound(Size& size) const;
  absl::StatusOr<bool> Fits(const Size& size, const Program& program) const;
  absl::StatusOr<int64_t> Exact(const Size& size) const;

  LowerWith lower_;
  const PlannerOptions& options_;
  const DeviceDescription& device_;
  EngineCatalog& catalog_;
  std::vector<Size> sizes_;
};

}  // namespace neap
