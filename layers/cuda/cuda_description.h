// The CUDA runtime's properties of a GPU as a DeviceDescription.
#pragma once

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"

namespace neap {

// Rates are nominal. copy_bandwidth is the maximum of the GPU's PCI Express generation; callers
// replace it by a measurement.
absl::StatusOr<DeviceDescription> DescribeCudaDevice(int index);

}  // namespace neap
