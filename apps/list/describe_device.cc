#include "apps/list/describe_device.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/outcome.h"
#include "apps/list/copy_speed.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/cuda_device.h"

namespace neap::apps {
namespace {

// Opens the device with the first peer, unless another process has taken that one's memory.
absl::StatusOr<std::unique_ptr<Device>> OpenWithPeer(const std::string& name) {
  if (const std::optional<int> index = GpuIndex(name)) {
    const absl::StatusOr<std::vector<int>> peers = CudaPeersOf(*index);
    if (peers.ok() && !peers->empty()) {
      absl::StatusOr<std::unique_ptr<Device>> device =
          OpenDevice(name, {.peer = absl::StrCat("cuda:", peers->front())});
      if (device.ok()) return device;
    }
  }
  return OpenDevice(name);
}

absl::StatusOr<double> CopyRate(Device& device, MemoryKind there) {
  ASSIGN_OR_RETURN(const CopySpeed speed, MeasureCopySpeed(device, there));
  return std::min(speed.out, speed.back);
}

}  // namespace

absl::StatusOr<DeviceDescription> DescribeDevice(const std::string& name, bool measures_copies) {
  if (!IsHere(name)) {
    if (!measures_copies) return ReadDescription(name);
    return BadUsage(
        absl::StrCat("--measure-copies for device ", name.substr(0, 64), ": it is not here"));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, OpenWithPeer(name));
  DeviceDescription description = device->description();
  if (!measures_copies) return description;
  ASSIGN_OR_RETURN(description.copy_bandwidth, CopyRate(*device, MemoryKind::kPinnedHost));
  if (description.kind == "cuda" && description.peer_bandwidth > 0) {
    ASSIGN_OR_RETURN(description.peer_bandwidth, CopyRate(*device, MemoryKind::kPeer));
  }
  return description;
}

}  // namespace neap::apps
