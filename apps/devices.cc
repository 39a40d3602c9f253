// neap devices: what there is to train on, and what can be planned for without being there.
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/flags.h"
#include "apps/outcome.h"
#include "apps/output.h"
#include "neap/core/device/cpu_device.h"
#include "neap/core/device/cuda_device.h"
#include "neap/core/device/description.h"
#include "neap/core/status_macros.h"
#include "neap/core/units.h"

namespace neap::apps {
namespace {

struct Listed {
  std::string name;  // for --device
  bool trains = false;
  DeviceDescription description;
};

absl::StatusOr<std::vector<Listed>> ListDevices() {
  std::vector<Listed> listed;
  ASSIGN_OR_RETURN(const std::unique_ptr<CpuDevice> cpu, CpuDevice::Open());
  listed.push_back({"cpu", true, cpu->description()});
  ASSIGN_OR_RETURN(const std::vector<DeviceDescription> gpus, ListCudaDevices());
  for (size_t i = 0; i < gpus.size(); ++i)
    listed.push_back({absl::StrCat("cuda:", i), true, gpus[i]});
  for (const std::string& name : DescribedDeviceNames()) {
    ASSIGN_OR_RETURN(DeviceDescription description, DescribedDevice(name));
    listed.push_back({name, false, std::move(description)});
  }
  return listed;
}

Json ToJson(const Listed& device) {
  const DeviceDescription& d = device.description;
  return {{"device", device.name},
          {"kind", d.kind},
          {"name", d.name},
          {"trains", device.trains},
          {"memory_bytes", d.memory_bytes},
          {"fp32_flops", d.fp32_flops},
          {"tensor_flops", d.tensor_flops},
          {"memory_bandwidth", d.memory_bandwidth},
          {"copy_bandwidth", d.copy_bandwidth}};
}

std::string ToText(const Listed& device) {
  const DeviceDescription& d = device.description;
  return absl::StrFormat(
      "%-8s %-5s %s, %s%s\n               nominal: fp32 %.3g TFLOP/s, tensor cores %.3g TFLOP/s, "
      "memory %.4g GB/s, host copies %.3g GB/s\n",
      device.name, d.kind, d.name, FormatBytes(d.memory_bytes),
      device.trains ? "" : " (by description: for planning)", d.fp32_flops / 1e12,
      d.tensor_flops / 1e12, d.memory_bandwidth / 1e9, d.copy_bandwidth / 1e9);
}

}  // namespace

absl::StatusOr<int> RunDevices(const std::vector<std::string>& args) {
  bool json = false;
  FlagSet flags("neap devices [--json]",
                "Lists the devices to train on, and those known by description, to plan for.");
  flags.Add("json", "print one JSON object", &json);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) {
    Print(flags.HelpText());
    return 0;
  }
  ASSIGN_OR_RETURN(const std::vector<Listed> devices, ListDevices());
  Json all = Json::array();
  for (const Listed& device : devices) {
    if (json) all.push_back(ToJson(device));
    if (!json) Print(ToText(device));
  }
  if (json) PrintJson({{"devices", all}});
  return 0;
}

}  // namespace neap::apps
