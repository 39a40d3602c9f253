#include "apps/cli/device_flag.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "apps/cli/numbers.h"
#include "apps/cli/outcome.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "neap/layers/cpu/cpu_device.h"
#include "neap/layers/cuda/cuda_device.h"
#include "neap/layers/cuda/described_catalog.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/devices/device_file.h"
#include "neap/layers/profile/kept_engine_lists.h"

namespace neap::apps {
namespace {

constexpr int64_t kMaxGpus = std::numeric_limits<int>::max();

bool HasGpu() {
  const absl::StatusOr<std::vector<DeviceDescription>> gpus = ListCudaDevices();
  return gpus.ok() && !gpus->empty();
}

absl::Status UnknownDevice(const std::string& name, const std::string& known) {
  return BadUsage(absl::StrCat("unknown device '", name.substr(0, 64),
                               "'; known devices are cpu, cuda:N", known));
}

bool IsCard(const std::string& name) {
  const std::vector<std::string> cards = DescribedDeviceNames();
  return std::find(cards.begin(), cards.end(), name) != cards.end();
}

// The GPU that --peer names for the device.
absl::StatusOr<std::optional<int>> PeerIndex(const std::string& device, const std::string& peer) {
  if (peer.empty()) return std::nullopt;
  const std::optional<int> index = GpuIndex(peer);
  if (!index.has_value() || peer == device || !GpuIndex(device).has_value()) {
    return BadUsage(absl::StrCat("--peer ", peer.substr(0, 64), " for device ", device,
                                 ": the device and its peer must be two different GPUs (cuda:N)"));
  }
  return index;
}

absl::Status CheckEngines(const std::string& device, std::string_view kind,
                          const EngineOptions& engines) {
  if (!engines.half_accumulation || kind != "cpu") return absl::OkStatus();
  return BadUsage(absl::StrCat("--half-accumulation for device ", device,
                               ": only a GPU has engines that add in fp16"));
}

// The same, kept between runs.
EngineOptions Kept(EngineOptions engines) {
  if (engines.lists == nullptr) engines.lists = KeptEngineLists::Default();
  return engines;
}

absl::StatusOr<std::unique_ptr<Device>> OpenGpu(int index, std::optional<int> peer,
                                                const EngineOptions& engines) {
  absl::StatusOr<std::unique_ptr<CudaDevice>> device =
      CudaDevice::Open(index, {.peer = peer, .engines = Kept(engines)});
  if (device.ok()) return std::unique_ptr<Device>(std::move(*device));
  return absl::Status(device.status().code(),
                      absl::StrCat("cannot open cuda:", index, ": ", device.status().message()));
}

}  // namespace

std::string PlannedDevices() {
  return absl::StrCat("cuda:N, cpu, ", kDescribedDevices, " (cuda:0 if there is one, else h200)");
}

std::optional<int> GpuIndex(const std::string& name) {
  if (!absl::StartsWith(name, "cuda:")) return std::nullopt;
  const std::optional<int64_t> index = ReadWhole(name.substr(5));
  const bool right = index.has_value() && *index >= 0 && *index <= kMaxGpus;
  return right ? std::optional<int>(static_cast<int>(*index)) : std::nullopt;
}

bool IsHere(const std::string& name) { return name == "cpu" || GpuIndex(name).has_value(); }

NamedFile DeviceFile(const std::string& name) {
  const bool is_device = name.empty() || IsHere(name) || IsCard(name);
  std::error_code ignored;
  const bool is_file = !is_device && (absl::EndsWith(name, ".json") ||
                                      std::filesystem::is_regular_file(name, ignored));
  return {"--device", is_file ? name : ""};
}

absl::StatusOr<std::vector<std::string>> SplitDevices(const std::string& names) {
  const std::vector<std::string> split = absl::StrSplit(names, ',');
  if (split.size() == 1) return split;
  for (auto name = split.begin(); name != split.end(); ++name) {
    if (name->empty()) return BadUsage("--device has an empty name between its commas");
    if (*name != "cpu" && std::count(split.begin(), name, *name) > 0)
      return BadUsage(absl::StrCat("--device names ", name->substr(0, 64), " twice"));
  }
  return split;
}

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& name,
                                                   const DeviceChoices& choices) {
  const std::string chosen = !name.empty() ? name : HasGpu() ? "cuda:0" : "cpu";
  ASSIGN_OR_RETURN(const std::optional<int> peer, PeerIndex(chosen, choices.peer));
  RETURN_IF_ERROR(CheckEngines(chosen, chosen, choices.engines));
  if (chosen == "cpu") return CpuDevice::Open({.kernels = choices.cpu_kernels});
  if (const std::optional<int> index = GpuIndex(chosen))
    return OpenGpu(*index, peer, choices.engines);
  if (IsCard(chosen) || !DeviceFile(chosen).path.empty()) {
    return BadUsage(absl::StrCat(
        "device '", chosen, "' is only a description: neap can plan for it but not run on it"));
  }
  return UnknownDevice(chosen, "");
}

absl::StatusOr<DeviceDescription> ReadDescription(const std::string& name) {
  if (IsCard(name)) return DescribedDevice(name);
  if (!DeviceFile(name).path.empty()) return ReadDeviceFile(name);
  return UnknownDevice(name, absl::StrCat(", ", absl::StrJoin(DescribedDeviceNames(), ", "),
                                          ", and files of neap devices --describe"));
}

absl::StatusOr<PlanTarget> OpenPlanTarget(const std::string& name, const DeviceChoices& choices) {
  const std::string chosen = !name.empty() ? name : HasGpu() ? "cuda:0" : "h200";
  RETURN_IF_ERROR(PeerIndex(chosen, choices.peer).status());
  PlanTarget target = {.name = chosen};
  if (IsHere(chosen)) {
    ASSIGN_OR_RETURN(target.device, OpenDevice(chosen, choices));
    target.description = target.device->description();
    return target;
  }
  ASSIGN_OR_RETURN(target.description, ReadDescription(chosen));
  RETURN_IF_ERROR(CheckEngines(chosen, target.description.kind, choices.engines));
  if (target.description.kind == "cpu") {
    ASSIGN_OR_RETURN(target.catalog, MakeCpuBackend(choices.cpu_kernels));
    return target;
  }
  ASSIGN_OR_RETURN(target.catalog, DescribedCatalog(target.description, {}, Kept(choices.engines)));
  target.unlisted = ListsEnginesOf(target.description);
  return target;
}

}  // namespace neap::apps
