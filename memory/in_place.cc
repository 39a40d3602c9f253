#include "neap/memory/in_place.h"

#include <algorithm>

namespace neap {
namespace {

// A kernel may take the result over this operand, but not over another operand that is the same
// tensor (x + y + x).
bool ReadOnce(const Step& step, TensorId tensor) {
  return std::count_if(step.reads.begin(), step.reads.end(),
                       [&](const Use& use) { return use.tensor == tensor; }) == 1;
}

bool MayReplace(const Program& program, const std::vector<Lifetime>& lifetimes, const Step& step,
                TensorId written, TensorId read) {
  const Tensor& from = program.tensor(read);
  const Tensor& to = program.tensor(written);
  return lifetimes[read.index()].end == step.id.value + 1 && !IsGiven(from.role) &&
         !IsGiven(to.role) && from.spec.size_bytes() == to.spec.size_bytes() &&
         ReadOnce(step, read);
}

}  // namespace

Replacements ProveInPlace(const Program& program, const std::vector<Lifetime>& lifetimes) {
  Replacements replaces(program.tensors.size());
  std::vector<bool> taken(program.tensors.size(), false);
  for (const Step& step : program.steps) {
    for (const auto& [written, read] : step.in_place) {
      if (replaces[written.index()].has_value() || taken[read.index()]) continue;
      if (!MayReplace(program, lifetimes, step, written, read)) continue;
      replaces[written.index()] = read;
      taken[read.index()] = true;
    }
  }
  return replaces;
}

}  // namespace neap
