// A device that fails on demand, and counts the memory that it has allocated.
//
// A fault here is one that the call returns: nothing is enqueued or allocated, and the streams
// continue as if the call had not been made. (A CUDA stream that has failed remains failed; the
// session must then be destroyed.)
//
//   FaultyDevice device(*cpu);
//   device.FailCopies(3, 1);  // the third from now
#pragma once

#include <memory>

#include "tests/forwarding_device.h"

namespace neap {

class FaultyDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  // From now on, `count` calls fail, beginning with the first-th (from 1). A peer's memory counts
  // as pinned.
  void FailPinned(int first, int count) { pinned_ = {first, count}; }
  void FailCopies(int first, int count) { copies_ = {first, count}; }
  // Calls since then.
  int pinned_calls() const { return pinned_.calls; }
  int copy_calls() const { return copies_.calls; }

  absl::StatusOr<Buffer> Allocate(MemoryKind kind, int64_t size_bytes) override {
    if (kind != MemoryKind::kDevice && pinned_.Next())
      return absl::ResourceExhaustedError("pinned memory refused by the test");
    absl::StatusOr<Buffer> buffer = ForwardingDevice::Allocate(kind, size_bytes);
    if (!buffer.ok()) return buffer;
    std::shared_ptr<int64_t> held = kind == MemoryKind::kDevice ? device_bytes_ : pinned_bytes_;
    *held += size_bytes;
    std::byte* data = buffer->data();
    auto owner = std::make_shared<Buffer>(*std::move(buffer));
    return Buffer(data, size_bytes, [owner, held, size_bytes](void*) { *held -= size_bytes; });
  }
  absl::Status Copy(Stream stream, void* destination, const void* source,
                    int64_t size_bytes) override {
    if (copies_.Next()) return absl::InternalError("copy failed by the test");
    return ForwardingDevice::Copy(stream, destination, source, size_bytes);
  }
  // The device memory of all buffers that still exist.
  absl::StatusOr<int64_t> UsedBytes() override { return *device_bytes_; }
  int64_t pinned_bytes() const { return *pinned_bytes_; }

 private:
  struct Fault {
    int first = 0, count = 0;
    int calls = 0;
    bool Next() {
      ++calls;
      return calls >= first && calls < first + count;
    }
  };

  Fault pinned_, copies_;
  std::shared_ptr<int64_t> device_bytes_ = std::make_shared<int64_t>(0);
  std::shared_ptr<int64_t> pinned_bytes_ = std::make_shared<int64_t>(0);
};

}  // namespace neap
