// What is known of how long kernels take on a device: measured (layers/profile/profiled_timings.h),
// or made up by a test. *Threads*: any number at a time.
//
//   std::vector<TimedEngine> engines = timings.Of(signature);
//   FastestDivision(engines, BatchOf(signature), /*granularity=*/1, 64 * kMiB);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "neap/core/step/engine_use.h"
#include "neap/core/step/step_signature.h"

namespace neap {

// What a part that is not the first takes besides its kernel, where its engine does not add: in
// `backward_params` it writes to scratch in the workspace, and a kernel adds that to the sum.
struct Addition {
  int64_t workspace_bytes = 0;
  std::optional<double> seconds = 0.0;  // nullopt: not known, so the part can only be the first
};

// An engine on a part of `batch` images, measured or predicted.
struct TimedEngine {
  std::string engine;
  int64_t batch = 0;
  int64_t workspace_bytes = 0;
  double seconds = 0;  // >= 0, at most some hours
  bool deterministic = true;
  bool adds = false;       // as EngineUse's: not for a first part
  Addition addition = {};  // of nothing where it adds

  EngineUse use() const { return {engine, batch, adds}; }
};

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
