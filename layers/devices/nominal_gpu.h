// The description of a GPU by what its driver says of it: rates follow from clocks, the number of
// multiprocessors and what each of them does per clock.
//
// Vendors publish rates of the same kind, but for tensor cores some at a lower clock than the
// highest that the driver names: those here are up to 8% higher (H100: 1070 instead of 989
// TFLOP/s). Kernels reach less than either.
//
//   DeviceDescription card = NominalGpu("NVIDIA L4", l4);  // core/device/gpu_properties.h
//   card.memory_bytes = 23612293120;                        // what the rates do not tell
//   card.half_flops;                                        // 1.21e14
#pragma once

#include <string>

#include "neap/core/device/device.h"

namespace neap {

// A GPU without its memory and its links: memory_bytes, host_memory_bytes, copy_bandwidth and
// peer_bandwidth are 0. A GeForce, which its name tells, multiplies matrices of 16 bits at half the
// rate of other GPUs of its compute capability if it adds in fp32, and those of tf32 as well.
DeviceDescription NominalGpu(std::string name, const GpuProperties& gpu);

}  // namespace neap
