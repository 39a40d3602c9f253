// How long a step takes where nothing was measured: the roofline, the larger of arithmetic and
// memory time.
#pragma once

#include "neap/core/device/device.h"
#include "neap/core/program.h"

namespace neap {

// Seconds for one run of the step: max(flops / rate, bytes touched / bandwidth).
double PredictSeconds(const Program& program, const Step& step, const DeviceDescription& device);

}  // namespace neap
