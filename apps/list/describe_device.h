// The description of a device for a file (layers/devices/device_file.h): `neap devices --describe`.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"

namespace neap::apps {

// `name` is what --device of a command that plans takes. A device that is here is opened, a GPU
// with its first peer if it has one, which times copies to it. With `measures_copies` copies are
// timed longer, in both directions: the rate is that of the slower one. Errors: those of
// OpenDevice() and ReadDescription(); BadUsage() if copies cannot be measured, because the device
// is only a description.
absl::StatusOr<DeviceDescription> DescribeDevice(const std::string& name, bool measures_copies);

}  // namespace neap::apps
