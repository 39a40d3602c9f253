// The parameters of a sharded optimizer that are whole, and their gradients that are summed.
// Private to the verifier.
//
// A rank updates its own slice of a parameter (PlanTensor::own). The other slices are those of an
// earlier iteration until all_gather brings them, and again after the update. Of a gradient, a rank
// has only the sum of its own slice after reduce_scatter.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/plan/plan.h"
#include "neap/core/verifier/site.h"

namespace neap::verifier {

class Shards {
 public:
  Shards(const Plan& plan, const Site& site)
      : plan_(plan), site_(site), exchanged_(plan.tensors.size(), false) {}

  // Whether a run of the step may use its tensors so; the run then has changed them.
  absl::Status Run(const PlanStep& step);
  absl::Status Rerun(const PlanStep& step) const;
  // The ranks run the step.
  absl::Status Take(const PlanStep& collective);

 private:
  absl::Status CheckRead(const PlanStep& step, TensorId tensor) const;
  absl::Status CheckChange(const PlanStep& step, TensorId tensor) const;
  absl::Status Fault(TensorId tensor, const char* does, const char* why) const;

  const Plan& plan_;
  const Site& site_;
  // By TensorId: a parameter is whole, or the rank's slice of a gradient is summed.
  std::vector<bool> exchanged_;
};

}  // namespace neap::verifier
