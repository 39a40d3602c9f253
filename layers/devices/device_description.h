// Descriptions of published cards, so that `neap plan --device h200` does not need an H200.
//
// A plan is only as good as the rates behind it. Those of the H200 are measured. Those of all other
// cards are what NVIDIA publishes: dense, at the highest clock, for products of 16 bits that are
// added in fp32. Kernels reach 80% of them, so that speeds of different cards compare only roughly.
//
//   ASSIGN_OR_RETURN(DeviceDescription h200, DescribedDevice("h200"));
//   h200.memory_bytes;  // 150109880320
//
// A card that the table lacks, or one whose links and clocks are known better, is described by a
// file (layers/devices/device_file.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"

namespace neap {

// Errors: NOT_FOUND, listing the known names.
absl::StatusOr<DeviceDescription> DescribedDevice(std::string_view name);

// Every name that DescribedDevice knows, by generation.
std::vector<std::string> DescribedDeviceNames();

}  // namespace neap
