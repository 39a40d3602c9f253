// neap devices: what there is to train on, and what can be planned for without being there.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/copy_speed.h"
#include "apps/device_flag.h"
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
  std::optional<CopySpeed> copies = {};  // measured
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
  Json json = {{"device", device.name},
               {"kind", d.kind},
               {"name", d.name},
               {"trains", device.trains},
               {"memory_bytes", d.memory_bytes},
               {"fp32_flops", d.fp32_flops},
               {"tensor_flops", d.tensor_flops},
               {"memory_bandwidth", d.memory_bandwidth},
               {"copy_bandwidth", d.copy_bandwidth}};
  if (device.copies.has_value()) {
    json["measured_copies"] = {{"to_host", device.copies->to_host},
                               {"to_device", device.copies->to_device},
                               {"both_ways", device.copies->both_ways}};
  }
  return json;
}

std::string ToText(const Listed& device) {
  const DeviceDescription& d = device.description;
  std::string text = absl::StrFormat(
      "%-8s %-5s %s, %s%s\n               nominal: fp32 %.3g TFLOP/s, tensor cores %.3g TFLOP/s, "
      "memory %.4g GB/s, host copies %.3g GB/s\n",
      device.name, d.kind, d.name, FormatBytes(d.memory_bytes),
      device.trains ? "" : " (by description: for planning)", d.fp32_flops / 1e12,
      d.tensor_flops / 1e12, d.memory_bandwidth / 1e9, d.copy_bandwidth / 1e9);
  if (device.copies.has_value()) {
    absl::StrAppendFormat(
        &text,
        "               measured: %.1f GB/s to the host, %.1f GB/s back, %.1f GB/s both ways\n",
        device.copies->to_host / 1e9, device.copies->to_device / 1e9,
        device.copies->both_ways / 1e9);
  }
  return text;
}

absl::Status MeasureCopies(Listed& device) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Device> opened, OpenDevice(device.name));
  ASSIGN_OR_RETURN(device.copies, MeasureCopySpeed(*opened));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> RunDevices(const std::vector<std::string>& args) {
  bool json = false;
  bool measure = false;
  FlagSet flags("neap devices [--measure-copies] [--json]",
                "Lists the devices to train on, and those known by description, to plan for.");
  flags.Add("measure-copies", "time copies to and from pinned host memory", &measure);
  flags.Add("json", "print one JSON object", &json);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) {
    Print(flags.HelpText());
    return 0;
  }
  ASSIGN_OR_RETURN(std::vector<Listed> devices, ListDevices());
  Json all = Json::array();
  for (Listed& device : devices) {
    if (measure && device.trains) RETURN_IF_ERROR(MeasureCopies(device));
    if (json) all.push_back(ToJson(device));
    if (!json) Print(ToText(device));
  }
  if (json) PrintJson({{"devices", all}});
  return 0;
}

}  // namespace neap::apps
