// Timings made up by a test, the same for every convolution. `adding` has those of parts that add
// their gradients by themselves.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/catalog/kernel_timings.h"

namespace neap::testing {

class MadeUpTimings final : public KernelTimings {
 public:
  explicit MadeUpTimings(std::vector<TimedEngine> engines, std::vector<TimedEngine> adding = {})
      : engines_(std::move(engines)), adding_(std::move(adding)) {}
  std::vector<TimedEngine> Of(const StepSignature& signature) const override {
    if (signature.phase == Phase::kAddGradients && addition_seconds.has_value())
      return {{.engine = "neap", .batch = BatchOf(signature), .seconds = *addition_seconds}};
    if (AddsToGradients(signature)) return adding_;
    return IsDivisible(signature) ? engines_ : std::vector<TimedEngine>{};
  }
  std::vector<std::string> FailedOn(const StepSignature& signature) const override {
    std::vector<std::string> engines;
    for (const EngineUse& use : failed) {
      if (use.batch == BatchOf(signature) && use.adds == AddsToGradients(signature))
        engines.push_back(use.engine);
    }
    return engines;
  }

  std::optional<double> addition_seconds = 0.0;  // nullopt: not measured
  std::vector<EngineUse> failed;

 private:
  std::vector<TimedEngine> engines_, adding_;
};

}  // namespace neap::testing
