// The kernels of a profile that each of several equal devices measures (u-cuDNN, section III: GPUs
// of one model share their kernel times, and measure them in parallel).
//
// Which engines of a kernel are worth measuring depends on the times of related ones
// (layers/profile/profiler.h): those of other parts of the batch, and of writing gradients where
// this kernel adds them. All kernels of an operation therefore go to one device, in their order.
//
//   kernels   conv1 f 64, conv1 f 32, conv1 b 64, conv1 b 32, fc f 64 ...
//   device 0  conv1 f 64, conv1 f 32,                         fc f 64     13 s
//   device 1                          conv1 b 64, conv1 b 32              14 s
//
//   ASSIGN_OR_RETURN(auto kernels, WithParts(steps, options.divisions, device.backend()));
//   const auto shares = DivideKernels(kernels, Seconds, /*devices=*/2);
//   ASSIGN_OR_RETURN(Profiler profiler,
//                    Profiler::CreateForShare(steps, shares[1], options, device, database));
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "neap/core/step/step_signature.h"

namespace neap {

// One share for each of at least one device: each kernel is in exactly one, and the predicted times
// of the shares are about equal. The longest operations are given out first, each to the device
// that has the least to do, which takes at most 4/3 of the shortest possible time (Graham, 1969). A
// share may be empty. `seconds` predicts how long a device takes to measure a kernel, and is called
// once for each.
std::vector<std::vector<StepSignature>> DivideKernels(
    const std::vector<StepSignature>& kernels,
    const std::function<double(const StepSignature&)>& seconds, int64_t devices);

}  // namespace neap
