#include "neap/layers/devices/device_description.h"
#include "neap/layers/devices/device_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace neap::testing {

std::vector<std::string> FuzzSeeds() {
  std::vector<std::string> files;
  for (const char* const name : {"k40c", "v100", "h200"})
    files.push_back(DeviceToJson(DescribedDevice(name).value()));
  return files;
}

void ReadFuzzed(std::string_view bytes) {
  const absl::StatusOr<DeviceDescription> device = DeviceFromJson(bytes);
  if (!device.ok()) return;
  const std::string text = DeviceToJson(*device);
  const absl::StatusOr<DeviceDescription> again = DeviceFromJson(text);
  if (!again.ok() || *again != *device || DeviceToJson(*again) != text)
    FailFuzzed("an accepted description is written otherwise");
}

}  // namespace neap::testing
