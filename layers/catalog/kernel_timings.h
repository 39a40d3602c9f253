// What is known of how long kernels take on a device: measured (layers/profile/profiled_timings.h),
// or made up by a test. *Threads*: any number at a time.
//
//   std::vector<TimedEngine> engines = timings.Of(signature);
//   FastestDivision(engines, BatchOf(signature), /*granularity=*/1, 64 * kMiB);
#pragma once

#include <string>
#include <vector>

#include "neap/core/step/kernel.h"
#include "neap/layers/conv/configuration.h"

namespace neap {

class KernelTimings {
 public:
  virtual ~KernelTimings() = default;
  // The engines that can run the step, on its whole batch and on parts of it; empty where nothing
  // is known, or can be read now: times are advice.
  virtual std::vector<TimedEngine> Of(const StepSignature& signature) const = 0;
  // Engines that did not build or run on its whole batch: better left alone.
  virtual std::vector<std::string> FailedOn(const StepSignature& /*signature*/) const { return {}; }
};

}  // namespace neap
