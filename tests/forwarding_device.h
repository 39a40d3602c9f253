// A device that forwards all calls to another: the base of decorators in tests, and one that has
// another description.
#pragma once

#include <utility>

#include "neap/core/device/device.h"

namespace neap {

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(Device& device) : device_(device) {}

  const DeviceDescription& description() const override { return device_.description(); }
  absl::StatusOr<Buffer> Allocate(MemoryKind kind, int64_t size_bytes) override {
    return device_.Allocate(kind, size_bytes);
  }
  absl::StatusOr<int64_t> UsedBytes() override { return device_.UsedBytes(); }
  absl::StatusOr<std::optional<int64_t>> LibraryBytes() override { return device_.LibraryBytes(); }
  Backend& backend() override { return device_.backend(); }
  absl::Status Copy(Stream stream, void* destination, const void* source,
                    int64_t size_bytes) override {
    return device_.Copy(stream, destination, source, size_bytes);
  }
  absl::Status CopyFromNchw(Stream stream, const float* nchw, const TensorSpec& spec,
                            std::byte* stored) override {
    return device_.CopyFromNchw(stream, nchw, spec, stored);
  }
  absl::StatusOr<Event> Record(Stream stream) override { return device_.Record(stream); }
  absl::StatusOr<Event> RecordTime(Stream stream) override { return device_.RecordTime(stream); }
  absl::StatusOr<double> ElapsedUs(const Event& earlier, const Event& later) override {
    return device_.ElapsedUs(earlier, later);
  }
  absl::Status Wait(Stream stream, const Event& event) override {
    return device_.Wait(stream, event);
  }
  absl::StatusOr<std::unique_ptr<Recording>> Capture(
      absl::FunctionRef<absl::Status()> enqueue) override {
    return device_.Capture(enqueue);
  }
  absl::Status Replay(const Recording& recording) override { return device_.Replay(recording); }
  absl::Status Await(const Event& event) override { return device_.Await(event); }
  absl::Status Synchronize() override { return device_.Synchronize(); }

 private:
  Device& device_;
};

class DescribedAs final : public ForwardingDevice {
 public:
  DescribedAs(Device& device, DeviceDescription description)
      : ForwardingDevice(device), description_(std::move(description)) {}
  const DeviceDescription& description() const override { return description_; }

 private:
  DeviceDescription description_;
};

// Folded batch norms (layers/fusion/folded_convolution.h) change the bits, other fusion does not.
inline DescribedAs WithoutFolding(Device& device) {
  DeviceDescription description = device.description();
  description.folding_types.clear();
  return {device, std::move(description)};
}

}  // namespace neap
