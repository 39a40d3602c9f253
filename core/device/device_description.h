// Devices known by description alone, so that `neap plan --device h200` needs no H200.
//
// A plan is only as good as the rates behind it, so each number says where it comes from: measured
// on the device where possible, nominal otherwise.
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

// Errors: NOT_FOUND, listing the names there are.
absl::StatusOr<DeviceDescription> DescribedDevice(std::string_view name);

// Every name that DescribedDevice knows.
std::vector<std::string> DescribedDeviceNames();

}  // namespace neap
