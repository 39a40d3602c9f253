// What is known of how long kernels take on a device: measured (layers/profiled_timings.h), or made
// up by a test.
//
//   ASSIGN_OR_RETURN(std::vector<TimedEngine> engines, timings.Of(signature));
//   FastestDivision(engines, BatchOf(signature), 64 * kMiB);
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "neap/layers/conv/configuration.h"
#include "neap/layers/kernel.h"

namespace neap {

class KernelTimings {
 public:
  virtual ~KernelTimings() = default;
  // The engines that can run the step, on its whole batch and on parts of it; empty where nothing
  // is known. Errors: of where it is read from.
  virtual absl::StatusOr<std::vector<TimedEngine>> Of(const StepSignature& signature) const = 0;
};

}  // namespace neap
