// How long a step takes where nothing was measured: the roofline, the larger of arithmetic and
// memory time.
#pragma once

#include "neap/core/device/device.h"
#include "neap/core/program.h"
#include "neap/core/timeline.h"

namespace neap {

// Seconds for one run of the step: max(flops / rate, bytes touched / bandwidth). With `rerun`, of a
// recomputation: it reads rerun_reads where there are any and then does not write saved tensors,
// and accumulates nothing (docs/plan-format.md).
double PredictSeconds(const Program& program, const Step& step, const DeviceDescription& device,
                      bool rerun = false);

// Of every step, and of transfers at the device's copy bandwidth.
TimelineCosts PredictCosts(const Program& program, const DeviceDescription& device);

}  // namespace neap
