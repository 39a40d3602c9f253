#include "neap/core/program/inference_results.h"

#include <algorithm>

namespace neap {

TensorId LogitsOf(const Program& program, TensorId predictions) {
  const auto computes = [&](const Step& step) {
    return std::any_of(step.writes.begin(), step.writes.end(),
                       [&](const Use& use) { return use.tensor == predictions; });
  };
  const auto loss = std::find_if(program.steps.begin(), program.steps.end(), computes);
  return loss->reads.front().tensor;
}

std::vector<TensorId> InferenceResults(const Program& program) {
  const bool predicts =
      program.options.mode == Mode::kInference && program.options.accounting == Accounting::kExact;
  if (!predicts) return {};
  std::vector<TensorId> results = program.predictions;
  for (TensorId predictions : program.predictions)
    results.push_back(LogitsOf(program, predictions));
  return results;
}

}  // namespace neap
