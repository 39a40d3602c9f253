// The verifier's position in a plan, and the wording of faults there. Private to the verifier.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/plan/plan.h"
#include "neap/core/verifier/verifier.h"

namespace neap::verifier {

// The parts of the verifier share one Site, so a fault found by any of them names the action being
// checked. *Ownership*: borrows the plan.
class Site {
 public:
  explicit Site(const Plan& plan) : plan_(plan) {}

  void MoveTo(size_t action) { action_ = action; }
  void LeaveActions() { action_ = std::nullopt; }
  std::optional<size_t> action() const { return action_; }

  // INVALID_ARGUMENT "plan fault [NAME]: action 17 (compute step 5 'conv1 backward_data'): WHAT".
  absl::Status Fault(PlanFault fault, std::string_view what) const;

  std::string Describe(size_t action) const;  // "action 17 (compute step 5 'conv1 backward_data')"
  std::string Describe(TensorId tensor) const;        // "tensor 3 'conv1.grad'"
  std::string Describe(StepId step) const;            // "step 5 'conv1 backward_data'"
  static std::string Describe(const Region& region);  // "2048 bytes at 1024"

 private:
  const Plan& plan_;
  std::optional<size_t> action_;
};

// Whether a list of the plan names the tensor.
inline bool Has(const std::vector<TensorId>& ids, TensorId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Checks the plan's header, tensors and steps, independently of its actions.
absl::Status CheckTables(const Plan& plan, const Site& site);

// A step that pauses reads outputs and writes their gradients, and is the only one.
absl::Status CheckPause(const Plan& plan, const Site& site, const PlanStep& step);

// The parts of the batch: all but the last have as many images, and the last has at least one. The
// plan's batch is at least 1.
absl::Status CheckParts(const Plan& plan, const Site& site);
// An input or a label with the name of a part has its images, and a step of a layer has the name of
// a part.
absl::Status CheckPart(const Plan& plan, const Site& site, const PlanTensor& tensor);
absl::Status CheckPart(const Plan& plan, const Site& site, const PlanStep& step);
// The images of the part that the step computes; a step of the optimizer has those of the first
// part. The plan has passed CheckTables().
int64_t ImagesOf(const Plan& plan, const PlanStep& step);

}  // namespace neap::verifier
