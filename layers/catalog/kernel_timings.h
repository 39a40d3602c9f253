// Times of kernels and of sums over ranks of a device, measured (layers/profile/profiled_timings.h)
// or made up by a test. *Threads*: any number at a time.
//
//   std::vector<TimedEngine> engines = timings.Of(signature);
//   FastestDivision(engines, BatchOf(signature), /*granularity=*/1, 64 * kMiB);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/plan/collective_cost.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/step/engine_use.h"
#include "neap/core/step/kernel.h"
#include "neap/core/step/step_signature.h"

namespace neap {

// Extra cost of every part after the first, unless its engine adds by itself: in `backward_params`
// the part writes its gradients to scratch memory in the workspace, and a kernel adds them up.
struct Addition {
  int64_t workspace_bytes = 0;
  std::optional<double> seconds = 0.0;  // nullopt: unknown, so the part can only be the first
};

// An engine on a part of `batch` images, measured or predicted.
struct TimedEngine {
  std::string engine;
  int64_t batch = 0;
  int64_t workspace_bytes = 0;
  double seconds = 0;  // >= 0, at most some hours
  bool deterministic = true;
  bool adds = false;       // as in EngineUse: not for a first part
  Addition addition = {};  // no extra cost if it adds
  TimeSource source = TimeSource::kMeasured;
  bool accumulates_in_half = false;  // as in Engine
  bool computes_relu = false;        // as in Engine

  EngineUse use() const { return {engine, batch, adds}; }
};

// The engine on `batch` images, with what TimedEngine has of it.
inline TimedEngine WithTime(Engine engine, int64_t batch, double seconds) {
  return {.engine = std::move(engine.id),
          .batch = batch,
          .workspace_bytes = engine.workspace_bytes,
          .seconds = seconds,
          .deterministic = engine.deterministic,
          .accumulates_in_half = engine.accumulates_in_half,
          .computes_relu = engine.computes_relu};
}

class KernelTimings {
 public:
  virtual ~KernelTimings() = default;
  // The timed engines of such steps for batches of all sizes: the step's whole batch, parts of it,
  // and larger ones. Empty if nothing was measured or the times cannot be read, because times are
  // only advice.
  virtual std::vector<TimedEngine> Of(const StepSignature& signature) const = 0;
  // Engines that failed to build or run on the whole batch, which plans should avoid.
  virtual std::vector<std::string> FailedOn(const StepSignature& /*signature*/) const { return {}; }
  // Sums over so many ranks; empty if none was measured.
  virtual std::vector<TimedSum> Sums(int /*ranks*/) const { return {}; }
};

}  // namespace neap
