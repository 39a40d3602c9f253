#include "neap/layers/profile/profile_steps.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"

namespace neap {
namespace {

// A set of signatures in order of insertion.
class SignatureSet {
 public:
  void Add(const StepSignature& signature) {
    if (seen_.emplace(SignatureText(signature), BatchOf(signature)).second)
      signatures_.push_back(signature);
  }
  std::vector<StepSignature> Take() { return std::move(signatures_); }

 private:
  std::vector<StepSignature> signatures_;
  absl::flat_hash_set<std::pair<std::string, int64_t>> seen_;
};

// Adds the step and its parts, the largest part first.
absl::Status AddWithParts(const StepSignature& signature, DivisionPolicy divisions,
                          EngineCatalog& catalog, SignatureSet& set) {
  set.Add(signature);
  if (!IsDivisible(signature)) return absl::OkStatus();
  std::vector<int64_t> sizes =
      MicroBatchSizes(divisions, BatchOf(signature), BatchGranularity(signature));
  sizes.pop_back();  // the whole batch
  std::reverse(sizes.begin(), sizes.end());
  std::stable_partition(sizes.begin(), sizes.end(), IsPowerOfTwo);
  for (int64_t size : sizes) set.Add(WithBatch(signature, size));
  if (sizes.empty() || !SumsParts(signature)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<Engine> adding, AddingEngines(signature, catalog));
  for (int64_t size : sizes) {
    if (!adding.empty()) set.Add(AddingSignature(WithBatch(signature, size)));
  }
  for (const OperandSpec& operand : signature.operands) {
    if (operand.operand.slot == Slot::kParamGrad) set.Add(AdditionSignature(operand.tensor));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<StepSignature> KernelsOf(const Program& program) {
  const bool is_training = program.options.mode == Mode::kTraining;
  SignatureSet set;
  for (const Step& step : program.steps) {
    if (!HasKernel(step.phase)) continue;
    const StepSignature signature = program.Signature(step);
    set.Add(signature);
    // The rerun of a convolution is the same kernel, and inference has no reruns.
    if (is_training && step.phase == Phase::kForward && !IsDivisible(signature))
      set.Add(program.Signature(step, /*rerun=*/true));
    for (const TensorSpec& sum : program.Additions(step)) set.Add(AdditionSignature(sum));
  }
  return set.Take();
}

absl::StatusOr<std::vector<StepSignature>> WithParts(const std::vector<StepSignature>& steps,
                                                     DivisionPolicy divisions,
                                                     EngineCatalog& catalog) {
  SignatureSet set;
  for (const StepSignature& step : steps)
    RETURN_IF_ERROR(AddWithParts(step, divisions, catalog, set));
  return set.Take();
}

std::vector<Engine> FirstEngines(const std::vector<Engine>& engines, int64_t count) {
  struct Kind {
    int64_t seen = 0;
    int64_t least_bytes = std::numeric_limits<int64_t>::max();
  };
  Kind kinds[2][2];
  std::vector<Engine> first;
  for (const Engine& engine : engines) {
    if (engine.is_reference && !first.empty()) continue;
    Kind& kind = kinds[engine.accumulates_in_half][engine.computes_relu];
    if (kind.seen++ < count || engine.workspace_bytes < kind.least_bytes) first.push_back(engine);
    kind.least_bytes = std::min(kind.least_bytes, engine.workspace_bytes);
  }
  return first;
}

}  // namespace neap
