// Times of a test's own making, the same for every convolution.
#pragma once

#include <utility>
#include <vector>

#include "neap/layers/conv/divided_kernel.h"
#include "neap/layers/kernel_timings.h"

namespace neap::testing {

class MadeUpTimings final : public KernelTimings {
 public:
  explicit MadeUpTimings(std::vector<TimedEngine> engines) : engines_(std::move(engines)) {}
  std::vector<TimedEngine> Of(const StepSignature& signature) const override {
    return IsDivisible(signature) ? engines_ : std::vector<TimedEngine>{};
  }

 private:
  std::vector<TimedEngine> engines_;
};

}  // namespace neap::testing
