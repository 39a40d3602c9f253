// Which results of forward, and which of their gradients, the ranks sum, and which of those they
// have summed. Private to the verifier.
//
// Such a tensor has a value by the program only after its sum. Before, it is what one rank
// contributes, and so is what a rerun of its step would write: no later sum completes that.
// (Gradients of parameters may be read before their sum, by backward, which wants the rank's own.)
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
