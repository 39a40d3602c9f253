// Times of a test's own making, the same for every convolution; `adding`, of parts that add their
// gradients by themselves.
#pragma once

#include <utility>
#include <vector>

#include "neap/layers/conv/divided_kernel.h"
#include "neap/layers/kernel_timings.h"

namespace neap::testing {

class MadeUpTimings final : public KernelTimings {
 public:
  explicit MadeUpTimings(std::vector<TimedEngine> engines, std::vector<TimedEngine> adding = {})
      : engines_(std::move(engines)), adding_(std::move(adding)) {}
  std::vector<TimedEngine> Of(const StepSignature& signature) const override {
    if (AddsToGradients(signature)) return adding_;
    return IsDivisible(signature) ? engines_ : std::vector<TimedEngine>{};
  }

 private:
  std::vector<TimedEngine> engines_, adding_;
};

}  // namespace neap::testing
