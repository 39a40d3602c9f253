// A device that watches another: it counts allocations, fills arenas with a pattern to see what is
// touched, and puts guards around them to see what must not be.
#pragma once

#include <algorithm>
#include <cstring>

#include "neap/core/device/device.h"

namespace neap {

// Arenas only on devices whose memory the host can read. One arena at a time is watched: the last.
class GuardedDevice final : public Device {
 public:
  explicit GuardedDevice(Device& device) : device_(device) {}

  const DeviceDescription& description() const override { return device_.description(); }
  absl::StatusOr<Buffer> Allocate(MemoryKind kind, int64_t size_bytes) override {
    ++allocations_;
    if (kind != MemoryKind::kDevice) return device_.Allocate(kind, size_bytes);
    if (refused_arenas_ > 0) {
      --refused_arenas_;
      return absl::ResourceExhaustedError("refused by the test");
    }
    absl::StatusOr<Buffer> whole = device_.Allocate(kind, size_bytes + 2 * kGuardBytes);
    if (!whole.ok()) return whole.status();
    std::memset(whole->data(), kPattern, static_cast<size_t>(whole->size_bytes()));
    arena_ = whole->data() + kGuardBytes;
    arena_bytes_ = size_bytes;
    auto owner = std::make_shared<Buffer>(*std::move(whole));
    return Buffer(arena_, size_bytes, [owner](void*) {});
  }
  absl::StatusOr<int64_t> UsedBytes() override { return device_.UsedBytes(); }
  Backend& backend() override { return backend_ != nullptr ? *backend_ : device_.backend(); }
  absl::Status Copy(Stream stream, void* destination, const void* source,
                    int64_t size_bytes) override {
    return device_.Copy(stream, destination, source, size_bytes);
  }
  absl::StatusOr<Event> Record(Stream stream) override { return device_.Record(stream); }
  absl::Status Wait(Stream stream, const Event& event) override {
    return device_.Wait(stream, event);
  }
  absl::Status Await(const Event& event) override { return device_.Await(event); }
  absl::Status Synchronize() override { return device_.Synchronize(); }

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

  Device& device_;
  Backend* backend_ = nullptr;  // null: the device's own
  std::byte* arena_ = nullptr;
  int64_t arena_bytes_ = 0;
  int allocations_ = 0;
  int refused_arenas_ = 0;  // to come
};

}  // namespace neap
