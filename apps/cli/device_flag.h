// Devices by the names that --device takes: cpu, cuda:N, or one known by description alone (h200);
// and the GPU that --peer names, which lends a GPU its memory.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/step/kernel.h"
#include "neap/memory/engines/kernel_options.h"

namespace neap::apps {

// N of "cuda:N".
std::optional<int> GpuIndex(const std::string& name);

// For training. "" is cuda:0 if there is one, else cpu. `peer` is cuda:N, or "" for none.
// Errors: BadUsage() for a name that no device has, and for a peer of what is no GPU; NOT_FOUND for
// a GPU that is not there; FAILED_PRECONDITION for one that cannot be that peer.
absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& name,
                                                   const std::string& peer = "");

// What planning needs of a device, which may be absent.
struct PlanTarget {
  std::string name = {};  // as --device takes it: "h200"
  DeviceDescription description;
  std::unique_ptr<Device> device = nullptr;          // null: known by description alone
  std::unique_ptr<EngineCatalog> catalog = nullptr;  // null: the device's own
  // False without the library that lists the engines of a device known by description: then each
  // step has one engine, made up and without workspace, except where times of others were measured.
  bool knows_engines = true;
  KernelOptions kernels = {};
  // Of the library that is here, where `kernels` has times that were measured with another.
  std::string other_versions = {};

  EngineCatalog& engines() const { return catalog != nullptr ? *catalog : device->backend(); }
};

// "" is cuda:0 if there is one, else h200. Errors: as OpenDevice.
absl::StatusOr<PlanTarget> OpenPlanTarget(const std::string& name, const std::string& peer);

}  // namespace neap::apps
