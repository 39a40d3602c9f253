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

// Without actions and sizes. `travels` (by TensorId; empty: none): what is on the host between
// iterations.
Plan DescribeProgram(const Program& program, const std::vector<bool>& travels,
                     const DeviceDescription& device);

}  // namespace neap
