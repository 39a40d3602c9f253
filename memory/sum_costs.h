// The costs of sums over ranks for planning: as the device is described, or as measured.
//
//   device = AmongRanks(device, program, options);
//   HasCostsOfSums(device);  // whether bandwidth or latency are known
#pragma once

#include "neap/core/device/device.h"
#include "neap/core/program/program.h"
#include "neap/memory/planner_options.h"

namespace neap {

bool HasCostsOfSums(const DeviceDescription& device);

// The device with the measured costs of sums over the program's ranks, unless it is described with
// others.
DeviceDescription AmongRanks(const DeviceDescription& device, const Program& program,
                             const PlannerOptions& options);

}  // namespace neap
