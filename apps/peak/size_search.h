// The search for the largest size of a network that fits a budget, with one choice of the program.
//
// A full plan takes seconds, so sizes are only looked at: what does the smallest plan take? Three
// answers follow each other, and the next one is asked for only where the one before does not
// decide:
//
//   a lower bound by the tensors of each step       microseconds for each step
//   the smallest plan if no kernel had a workspace  milliseconds, and engines are not listed
//   the smallest plan with the device's engines     up to a second, to list them
//
// The second answer also finds the size with which the third one begins. Where the largest size
// depends on no workspace, engines are listed for that size alone.
//
//   SizeSearch search(peak, programs);
//   ASSIGN_OR_RETURN(const LargestSize found, search.Largest(0));
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "apps/peak/peak_search.h"
#include "apps/peak/sized_programs.h"
#include "neap/core/step/kernel.h"

namespace neap::apps {

struct SizeFit {
  bool fits = false;
  std::optional<int64_t> bytes = {};  // BudgetFit::bound_bytes; absent if it cannot be run at all
  bool fits_host = false;             // a plan is in any case within the host budget
};

struct LargestSize {
  PeakSearch search = {};
  bool fits_host = false;  // SizeFit::fits_host of the size
};

class SizeSearch {
 public:
  // *Ownership*: borrows both.
  SizeSearch(const PeakCase& peak, const SizedPrograms& programs)
      : peak_(peak), programs_(programs) {}

  // Whether the smallest plan fits the budget. Sizes that cannot be built or run do not.
  absl::StatusOr<SizeFit> Fit(int64_t n) const;
  // The largest size above `reached` that fits, or `reached` if none does: a size that fits, or 0.
  absl::StatusOr<LargestSize> Largest(int64_t reached) const;

 private:
  // With null, no kernel has a workspace.
  absl::StatusOr<SizeFit> FitBy(int64_t n, EngineCatalog* engines) const;
  bool HasWorkspaces() const { return peak_.target.description.kind != "cpu"; }
  // About the largest size that fits, above `reached`: the largest if kernels need no workspaces.
  absl::StatusOr<PeakSearch> Likely(int64_t reached) const;

  const PeakCase& peak_;
  const SizedPrograms& programs_;
};

}  // namespace neap::apps
