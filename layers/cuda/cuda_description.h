// What the CUDA runtime says of a GPU, as a DeviceDescription.
#pragma once

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"

namespace neap {

// Nominal rates; copy_bandwidth is that of its PCI Express generation at best, to be replaced by a
// measurement.
absl::StatusOr<DeviceDescription> DescribeCudaDevice(int index);

}  // namespace neap
