// A device that observes another: it counts allocations, fills arenas with a pattern to detect
// which bytes are touched, and puts guards around them to detect accesses outside.
#pragma once

#include <algorithm>
#include <cstring>

#include "tests/forwarding_device.h"

namespace neap {

// Arenas are observed only on devices whose memory the host can read, and only the last one.
class GuardedDevice final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  absl::StatusOr<Buffer> Allocate(MemoryKind kind, int64_t size_bytes) override {
    ++allocations_;
    if (kind != MemoryKind::kDevice) return ForwardingDevice::Allocate(kind, size_bytes);
    if (refused_arenas_ > 0) {
      --refused_arenas_;
      return absl::ResourceExhaustedError("refused by the test");
    }
    absl::StatusOr<Buffer> whole = ForwardingDevice::Allocate(kind, size_bytes + 2 * kGuardBytes);
    if (!whole.ok()) return whole.status();
    std::memset(whole->data(), kPattern, static_cast<size_t>(whole->size_bytes()));
    arena_ = whole->data() + kGuardBytes;
    arena_bytes_ = size_bytes;
    auto owner = std::make_shared<Buffer>(*std::move(whole));
    return Buffer(arena_, size_bytes, [owner](void*) {});
  }
  Backend& backend() override {
    return backend_ != nullptr ? *backend_ : ForwardingDevice::backend();
  }

  int allocations() const { return allocations_; }
  void Replace(Backend& backend) { backend_ = &backend; }
  void RefuseArenas(int next) { refused_arenas_ = next; }
  bool GuardsIntact() const {
    const auto is_pattern = [](std::byte b) { return b == std::byte{kPattern}; };
    return std::all_of(arena_ - kGuardBytes, arena_, is_pattern) &&
           std::all_of(arena_ + arena_bytes_, arena_ + arena_bytes_ + kGuardBytes, is_pattern);
  }
  // One past the last byte that no longer holds the pattern.
  int64_t HighestTouchedByte() const {
    int64_t end = arena_bytes_;
    while (end > 0 && arena_[end - 1] == std::byte{kPattern}) --end;
    return end;
  }

 private:
  static constexpr int64_t kGuardBytes = 4096;
  static constexpr unsigned char kPattern = 0xA5;

  Backend* backend_ = nullptr;  // null for the device's own
  std::byte* arena_ = nullptr;
  int64_t arena_bytes_ = 0;
  int allocations_ = 0;
  int refused_arenas_ = 0;  // still to be refused
};

}  // namespace neap
