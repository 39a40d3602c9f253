// A device that says that its memory is not the host's, as a GPU does, so that plans for it may
// have bytes for the incoming batch. Counts the copies on each stream.
#pragma once

#include <array>
#include <cstdint>

#include "tests/forwarding_device.h"

namespace neap {

class OwnMemoryDevice final : public ForwardingDevice {
 public:
  explicit OwnMemoryDevice(Device& device)
      : ForwardingDevice(device), description_(device.description()) {
    description_.has_own_memory = true;
  }
  const DeviceDescription& description() const override { return description_; }
  absl::Status Copy(Stream stream, void* destination, const void* source,
                    int64_t size_bytes) override {
    ++copies[static_cast<size_t>(stream)];
    return ForwardingDevice::Copy(stream, destination, source, size_bytes);
  }

  std::array<int, kStreamCount> copies = {};  // by Stream

 private:
  DeviceDescription description_;
};

}  // namespace neap
