// The time of a step that was not measured: the roofline model, the larger of arithmetic and memory
// time.
#pragma once

#include "neap/core/device/device.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/program.h"

namespace neap {

// Seconds for one run of the step: max(flops / rate, bytes touched / bandwidth), and the time of
// adding gradients of parameters to those of earlier sub-batches. With `rerun`, the time of a
// recomputation, which touches fewer bytes (ReadsOf, WritesOf).
double PredictSeconds(const Program& program, const Step& step, const DeviceDescription& device,
                      bool rerun = false);

// Seconds for adding a gradient to a sum, both of this spec.
double PredictAdditionSeconds(const TensorSpec& spec, const DeviceDescription& device);

// The costs of transfers only, at the device's bandwidths: of its memory, to host and peer.
TimelineCosts TransferCosts(const DeviceDescription& device);

}  // namespace neap
