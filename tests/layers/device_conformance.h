// The conformance test of every device: call CheckDeviceConformance(device) inside a doctest case.
//
// The races that it provokes (a copy that runs early or late) may show as wrong bytes, and always
// show under ThreadSanitizer. Device memory is accessed only by Device::Copy, so the test also
// works for a GPU.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "neap/core/base/tensor.h"
#include "neap/core/device/device.h"

namespace neap {

void CheckDeviceConformance(Device& device);

class DeviceConformance {
 public:
  explicit DeviceConformance(Device& device) : device_(device) {}

  void Describes();
  void Aligns();
  void RefusesAbsurdSizes();
  void CopiesNothing();
  void CopiesRandomPieces(uint32_t seed);
  void CopiesToThePeerAndBack(uint32_t seed);
  // The values begin `offset` elements after an aligned address.
  void ConvertsFromNchw(const TensorSpec& spec, int64_t offset);
  void KeepsOrderWithinAStream();
  void ShowsCopiesAfterAWait();
  void AwaitsOneStreamOnly();
  void ReusesBytesOnceTheyAreOffloaded();
  void OverlapsBothDirections();
  void TakesManyEvents();
  void WaitsAcrossStreamsInChains();
  void TimesStreams();
  void RefusesTimesThatAreNotThere();

 private:
  bool has_peer() const { return device_.description().peer_bandwidth > 0; }
  std::vector<MemoryKind> Kinds() const {
    std::vector<MemoryKind> kinds = {MemoryKind::kDevice, MemoryKind::kPinnedHost};
    if (has_peer()) kinds.push_back(MemoryKind::kPeer);
    return kinds;
  }
  Buffer New(MemoryKind kind, int64_t size_bytes) {
    absl::StatusOr<Buffer> buffer = device_.Allocate(kind, size_bytes);
    REQUIRE(buffer.ok());
    return *std::move(buffer);
  }
  void Copy(Stream stream, void* destination, const void* source, int64_t size_bytes) {
    REQUIRE(device_.Copy(stream, destination, source, size_bytes).ok());
  }
  Event Record(Stream stream) {
    absl::StatusOr<Event> event = device_.Record(stream);
    REQUIRE(event.ok());
    return *std::move(event);
  }
  Event RecordTime(Stream stream) {
    absl::StatusOr<Event> event = device_.RecordTime(stream);
    REQUIRE(event.ok());
    return *std::move(event);
  }
  double ElapsedUs(const Event& earlier, const Event& later) {
    const absl::StatusOr<double> elapsed_us = device_.ElapsedUs(earlier, later);
    REQUIRE_MESSAGE(elapsed_us.ok(), elapsed_us.status().ToString());
    return *elapsed_us;
  }
  void Wait(Stream stream, const Event& event) { REQUIRE(device_.Wait(stream, event).ok()); }
  // Work enqueued on `then` from now on runs after the work enqueued on `first` so far.
  void Join(Stream first, Stream then) { Wait(then, Record(first)); }
  void Synchronize() { REQUIRE(device_.Synchronize().ok()); }
  static void Fill(const Buffer& buffer, int value) {
    std::memset(buffer.data(), value, static_cast<size_t>(buffer.size_bytes()));
  }
  static bool IsAll(const Buffer& buffer, int value) {
    const std::byte* const bytes = buffer.data();
    const auto count = static_cast<size_t>(buffer.size_bytes());
    return count == 0 ||
           (bytes[0] == std::byte(value) && std::memcmp(bytes, bytes + 1, count - 1) == 0);
  }

  Device& device_;
};

}  // namespace neap
