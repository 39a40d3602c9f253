// The results of forward, and their gradients, that the ranks sum, and those that they have summed.
// Private to the verifier.
//
// Such a tensor has a value by the program only after its sum. Before, it holds one rank's
// contribution. A rerun of its step would write that again, and no later sum would complete it.
// (Backward may read gradients of parameters before their sum, because it needs the rank's own.)
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "neap/core/plan/plan.h"
#include "neap/core/verifier/site.h"

namespace neap::verifier {

class Sums {
 public:
  Sums(const Plan& plan, const Site& site);

  absl::Status CheckRead(TensorId tensor) const;
  // Whether the step may be run again.
  absl::Status CheckRerun(const PlanStep& step) const;
  // The ranks run the step.
  void Take(const PlanStep& collective);

 private:
  enum class State : unsigned char { kOfOneRank, kUnsummed, kSummed };

  const Site& site_;
  std::vector<State> states_;  // by TensorId; kOfOneRank for a tensor that is never summed
};

}  // namespace neap::verifier
