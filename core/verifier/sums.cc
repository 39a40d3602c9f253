#include "neap/core/verifier/sums.h"

#include "absl/strings/str_cat.h"
#include "neap/core/verifier/values.h"

namespace neap::verifier {

Sums::Sums(const Plan& plan, const Site& site)
    : site_(site), states_(plan.tensors.size(), State::kOfOneRank) {
  for (const PlanStep& step : plan.steps) {
    if (!IsCollective(step.phase)) continue;
    for (TensorId tensor : step.accumulates) {
      if (CountsAsActivation(plan.tensors[tensor.index()].role))
        states_[tensor.index()] = State::kUnsummed;
    }
  }
}

absl::Status Sums::CheckRead(TensorId tensor) const {
  if (states_[tensor.index()] != State::kUnsummed) return absl::OkStatus();
  return site_.Fault(PlanFault::kCollective,
                     absl::StrCat("it reads ", site_.Describe(tensor), " before its sum"));
}

absl::Status Sums::CheckRerun(const PlanStep& step) const {
  for (TensorId tensor : step.writes) {
    if (states_[tensor.index()] == State::kOfOneRank || !RerunWrites(step, tensor)) continue;
    return site_.Fault(
        PlanFault::kCollective,
        absl::StrCat("it would write ", site_.Describe(tensor), " without its sum over the ranks"));
  }
  return absl::OkStatus();
}

void Sums::Take(const PlanStep& collective) {
  for (TensorId tensor : collective.accumulates) {
    State& state = states_[tensor.index()];
    if (state == State::kUnsummed) state = State::kSummed;
  }
}

}  // namespace neap::verifier
