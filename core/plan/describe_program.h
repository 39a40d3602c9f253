// A plan's description of its program: tensors and steps by name, so that the plan can be read,
// verified and run without the program.
//
//   Plan plan = DescribeProgram(program, device);
//   plan.actions.push_back(ComputeAction{.step = program.steps.front().id});
#pragma once

#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"

namespace neap {

// The result lacks the actions and the sizes of the arena and the pools. Tensors whose home is the
// host lie one after another at the beginning of the host's pool in the order of their ids, so
// every plan of a network has them in the same place.
Plan DescribeProgram(const Program& program, const DeviceDescription& device);

}  // namespace neap
