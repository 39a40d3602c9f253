// What must hold of examples/custom_layer's GELU on any device that was opened with its kernels: a
// layer that neap has not, run by kernels that it knows only from the program.
#pragma once

#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"

namespace neap::testing {

// A residual block with GELU in its branch and behind its join: its input must be kept, moved or
// computed again for backward.
Graph GeluNet();

// The gradient that its backward step computes is that of its forward step by finite differences.
void CheckGeluGradient(Device& device);

// GeluNet() trains to the bits of keep-all under every policy in the least memory that the policy
// takes, and some of the plans run GELU again, or move its tensors.
void CheckGeluTrainsTheSameUnderEveryPolicy(Device& device);

}  // namespace neap::testing
