// Descriptions of devices, so that `neap plan --device h200` does not need an H200.
//
// A plan is only as good as the rates behind it, so the origin of each number is stated: measured
// on the device if possible, otherwise nominal.
//
//   ASSIGN_OR_RETURN(DeviceDescription h200, DescribedDevice("h200"));
//   h200.memory_bytes;  // 150109880320
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"

namespace neap {

// Errors: NOT_FOUND, listing the known names.
absl::StatusOr<DeviceDescription> DescribedDevice(std::string_view name);

// Every name that DescribedDevice knows.
std::vector<std::string> DescribedDeviceNames();

}  // namespace neap
