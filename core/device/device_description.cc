#include "neap/core/device/device_description.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/units.h"

namespace neap {
namespace {

struct Described {
  std::string name;
  DeviceDescription description;
};

std::vector<Described> AllDescribed() {
  return {{.name = "h200",
           .description = {.name = "NVIDIA H200",
                           .kind = "cuda",
                           .memory_bytes = 150109880320,  // cudaDeviceProp::totalGlobalMem
                           // Nominal: an eighth of the 2 TiB of a DGX H200, which has eight GPUs.
                           .host_memory_bytes = 256 * kGiB,
                           .fp32_flops = 60e12,         // nominal
                           .tf32_flops = 400e12,        // nominal, dense
                           .half_flops = 790e12,        // measured: products of large matrices
                           .memory_bandwidth = 4.3e12,  // measured: device to device copy
                           .copy_bandwidth = 55.5e9,    // measured: pinned host to device
                           // Nominal: 18 links of NVLink 4 at 25 GB/s each way, which is half of
                           // the bidirectional 900 GB/s in NVIDIA's H200 data sheet.
                           .peer_bandwidth = 450e9,
                           // Measured with copies to the host: networks in half of their memory
                           // and less take 1 to 5% of the time of their copies longer than their
                           // kernels alone, most of them 2% (docs/results.md).
                           .slowdown_by_copies = 0.02,
                           // Measured: VGG-16 and ResNet-50 in bf16 on two of them.
                           .slowdown_by_sums = 0.25,
                           .doubled_by_sums_seconds = 90e-6,
                           .folding_types = {DType::kFp16, DType::kBf16, DType::kTf32},
                           .page_bytes = 2 * kMiB,
                           .has_own_memory = true}}};
}

}  // namespace

absl::StatusOr<DeviceDescription> DescribedDevice(std::string_view name) {
  for (const Described& device : AllDescribed()) {
    if (device.name == name) return device.description;
  }
  return absl::NotFoundError(absl::StrFormat("no description of a device '%s'; there are: %s", name,
                                             absl::StrJoin(DescribedDeviceNames(), ", ")));
}

std::vector<std::string> DescribedDeviceNames() {
  std::vector<std::string> names;
  for (const Described& device : AllDescribed()) names.push_back(device.name);
  return names;
}

}  // namespace neap
