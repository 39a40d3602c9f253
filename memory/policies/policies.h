// Policies by name: what a plan keeps, moves and rebuilds. docs/policies.md describes each with its
// source.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/program/program.h"
#include "neap/memory/transfer/residency.h"
#include "neap/recompute/recompute.h"

namespace neap {

// What leaves for the host as soon as forward has read it, and comes back for backward.
enum class Eager : uint8_t {
  kNone,
  kConvolutionResults,  // SuperNeurons 3.3.1
  kCheckpointResults,   // with those of fully connected layers and sums
  kConvolutionInputs,   // vDNN-conv
  kAllInputs,           // vDNN-all
};

struct Policy {
  std::string_view name;
  std::string_view description;
  bool keep_all = false;  // nothing is freed before the end
  Eager eager = Eager::kNone;
  MayLeave may_leave = MayLeave::kNone;  // where the arena is short
  // Where may_leave is kAll, only if that is faster than moving alone.
  Recomputation recomputation = Recomputation::kNone;
  // Activations stay under the layer-wise bound where they can (recompute/recompute.h). A budget
  // that leaves room above it is used to overlap transfers.
  bool to_layerwise_bound = false;
  // With budget to spare nothing moves and nothing is rebuilt.
  bool needs_based() const { return may_leave == MayLeave::kAll; }
};

const std::vector<Policy>& Policies();

// Errors: NOT_FOUND listing the policies there are.
absl::StatusOr<Policy> FindPolicy(std::string_view name);

// By TensorId; `checkpoints` as in RunOrder.
std::vector<bool> EagerTensors(const Program& program, Eager eager,
                               const std::vector<bool>& checkpoints);

}  // namespace neap
