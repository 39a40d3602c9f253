// A plan's description of its program: tensors and steps by name, so that the plan can be read,
// proved and run without it.
//
//   Plan plan = DescribeProgram(program, Travellers(program), device);
//   plan.actions = ...;
#pragma once

#include <vector>

#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"

namespace neap {

// Without actions and sizes of the arena and the pools. `travels`, by TensorId, or empty if there
// are none: the tensors that are on the host between iterations. Those lie one after another at the
// beginning of the host's pool in the order of their ids, so that every plan of a network has them
// in the same place.
Plan DescribeProgram(const Program& program, const std::vector<bool>& travels,
                     const DeviceDescription& device);

}  // namespace neap
