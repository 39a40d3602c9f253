// Opens the device that --device names: cpu, cuda:N, or a device of which only a description exists
// (h200); and the second GPU that --peer names, whose memory holds offloaded tensors.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/custom_kernel.h"
#include "neap/layers/catalog/engine_options.h"
#include "neap/memory/engines/kernel_options.h"

namespace neap::apps {

// N of "cuda:N".
std::optional<int> GpuIndex(const std::string& name);

struct DeviceChoices {
  std::string peer = {};  // cuda:N, or empty for no peer
  EngineOptions engines = {};
  std::vector<CustomKernel> cpu_kernels = {};  // for custom layers, on the device cpu
};

// Opens a device for training. "" is cuda:0 if there is one, else cpu. Errors: BadUsage() for an
// unknown name, and for a peer or engines that add in fp16 if the device is not a GPU; NOT_FOUND
// for a GPU that does not exist; FAILED_PRECONDITION for a GPU that cannot be the peer.
absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& name,
                                                   const DeviceChoices& choices = {});

// What planning needs to know about a device, which need not be present.
struct PlanTarget {
  std::string name = {};  // as --device takes it: "h200"
  DeviceDescription description;
  std::unique_ptr<Device> device = nullptr;          // null: only a description exists
  std::unique_ptr<EngineCatalog> catalog = nullptr;  // null: the device's own
  // False if the library that lists the engines of a described device is missing. Each step then
  // has one placeholder engine without workspace, unless the database has measured engines for it.
  bool knows_engines = true;
  KernelOptions kernels = {};
  // Versions of the library that is installed here, if the times in `kernels` are of other
  // versions.
  std::string other_versions = {};

  EngineCatalog& engines() const { return catalog != nullptr ? *catalog : device->backend(); }
};

// "" is cuda:0 if there is one, else h200. Errors: those of OpenDevice().
absl::StatusOr<PlanTarget> OpenPlanTarget(const std::string& name,
                                          const DeviceChoices& choices = {});

}  // namespace neap::apps
