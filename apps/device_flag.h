// Devices by the names that --device takes: cpu, cuda:N, or one known by description alone (h200).
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/layers/kernel.h"

namespace neap::apps {

// For training. "" is cuda:0 if there is one, else cpu.
// Errors: BadUsage() for a name that no device has; NOT_FOUND for a GPU that is not there.
absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& name);

// What planning needs of a device, which may be absent.
struct PlanTarget {
  DeviceDescription description;
  std::unique_ptr<Device> device = nullptr;          // null: known by description alone
  std::unique_ptr<EngineCatalog> catalog = nullptr;  // null: the device's own

  EngineCatalog& engines() const { return catalog != nullptr ? *catalog : device->backend(); }
};

// "" is cuda:0 if there is one, else h200. Errors: as OpenDevice.
absl::StatusOr<PlanTarget> OpenPlanTarget(const std::string& name);

}  // namespace neap::apps
