// Checks of examples/custom_layer's GELU, a layer outside neap with kernels of its program, on any
// device that was opened with these kernels.
#pragma once

#include <vector>

#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/layers/catalog/custom_kernel.h"

namespace neap::testing {

// A residual block with GELU in its branch and after its join: the input of GELU must be kept,
// moved or recomputed for backward.
Graph QuickGeluNet(DType dtype = DType::kFp32);

// Kernels of the CPU that take operands of bf16. The example's take fp32 only.
std::vector<CustomKernel> CpuBf16QuickGeluKernels();

// Checks that the backward step's gradient agrees with finite differences of the forward step.
void CheckQuickGeluGradient(Device& device);

// Checks that QuickGeluNet() trains to the bits of keep-all with every policy in the least memory
// that the policy needs, and that some of the plans recompute GELU or move its tensors.
void CheckQuickGeluTrainsTheSameUnderEveryPolicy(Device& device, DType dtype = DType::kFp32);

}  // namespace neap::testing
