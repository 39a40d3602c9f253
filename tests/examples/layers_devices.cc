// The examples in the headers of layers/devices and layers/fusion, compiled and not run.
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/device/gpu_properties.h"
#include "neap/core/step/rewrite_rules.h"
#include "neap/layers/activation.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/devices/device_file.h"
#include "neap/layers/devices/nominal_gpu.h"
#include "neap/layers/fusion/rules.h"
#include "neap/layers/scale_shift.h"

namespace neap::header_examples::devices {

// layers/devices/device_description.h
absl::Status Describe() {
  ASSIGN_OR_RETURN(DeviceDescription h200, DescribedDevice("h200"));
  h200.memory_bytes;  // 150109880320
  return absl::OkStatus();
}

// layers/devices/device_file.h
absl::Status WriteAndRead(const Device& device) {
  const std::string text = DeviceToJson(device.description());
  ASSIGN_OR_RETURN(const DeviceDescription same, DeviceFromJson(text));
  ASSIGN_OR_RETURN(const DeviceDescription other, ReadDeviceFile("workstation.json"));
  return absl::OkStatus();
}

// layers/devices/nominal_gpu.h
void DescribeByProperties(const GpuProperties& l4) {
  DeviceDescription card = NominalGpu("NVIDIA L4", l4);  // core/device/gpu_properties.h
  card.memory_bytes = 23612293120;                       // what the rates do not tell
  card.half_flops;                                       // 1.21e14
}

// layers/fusion/rules.h
void RulesOfADevice() { DeviceDescription device = {.kind = "cpu", .rules = CpuRules()}; }

// core/step/rewrite_rules.h
using Scale = ScaleShift;
std::vector<CustomKernel> Kernels() { return {}; }
std::optional<Layer> ScaleGelu(const Scale& scale, const Gelu& gelu, int input);

absl::Status AddRows(DeviceDescription h200) {
  const RewriteRules rules = {.fusions = {FusionOf<&ScaleGelu>()}};
  ASSIGN_OR_RETURN(auto device, CpuDevice::Open({.kernels = Kernels(), .rules = rules}));
  h200.rules.fusions.push_back(FusionOf<&ScaleGelu>());
  return absl::OkStatus();
}

std::optional<Layer> ScaleGelu(const Scale& /*scale*/, const Gelu& /*gelu*/, int /*input*/) {
  return std::nullopt;
}

}  // namespace neap::header_examples::devices
