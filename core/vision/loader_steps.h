// The images that a training step reads: a pure function of the loader's options. Private to the
// loader.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/vision/loader.h"

namespace neap {

// Images of one size, of which the first is at `first` in the sequence of epochs.
struct StepImages {
  const Dataset* dataset;
  int64_t count;
  int64_t first;
};

// Errors: INVALID_ARGUMENT for what Loader::Create() refuses, with the loader's first step.
absl::Status CheckLoader(const std::vector<LoaderSize>& sizes, const LoaderOptions& options,
                         int64_t first_step);

// The images of a step, of this rank; CheckLoader() has accepted the other arguments.
StepImages ImagesOf(const std::vector<LoaderSize>& sizes, const LoaderOptions& options,
                    int64_t step);

}  // namespace neap
