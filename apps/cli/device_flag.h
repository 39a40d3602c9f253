// Opens the device that --device names: cpu, cuda:N, or one of which only a description exists, a
// published card (h200) or a file (layers/devices/device_file.h); and the second GPU that --peer
// names, whose memory holds offloaded tensors.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/cli/output.h"
#include "neap/core/device/device.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/custom_kernel.h"
#include "neap/layers/catalog/engine_options.h"
#include "neap/memory/engines/kernel_options.h"

namespace neap::apps {

// The other values that --device takes in a command that only plans, for its help.
inline constexpr char kDescribedDevices[] =
    "a card that neap devices lists, such as rtx4090, or a FILE of neap devices --describe";

// All values that --device of such a command takes, and its default, for its help.
std::string PlannedDevices();

// N of "cuda:N".
std::optional<int> GpuIndex(const std::string& name);
// Whether it is a device of this machine, cpu or cuda:N, and not only a described one.
bool IsHere(const std::string& name);

// The file with a description that --device names, as an input of the command: no path if it names
// anything else. A name is a path if it ends in .json or a file has it, unless it is a device.
NamedFile DeviceFile(const std::string& name);

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

// A device that need not be present, by its name or file. Errors: BadUsage() for an unknown name;
// those of ReadDeviceFile().
absl::StatusOr<DeviceDescription> ReadDescription(const std::string& name);

// The facts about a device that planning needs. The device need not be present.
struct PlanTarget {
  std::string name = {};  // as --device takes it: "h200"
  DeviceDescription description;
  std::unique_ptr<Device> device = nullptr;          // null: only a description exists
  std::unique_ptr<EngineCatalog> catalog = nullptr;  // null: the device's own
  // Why the engines of a described device are not listed, or OK. Each step then has one placeholder
  // engine without workspace, unless the database has measured engines for it.
  absl::Status unlisted = absl::OkStatus();
  KernelOptions kernels = {};
  // Versions of the library that is installed here, if the times in `kernels` are of other
  // versions.
  std::string other_versions = {};

  EngineCatalog& engines() const { return catalog != nullptr ? *catalog : device->backend(); }
};

// The names of --device NAME,NAME,..., for commands that use several devices at once; one name may
// be empty. The CPU may be named several times. Errors: BadUsage().
absl::StatusOr<std::vector<std::string>> SplitDevices(const std::string& names);

// "" is cuda:0 if there is one, else h200. Errors: those of OpenDevice(), and of ReadDeviceFile().
absl::StatusOr<PlanTarget> OpenPlanTarget(const std::string& name,
                                          const DeviceChoices& choices = {});

}  // namespace neap::apps
