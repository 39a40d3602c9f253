// A plan as a timeline, in Chrome's trace format (chrome://tracing, ui.perfetto.dev).
//
// The times are the cost model's: each stream runs its actions in order, a wait holds a stream back
// until another has got far enough, as on the device. Beside the streams runs the arena's level.
//
//   compute  |conv1 forward|relu1 forward|  ...  |conv1 backward_data|
//   d2h                    |offload conv1|
//   h2d                                  ...  |prefetch conv1|
//   live     ____----~~~~~~~~~~-----___
//
//   std::string json = PredictedTrace(program, plan, description);
#pragma once

#include <string>

#include "neap/core/device/device.h"
#include "neap/core/plan.h"
#include "neap/core/program.h"

namespace neap {

// `plan` must be one of `program`.
std::string PredictedTrace(const Program& program, const Plan& plan,
                           const DeviceDescription& device);

}  // namespace neap
