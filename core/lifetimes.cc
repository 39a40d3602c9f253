#include "neap/core/lifetimes.h"

#include <algorithm>

namespace neap {

std::vector<Lifetime> Lifetimes(const Program& program) {
  const int step_count = static_cast<int>(program.steps.size());
  std::vector<Lifetime> lifetimes(program.tensors.size());
  for (const Tensor& tensor : program.tensors) {
    Lifetime& lifetime = lifetimes[tensor.id.index()];
    if (!IsGiven(tensor.role)) lifetime.begin = step_count;  // until its definition is met
    if (IsPersistent(tensor.role)) lifetime.end = step_count;
  }
  for (const Step& step : program.steps) {
    for (const std::vector<Use>* uses : {&step.reads, &step.writes, &step.accumulates}) {
      for (const Use& use : *uses) {
        Lifetime& lifetime = lifetimes[use.tensor.index()];
        lifetime.begin = std::min(lifetime.begin, step.id.value);
        lifetime.end = std::max(lifetime.end, step.id.value + 1);
      }
    }
  }
  for (Lifetime& lifetime : lifetimes) lifetime.begin = std::min(lifetime.begin, lifetime.end);
  return lifetimes;
}

}  // namespace neap
